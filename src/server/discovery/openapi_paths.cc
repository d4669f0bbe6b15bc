#include "server/discovery/openapi_paths.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "server/discovery/openapi_schema.h"
#include "server/routes/route_table.h"

namespace herald::server {
namespace {

constexpr auto kRead = std::to_array<std::string_view>({"200", "401"});
constexpr auto kCreated = std::to_array<std::string_view>({"200", "201", "202", "401"});
constexpr auto kChanged = std::to_array<std::string_view>({"200", "201", "401"});
constexpr auto kDeleted = std::to_array<std::string_view>({"200", "202", "401"});

constexpr std::string_view kDeleteOptions = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
constexpr std::string_view kPatch = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
constexpr std::string_view kStatus = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
// Stand for the kind of the resource and for its list.
constexpr std::string_view kKind = "Kind";
constexpr std::string_view kKindList = "KindList";

// What follows from the verb. A watch is described by the list.
struct VerbOperation {
  std::string_view verb;
  std::string_view method;
  std::string_view action;
  std::string_view id;  // the beginning of the operation's id
  std::string_view body;
  std::string_view answer;
  Names codes;
};
constexpr auto kVerbOperations = std::to_array<VerbOperation>({
    {"get", "get", "get", "read", "", kKind, kRead},
    {"list", "get", "list", "list", "", kKindList, kRead},
    {"create", "post", "post", "create", kKind, kKind, kCreated},
    {"update", "put", "put", "replace", kKind, kKind, kChanged},
    {"patch", "patch", "patch", "patch", kPatch, kKind, kChanged},
    {"delete", "delete", "delete", "delete", kDeleteOptions, kStatus, kDeleted},
    {"deletecollection", "delete", "deletecollection", "deleteCollection", kDeleteOptions, kStatus,
     kRead},
});

std::string SchemaName(const ApiGroup& group, const ResourceRoute& resource,
                       std::string_view schema) {
  if (schema == kKind) return std::string(group.schema_prefix).append(resource.kind);
  if (schema == kKindList) {
    return std::string(group.schema_prefix).append(resource.kind).append("List");
  }
  return std::string(schema);
}

std::string OperationId(const ApiGroup& group, const ResourceRoute& resource, Level level,
                        std::string_view begin) {
  std::string id(begin);
  if (resource.namespaced && level != Level::kAllNamespaces) id += "Namespaced";
  id += resource.kind;
  if (level == Level::kAllNamespaces) id += "ForAllNamespaces";
  return id.append(group.operation_suffix);
}

std::string PathPattern(const ApiGroup& group, const ResourceRoute& resource, Level level) {
  std::string path(group.path);
  if (resource.namespaced && level != Level::kAllNamespaces) path += "/namespaces/{namespace}";
  path.append("/").append(resource.name);
  if (level == Level::kObject) path += "/{name}";
  if (!resource.subresource.empty()) path.append("/").append(resource.subresource);
  return path;
}

// Parameters that all operations have are listed once, at the path, as upstream does.
void ShareParameters(const ResourceRoute& resource, Level level, OpenApiPath* path) {
  std::set<std::string_view> shared = {"pretty"};
  const Names first = path->operations.front().parameters;
  if (std::ranges::all_of(path->operations, [first](const OpenApiOperation& operation) {
        return std::ranges::equal(operation.parameters, first);
      })) {
    shared.insert(first.begin(), first.end());
    for (OpenApiOperation& operation : path->operations) operation.parameters = {};
  }
  if (resource.namespaced && level != Level::kAllNamespaces) shared.insert("namespace");
  if (level == Level::kObject) shared.insert("name");
  path->parameters.assign(shared.begin(), shared.end());
}

void AddSchema(std::string_view name, std::set<std::string_view>* names) {
  const auto types = OpenApiTypes();
  const auto found = std::ranges::find(types, name, &OpenApiType::name);
  if (found == types.end() || !names->insert(found->name).second) return;
  for (const OpenApiMember& member : found->members) {
    if (!member.of.empty()) AddSchema(member.of, names);
  }
}

}  // namespace

std::vector<const ApiGroup*> DescribedGroups() {
  std::vector<const ApiGroup*> groups;
  for (const ApiGroup& group : Routes().groups) {
    if (!group.schema_prefix.empty()) groups.push_back(&group);
  }
  return groups;
}

std::vector<OpenApiPath> PathsOf(const ApiGroup& group) {
  std::vector<OpenApiPath> paths;
  for (const ResourceRoute& resource : group.resources) {
    for (const Level level : {Level::kAllNamespaces, Level::kCollection, Level::kObject}) {
      OpenApiPath path{.path = PathPattern(group, resource, level),
                       .group = group.name,
                       .version = group.version,
                       .kind = resource.kind};
      for (const VerbRoute& row : resource.verbs) {
        if (row.level != level || row.description.empty()) continue;
        const auto* const verb = std::ranges::find(kVerbOperations, row.verb, &VerbOperation::verb);
        if (verb == kVerbOperations.end()) continue;
        path.operations.push_back({.method = verb->method,
                                   .action = verb->action,
                                   .id = OperationId(group, resource, level, verb->id),
                                   .description = row.description,
                                   .parameters = row.parameters,
                                   .body = SchemaName(group, resource, verb->body),
                                   .answer = SchemaName(group, resource, verb->answer),
                                   .codes = verb->codes});
      }
      if (path.operations.empty()) continue;
      ShareParameters(resource, level, &path);
      paths.push_back(std::move(path));
    }
  }
  return paths;
}

std::vector<std::string_view> SchemasOf(const ApiGroup& group) {
  std::set<std::string_view> names;
  for (const ResourceRoute& resource : group.resources) {
    AddSchema(SchemaName(group, resource, kKind), &names);
    AddSchema(SchemaName(group, resource, kKindList), &names);
  }
  for (const OpenApiPath& path : PathsOf(group)) {
    for (const OpenApiOperation& operation : path.operations) {
      AddSchema(operation.body, &names);
      AddSchema(operation.answer, &names);
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace herald::server
