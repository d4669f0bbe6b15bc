#include "api/json/type_names.h"

#include <variant>

namespace herald {
namespace {

std::string_view NumberTypeName(const Json& json) {
  return std::holds_alternative<double>(json.AsNumber()) ? "float64" : "int64";
}

}  // namespace

std::string_view JsonTypeName(Json::Type type) {
  switch (type) {
    case Json::Type::kObject:
      return "object";
    case Json::Type::kArray:
      return "array";
    case Json::Type::kString:
      return "string";
    case Json::Type::kNumber:
      return "number";
    case Json::Type::kBool:
      return "bool";
    case Json::Type::kNull:
      break;
  }
  return "null";
}

std::string_view JsonTypeName(JsonReader::Type type) {
  switch (type) {
    case JsonReader::Type::kObject:
      return JsonTypeName(Json::Type::kObject);
    case JsonReader::Type::kArray:
      return JsonTypeName(Json::Type::kArray);
    case JsonReader::Type::kString:
      return JsonTypeName(Json::Type::kString);
    case JsonReader::Type::kNumber:
      return JsonTypeName(Json::Type::kNumber);
    case JsonReader::Type::kBool:
      return JsonTypeName(Json::Type::kBool);
    case JsonReader::Type::kNull:
    case JsonReader::Type::kError:
      break;
  }
  return JsonTypeName(Json::Type::kNull);
}

std::string_view GoKindName(const Json& json) {
  switch (json.type()) {
    case Json::Type::kObject:
      return "map";
    case Json::Type::kArray:
      return "slice";
    case Json::Type::kNumber:
      return NumberTypeName(json);
    case Json::Type::kNull:
      return "invalid";
    case Json::Type::kString:
    case Json::Type::kBool:
      break;
  }
  return JsonTypeName(json.type());
}

std::string_view GoTypeName(const Json& json) {
  switch (json.type()) {
    case Json::Type::kObject:
      return "map[string]interface {}";
    case Json::Type::kArray:
      return "[]interface {}";
    case Json::Type::kNumber:
      return NumberTypeName(json);
    case Json::Type::kNull:
      return "%!s(<nil>)";
    case Json::Type::kString:
    case Json::Type::kBool:
      break;
  }
  return JsonTypeName(json.type());
}

}  // namespace herald
