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

// The validation rules for all Kubernetes objects, and the errors of a server. The rules for events
// are in validation.cc.

// Return the errors of a value, with Kubernetes' messages; empty if it is valid. The functions have
// Kubernetes' names.
std::vector<std::string> IsDns1123Label(std::string_view value);      // "my-name", 63 bytes
std::vector<std::string> IsDns1123Subdomain(std::string_view value);  // "example.com", 253 bytes
// "example.com/MyName". (Exported for record, which may be another shared library.)
HERALD_EXPORT std::vector<std::string> IsQualifiedName(std::string_view value);
std::vector<std::string> IsValidLabelValue(std::string_view value);  // "MyValue" or empty

// The rule of IsDns1123Subdomain() without its length limit and without messages.
constexpr std::size_t kMaxDnsSubdomainBytes = 253;
bool LooksLikeDnsSubdomain(std::string_view text);

// A value as an error message has it: strings in quotes, other values as JSON.
std::string Shown(std::string_view text);
std::string Shown(std::int64_t number);
std::string Shown(const Time& time);
std::string Shown(const MicroTime& time);
template <typename T>
std::string Shown(const Rare<T>& value) {
  return value ? Shown(*value) : "null";
}
// For strings that have a type of their own in Go (a UID, an operation). They are shown as JSON,
// which also escapes < > &.
std::string ShownAsJson(std::string_view text);

// FieldErrors collects the errors of an object's fields and becomes the Status that rejects it. It
// allocates nothing as long as there are no errors.
//
// Thread-confined.
class FieldErrors {
 public:
  // A required value is missing.
  void Required(std::string_view field, std::string_view detail = {});
  // `shown` is the value in the message, usually from Shown().
  void Invalid(std::string_view field, std::string_view shown, std::string_view why);
  void Forbidden(std::string_view field, std::string_view why);
  void TooLong(std::string_view field, std::size_t max_bytes);

  // Calls Invalid() for each error that one of the functions above returned.
  void InvalidName(std::string_view field, std::string_view value,
                   const std::vector<std::string>& faults);
  template <typename T>
  void Unchanged(std::string_view field, const T& value, const T& old) {
    if (value != old) Invalid(field, Shown(value), kImmutable);
  }

  bool empty() const { return causes_.empty(); }
  // Whether further errors are dropped. A body of 3 MiB could cause errors that print all of it a
  // million times.
  bool full() const { return bytes_ > kMaxBytes; }

  // The error for the event `name`; ok if there are no errors.
  Status ToStatus(std::string_view name) &&;

  static constexpr std::string_view kImmutable = "field is immutable";
  static constexpr std::size_t kMaxBytes = 4 << 20;

 private:
  void Add(std::string_view reason, std::string_view field, std::string message);

  std::vector<StatusCause> causes_;
  std::size_t bytes_ = 0;  // of all causes together
};

// The rule for the names of objects.
enum class NameRule : std::uint8_t {
  kPathSegment,   // any string that can be a segment of a URL's path
  kDnsSubdomain,  // IsDns1123Subdomain()
};

// Validates metadata. The server has set name and namespace before.
void CheckObjectMeta(const ObjectMeta& meta, NameRule name_rule, FieldErrors* errors);

// Validates a change of the metadata of an existing object.
void CheckObjectMetaUpdate(const ObjectMeta& meta, const ObjectMeta& old, FieldErrors* errors);

// Checks that finalizers without a domain are Kubernetes' own.
void CheckFinalizersAreStandard(const ObjectMeta& meta, FieldErrors* errors);

}  // namespace herald
