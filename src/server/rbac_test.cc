#include "server/rbac.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_directory.h"

namespace herald::server {
namespace {

// A folder of manifests that lasts as long as the test.
class RbacTest : public testing::Test {
 protected:
  void Write(const std::string& name, std::string_view text) {
    std::ofstream(folder_ + "/" + name) << text;
  }
  Rbac Load() {
    Result<Rbac> rbac = Rbac::Load(folder_);
    if (!rbac) ADD_FAILURE() << rbac.error().message();
    return rbac ? *std::move(rbac) : Rbac();
  }
  std::string LoadError() {
    const Result<Rbac> rbac = Rbac::Load(folder_);
    return rbac ? "" : rbac.error().message();
  }

  const TemporaryDirectory directory_;
  const std::string folder_ = directory_.path();
};

RequestInfo Events(std::string verb, std::string namespace_, std::string group = "",
                   std::string name = "") {
  return {.path = "",
          .verb = std::move(verb),
          .is_resource = true,
          .api_group = std::move(group),
          .api_version = "v1",
          .namespace_ = std::move(namespace_),
          .resource = "events",
          .subresource = "",
          .name = std::move(name)};
}

RequestInfo Path(std::string path) {
  RequestInfo info;
  info.path = std::move(path);
  info.verb = "get";
  return info;
}

const User kAdmin{"root", "", {"system:masters", "system:authenticated"}};
const User kAgent{"agent", "", {"nodes", "system:authenticated"}};
const User kRobot{"system:serviceaccount:ci:robot", "", {"system:authenticated"}};

constexpr std::string_view kWriters = R"(
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: event-writer, labels: {a: b}}
rules:
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
- nonResourceURLs: ["/metrics", "/debug/*"]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nodes-write}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: event-writer}
subjects:
- {kind: Group, name: nodes, apiGroup: rbac.authorization.k8s.io}
)";

TEST_F(RbacTest, WithoutManifestsOnlyMastersMayTouchEvents) {
  const Rbac rbac;
  EXPECT_TRUE(rbac.Allows(kAdmin, Events("delete", "x")));
  EXPECT_FALSE(rbac.Allows(kAgent, Events("get", "x")));
  EXPECT_TRUE(rbac.Allows(kAgent, Path("/apis/events.k8s.io/v1")));
  EXPECT_TRUE(rbac.Allows(kAgent, Path("/version")));
  EXPECT_FALSE(rbac.Allows(kAgent, Path("/metrics")));
  EXPECT_FALSE(rbac.Allows(User{"nobody", "", {}}, Path("/version")));
}

TEST_F(RbacTest, GrantsWhatAClusterRoleSaysAndNoMore) {
  Write("writers.yaml", kWriters);
  const Rbac rbac = Load();
  EXPECT_TRUE(rbac.Allows(kAgent, Events("create", "default")));
  EXPECT_TRUE(rbac.Allows(kAgent, Events("patch", "")));
  EXPECT_FALSE(rbac.Allows(kAgent, Events("delete", "default")));
  EXPECT_FALSE(rbac.Allows(kAgent, Events("create", "default", "events.k8s.io")));
  EXPECT_FALSE(rbac.Allows(kRobot, Events("create", "default")));
  EXPECT_TRUE(rbac.Allows(kAgent, Path("/metrics")));
  EXPECT_TRUE(rbac.Allows(kAgent, Path("/debug/pprof")));
  EXPECT_FALSE(rbac.Allows(kAgent, Path("/debugger")));
}

TEST_F(RbacTest, ARoleBindingGrantsInItsNamespaceOnly) {
  Write("ci.yml", R"({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
     "metadata": {"name": "reader", "namespace": "ci"},
     "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"],
                "resourceNames": ["a", "b"]}]},
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
     "metadata": {"name": "r", "namespace": "ci"},
     "roleRef": {"kind": "Role", "name": "reader"},
     "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "ci"}]}]})");
  const Rbac rbac = Load();
  EXPECT_TRUE(rbac.Allows(kRobot, Events("get", "ci", "events.k8s.io", "a")));
  EXPECT_FALSE(rbac.Allows(kRobot, Events("get", "ci", "", "c")));
  EXPECT_FALSE(rbac.Allows(kRobot, Events("list", "ci")));
  EXPECT_FALSE(rbac.Allows(kRobot, Events("get", "default", "", "a")));
  EXPECT_FALSE(rbac.Allows(kRobot, Events("get", "", "", "a")));
}

