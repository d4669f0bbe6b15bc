#include "server/discovery/discovery.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/routes/route_table.h"

namespace herald::server {
namespace {

std::string GroupVersion(const ApiGroup& group) {
  if (group.name.empty()) return std::string(group.version);
  return fmt::format("{}/{}", group.name, group.version);
}

// All groups but the core group, which has documents of its own.
std::span<const ApiGroup> NamedGroups() { return Routes().groups.subspan(1); }

// "pods", or "pods/log" for a subresource.
std::string FullName(const ResourceRoute& resource) {
  std::string name(resource.name);
  if (!resource.subresource.empty()) name.append("/").append(resource.subresource);
  return name;
}

// The verbs of a resource as JSON strings, sorted and each once.
std::string Verbs(const ResourceRoute& resource) {
  std::vector<std::string_view> verbs;
  for (const VerbRoute& row : resource.verbs) verbs.push_back(row.verb);
  std::ranges::sort(verbs);
  verbs.erase(std::unique(verbs.begin(), verbs.end()), verbs.end());
  std::string json;
  for (const std::string_view verb : verbs) {
    json += fmt::format("{}\"{}\"", json.empty() ? "" : ",", verb);
  }
  return json;
}

std::string PlainResources(const ApiGroup& group) {
  std::string json = "[";
  for (const ResourceRoute& resource : group.resources) {
    if (json.size() > 1) json += ',';
    json += fmt::format(
        R"({{"name":"{}","singularName":"{}","namespaced":{},"kind":"{}","verbs":[{}])",
        FullName(resource), resource.singular, resource.namespaced, resource.kind, Verbs(resource));
    if (!resource.short_name.empty()) {
      json += fmt::format(R"(,"shortNames":["{}"])", resource.short_name);
    }
    if (!resource.storage_version_hash.empty()) {
      json += fmt::format(R"(,"storageVersionHash":"{}")", resource.storage_version_hash);
    }
    json += '}';
  }
  return json += ']';
}

// The members of an APIGroup after its type.
std::string GroupMembers(const ApiGroup& group) {
  const std::string version =
      fmt::format(R"({{"groupVersion":"{}","version":"{}"}})", GroupVersion(group), group.version);
  return fmt::format(R"("name":"{}","versions":[{}],"preferredVersion":{})", group.name, version,
                     version);
}

std::string AggregatedGroup(const ApiGroup& group) {
  const std::string metadata =
      group.name.empty() ? "{}" : fmt::format(R"({{"name":"{}"}})", group.name);
  std::string json = fmt::format(R"({{"metadata":{},"versions":[{{"version":"{}","resources":[)",
                                 metadata, group.version);
  bool first = true;
  for (const ResourceRoute& resource : group.resources) {
    // TODO: list subresources below their resource, once one is served.
    if (!resource.subresource.empty()) continue;
    if (!first) json += ',';
    first = false;
    json +=
        fmt::format(R"({{"resource":"{}","responseKind":{{"group":"","version":"","kind":"{}"}},)"
                    R"("scope":"{}","singularResource":"{}","verbs":[{}])",
                    resource.name, resource.kind, resource.namespaced ? "Namespaced" : "Cluster",
                    resource.singular, Verbs(resource));
    if (!resource.short_name.empty()) {
      json += fmt::format(R"(,"shortNames":["{}"])", resource.short_name);
    }
    json += '}';
  }
  return json += R"(],"freshness":"Current"}]})";
}

std::string MakeAggregated(std::span<const ApiGroup> groups) {
  std::string json =
      R"({"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[)";
  bool first = true;
  for (const ApiGroup& group : groups) {
    if (!first) json += ',';
    first = false;
    json += AggregatedGroup(group);
  }
  return json += "]}\n";
}

std::string GroupList() {
  std::string json = R"({"kind":"APIGroupList","apiVersion":"v1","groups":[)";
  bool first = true;
  for (const ApiGroup& group : NamedGroups()) {
    if (!first) json += ',';
    first = false;
    json += '{' + GroupMembers(group) + '}';
  }
  return json += "]}\n";
}

// kube-apiserver writes the apiVersion of the document for named groups only.
std::string ResourceList(const ApiGroup& group) {
  return fmt::format(R"({{"kind":"APIResourceList",{}"groupVersion":"{}","resources":{}}})"
                     "\n",
                     group.name.empty() ? "" : R"("apiVersion":"v1",)", GroupVersion(group),
                     PlainResources(group));
}

}  // namespace

std::optional<std::string> DiscoveryDocument(std::string_view path, std::string_view address) {
  if (path == "/api") {
    return fmt::format(R"({{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":)"
                       R"([{{"clientCIDR":"0.0.0.0/0","serverAddress":"{}"}}]}})"
                       "\n",
                       address);
  }
  if (path == "/apis") return GroupList();
  for (const ApiGroup& group : Routes().groups) {
    if (path == group.path) return ResourceList(group);
    if (path == group.group_path()) {
      return fmt::format(R"({{"kind":"APIGroup","apiVersion":"v1",{}}})"
                         "\n",
                         GroupMembers(group));
    }
  }
  return std::nullopt;
}

std::string RootPathsJson() {
  std::vector<std::string_view> paths;
  for (const ApiGroup& group : Routes().groups) {
    paths.push_back(group.group_path());
    paths.push_back(group.path);
  }
  for (const PathRoute& row : Routes().paths) {
    paths.insert(paths.end(), row.listed.begin(), row.listed.end());
  }
  std::ranges::sort(paths);
  std::string json = "{\n  \"paths\": [";
  for (const std::string_view path : paths)
    json += fmt::format("{}\n    \"{}\"", json.back() == '[' ? "" : ",", path);
  return json += "\n  ]\n}";
}

const std::string& AggregatedDiscovery(std::string_view path) {
  static const std::string& core = *new std::string(MakeAggregated(Routes().groups.first(1)));
  static const std::string& named = *new std::string(MakeAggregated(NamedGroups()));
  return path == "/api" ? core : named;
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
