#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// A JSON value that can be read and changed, for resources that have no C++ type.
//
//   JsonValue pod = ...;
//   if (pod["status"]["phase"].String() == "Failed") ...
//   patch.Member("spec").Member("replicas") = 3;
//
// Reading never fails: a member that is missing or has another type reads as null, 0 or empty, so
// that a chain of names needs only one check at its end. Members are sorted by name, as Kubernetes
// writes its maps. A number is a 64-bit integer if it is written as an integer and fits, otherwise
// a double, as in Kubernetes.
//
// A value type.
class HERALD_EXPORT JsonValue {
 public:
  using Array = std::vector<JsonValue>;
  using Object = std::map<std::string, JsonValue, std::less<>>;

  // Levels of nesting. Deeper documents are rejected; Kubernetes' own objects have less than 30.
  static constexpr int kMaxDepth = 1000;

  JsonValue() = default;  // null
  JsonValue(const JsonValue&);
  JsonValue(JsonValue&&) noexcept;
  JsonValue& operator=(const JsonValue&);
  JsonValue& operator=(JsonValue&&) noexcept;
  ~JsonValue();
  // Implicit, so that members can be assigned plain values.
  JsonValue(bool value) : value_(value) {}  // NOLINT
  JsonValue(std::integral auto value)       // NOLINT
    requires(!std::same_as<decltype(value), bool>)
      : value_(static_cast<std::int64_t>(value)) {}
  JsonValue(double value) : value_(value) {}                         // NOLINT
  JsonValue(std::string value) : value_(std::move(value)) {}         // NOLINT
  JsonValue(std::string_view value) : value_(std::string(value)) {}  // NOLINT
  JsonValue(const char* value) : value_(std::string(value)) {}       // NOLINT
  JsonValue(Array elements) : value_(std::move(elements)) {}         // NOLINT
  JsonValue(Object members) : value_(std::move(members)) {}          // NOLINT

  // kBadRequest with the message of Go's decoder if `json` is not valid JSON.
  static Result<JsonValue> Parse(std::string_view json);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_number() const { return is_int() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  bool Bool(bool fallback = false) const;
  std::int64_t Int(std::int64_t fallback = 0) const;  // a double is truncated
  double Number(double fallback = 0) const;
  const std::string& String() const;
  // Empty if the value has another type.
  const Array& array() const;
  const Object& object() const;

  // The member or the element; null if it does not exist.
  const JsonValue& operator[](std::string_view key) const;
  const JsonValue& operator[](const char* key) const { return (*this)[std::string_view(key)]; }
  const JsonValue& At(std::size_t index) const;
  bool Has(std::string_view key) const { return object().find(key) != object().end(); }

  // The member, which is added if it does not exist. A value of another type becomes an object.
  JsonValue& Member(std::string_view key);
  // A value of another type becomes an empty object or array.
  Object& MutableObject();
  Array& MutableArray();
  void Erase(std::string_view key);

  // Without spaces, as Go's encoding/json writes it.
  std::string ToString() const;
  void AppendTo(std::string* out) const;

  bool operator==(const JsonValue&) const = default;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

}  // namespace herald
