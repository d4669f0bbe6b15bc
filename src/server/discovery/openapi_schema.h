#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace herald::server {

// What is served, described once; openapi.cc writes it in the three forms that clients ask for.

struct OpenApiMember {
  enum class Type : std::uint8_t {
    kString,
    kInt32,
    kInt64,
    kBool,
    kRef,        // `of`
    kList,       // of `of`
    kTexts,      // a list of strings
    kStringMap,  // strings by strings
  };
  std::string_view name;
  Type type = Type::kString;
  std::string_view of{};  // the full name of another schema
  std::string_view description{};
  bool required = false;
  std::string_view merge_key{};  // how a strategic merge tells elements apart; "-": a set
};

struct OpenApiType {
  std::string_view name;  // "io.k8s.api.core.v1.Event"
  std::string_view description;
  std::span<const OpenApiMember> members{};  // sorted by name
  std::string_view kind{};                   // for what can be read or written by itself
  std::string_view group{};
  std::string_view format{};  // of a type that is a string, "date-time"
};

// Sorted by name.
std::span<const OpenApiType> OpenApiTypes();

struct OpenApiParameter {
  std::string_view name;
  std::string_view type;  // "string", "integer", "boolean"
  std::string_view description;
};
// Null where there is none of that name.
const OpenApiParameter* FindOpenApiParameter(std::string_view name);

}  // namespace herald::server
