#include "herald/client/json_value.h"

#include <array>
#include <charconv>
#include <utility>

#include "api/json/document.h"
#include "api/json/reader.h"
#include "api/json/writer.h"

namespace herald {
namespace {

const JsonValue& Null() {
  static const auto* const null = new JsonValue;  // never destroyed: returned by reference
  return *null;
}

JsonValue FromNumber(std::string_view digits) {
  const Json::Number number = Json::Scalar(digits).AsNumber();
  if (const auto* integer = std::get_if<std::int64_t>(&number)) return *integer;
  return std::get<double>(number);
}

// Returns false if the reader failed or the document is nested too deeply.
bool Read(JsonReader* reader, int depth, JsonValue* out) {
  if (depth > JsonValue::kMaxDepth) return false;
  switch (reader->Peek()) {
    case JsonReader::Type::kObject: {
      JsonValue::Object& members = out->MutableObject();
      for (bool more = reader->BeginObject(); more; more = reader->NextMember()) {
        std::string key(reader->ReadKey());
        // Most documents are sorted, so a new key usually belongs at the end.
        const auto it = members.try_emplace(members.end(), std::move(key));
        if (!Read(reader, depth + 1, &it->second)) return false;
      }
      break;
    }
    case JsonReader::Type::kArray: {
      JsonValue::Array& elements = out->MutableArray();
      for (bool more = reader->BeginArray(); more; more = reader->NextElement()) {
        if (!Read(reader, depth + 1, &elements.emplace_back())) return false;
      }
      break;
    }
    case JsonReader::Type::kString:
      *out = JsonValue(reader->ReadStringView());
      break;
    case JsonReader::Type::kNumber: {
      const std::string_view digits = reader->ReadNumber();
      if (reader->ok()) *out = FromNumber(digits);
      break;
    }
    case JsonReader::Type::kBool:
      *out = JsonValue(reader->ReadBool());
      break;
    case JsonReader::Type::kNull:
      reader->ReadNull();
      *out = JsonValue();
      break;
    case JsonReader::Type::kError:
      break;
  }
  return reader->ok();
}

}  // namespace

JsonValue::JsonValue(const JsonValue&) = default;
JsonValue::JsonValue(JsonValue&&) noexcept = default;
JsonValue& JsonValue::operator=(const JsonValue&) = default;
JsonValue& JsonValue::operator=(JsonValue&&) noexcept = default;
JsonValue::~JsonValue() = default;

Result<JsonValue> JsonValue::Parse(std::string_view json) {
  JsonReader reader(json);
  Result<JsonValue> value{JsonValue()};
  const bool read = Read(&reader, 0, &*value);
  if (!reader.ok() || (read && !reader.Finish())) {
    return Status(StatusReason::kBadRequest, reader.error());
  }
  if (!read) return Status(StatusReason::kBadRequest, "the document is nested too deeply");
  return value;
}

bool JsonValue::Bool(bool fallback) const {
  const auto* value = std::get_if<bool>(&value_);
  return value != nullptr ? *value : fallback;
}

std::int64_t JsonValue::Int(std::int64_t fallback) const {
  if (const auto* integer = std::get_if<std::int64_t>(&value_)) return *integer;
  const auto* real = std::get_if<double>(&value_);
  // A double out of the range of int64 is not an integer.
  if (real != nullptr && *real > -9.2e18 && *real < 9.2e18) return static_cast<std::int64_t>(*real);
  return fallback;
}

double JsonValue::Number(double fallback) const {
  if (const auto* integer = std::get_if<std::int64_t>(&value_))
    return static_cast<double>(*integer);
  const auto* real = std::get_if<double>(&value_);
  return real != nullptr ? *real : fallback;
}

const std::string& JsonValue::String() const {
  static const auto* const empty = new std::string;
  const auto* value = std::get_if<std::string>(&value_);
  return value != nullptr ? *value : *empty;
}

const JsonValue::Array& JsonValue::array() const {
  static const auto* const empty = new Array;
  const auto* value = std::get_if<Array>(&value_);
  return value != nullptr ? *value : *empty;
}

const JsonValue::Object& JsonValue::object() const {
  static const auto* const empty = new Object;
  const auto* value = std::get_if<Object>(&value_);
  return value != nullptr ? *value : *empty;
}

const JsonValue& JsonValue::operator[](std::string_view key) const {
  const auto it = object().find(key);
  return it != object().end() ? it->second : Null();
}

const JsonValue& JsonValue::At(std::size_t index) const {
  return index < array().size() ? array()[index] : Null();
}

JsonValue& JsonValue::Member(std::string_view key) {
  Object& members = MutableObject();
  const auto it = members.find(key);
  return it != members.end() ? it->second
                             : members.emplace(std::string(key), JsonValue()).first->second;
}

JsonValue::Object& JsonValue::MutableObject() {
  if (!is_object()) value_ = Object();
  return std::get<Object>(value_);
}

JsonValue::Array& JsonValue::MutableArray() {
  if (!is_array()) value_ = Array();
  return std::get<Array>(value_);
}

void JsonValue::Erase(std::string_view key) {
  if (auto* members = std::get_if<Object>(&value_)) {
    if (const auto it = members->find(key); it != members->end()) members->erase(it);
  }
}

std::string JsonValue::ToString() const {
  std::string out;
  AppendTo(&out);
  return out;
}

void JsonValue::AppendTo(std::string* out) const {
  if (is_null()) {
    *out += "null";
  } else if (is_bool()) {
    *out += Bool() ? "true" : "false";
  } else if (is_int()) {
    std::array<char, 24> buffer{};
    out->append(buffer.data(),
                std::to_chars(buffer.data(), buffer.data() + buffer.size(), Int()).ptr);
  } else if (is_number()) {
    std::array<char, 64> buffer{};
    const char* const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), Number(),
                                          std::chars_format::scientific)
                                .ptr;
    AppendJson(Json::Scalar({buffer.data(), end}), out);
  } else if (is_string()) {
    AppendJsonString(String(), out);
  } else if (is_array()) {
    char before = '[';
    for (const JsonValue& element : array()) {
      out->push_back(std::exchange(before, ','));
      element.AppendTo(out);
    }
    *out += array().empty() ? "[]" : "]";
  } else {
    char before = '{';
    for (const auto& [key, value] : object()) {
      out->push_back(std::exchange(before, ','));
      AppendJsonString(key, out);
      out->push_back(':');
      value.AppendTo(out);
    }
    *out += object().empty() ? "{}" : "}";
  }
}

}  // namespace herald
