#include "api/json/event_from_json.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "api/fields.h"
#include "api/json/strict_errors.h"
#include "api/json/type_names.h"

namespace herald {
namespace {

// As a server on amd64 converts: numbers out of range become the smallest integer.
std::int64_t Truncate(double value) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (value >= -kLimit && value < kLimit) return static_cast<std::int64_t>(value);
  return std::numeric_limits<std::int64_t>::min();
}

// Stops at the first error, in the order of the fields' declarations. Thread-confined, used once.
template <EventApi kApi>
class Converter {
 public:
  explicit Converter(std::vector<std::string>* field_errors) : field_errors_(field_errors) {}

  Result<Event> Convert(const Json& document) {
    Result<Event> event{Event()};
    std::string type;  // not used: the URL has the type
    for (const std::string_view member : {"kind", "apiVersion"}) {
      if (const Json* value = document.Find(member)) Value(*value, &type, {});
    }
    Value(document, &*event, {});
    if (!error_.empty()) return Status(StatusReason::kBadRequest, error_);
    if (field_errors_ != nullptr) std::sort(field_errors_->begin(), field_errors_->end());
    return event;
  }

 private:
  void Fail(std::string_view what, std::string_view a, std::string_view to = {},
            std::string_view b = {}) {
    if (error_.empty()) error_.append(what).append(a).append(to).append(b);
  }

  void Value(const Json& json, std::string* out, std::string_view go_type) {
    if (json.type() == Json::Type::kString) {
      *out = json.AsString();
    } else if (GoKindName(json) == "int64") {
      Fail("cannot convert int64 to ", go_type.empty() ? "string" : go_type);
    } else if (!json.is_null()) {
      Fail("unrecognized type: ", "string");
    }
  }

  void Value(const Json& json, bool* out, std::string_view) {
    if (json.type() == Json::Type::kBool) {
      *out = json.AsBool();
    } else if (!json.is_null()) {
      Fail("unrecognized type: ", "bool");
    }
  }

  template <std::integral T>
  void Value(const Json& json, T* out, std::string_view) {
    constexpr std::string_view kName = sizeof(T) == 4 ? "int32" : "int64";
    if (json.is_null()) return;
    if (json.type() != Json::Type::kNumber) return Fail("unrecognized type: ", kName);
    const Json::Number number = json.AsNumber();
    if (const auto* integer = std::get_if<std::int64_t>(&number)) {
      *out = static_cast<T>(*integer);
    } else if (const double real = std::get<double>(number); real == std::trunc(real)) {
      *out = static_cast<T>(Truncate(real));
    } else {
      Fail("cannot convert float64 to ", kName);
    }
  }

  template <std::derived_from<Timestamp> T>
  void Value(const Json& json, T* out, std::string_view) {
    if (json.is_null()) return;
    if (json.type() != Json::Type::kString) {
      return Fail("json: cannot unmarshal ", JsonTypeName(json.type()),
                  " into Go value of type string");
    }
    if (Result<T> time = T::Parse(json.AsString())) {
      *out = *time;
    } else {
      Fail(time.error().message(), {});
    }
  }

  template <typename T>
    requires kIsOptional<T>
  void Value(const Json& json, T* out, std::string_view go_type) {
    if (!json.is_null()) Value(json, &out->emplace(), go_type);
  }

  // The only optional string of the tables (fieldsV1): JSON that is kept as a string.
  void Value(const Json& json, std::optional<std::string>* out, std::string_view) {
    if (!json.is_null()) AppendJson(json, &out->emplace());
  }

  void Value(const Json& json, StringMap* out, std::string_view) {
    if (json.is_null()) return;
    if (!json.is_object()) return Fail("cannot restore map from ", GoKindName(json));
    for (const auto& [key, value] : json.object()) Value(value, &(*out)[key], {});
  }

  template <typename T>
  void Value(const Json& json, std::vector<T>* out, std::string_view) {
    if (json.is_null()) return;
    if (!json.is_array()) return Fail("cannot restore slice from ", GoKindName(json));
    const std::size_t outer = path_.size();
    for (const Json& element : json.array()) {
      if (!error_.empty()) return;
      path_.append("[").append(std::to_string(out->size())).append("]");
      Value(element, &out->emplace_back(), {});
      path_.resize(outer);
    }
  }

  template <typename T>
    requires requires { FieldTable<T, kApi>::kGoName; }
  void Value(const Json& json, T* out, std::string_view) {
    if (json.is_null()) return;
    if (!json.is_object()) return Fail("cannot restore struct from: ", GoKindName(json));
    std::apply([&](const auto&... field) { (Member(json, field, out), ...); },
               FieldTable<T, kApi>::kFields);
    if (field_errors_ != nullptr) ReportUnknown<T>(json);
  }

  template <typename T, typename F>
  void Member(const Json& json, const F& field, T* out) {
    const Json* const value = json.Find(field.json);
    if (value == nullptr || !error_.empty()) return;
    const std::size_t outer = path_.size();
    path_.append(path_.empty() ? "" : ".").append(field.json);
    Value(*value, &(out->*field.member), field.go_type);
    path_.resize(outer);
  }

  template <typename T>
  void ReportUnknown(const Json& json) {
    for (const auto& [key, value] : json.object()) {
      if (unknown_bytes_ > StrictErrors::kMaxBytes) return;
      const bool known =
          std::apply([&name = key](const auto&... field) { return ((field.json == name) || ...); },
                     FieldTable<T, kApi>::kFields);
      const bool is_type = path_.empty() && (key == "kind" || key == "apiVersion");
      if (known || is_type) continue;
      field_errors_->push_back("unknown field \"" + path_ + (path_.empty() ? "" : ".") + key + '"');
      unknown_bytes_ += field_errors_->back().size();
    }
  }

  std::vector<std::string>* const field_errors_;
  std::size_t unknown_bytes_ = 0;  // in field_errors_; Kubernetes has no limit here
  std::string path_;               // of the value that is being converted
  std::string error_;              // the first
};

}  // namespace

Result<Event> EventFromJson(const Json& document, EventApi api,
                            std::vector<std::string>* field_errors) {
  return api == EventApi::kCoreV1 ? Converter<EventApi::kCoreV1>(field_errors).Convert(document)
                                  : Converter<EventApi::kEventsV1>(field_errors).Convert(document);
}

}  // namespace herald
