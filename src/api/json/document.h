#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// A Json is a JSON document that can be changed. Patches are applied to it, and other code uses it
// for documents that are not events.
//
// A scalar keeps its original text, because results depend on it: a JSON patch compares "a" and
// "\u0061" as different, a merge patch keeps 1.0 and 1, and error messages quote the document. The
// text is not copied: it must outlive the Json and all values that are moved or cloned from it.
//
// If an object has a member twice, the last one counts. Members are sorted by key, as Go prints
// maps.
//
// No function recurses, because a document can have more than 10,000 levels while it is patched,
// and threads have small stacks. A document takes at most about 60 times the memory of its text (a
// list of empty lists), typically 5 times.
//
// Not synchronized: concurrent const calls are safe. Movable; copies are explicit, see Clone().
class HERALD_EXPORT Json {
 public:
  enum class Type : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;
  // A number as Kubernetes decodes it: an integer if it is written as one and fits into 64 bits.
  using Number = std::variant<std::int64_t, double>;

  Json();  // null
  explicit Json(Array elements);
  explicit Json(Object members);
  // REQUIRES: `text` is a JSON scalar other than null
  static Json Scalar(std::string_view text);
  Json(Json&&) noexcept;
  Json& operator=(Json&&) noexcept;
  ~Json();

  Type type() const { return type_; }
  bool is_null() const { return type_ == Type::kNull; }
  bool is_array() const { return type_ == Type::kArray; }
  bool is_object() const { return type_ == Type::kObject; }
  bool is_container() const { return type_ >= Type::kArray; }

  // The original text. Empty if the value was not parsed, has changed since, or is null.
  std::string_view text() const { return changed_ ? std::string_view() : text_; }
  // REQUIRES: the type is right
  bool AsBool() const { return text_ == "true"; }
  Number AsNumber() const;
  std::string AsString() const;

  // REQUIRES: the type is right
  const Array& array() const;
  const Object& object() const;
  // These mark the value as changed: text() is empty from then on.
  Array& mutable_array();
  Object& mutable_object();

  // The member; null if there is none or if this is not an object.
  const Json* Find(std::string_view key) const;

  Json Clone() const;

  // Equal if all types and the texts of all scalars are equal.
  bool operator==(const Json& other) const;
  // Whether both are scalars with the same value: true for "a" and "\u0061"; false for 1 and 1.0,
  // because only the first is an integer for Kubernetes. Always false for containers.
  bool SameScalar(const Json& other) const;

 private:
  friend class JsonParser;
  struct Children;

  static void Dismantle(std::unique_ptr<Children> children);

  Type type_ = Type::kNull;
  bool changed_ = false;  // a container whose text_ is outdated
  std::string_view text_;
  std::unique_ptr<Children> children_;
};

// Options of ParseJson().
struct JsonParseOptions {
  // Receives an error for each duplicate member: `duplicate field "a.b[0].c"`. StrictErrors has the
  // limits.
  std::vector<std::string>* field_errors = nullptr;
  // Reject numbers outside the range of a double, as Kubernetes does where it decodes numbers and
  // does not only copy them.
  bool check_numbers = false;
  // The position of the text in a larger document, for field_errors and for messages.
  std::string_view path = {};
  std::string_view go_place = "value";
};

// Parses a document. Errors are kBadRequest with Go's message.
HERALD_EXPORT Result<Json> ParseJson(std::string_view text, const JsonParseOptions& options = {});

// Appends the document in normal form, as Go encodes a decoded document. Numbers are written by
// value (1.0 becomes 1).
HERALD_EXPORT void AppendJson(const Json& json, std::string* out);

// Appends the document with the original text of its values, without white space. Only containers
// that were changed have sorted members. Go does the same where it decodes only the levels that it
// needs. Returns the number of bytes of the original text that it read, because white space takes
// time, too.
std::size_t AppendAsWritten(const Json& json, std::string* out);

// Appends the document as Go's fmt prints it: map[a:1 b:[x <nil>]]. The verb is 'v', or 's', which
// marks all values except strings: %!s(int64=1).
void AppendGoText(const Json& json, char verb, std::string* out);

// Removes members that are null, at every level.
void DiscardNulls(Json* json);

// The number of nested containers; 0 for a scalar.
std::size_t Depth(const Json& json);

}  // namespace herald
