#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace herald::server {

// The schemas of all objects, from which the OpenAPI documents are written.

struct OpenApiMember {
  enum class Type : std::uint8_t {
    kString,
    kInt32,
    kInt64,
    kBool,
    kRef,        // `of`
    kList,       // of `of`
    kStrings,    // a list of strings
    kStringMap,  // a map of strings
  };
  std::string_view name;
  Type type = Type::kString;
  std::string_view of{};  // the full name of another schema
  std::string_view description{};
  bool required = false;
  std::string_view merge_key{};  // the key of elements in a strategic merge; "-": the list is a set
};

struct OpenApiType {
  std::string_view name;  // "io.k8s.api.core.v1.Event"
  std::string_view description;
  std::span<const OpenApiMember> members{};  // sorted by name
  std::string_view kind{};                   // only for objects that can be read or written alone
  std::string_view group{};
  std::string_view format{};  // "date-time" for types that are strings
};

// Sorted by name.
std::span<const OpenApiType> OpenApiTypes();

struct OpenApiParameter {
  std::string_view name;
  std::string_view type;  // "string", "integer", "boolean"
  std::string_view description;
};
// Null if there is none of that name.
const OpenApiParameter* FindOpenApiParameter(std::string_view name);

}  // namespace herald::server
