#pragma once

#include <string_view>

#include "api/json/document.h"
#include "api/json/reader.h"
#include "herald/base/export.h"

// The names that Kubernetes' error messages use for the type of a JSON value.
namespace herald {

// As in Go's JSON errors: "object", "array", "string", "number", "bool" or "null".
HERALD_EXPORT std::string_view JsonTypeName(Json::Type type);
std::string_view JsonTypeName(JsonReader::Type type);

// As in Go's reflect.Kind: "map", "slice", "string", "int64", "float64", "bool" or "invalid".
std::string_view GoKindName(const Json& json);

// As Go's %T prints a decoded value: "map[string]interface {}", "[]interface {}", "string",
// "int64", "float64" or "bool". A null is "%!s(<nil>)", as in messages that print it with %s.
std::string_view GoTypeName(const Json& json);

}  // namespace herald