TEST_F(RbacTest, ABindingToAMissingRoleGrantsNothing) {
  Write("x.yaml",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n"
        "metadata: {name: x, namespace: ci}\nroleRef: {kind: ClusterRole, name: nowhere}\n"
        "subjects: [{kind: User, name: agent}]\n");
  EXPECT_FALSE(Load().Allows(kAgent, Events("get", "ci")));
}

TEST_F(RbacTest, RefusesAManifestThatItDoesNotUnderstand) {
  struct Case {
    const char* text;
    const char* error;  // what the message must contain
  };
  constexpr const char* kHead = "apiVersion: rbac.authorization.k8s.io/v1\n";
  const Case cases[] = {
      {"kind: Pod\n", "kind: must be Role"},
      {"kind: ClusterRole\nmetadata: {name: x}\nrules: [{verb: [get]}]\n",
       "rules[0].verbs: is missing"},
      {"kind: ClusterRole\nmetadata: {name: x}\nrules: [{verbs: [get], resource: [events]}]\n",
       "rules[0].resource: there is no such setting"},
      {"kind: ClusterRole\nmetadata: {}\nrules: []\n", "metadata.name: is missing"},
      {"kind: Role\nmetadata: {name: x}\nrules: []\n", "metadata.namespace: is missing"},
      {"kind: ClusterRole\nmetadata: {name: x}\naggregationRule: {}\n", "aggregationRule"},
      {"kind: ClusterRoleBinding\nmetadata: {name: x}\nroleRef: {kind: Role, name: y}\n",
       "needs a ClusterRole"},
      {"kind: ClusterRoleBinding\nmetadata: {name: x}\nroleRef: {kind: ClusterRole, name: y}\n"
       "subjects: [{kind: Robot, name: z}]\n",
       "subjects[0].kind"},
  };
  for (const Case& c : cases) {
    Write("bad.yaml", std::string(kHead) + c.text);
    const std::string error = LoadError();
    EXPECT_NE(error.find("bad.yaml"), std::string::npos) << error;
    EXPECT_NE(error.find(c.error), std::string::npos) << error;
  }
  Write("bad.yaml", "apiVersion: v1\nkind: Role\n");
  EXPECT_NE(LoadError().find("apiVersion: must be"), std::string::npos);
  EXPECT_FALSE(Rbac::Load(folder_ + "/nowhere").has_value());
}

TEST(ForbiddenStatus, ReadsAsInKubernetes) {
  EXPECT_EQ(ForbiddenStatus(kAgent, Events("create", "ns")).message(),
            "events is forbidden: User \"agent\" cannot create resource \"events\" in API group "
            "\"\" in the namespace \"ns\"");
  const Status named = ForbiddenStatus(kAgent, Events("get", "ns", "events.k8s.io", "x"));
  EXPECT_EQ(named.message(),
            "events.events.k8s.io \"x\" is forbidden: User \"agent\" cannot get resource "
            "\"events\" in API group \"events.k8s.io\" in the namespace \"ns\"");
  EXPECT_EQ(named.details().name, "x");
  EXPECT_EQ(named.details().group, "events.k8s.io");
  EXPECT_EQ(named.code(), 403);
  EXPECT_EQ(ForbiddenStatus(kAgent, Events("list", "")).message(),
            "events is forbidden: User \"agent\" cannot list resource \"events\" in API group "
            "\"\" at the cluster scope");
  EXPECT_EQ(ForbiddenStatus(kAgent, Path("/metrics")).message(),
            "forbidden: User \"agent\" cannot get path \"/metrics\"");
}

}  // namespace
}  // namespace herald::server
