#include "server/request/request_info.h"

#include <gtest/gtest.h>

#include <string_view>

namespace herald::server {
namespace {

struct Scenario {
  std::string_view method;
  std::string_view target;
  std::string_view verb;
  bool is_resource;
  std::string_view group;
  std::string_view version;
  std::string_view namespace_;
  std::string_view resource;
  std::string_view subresource;
  std::string_view name;
};

// Upstream's test (requestinfo_test.go) with the resources of this server.
constexpr Scenario kScenarios[] = {
    {"GET", "/", "get", false, "", "", "", "", "", ""},
    {"GET", "/version", "get", false, "", "", "", "", "", ""},
    {"POST", "/version", "post", false, "", "", "", "", "", ""},
    {"GET", "/api", "get", false, "", "", "", "", "", ""},
    {"GET", "/api/v1", "get", false, "", "", "", "", "", ""},
    {"GET", "/apis/events.k8s.io/v1", "get", false, "", "", "", "", "", ""},
    {"GET", "/api/v1/events", "list", true, "", "v1", "", "events", "", ""},
    {"GET", "/api/v1/events/", "list", true, "", "v1", "", "events", "", ""},
    {"GET", "/api/v1/events?watch=true", "watch", true, "", "v1", "", "events", "", ""},
    {"GET", "/api/v1/events?watch", "watch", true, "", "v1", "", "events", "", ""},
    {"GET", "/api/v1/events?watch=0", "list", true, "", "v1", "", "events", "", ""},
    {"GET", "/api/v1/events?watch=FALSE", "list", true, "", "v1", "", "events", "", ""},
    {"GET", "/api/v1/events?watch=1&limit=x", "watch", true, "", "v1", "", "events", "", ""},
    {"GET", "/api/v1/namespaces/a/events", "list", true, "", "v1", "a", "events", "", ""},
    {"POST", "/api/v1/namespaces/a/events", "create", true, "", "v1", "a", "events", "", ""},
    {"DELETE", "/api/v1/namespaces/a/events", "deletecollection", true, "", "v1", "a", "events", "",
     ""},
    {"GET", "/api/v1/namespaces/a/events/x", "get", true, "", "v1", "a", "events", "", "x"},
    {"HEAD", "/api/v1/namespaces/a/events/x", "get", true, "", "v1", "a", "events", "", "x"},
    {"PUT", "/api/v1/namespaces/a/events/x", "update", true, "", "v1", "a", "events", "", "x"},
    {"PATCH", "/api/v1/namespaces/a/events/x", "patch", true, "", "v1", "a", "events", "", "x"},
    {"DELETE", "/api/v1/namespaces/a/events/x", "delete", true, "", "v1", "a", "events", "", "x"},
    {"OPTIONS", "/api/v1/namespaces/a/events/x", "", true, "", "v1", "a", "events", "", "x"},
    {"GET", "/api/v1/namespaces/a/pods/x/log", "get", true, "", "v1", "a", "pods", "log", "x"},
    {"GET", "/apis/events.k8s.io/v1/namespaces/a/events", "list", true, "events.k8s.io", "v1", "a",
     "events", "", ""},
    {"GET", "/api/v1/namespaces", "list", true, "", "v1", "", "namespaces", "", ""},
    {"GET", "/api/v1/namespaces/a", "get", true, "", "v1", "a", "namespaces", "", "a"},
    {"PUT", "/api/v1/namespaces/a/finalize", "update", true, "", "v1", "a", "namespaces",
     "finalize", "a"},
    {"GET", "/api/v1/watch/events", "watch", true, "", "v1", "", "events", "", ""},
    {"GET", "/api/v1/watch/namespaces/a/events/x", "watch", true, "", "v1", "a", "events", "", "x"},
    {"GET", "/apis/events.k8s.io/v1/watch", "get", false, "", "", "", "", "", ""},
    // A list that selects one name has that name.
    {"GET", "/api/v1/namespaces/a/events?fieldSelector=metadata.name%3Dx", "list", true, "", "v1",
     "a", "events", "", "x"},
    {"GET", "/api/v1/namespaces/a/events?fieldSelector=metadata.name%3Dx&watch=1", "watch", true,
     "", "v1", "a", "events", "", "x"},
    {"GET", "/apis/events.k8s.io/v1/events?fieldSelector=metadata.name%3Dx,regarding.kind%3DPod",
     "list", true, "events.k8s.io", "v1", "", "events", "", "x"},
    {"GET", "/api/v1/namespaces/a/events?fieldSelector=metadata.name%3D..", "list", true, "", "v1",
     "a", "events", "", ""},
    {"GET", "/api/v1/namespaces/a/events?fieldSelector=nonsense", "list", true, "", "v1", "a",
     "events", "", ""},
    // The path is decoded before it is split.
    {"GET", "/api/v1/namespaces/a/events/x%20y", "get", true, "", "v1", "a", "events", "", "x y"},
    {"GET", "/api/v1/namespaces/a/events/x%zz", "get", true, "", "v1", "a", "events", "", "x%zz"},
};

TEST(RequestInfoTest, ParsesVerbsResourcesAndNames) {
  for (const Scenario& scenario : kScenarios) {
    SCOPED_TRACE(std::string(scenario.method) + " " + std::string(scenario.target));
    const RequestInfo info = ParseRequestInfo(scenario.method, scenario.target);
    EXPECT_EQ(info.verb, scenario.verb);
    EXPECT_EQ(info.is_resource, scenario.is_resource);
    EXPECT_EQ(info.api_group, scenario.group);
    EXPECT_EQ(info.api_version, scenario.version);
    EXPECT_EQ(info.namespace_, scenario.namespace_);
    EXPECT_EQ(info.resource, scenario.resource);
    EXPECT_EQ(info.subresource, scenario.subresource);
    EXPECT_EQ(info.name, scenario.name);
  }
}

}  // namespace
}  // namespace herald::server
