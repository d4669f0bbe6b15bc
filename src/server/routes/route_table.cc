#include "server/routes/route_table.h"

#include <array>
#include <optional>

#include "server/access/access_review.h"
#include "server/routes/document_handlers.h"
#include "server/routes/errors.h"
#include "server/routes/event_handlers.h"
#include "server/routes/namespace_handlers.h"
#include "server/routes/review_handlers.h"
#include "server/routes/service_handlers.h"

namespace herald::server {
namespace {

// Parameters of the query, described in openapi_schema.cc.
constexpr auto kListParameters = std::to_array<std::string_view>(
    {"allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit",
     "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "since", "sortBy",
     "timeoutSeconds", "until", "watch"});
constexpr auto kWriteParameters =
    std::to_array<std::string_view>({"dryRun", "fieldManager", "fieldValidation"});
constexpr auto kPatchParameters =
    std::to_array<std::string_view>({"dryRun", "fieldManager", "fieldValidation", "force"});
constexpr auto kDeleteParameters = std::to_array<std::string_view>(
    {"dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"});
constexpr auto kCollectionParameters = std::to_array<std::string_view>(
    {"continue", "dryRun", "fieldSelector", "gracePeriodSeconds", "labelSelector", "limit",
     "orphanDependents", "propagationPolicy", "resourceVersion", "resourceVersionMatch",
     "sendInitialEvents", "timeoutSeconds"});

// Both spellings of events. OpenAPI lists the operations of a path in this order. It does not
// describe the older paths of watches, because no client should start to use them.
constexpr auto kEventVerbs = std::to_array<VerbRoute>({
    {Level::kAllNamespaces, "list", ListEvents, "Lists or watches events.", kListParameters},
    {Level::kAllNamespaces, "watch", WatchEvents},
    {Level::kCollection, "list", ListEvents, "Lists or watches the events of a namespace.",
     kListParameters},
    {Level::kCollection, "watch", WatchEvents},
    {Level::kCollection, "create", CreateEvent, "Creates an event.", kWriteParameters},
    {Level::kCollection, "deletecollection", DeleteEvents, "Deletes events of a namespace.",
     kCollectionParameters},
    {Level::kObject, "get", GetEvent, "Reads an event."},
    {Level::kObject, "watch", WatchEvents},
    {Level::kObject, "update", UpdateEvent, "Replaces an event, or creates it.", kWriteParameters},
    {Level::kObject, "delete", DeleteEvent, "Deletes an event.", kDeleteParameters},
    {Level::kObject, "patch", PatchEvent, "Changes an event.", kPatchParameters},
});
constexpr ResourceRoute kEvents{.name = "events",
                                .singular = "event",
                                .kind = "Event",
                                .short_name = "ev",
                                .verbs = kEventVerbs,
                                .storage_version_hash = "r2yiGXH7wu8=",
                                .has_metric_labels = true};

constexpr auto kNamespaceVerbs = std::to_array<VerbRoute>({
    {Level::kCollection, "list", ListNamespaces},
    {Level::kCollection, "watch", WatchNamespaces},
    {Level::kObject, "get", GetNamespace},
    {Level::kObject, "watch", WatchNamespaces},
});
constexpr auto kServiceVerbs = std::to_array<VerbRoute>({
    {Level::kAllNamespaces, "list", ListServices},
    {Level::kCollection, "list", ListServices},
});

// Resources without verbs are the kinds that events are about. They are listed because `kubectl
// events --for pod/x` asks discovery for the kind of a "pod". They have no verbs, so `kubectl
// api-resources` and clients that look for resources to list or watch skip them.
constexpr auto kCoreResources = std::to_array<ResourceRoute>({
    {"configmaps", "configmap", "ConfigMap", true, "cm"},
    {"endpoints", "endpoints", "Endpoints", true, "ep"},
    kEvents,
    {"limitranges", "limitrange", "LimitRange", true, "limits"},
    {.name = "namespaces",
     .singular = "namespace",
     .kind = "Namespace",
     .namespaced = false,
     .short_name = "ns",
     .verbs = kNamespaceVerbs,
     .has_metric_labels = true},
    {"nodes", "node", "Node", false, "no"},
    {"persistentvolumeclaims", "persistentvolumeclaim", "PersistentVolumeClaim", true, "pvc"},
    {"persistentvolumes", "persistentvolume", "PersistentVolume", false, "pv"},
    {"pods", "pod", "Pod", true, "po"},
    {"replicationcontrollers", "replicationcontroller", "ReplicationController", true, "rc"},
    {"resourcequotas", "resourcequota", "ResourceQuota", true, "quota"},
    {"secrets", "secret", "Secret", true},
    {"serviceaccounts", "serviceaccount", "ServiceAccount", true, "sa"},
    {"services", "service", "Service", true, "svc", kServiceVerbs},
});
constexpr auto kEventsResources = std::to_array<ResourceRoute>({kEvents});
constexpr auto kAppsResources = std::to_array<ResourceRoute>({
    {"daemonsets", "daemonset", "DaemonSet", true, "ds"},
    {"deployments", "deployment", "Deployment", true, "deploy"},
    {"replicasets", "replicaset", "ReplicaSet", true, "rs"},
    {"statefulsets", "statefulset", "StatefulSet", true, "sts"},
});
constexpr auto kBatchResources = std::to_array<ResourceRoute>({
    {"cronjobs", "cronjob", "CronJob", true, "cj"},
    {"jobs", "job", "Job", true},
});
constexpr auto kAutoscalingResources = std::to_array<ResourceRoute>({
    {"horizontalpodautoscalers", "horizontalpodautoscaler", "HorizontalPodAutoscaler", true, "hpa"},
});

constexpr auto kReviewVerbs = std::to_array<VerbRoute>({
    {Level::kCollection, "create", CreateReview},
});
constexpr ResourceRoute Review(std::string_view name, std::string_view singular,
                               std::string_view kind) {
  return {.name = name,
          .singular = singular,
          .kind = kind,
          .namespaced = false,
          .verbs = kReviewVerbs,
          .max_body_bytes = kMaxReviewBytes};
}
constexpr auto kAuthenticationResources = std::to_array<ResourceRoute>({
    Review("selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview"),
});
constexpr auto kAuthorizationResources = std::to_array<ResourceRoute>({
    Review("selfsubjectaccessreviews", "selfsubjectaccessreview", "SelfSubjectAccessReview"),
    Review("selfsubjectrulesreviews", "selfsubjectrulesreview", "SelfSubjectRulesReview"),
});

constexpr auto kGroups = std::to_array<ApiGroup>({
    {"", "v1", "/api/v1", kCoreResources, "io.k8s.api.core.v1.", "CoreV1"},
    {"events.k8s.io", "v1", "/apis/events.k8s.io/v1", kEventsResources, "io.k8s.api.events.v1.",
     "EventsV1"},
    {"authentication.k8s.io", "v1", "/apis/authentication.k8s.io/v1", kAuthenticationResources},
    {"authorization.k8s.io", "v1", "/apis/authorization.k8s.io/v1", kAuthorizationResources},
    {"apps", "v1", "/apis/apps/v1", kAppsResources},
    {"batch", "v1", "/apis/batch/v1", kBatchResources},
    {"autoscaling", "v2", "/apis/autoscaling/v2", kAutoscalingResources},
});

using Match = PathRoute::Match;
using OtherMethods = PathRoute::OtherMethods;

constexpr auto kListedApis = std::to_array<std::string_view>({"/apis", "/apis/"});
constexpr auto kListedOpenApi =
    std::to_array<std::string_view>({"/openapi/v2", "/openapi/v3", "/openapi/v3/"});
constexpr auto kListedVersion = std::to_array<std::string_view>({"/version"});
constexpr auto kListedRetention = std::to_array<std::string_view>({"/herald/retention"});
constexpr auto kListedMetrics = std::to_array<std::string_view>({"/metrics"});
// With the checks of FrontDoor::Health().
constexpr auto kListedHealthz =
    std::to_array<std::string_view>({"/healthz", "/healthz/ping", "/healthz/store"});
constexpr auto kListedLivez = std::to_array<std::string_view>({"/livez", "/livez/ping"});
constexpr auto kListedReadyz = std::to_array<std::string_view>(
    {"/readyz", "/readyz/ping", "/readyz/shutdown", "/readyz/store"});

// kube-apiserver serves the health paths and the root with every method.
constexpr auto kPaths = std::to_array<PathRoute>({
    {"/healthz", Match::kSelfOrBelow, OtherMethods::kServed, Stage::kHealth, nullptr,
     kListedHealthz},
    {"/livez", Match::kSelfOrBelow, OtherMethods::kServed, Stage::kHealth, nullptr, kListedLivez},
    {"/readyz", Match::kSelfOrBelow, OtherMethods::kServed, Stage::kHealth, nullptr, kListedReadyz},
    {"/metrics", Match::kExact, OtherMethods::kNotFound, Stage::kMetrics, nullptr, kListedMetrics},
    {"/", Match::kExact, OtherMethods::kServed, Stage::kApi, SendRootPaths},
    {"/index.html", Match::kExact, OtherMethods::kServed, Stage::kApi, SendRootPaths},
    {"/version", Match::kTrailingSlash, OtherMethods::kNotAllowed, Stage::kApi, SendVersion,
     kListedVersion},
    {"/herald/retention", Match::kExact, OtherMethods::kNotAllowed, Stage::kApi, SendRetention,
     kListedRetention},
    {"/openapi", Match::kBelow, OtherMethods::kNotAllowed, Stage::kApi, SendOpenApi,
     kListedOpenApi},
    {"/apis", Match::kTrailingSlash, OtherMethods::kNotAllowed, Stage::kApi, SendDiscovery,
     kListedApis},
    // "/" lists these paths by the groups.
    {"/apis/{group}[/{version}]", Match::kGroups, OtherMethods::kNotAllowed, Stage::kApi,
     SendDiscovery},
});

constexpr RouteTable kTable{.groups = kGroups,
                            .paths = kPaths,
                            .not_found = SendPathNotFound,
                            .method_not_allowed = SendMethodNotAllowed};

std::string_view WithoutTrailingSlash(std::string_view path) {
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

bool IsBelow(std::string_view path, std::string_view root) {
  return path.size() > root.size() && path.starts_with(root) && path[root.size()] == '/';
}

bool Matches(const PathRoute& row, std::string_view exact_path, std::span<const ApiGroup> groups) {
  const std::string_view path = WithoutTrailingSlash(exact_path);
  switch (row.match) {
    case Match::kExact:
      return exact_path == row.path;
    case Match::kTrailingSlash:
      return path == row.path;
    case Match::kBelow:
      return IsBelow(path, row.path);
    case Match::kSelfOrBelow:
      return path == row.path || IsBelow(path, row.path);
    case Match::kGroups:
      for (const ApiGroup& group : groups) {
        if (path == group.path || path == group.group_path()) return true;
      }
      return false;
  }
  return false;
}

// Nothing if the resource has no such path.
std::optional<Level> LevelOf(const ResourceRoute& resource, const RequestInfo& info) {
  if (resource.namespaced) {
    if (info.namespace_.empty()) {
      if (info.name_in_path) return std::nullopt;
      return Level::kAllNamespaces;
    }
  } else if (!info.namespace_.empty()) {
    // A resource without namespaces must not be reached through one, where it would be authorized
    // by the namespace's roles. A namespace as an object is its own namespace in RequestInfo.
    const bool is_itself =
        resource.name == "namespaces" && info.name_in_path && info.namespace_ == info.name;
    if (!is_itself) return std::nullopt;
  }
  return info.name_in_path ? Level::kObject : Level::kCollection;
}

}  // namespace

const RouteTable& Routes() { return kTable; }

RouteTable::ResourceMatch RouteTable::FindResource(const RequestInfo& info) const {
  if (!info.is_resource || info.has_trailing_segments) return {};
  for (const ApiGroup& group : groups) {
    if (group.name != info.api_group || group.version != info.api_version) continue;
    for (const ResourceRoute& resource : group.resources) {
      if (resource.name == info.resource && resource.subresource == info.subresource) {
        return {&group, &resource};
      }
    }
  }
  return {};
}

Route RouteTable::Find(const RequestInfo& info) const {
  if (!info.is_resource) {
    for (const PathRoute& row : paths) {
      // Health is answered before anything is checked, malformed paths included.
      if (info.is_malformed && row.stage != Stage::kHealth) continue;
      if (!Matches(row, info.path, groups)) continue;
      if (info.method == "GET" || row.other_methods == OtherMethods::kServed) {
        return {.handler = row.handler, .stage = row.stage};
      }
      if (row.other_methods == OtherMethods::kNotAllowed) return {.handler = method_not_allowed};
    }
    return {.handler = not_found};
  }

  const ResourceRoute* const resource = FindResource(info).resource;
  if (resource == nullptr || info.is_malformed) return {.handler = not_found};
  const std::optional<Level> level = LevelOf(*resource, info);
  if (!level) return {.handler = not_found};
  // Below /watch/ and /proxy/ the verb is a part of the path, whatever the method.
  const bool verb_in_path = info.watch_in_path || info.verb == "proxy";
  bool path_exists = false;
  for (const VerbRoute& row : resource->verbs) {
    if (row.level != *level) continue;
    const bool is_verb = row.verb == info.verb;
    if (is_verb && MethodOf(row.verb) == info.method) {
      return {.handler = row.handler, .max_body_bytes = resource->max_body_bytes};
    }
    if (is_verb || !verb_in_path) path_exists = true;
  }
  return {.handler = path_exists ? method_not_allowed : not_found,
          .max_body_bytes = resource->max_body_bytes};
}

const ApiGroup* RouteTable::FindGroupOfPath(std::string_view path) const {
  for (const ApiGroup& group : groups) {
    if (IsBelow(path, group.group_path())) return &group;
  }
  return nullptr;
}

}  // namespace herald::server
