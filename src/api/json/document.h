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

// A Json is a document that can be changed: what patches work on. Events have a
// type of their own; this one is for what is not known to be an event yet.
//
// Scalars stay the text they were written as, because the answer depends on it: a
// JSON Patch compares "a" and "\u0061" as unequal, a merge patch keeps 1.0 apart
// from 1, and a refusal quotes the document. So a Json only borrows: the text it
// was parsed from must outlive it and all that is moved or cloned out of it.
//
// Of members given twice the last one counts. Members are kept and written in
// the order of their keys, as Go does with its maps.
//
// Nothing here recurses: documents may be 10,000 levels deep and more while they
// are patched, and threads have small stacks. A document takes at most about 60
// times its text in memory (for a list of empty lists), typically 5 times.
//
// Thread-compatible. Moved, never copied by accident: see Clone().
class HERALD_EXPORT Json {
 public:
  enum class Type : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;
  // What Kubernetes makes of a number: an integer if it is written as one and fits.
  using Number = std::variant<std::int64_t, double>;

  Json();  // null
  explicit Json(Array elements);
  explicit Json(Object members);
  // REQUIRES: `text` is one scalar written in JSON, and not null
  static Json Scalar(std::string_view text);
  Json(Json&&) noexcept;
  Json& operator=(Json&&) noexcept;
  ~Json();

  Type type() const { return type_; }
  bool is_null() const { return type_ == Type::kNull; }
  bool is_array() const { return type_ == Type::kArray; }
  bool is_object() const { return type_ == Type::kObject; }
  bool is_container() const { return type_ >= Type::kArray; }

  // As it was written; empty if this was never written, was changed since, or is null.
  std::string_view text() const { return changed_ ? std::string_view() : text_; }
  // REQUIRES: the type is right
  bool AsBool() const { return text_ == "true"; }
  Number AsNumber() const;
  std::string AsString() const;

  // REQUIRES: the type is right
  const Array& array() const;
  const Object& object() const;
  // Whoever asks for these is taken to change the value: from then on its text
  // speaks no longer for it.
  Array& mutable_array();
  Object& mutable_object();

  // The member, or null if there is none or this is no object.
  const Json* Find(std::string_view key) const;

  Json Clone() const;

  // Equal in type and in the text of every scalar.
  bool operator==(const Json& other) const;
  // Whether both are the same scalar by value: "a" and "\u0061" are, 1 and 1.0 are
  // not, for Kubernetes takes the one for an integer and the other for none. Never
  // true for containers.
  bool SameScalar(const Json& other) const;

 private:
  friend class JsonParser;
  struct Children;

  static void Dismantle(std::unique_ptr<Children> children);

  Type type_ = Type::kNull;
  bool changed_ = false;  // a container whose text_ is out of date
  std::string_view text_;
  std::unique_ptr<Children> children_;
};

// How a document is read.
struct JsonParseOptions {
  // Where to report members that are given twice: `duplicate field "a.b[0].c"`. StrictErrors
  // says how many of them.
  std::vector<std::string>* field_errors = nullptr;
  // Refuse numbers beyond a double, as Kubernetes does when it has to understand
  // them and not only to pass them on.
  bool check_numbers = false;
  // Where in a larger document the text stands, for field_errors and for messages.
  std::string_view path = {};
  std::string_view go_place = "value";
};

// The document in `text`, or kBadRequest with Go's words.
HERALD_EXPORT Result<Json> ParseJson(std::string_view text, const JsonParseOptions& options = {});

// The document in one normal form: as Go writes what it has decoded. Numbers are
// written by value (1.0 becomes 1).
HERALD_EXPORT void AppendJson(const Json& json, std::string* out);

// The document as it was written, without spaces. Only containers that were changed
// have their members sorted. This is what is left when Go decodes no deeper than it
// must. Returns how many bytes of the original text it read: spaces cost time, too.
std::size_t AppendAsWritten(const Json& json, std::string* out);

// The document as Go's fmt shows it in messages: map[a:1 b:[x <nil>]]. The verb is
// 'v', or 's', which marks everything that is no string: %!s(int64=1).
void AppendGoText(const Json& json, char verb, std::string* out);

// Removes members that are null, at every level.
void DiscardNulls(Json* json);

// How deeply containers nest in it; 0 for a scalar.
std::size_t Depth(const Json& json);

}  // namespace herald
