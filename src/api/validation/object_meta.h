#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "herald/api/object_meta.h"
#include "herald/api/rare.h"
#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// The rules that every Kubernetes object is held to, and the form in which a
// server says that one was broken. Rules of events alone are in validation.cc.

// What is wrong with a value by the rules for one kind of name, in Kubernetes'
// words and under its function names; nothing if all is well.
std::vector<std::string> IsDns1123Label(std::string_view value);      // "my-name", 63 bytes
std::vector<std::string> IsDns1123Subdomain(std::string_view value);  // "example.com", 253 bytes
// Exported for record, which may be another shared library. "example.com/MyName"
HERALD_EXPORT std::vector<std::string> IsQualifiedName(std::string_view value);
std::vector<std::string> IsValidLabelValue(std::string_view value);  // "MyValue" or nothing

// The rule of IsDns1123Subdomain() without its limit, for who needs no words.
constexpr std::size_t kMaxDnsSubdomainBytes = 253;
bool LooksLikeDnsSubdomain(std::string_view text);

// How a refused value is shown: texts in quotes, all else as JSON.
std::string Shown(std::string_view text);
std::string Shown(std::int64_t number);
std::string Shown(const Time& time);
std::string Shown(const MicroTime& time);
template <typename T>
std::string Shown(const Rare<T>& value) {
  return value ? Shown(*value) : "null";
}
// For texts that are more than a text to Kubernetes (a UID, an operation): they
// are shown as JSON, too, which escapes < > & where quotes do not.
std::string ShownAsJson(std::string_view text);

// FieldErrors collects what is wrong with an object, field by field, and becomes
// the Status that refuses it. It costs nothing while nothing is wrong.
//
// Thread-confined.
class FieldErrors {
 public:
  // A value that must be there is not.
  void Required(std::string_view field, std::string_view detail = {});
  // `shown` is the value as Shown() puts it, or any other that shall be printed.
  void Invalid(std::string_view field, std::string_view shown, std::string_view why);
  void Forbidden(std::string_view field, std::string_view why);
  void TooLong(std::string_view field, std::size_t max_bytes);

  // Invalid() for each of the faults that one of the functions above found.
  void InvalidName(std::string_view field, std::string_view value,
                   const std::vector<std::string>& faults);
  template <typename T>
  void Unchanged(std::string_view field, const T& value, const T& old) {
    if (value != old) Invalid(field, Shown(value), kImmutable);
  }

  bool empty() const { return causes_.empty(); }
  // Whether further errors are dropped. A body of 3 MiB can be made to break rules
  // that print all of it a million times, so there is an end to what is told.
  bool full() const { return bytes_ > kMaxBytes; }

  // The refusal of the event called `name`; ok if nothing was collected.
  Status ToStatus(std::string_view name) &&;

  static constexpr std::string_view kImmutable = "field is immutable";
  static constexpr std::size_t kMaxBytes = 4 << 20;

 private:
  void Add(std::string_view reason, std::string_view field, std::string message);

  std::vector<StatusCause> causes_;
  std::size_t bytes_ = 0;  // of all causes together
};

// What the name of an object may be.
enum class NameRule : std::uint8_t {
  kPathSegment,   // anything that can be a part of a URL's path
  kDnsSubdomain,  // IsDns1123Subdomain()
};

// The rules for metadata as such. Name and namespace must be there by now.
void CheckObjectMeta(const ObjectMeta& meta, NameRule name_rule, FieldErrors* errors);

// The rules for what may become of the metadata of an object that exists.
void CheckObjectMetaUpdate(const ObjectMeta& meta, const ObjectMeta& old, FieldErrors* errors);

// Finalizers without a domain must be one of Kubernetes' own.
void CheckFinalizersAreStandard(const ObjectMeta& meta, FieldErrors* errors);

}  // namespace herald
