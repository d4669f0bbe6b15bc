#include "server/routes/route_table.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

#include "server/access/access_review.h"
#include "server/routes/document_handlers.h"
#include "server/routes/errors.h"
#include "server/routes/event_handlers.h"
#include "server/routes/namespace_handlers.h"
#include "server/routes/review_handlers.h"
#include "server/routes/service_handlers.h"

namespace herald::server {
namespace {

Route Find(std::string_view method, std::string_view target) {
  return Routes().Find(ParseRequestInfo(method, target));
}

struct Case {
  const char* method;
  const char* target;
  Handler handler;
};

TEST(RouteTable, FindsTheHandlerOfEveryVerb) {
  constexpr auto kCases = std::to_array<Case>({
      {"GET", "/api/v1/events", ListEvents},
      {"GET", "/api/v1/events/", ListEvents},
      {"GET", "/api/v1/events?watch=true", WatchEvents},
      {"GET", "/api/v1/watch/events", WatchEvents},
      {"GET", "/api/v1/namespaces/a/events?fieldSelector=metadata.name%3Dx", ListEvents},
      {"GET", "/apis/events.k8s.io/v1/namespaces/a/events", ListEvents},
      {"POST", "/api/v1/namespaces/a/events", CreateEvent},
      {"DELETE", "/api/v1/namespaces/a/events", DeleteEvents},
      {"GET", "/api/v1/namespaces/a/events/x", GetEvent},
      {"GET", "/api/v1/namespaces/a/events/x?watch=true", GetEvent},
      {"GET", "/api/v1/watch/namespaces/a/events/x", WatchEvents},
      {"PUT", "/api/v1/namespaces/a/events/x", UpdateEvent},
      {"PATCH", "/api/v1/namespaces/a/events/x", PatchEvent},
      {"DELETE", "/api/v1/namespaces/a/events/x", DeleteEvent},
      {"GET", "/api/v1/namespaces", ListNamespaces},
      {"GET", "/api/v1/namespaces/a", GetNamespace},
      {"GET", "/api/v1/watch/namespaces/a", WatchNamespaces},
      {"GET", "/api/v1/services", ListServices},
      {"GET", "/api/v1/namespaces/a/services", ListServices},
      {"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", CreateReview},
      {"POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", CreateReview},
      {"GET", "/", SendRootPaths},
      {"POST", "/index.html", SendRootPaths},
      {"GET", "/api/", SendDiscovery},
      {"GET", "/apis", SendDiscovery},
      {"GET", "/api/v1", SendDiscovery},
      {"GET", "/apis/apps", SendDiscovery},
      {"GET", "/apis/autoscaling/v2/", SendDiscovery},
      {"GET", "/openapi/v3", SendOpenApi},
      {"GET", "/version/", SendVersion},
      {"GET", "/herald/retention", SendRetention},
  });
  for (const Case& c : kCases) {
    EXPECT_EQ(Find(c.method, c.target).handler, c.handler) << c.method << " " << c.target;
  }
}

TEST(RouteTable, RejectsAMethodThatAPathDoesNotHave) {
  constexpr std::array<std::array<const char*, 2>, 12> kRequests = {{
      {"POST", "/api/v1/events"},
      {"DELETE", "/api/v1/events"},
      {"PUT", "/api/v1/namespaces/a/events"},
      {"POST", "/api/v1/namespaces/a/events/x"},
      {"HEAD", "/api/v1/namespaces/a/events/x"},
      {"POST", "/api/v1/watch/events"},
      {"OPTIONS", "/api/v1/events"},
      {"DELETE", "/api/v1/namespaces/a"},
      {"GET", "/api/v1/services?watch=true"},
      {"GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"},
      {"POST", "/version"},
      {"POST", "/apis/apps"},
  }};
  for (const auto& [method, target] : kRequests) {
    EXPECT_EQ(Find(method, target).handler, SendMethodNotAllowed) << method << " " << target;
  }
}

TEST(RouteTable, DoesNotFindOtherPaths) {
  for (const char* target :
       {"/api/v1/pods", "/api/v2/events", "/apis/apps/v1/events", "/api/v1/events/x",
        "/api/v1/namespaces/a/events/x/status", "/api/v1/namespaces/a/status",
        "/api/v1/namespaces/a/services/b", "/api/v1/watch/services", "/api/v1//events",
        "/api/v1/../v1/events", "/apis/apps/v2", "/openapi", "/herald/retention/", "/foo"}) {
    EXPECT_EQ(Find("GET", target).handler, SendPathNotFound) << target;
  }
  EXPECT_EQ(Find("POST", "/metrics").handler, SendPathNotFound);
}

// RBAC would authorize these by the roles of the namespace "a", or with the verb "proxy".
TEST(RouteTable, DoesNotServeWhatWasAuthorizedAsSomethingElse) {
  for (const char* target :
       {"/api/v1/namespaces/a/namespaces", "/api/v1/namespaces/a/namespaces/b",
        "/api/v1/proxy/events", "/api/v1/proxy/namespaces/a/events/x",
        "/apis/authorization.k8s.io/v1/namespaces/a/selfsubjectrulesreviews"}) {
    EXPECT_EQ(Find("GET", target).handler, SendPathNotFound) << target;
    EXPECT_EQ(Find("POST", target).handler, SendPathNotFound) << target;
  }
}

TEST(RouteTable, HealthAndMetricsAreServedByTheFrontDoor) {
  for (const char* target : {"/healthz", "/livez/ping", "/readyz/", "/healthz//x"}) {
    EXPECT_EQ(Find("GET", target).stage, Stage::kHealth) << target;
    EXPECT_EQ(Find("POST", target).stage, Stage::kHealth) << target;
  }
  EXPECT_EQ(Find("GET", "/healthzz").stage, Stage::kApi);
  EXPECT_EQ(Find("GET", "/metrics").stage, Stage::kMetrics);
  EXPECT_EQ(Find("GET", "/metrics/").stage, Stage::kApi);
}

TEST(RouteTable, LimitsTheBodyByTheResourceWhateverTheMethod) {
  const char* const reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
  EXPECT_EQ(Find("POST", reviews).max_body_bytes, kMaxReviewBytes);
  EXPECT_EQ(Find("PUT", reviews).max_body_bytes, kMaxReviewBytes);
  EXPECT_EQ(Find("POST", "/api/v1/namespaces/a/events").max_body_bytes, kMaxRequestBytes);
}

// A row that breaks one of these rules is served wrongly or not at all.
TEST(RouteTable, EveryRowIsConsistent) {
  ASSERT_EQ(Routes().groups.front().name, "");
  for (const ApiGroup& group : Routes().groups) {
    const std::string group_path = group.name.empty() ? "/api" : "/apis/" + std::string(group.name);
    EXPECT_EQ(group.path, group_path + "/" + std::string(group.version));
    EXPECT_EQ(group.group_path(), group_path);
    std::set<std::string> names;
    for (const ResourceRoute& resource : group.resources) {
      const std::string name = std::string(resource.name) + "/" + std::string(resource.subresource);
      EXPECT_TRUE(names.empty() || *names.rbegin() < name) << name << " is not sorted";
      names.insert(name);
      for (const VerbRoute& row : resource.verbs) {
        EXPECT_NE(row.handler, nullptr) << name;
        EXPECT_NE(MethodOf(row.verb), "") << name << " " << row.verb;
        EXPECT_TRUE(resource.namespaced || row.level != Level::kAllNamespaces) << name;
        EXPECT_TRUE(row.description.empty() || !group.schema_prefix.empty()) << name;
      }
    }
  }
  for (const PathRoute& row : Routes().paths) {
    EXPECT_EQ(row.handler != nullptr, row.stage == Stage::kApi) << row.path;
    for (const std::string_view path : row.listed) {
      const Route route = Find("GET", path);
      EXPECT_EQ(route.handler, row.handler) << path;
      EXPECT_EQ(route.stage, row.stage) << path;
    }
  }
}

// A new group with a subresource needs rows and nothing else.
TEST(RouteTable, ServesTheRowsOfAnyTable) {
  constexpr auto kQueryVerbs =
      std::to_array<VerbRoute>({{Level::kCollection, "create", CreateEvent}});
  constexpr auto kResultVerbs = std::to_array<VerbRoute>({{Level::kObject, "get", GetEvent}});
  const auto resources = std::to_array<ResourceRoute>({
      {.name = "queries", .singular = "query", .kind = "Query", .verbs = kQueryVerbs},
      {.name = "queries",
       .singular = "",
       .kind = "QueryResult",
       .verbs = kResultVerbs,
       .subresource = "result"},
  });
  const auto groups = std::to_array<ApiGroup>(
      {{"herald.events", "v1alpha1", "/apis/herald.events/v1alpha1", resources}});
  const RouteTable table{
      .groups = groups, .not_found = SendPathNotFound, .method_not_allowed = SendMethodNotAllowed};
  const auto find = [&](std::string_view method, std::string_view path) {
    return table.Find(ParseRequestInfo(method, path)).handler;
  };
  const std::string queries = "/apis/herald.events/v1alpha1/namespaces/a/queries";
  EXPECT_EQ(find("POST", queries), CreateEvent);
  EXPECT_EQ(find("GET", queries + "/x"), SendPathNotFound);
  EXPECT_EQ(find("GET", queries + "/x/result"), GetEvent);
  EXPECT_EQ(find("PUT", queries + "/x/result"), SendMethodNotAllowed);
  EXPECT_EQ(find("GET", queries + "/x/result/more"), SendPathNotFound);
  EXPECT_EQ(find("GET", "/api/v1/events"), SendPathNotFound);
}

}  // namespace
}  // namespace herald::server
