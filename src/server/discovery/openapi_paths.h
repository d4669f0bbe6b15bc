#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "server/routes/route.h"

namespace herald::server {

// The paths and operations that the OpenAPI documents describe, derived from the route table. The
// writers (openapi_json.h, openapi_gnostic.h) only write them down.

struct OpenApiOperation {
  std::string_view method;  // "get"
  std::string_view action;  // "list": x-kubernetes-action
  std::string id;           // "listNamespacedEventCoreV1"
  std::string_view description;
  Names parameters{};    // of the query, without those that are in OpenApiPath
  std::string body{};    // full name of the schema of the body; empty: no body
  std::string answer{};  // and of the response
  Names codes{};         // of the responses
};

struct OpenApiPath {
  std::string path;  // "/api/v1/namespaces/{namespace}/events"
  std::vector<OpenApiOperation> operations{};
  std::vector<std::string_view> parameters{};  // that all operations have, sorted
  std::string_view group;                      // of the objects
  std::string_view version;
  std::string_view kind;
};

// The groups with described verbs, in the order of the route table.
std::vector<const ApiGroup*> DescribedGroups();
std::vector<OpenApiPath> PathsOf(const ApiGroup& group);

// The names of all schemas that the document of a group needs, sorted: those of its kinds and
// operations and, recursively, those that they refer to.
std::vector<std::string_view> SchemasOf(const ApiGroup& group);

// Whether a parameter is a part of the path. All others are in the query.
inline bool IsInPath(std::string_view parameter) {
  return parameter == "name" || parameter == "namespace";
}

inline constexpr std::string_view kOpenApiTitle = "Kubernetes";
inline constexpr std::string_view kOpenApiVersion = "v1.36.3";
inline constexpr auto kOpenApiMediaTypes = std::to_array<std::string_view>(
    {"application/json", "application/vnd.kubernetes.protobuf", "application/yaml"});
inline constexpr auto kOpenApiPatchTypes =
    std::to_array<std::string_view>({"application/json-patch+json", "application/merge-patch+json",
                                     "application/strategic-merge-patch+json"});

}  // namespace herald::server
