#include "server/discovery/discovery.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace herald::server {
namespace {

// One resource as discovery shows it.
struct Resource {
  std::string_view name;
  std::string_view singular;
  std::string_view kind;
  bool namespaced = true;
  std::string_view short_names{};  // as JSON strings
  std::string_view verbs{};        // the same
  std::string_view hash{};         // of the version in which it is stored
};

constexpr std::string_view kEventVerbs =
    R"("create","delete","deletecollection","get","list","patch","update","watch")";
constexpr std::string_view kEventHash = "r2yiGXH7wu8=";

// Apart from events and namespaces these are the kinds that events are about. They are here because
// `kubectl events --for pod/x` asks discovery what a "pod" is. None of them is served: they have no
// verbs, so `kubectl api-resources` and clients that look for something to list or watch skip
// them. Services can be listed, and there are none: `kubectl cluster-info` asks for them.
constexpr auto kCoreResources = std::to_array<Resource>({
    {"configmaps", "configmap", "ConfigMap", true, R"("cm")"},
    {"endpoints", "endpoints", "Endpoints", true, R"("ep")"},
    {"events", "event", "Event", true, R"("ev")", kEventVerbs, kEventHash},
    {"limitranges", "limitrange", "LimitRange", true, R"("limits")"},
    {"namespaces", "namespace", "Namespace", false, R"("ns")", R"("get","list","watch")"},
    {"nodes", "node", "Node", false, R"("no")"},
    {"persistentvolumeclaims", "persistentvolumeclaim", "PersistentVolumeClaim", true, R"("pvc")"},
    {"persistentvolumes", "persistentvolume", "PersistentVolume", false, R"("pv")"},
    {"pods", "pod", "Pod", true, R"("po")"},
    {"replicationcontrollers", "replicationcontroller", "ReplicationController", true, R"("rc")"},
    {"resourcequotas", "resourcequota", "ResourceQuota", true, R"("quota")"},
    {"secrets", "secret", "Secret", true},
    {"serviceaccounts", "serviceaccount", "ServiceAccount", true, R"("sa")"},
    {"services", "service", "Service", true, R"("svc")", R"("list")"},
});
constexpr auto kEventsResources = std::to_array<Resource>({
    {"events", "event", "Event", true, R"("ev")", kEventVerbs, kEventHash},
});
constexpr auto kAppsResources = std::to_array<Resource>({
    {"daemonsets", "daemonset", "DaemonSet", true, R"("ds")"},
    {"deployments", "deployment", "Deployment", true, R"("deploy")"},
    {"replicasets", "replicaset", "ReplicaSet", true, R"("rs")"},
    {"statefulsets", "statefulset", "StatefulSet", true, R"("sts")"},
});
constexpr auto kBatchResources = std::to_array<Resource>({
    {"cronjobs", "cronjob", "CronJob", true, R"("cj")"},
    {"jobs", "job", "Job", true},
});
constexpr auto kAutoscalingResources = std::to_array<Resource>({
    {"horizontalpodautoscalers", "horizontalpodautoscaler", "HorizontalPodAutoscaler", true,
     R"("hpa")"},
});

constexpr auto kAuthenticationResources = std::to_array<Resource>({
    {"selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview", false, "", R"("create")"},
});
constexpr auto kAuthorizationResources = std::to_array<Resource>({
    {"selfsubjectaccessreviews", "selfsubjectaccessreview", "SelfSubjectAccessReview", false, "",
     R"("create")"},
    {"selfsubjectrulesreviews", "selfsubjectrulesreview", "SelfSubjectRulesReview", false, "",
     R"("create")"},
});

struct Group {
  std::string_view name;
  std::string_view version;
  std::span<const Resource> resources;

  std::string group_version() const { return fmt::format("{}/{}", name, version); }
};
const std::array<Group, 6> kGroups = {{
    {"events.k8s.io", "v1", kEventsResources},
    {"authentication.k8s.io", "v1", kAuthenticationResources},
    {"authorization.k8s.io", "v1", kAuthorizationResources},
    {"apps", "v1", kAppsResources},
    {"batch", "v1", kBatchResources},
    {"autoscaling", "v2", kAutoscalingResources},
}};

const Group* FindGroup(std::string_view name) {
  for (const Group& group : kGroups) {
    if (group.name == name) return &group;
  }
  return nullptr;
}

std::string PlainResources(std::span<const Resource> resources) {
  std::string json = "[";
  for (const Resource& resource : resources) {
    if (json.size() > 1) json += ',';
    json += fmt::format(
        R"({{"name":"{}","singularName":"{}","namespaced":{},"kind":"{}","verbs":[{}])",
        resource.name, resource.singular, resource.namespaced, resource.kind, resource.verbs);
    if (!resource.short_names.empty()) {
      json += fmt::format(R"(,"shortNames":[{}])", resource.short_names);
    }
    if (!resource.hash.empty()) json += fmt::format(R"(,"storageVersionHash":"{}")", resource.hash);
    json += '}';
  }
  return json += ']';
}

// The members of an APIGroup after its type.
std::string GroupMembers(const Group& group) {
  const std::string version = fmt::format(R"({{"groupVersion":"{}","version":"{}"}})",
                                          group.group_version(), group.version);
  return fmt::format(R"("name":"{}","versions":[{}],"preferredVersion":{})", group.name, version,
                     version);
}

std::string AggregatedGroup(std::string_view metadata, std::string_view version,
                            std::span<const Resource> resources) {
  std::string json = fmt::format(R"({{"metadata":{},"versions":[{{"version":"{}","resources":[)",
                                 metadata, version);
  bool first = true;
  for (const Resource& resource : resources) {
    if (!first) json += ',';
    first = false;
    json +=
        fmt::format(R"({{"resource":"{}","responseKind":{{"group":"","version":"","kind":"{}"}},)"
                    R"("scope":"{}","singularResource":"{}","verbs":[{}])",
                    resource.name, resource.kind, resource.namespaced ? "Namespaced" : "Cluster",
                    resource.singular, resource.verbs);
    if (!resource.short_names.empty()) {
      json += fmt::format(R"(,"shortNames":[{}])", resource.short_names);
    }
    json += '}';
  }
  return json += R"(],"freshness":"Current"}]})";
}

std::string MakeAggregated(bool core) {
  std::string json =
      R"({"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[)";
  if (core) {
    json += AggregatedGroup("{}", "v1", kCoreResources);
  } else {
    bool first = true;
    for (const Group& group : kGroups) {
      if (!first) json += ',';
      first = false;
      json += AggregatedGroup(fmt::format(R"({{"name":"{}"}})", group.name), group.version,
                              group.resources);
    }
  }
  return json += "]}\n";
}

std::string GroupList() {
  std::string json = R"({"kind":"APIGroupList","apiVersion":"v1","groups":[)";
  bool first = true;
  for (const Group& group : kGroups) {
    if (!first) json += ',';
    first = false;
    json += '{' + GroupMembers(group) + '}';
  }
  return json += "]}\n";
}

}  // namespace

