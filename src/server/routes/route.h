#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "herald/api/codec.h"

namespace herald::server {

class ApiState;
class Exchange;

// The rows of the route table (route_table.cc). Everything that depends on which paths exist is
// derived from them: authorization and dispatch (both by RequestInfo), the discovery documents, the
// OpenAPI documents, the list of paths at "/" and the labels of metrics. Kubernetes' installer does
// the same (apiserver/pkg/endpoints/installer.go).
//
// All types here are immutable values; they refer to constants.

// Sends the response, within the call or later on any thread. The exchange has been authorized as
// exchange->info(); a handler must not act on anything else.
using Handler = void (*)(const std::shared_ptr<ApiState>& api,
                         const std::shared_ptr<Exchange>& exchange);

using Names = std::span<const std::string_view>;

// Which path of a resource a request addresses.
enum class Level : std::uint8_t {
  kAllNamespaces,  // /api/v1/events; only namespaced resources have it
  kCollection,     // /api/v1/namespaces/{namespace}/events, /api/v1/namespaces
  kObject,         // /api/v1/namespaces/{namespace}/events/{name}, /api/v1/namespaces/{name}
};

// One verb of a resource at one level. The HTTP method follows from the verb (MethodOf). A
// "watch" row serves ?watch=true and the older path with /watch/ after the version; at kObject only
// the older path exists.
struct VerbRoute {
  Level level = Level::kCollection;
  std::string_view verb;  // as in RequestInfo and in RBAC rules
  Handler handler = nullptr;
  // The OpenAPI operation. Its id, body, responses and path follow from the verb, the level and the
  // kind. Empty: the operation is not described.
  std::string_view description{};
  Names parameters{};  // of the query, sorted
};

// One resource, or one subresource, of a group.
struct ResourceRoute {
  std::string_view name;  // "events": in the path, in RBAC rules and in the labels of metrics
  std::string_view singular;
  std::string_view kind;
  bool namespaced = true;
  std::string_view short_name{};            // for kubectl; may be empty
  std::span<const VerbRoute> verbs{};       // empty: only in discovery, every request gets 404
  std::string_view storage_version_hash{};  // may be empty
  std::string_view subresource{};           // "status"; empty: the resource itself
  std::size_t max_body_bytes = kMaxRequestBytes;
  // Whether metrics have labels for it. If not, it is counted as resource="other".
  bool has_metric_labels = false;
};

// One version of an API group.
struct ApiGroup {
  std::string_view name;                       // "events.k8s.io"; empty: the core group
  std::string_view version;                    // "v1"
  std::string_view path;                       // "/apis/events.k8s.io/v1"
  std::span<const ResourceRoute> resources{};  // in the order of discovery: by name
  // OpenAPI: the prefix of the names of its schemas and the suffix of its operation ids. Empty if
  // no resource has a described row.
  std::string_view schema_prefix{};
  std::string_view operation_suffix{};

  // "/apis/events.k8s.io", "/api"
  std::string_view group_path() const { return path.substr(0, path.rfind('/')); }
};

// When a request is answered on its way through the FrontDoor.
enum class Stage : std::uint8_t {
  kHealth,   // by the FrontDoor before authentication: probes have no credentials
  kMetrics,  // by the FrontDoor after authorization
  kApi,      // by the handler, after authorization and with the body
};

// A path that is not a resource. RBAC rules grant it by the path (nonResourceURLs).
struct PathRoute {
  enum class Match : std::uint8_t {
    kExact,          // what needs a permission is granted for the path as it is written
    kTrailingSlash,  // with or without a slash at the end
    kBelow,          // paths below it, but not itself
    kSelfOrBelow,
    kGroups,  // the discovery paths of all groups of the table, with or without a slash at the end
  };
  // The response to methods other than GET.
  enum class OtherMethods : std::uint8_t { kNotAllowed, kNotFound, kServed };

  std::string_view path;
  Match match = Match::kExact;
  OtherMethods other_methods = OtherMethods::kNotAllowed;
  Stage stage = Stage::kApi;
  Handler handler = nullptr;  // only for Stage::kApi
  Names listed{};             // paths in the document at "/"
};

// How a request is served. Every request has a route: that of an unknown path sends 404.
struct Route {
  Handler handler = nullptr;
  Stage stage = Stage::kApi;
  std::size_t max_body_bytes = kMaxRequestBytes;
};

// "GET" for "list". Empty for a verb that no row can have.
constexpr std::string_view MethodOf(std::string_view verb) {
  if (verb == "get" || verb == "list" || verb == "watch") return "GET";
  if (verb == "create") return "POST";
  if (verb == "update") return "PUT";
  if (verb == "patch") return "PATCH";
  if (verb == "delete" || verb == "deletecollection") return "DELETE";
  return "";
}

}  // namespace herald::server