std::optional<std::string> DiscoveryDocument(std::string_view path, std::string_view address) {
  if (path == "/api") {
    return fmt::format(R"({{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":)"
                       R"([{{"clientCIDR":"0.0.0.0/0","serverAddress":"{}"}}]}})"
                       "\n",
                       address);
  }
  if (path == "/api/v1") {
    return fmt::format(R"({{"kind":"APIResourceList","groupVersion":"v1","resources":{}}})"
                       "\n",
                       PlainResources(kCoreResources));
  }
  if (path == "/apis") return GroupList();
  constexpr std::string_view kPrefix = "/apis/";
  if (!path.starts_with(kPrefix)) return std::nullopt;
  path.remove_prefix(kPrefix.size());
  const Group* const group = FindGroup(path.substr(0, path.find('/')));
  if (group == nullptr) return std::nullopt;
  if (path == group->name) {
    return fmt::format(R"({{"kind":"APIGroup","apiVersion":"v1",{}}})"
                       "\n",
                       GroupMembers(*group));
  }
  if (path == group->group_version()) {
    return fmt::format(
        R"({{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"{}","resources":{}}})"
        "\n",
        group->group_version(), PlainResources(group->resources));
  }
  return std::nullopt;
}

std::string RootPathsJson() {
  std::vector<std::string> paths = {
      "/api",     "/api/v1",     "/apis",       "/apis/",       "/herald/retention",
      "/metrics", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"};
  for (const Group& group : kGroups) {
    paths.push_back(fmt::format("/apis/{}", group.name));
    paths.push_back(fmt::format("/apis/{}", group.group_version()));
  }
  // With their checks; see FrontDoor.
  for (const char* health : {"/healthz", "/healthz/ping", "/healthz/store", "/livez", "/livez/ping",
                             "/readyz", "/readyz/ping", "/readyz/shutdown", "/readyz/store"})
    paths.emplace_back(health);
  std::sort(paths.begin(), paths.end());
  std::string json = "{\n  \"paths\": [";
  for (const std::string& path : paths)
    json += fmt::format("{}\n    \"{}\"", json.back() == '[' ? "" : ",", path);
  return json += "\n  ]\n}";
}

bool IsServiceList(std::string_view path) {
  constexpr std::string_view kServices = "/services";
  constexpr std::string_view kNamespaces = "/api/v1/namespaces/";
  if (path == "/api/v1/services") return true;
  if (!path.starts_with(kNamespaces) || !path.ends_with(kServices)) return false;
  path.remove_prefix(kNamespaces.size());
  return path.size() > kServices.size() && path.find('/') == path.size() - kServices.size();
}

std::string EmptyServiceListJson(std::int64_t revision) {
  return fmt::format(R"({{"kind":"ServiceList","apiVersion":"v1","metadata":{{"resourceVersion":)"
                     R"("{}"}},"items":[]}})"
                     "\n",
                     revision);
}

const std::string& AggregatedDiscovery(std::string_view path) {
  static const std::string& core = *new std::string(MakeAggregated(true));
  static const std::string& groups = *new std::string(MakeAggregated(false));
  return path == "/api" ? core : groups;
}

bool IsBelowListedGroup(std::string_view path) {
  if (path.starts_with("/api/")) return true;
  constexpr std::string_view kPrefix = "/apis/";
  if (!path.starts_with(kPrefix)) return false;
  path.remove_prefix(kPrefix.size());
  return FindGroup(path.substr(0, path.find('/'))) != nullptr;
}

std::string DocumentHash(std::string_view document) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  EVP_Digest(document.data(), document.size(), digest.data(), &size, EVP_sha512(), nullptr);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02X}", digest[i]);
  return hex;
}

}  // namespace herald::server
