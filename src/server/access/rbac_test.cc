#include "server/access/rbac.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

#include "base/testing/temporary_directory.h"

namespace herald::server {
namespace {

// A temporary directory for manifests.
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

TEST_F(RbacTest, OnlyMastersMayAccessEventsWithoutManifests) {
  const Rbac rbac;
  EXPECT_TRUE(rbac.Allows(kAdmin, Events("delete", "x")));
  EXPECT_FALSE(rbac.Allows(kAgent, Events("get", "x")));
  EXPECT_TRUE(rbac.Allows(kAgent, Path("/apis/events.k8s.io/v1")));
  EXPECT_TRUE(rbac.Allows(kAgent, Path("/version")));
  EXPECT_FALSE(rbac.Allows(kAgent, Path("/metrics")));
  EXPECT_FALSE(rbac.Allows(User{"nobody", "", {}}, Path("/version")));
}

TEST_F(RbacTest, AllowsOnlyTheRulesOfAClusterRole) {
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

// A binding to a role that may read everything.
std::string Readers(std::string_view kind, std::string_view subject) {
  std::string text = R"(
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: readers, namespace: ci}
roleRef: {kind: ClusterRole, name: reader}
)";
  return text.append("kind: ").append(kind).append("\nsubjects: [").append(subject).append("]\n");
}

TEST_F(RbacTest, ASubjectIsMatchedByItsExactName) {
  struct Case {
    const char* subject;
    User user;
    bool applies;
  };
  const User star{"*", "", {"*"}};
  for (const Case& c : {
           Case{"{kind: User, name: '*'}", kAgent, false},
           Case{"{kind: User, name: '*'}", star, true},
           Case{"{kind: User, name: agent}", kAgent, true},
           Case{"{kind: User, name: Agent}", kAgent, false},
           Case{"{kind: User, name: nodes}", kAgent, false},
           Case{"{kind: Group, name: '*'}", kAgent, false},
           Case{"{kind: Group, name: '*'}", star, true},
           Case{"{kind: Group, name: nodes}", kAgent, true},
           Case{"{kind: Group, name: Nodes}", kAgent, false},
           Case{"{kind: Group, name: agent}", kAgent, false},
           Case{"{kind: User, name: 'system:serviceaccount:ci:robot'}", kRobot, true},
           Case{"{kind: ServiceAccount, name: robot, namespace: ci}", kRobot, true},
           Case{"{kind: ServiceAccount, name: robot, namespace: other}", kRobot, false},
           Case{"{kind: ServiceAccount, name: rob, namespace: ci}", kRobot, false},
           Case{"{kind: ServiceAccount, name: robot, namespace: c}", kRobot, false},
           Case{"{kind: ServiceAccount, name: robot}", kRobot, true},  // the binding's namespace
       }) {
    Write("readers.yaml", Readers("RoleBinding", c.subject));
    EXPECT_EQ(Load().Allows(c.user, Events("get", "ci")), c.applies) << c.subject;
  }
}

TEST_F(RbacTest, MatchesRulesAsKubernetesDoes) {
  struct Case {
    const char* rule;
    RequestInfo request;
    bool allowed;
  };
  const auto sub = [](std::string verb, std::string subresource) {
    RequestInfo info = Events(std::move(verb), "ns", "", "x");
    info.subresource = std::move(subresource);
    return info;
  };
  for (const Case& c : {
           Case{"verbs: ['*'], apiGroups: [''], resources: [events]", Events("x", "ns"), true},
           Case{"verbs: [GET], apiGroups: [''], resources: [events]", Events("get", "ns"), false},
           Case{"verbs: ['g*'], apiGroups: [''], resources: [events]", Events("get", "ns"), false},
           Case{"verbs: [get], apiGroups: ['*'], resources: [events]",
                Events("get", "ns", "events.k8s.io"), true},
           Case{"verbs: [get], apiGroups: ['*.k8s.io'], resources: [events]",
                Events("get", "ns", "events.k8s.io"), false},
           Case{"verbs: [get], apiGroups: [''], resources: ['*']", sub("get", "status"), true},
           Case{"verbs: [get], apiGroups: [''], resources: [events]", sub("get", "status"), false},
           Case{"verbs: [get], apiGroups: [''], resources: ['events/status']", sub("get", "status"),
                true},
           Case{"verbs: [get], apiGroups: [''], resources: ['events/status']", Events("get", "ns"),
                false},
           Case{"verbs: [get], apiGroups: [''], resources: ['*/status']", sub("get", "status"),
                true},
           Case{"verbs: [get], apiGroups: [''], resources: ['*/status']", sub("get", "scale"),
                false},
           Case{"verbs: [get], apiGroups: [''], resources: ['*/status']", Events("get", "ns"),
                false},
           Case{"verbs: [get], apiGroups: [''], resources: ['events/*']", sub("get", "status"),
                false},
           Case{"verbs: [get], apiGroups: [''], resources: [events], resourceNames: ['*']",
                Events("get", "ns", "", "x"), false},
           Case{"verbs: [get], apiGroups: [''], resources: [events], resourceNames: [x]",
                Events("get", "ns", "", "x"), true},
           Case{"verbs: [get], nonResourceURLs: ['*']", Path("/a/b"), true},
           Case{"verbs: [get], nonResourceURLs: ['/a/*']", Path("/a/b/c"), true},
           Case{"verbs: [get], nonResourceURLs: ['/a/*']", Path("/a"), false},
           Case{"verbs: [get], nonResourceURLs: ['/a**']", Path("/ab"), true},
           Case{"verbs: [get], nonResourceURLs: ['/*/c']", Path("/a/c"), false},
           Case{"verbs: [get], nonResourceURLs: ['*']", Events("get", "ns"), false},
       }) {
    Write("rule.yaml",
          "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r}\n"
          "rules: [{" +
              std::string(c.rule) +
              "}]\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\n"
              "metadata: {name: r}\nroleRef: {kind: ClusterRole, name: r}\n"
              "subjects: [{kind: User, name: agent}]\n");
    const Rbac rbac = Load();
    EXPECT_EQ(rbac.Allows(kAgent, c.request), c.allowed) << c.rule;
    EXPECT_EQ(rbac.Decide(kAgent, c.request).allowed, c.allowed) << c.rule;
  }
}

TEST_F(RbacTest, ReportsTheBindingThatAllowsARequest) {
  Write("readers.yaml", Readers("RoleBinding", "{kind: ServiceAccount, name: robot}"));
  Write("writers.yaml", kWriters);
  const Rbac rbac = Load();
  EXPECT_EQ(rbac.Decide(kRobot, Events("get", "ci")).reason,
            "RBAC: allowed by RoleBinding \"readers/ci\" of ClusterRole \"reader\" to "
            "ServiceAccount \"robot/ci\"");
  EXPECT_EQ(rbac.Decide(kAgent, Events("create", "x")).reason,
            "RBAC: allowed by ClusterRoleBinding \"nodes-write\" of ClusterRole "
            "\"event-writer\" to Group \"nodes\"");
  EXPECT_EQ(rbac.Decide(kAdmin, Events("create", "x")).reason, "");
  EXPECT_EQ(rbac.Decide(kAgent, Events("delete", "x")).reason, "");
}

TEST_F(RbacTest, ListsTheRulesOfAUserInANamespace) {
  Write("readers.yaml", Readers("RoleBinding", "{kind: Group, name: nodes}"));
  Write("writers.yaml", kWriters);
  const Rbac rbac = Load();
  const PolicyRule read{.verbs = {"get"}, .api_groups = {"*"}, .resources = {"*"}};
  const auto has = [](const RuleList& list, const PolicyRule& rule) {
    return std::find(list.rules.begin(), list.rules.end(), rule) != list.rules.end();
  };
  const RuleList here = rbac.RulesFor(kAgent, "ci");
  EXPECT_EQ(here.error, "");
  EXPECT_EQ(here.rules.size(), 7U);
  EXPECT_TRUE(has(here, read));
  EXPECT_TRUE(
      has(here, {.verbs = {"create", "patch"}, .api_groups = {""}, .resources = {"events"}}));
  EXPECT_TRUE(has(here, {.verbs = {"create"},
                         .api_groups = {"authentication.k8s.io"},
                         .resources = {"selfsubjectreviews"}}));
  EXPECT_FALSE(has(rbac.RulesFor(kAgent, "elsewhere"), read));
  EXPECT_FALSE(has(rbac.RulesFor(kAgent, ""), read));
  EXPECT_TRUE(
      has(rbac.RulesFor(kAdmin, "ci"), {.verbs = {"*"}, .api_groups = {"*"}, .resources = {"*"}}));
  const RuleList anonymous =
      rbac.RulesFor({.name = "system:anonymous", .groups = {"system:unauthenticated"}}, "ci");
  ASSERT_EQ(anonymous.rules.size(), 1U);
  EXPECT_EQ(anonymous.rules[0].non_resource_urls.back(), "/version/");
}

TEST_F(RbacTest, ClusterAdminMayBeBoundToOthers) {
  Write("admins.yaml",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\n"
        "metadata: {name: admins}\nroleRef: {kind: ClusterRole, name: cluster-admin}\n"
        "subjects: [{kind: User, name: agent}]\n");
  EXPECT_TRUE(Load().Allows(kAgent, Events("delete", "x")));
  EXPECT_TRUE(Load().Allows(kAgent, Path("/metrics")));
}

TEST_F(RbacTest, ABindingToAMissingRoleGrantsNothing) {
  Write("x.yaml",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n"
        "metadata: {name: x, namespace: ci}\nroleRef: {kind: ClusterRole, name: nowhere}\n"
        "subjects: [{kind: User, name: agent}]\n");
  EXPECT_FALSE(Load().Allows(kAgent, Events("get", "ci")));
  EXPECT_EQ(Load().Decide(kAgent, Events("get", "ci")).reason,
            "RBAC: clusterrole.rbac.authorization.k8s.io \"nowhere\" not found");
  EXPECT_EQ(Load().RulesFor(kAgent, "ci").error,
            "clusterrole.rbac.authorization.k8s.io \"nowhere\" not found");
  EXPECT_EQ(Load().Decide(kAgent, Events("get", "elsewhere")).reason, "");
}

TEST_F(RbacTest, RejectsInvalidManifests) {
  struct Case {
    const char* text;
    const char* error;  // a part of the message
  };
  constexpr const char* kHead = "apiVersion: rbac.authorization.k8s.io/v1\n";
  const Case cases[] = {
      {"kind: Pod\n", "kind: invalid value \"Pod\": must be Role"},
      {"kind: ClusterRole\nmetadata: {name: x}\nrules: [{verb: [get]}]\n",
       "rules[0].verbs: is missing"},
      {"kind: ClusterRole\nmetadata: {name: x}\nrules: [{verbs: [get], resource: [events]}]\n",
       "rules[0].resource: unknown field"},
      {"kind: ClusterRole\nmetadata: {}\nrules: []\n", "metadata.name: is missing"},
      {"kind: Role\nmetadata: {name: x}\nrules: []\n", "metadata.namespace: is missing"},
      {"kind: ClusterRole\nmetadata: {name: x}\naggregationRule: {}\n", "aggregationRule"},
      {"kind: ClusterRoleBinding\nmetadata: {name: x}\nroleRef: {kind: Role, name: y}\n",
       "roleRef: must be a ClusterRole in a ClusterRoleBinding"},
      {"kind: ClusterRoleBinding\nmetadata: {name: x}\nroleRef: {kind: ClusterRole, name: y}\n"
       "subjects: [{kind: Robot, name: z}]\n",
       "subjects[0].kind: invalid value \"Robot\": must be User, Group or ServiceAccount"},
      {"kind: Role\nmetadata: {name: x, namespace: y}\n"
       "rules: [{verbs: [get], nonResourceURLs: [/x]}]\n",
       "rules[0].nonResourceURLs: namespaced rules cannot apply to non-resource URLs"},
      {"kind: ClusterRole\nmetadata: {name: x}\n"
       "rules: [{verbs: [get], nonResourceURLs: [/x], resources: [events]}]\n",
       "rules[0].nonResourceURLs: rules cannot apply to both"},
      {"kind: ClusterRole\nmetadata: {name: x}\nrules: [{verbs: [get], resources: [events]}]\n",
       "rules[0].apiGroups: resource rules must supply at least one api group"},
      {"kind: ClusterRole\nmetadata: {name: x}\nrules: [{verbs: [get], apiGroups: ['']}]\n",
       "rules[0].resources: resource rules must supply at least one resource"},
      {"kind: ClusterRoleBinding\nmetadata: {name: x}\n"
       "roleRef: {kind: ClusterRole, name: y, apiGroup: example.com}\n",
       "roleRef.apiGroup: invalid value \"example.com\": must be \"rbac.authorization.k8s.io\""},
      {"kind: ClusterRoleBinding\nmetadata: {name: x}\nroleRef: {kind: ClusterRole, name: y}\n"
       "subjects: [{kind: Group, name: z, apiGroup: example.com}]\n",
       "subjects[0].apiGroup: invalid value \"example.com\": must be "
       "\"rbac.authorization.k8s.io\""},
      {"kind: ClusterRoleBinding\nmetadata: {name: x}\nroleRef: {kind: ClusterRole, name: y}\n"
       "subjects: [{kind: ServiceAccount, name: z}]\n",
       "subjects[0].namespace: is missing"},
      {"kind: RoleBinding\nmetadata: {name: x, namespace: y}\nroleRef: {kind: Role, name: y}\n"
       "subjects: [{kind: ServiceAccount, name: 'a:b'}]\n",
       "subjects[0].name: invalid value \"a:b\": a lowercase RFC 1123 subdomain"},
      {"kind: RoleBinding\nmetadata: {name: x, namespace: y}\nroleRef: {kind: Role, name: y}\n"
       "subjects: [{kind: User}]\n",
       "subjects[0].name: is missing"},
  };
  for (const Case& c : cases) {
    Write("bad.yaml", std::string(kHead) + c.text);
    const std::string error = LoadError();
    EXPECT_NE(error.find("bad.yaml"), std::string::npos) << error;
    EXPECT_NE(error.find(c.error), std::string::npos) << error;
  }
  Write("bad.yaml", "apiVersion: v1\nkind: Role\n");
  EXPECT_NE(LoadError().find("apiVersion: invalid value \"v1\": must be"), std::string::npos);
  EXPECT_FALSE(Rbac::Load(folder_ + "/nowhere").has_value());
}

TEST(ForbiddenStatus, HasTheMessageOfKubernetes) {
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
  EXPECT_EQ(ForbiddenStatus({.name = "a\"<b>"}, Path("/\n&"), "RBAC: <why>").message(),
            R"(forbidden: User "a\"&lt;b&gt;" cannot get path "/\n&amp;": RBAC: <why>)");
}

}  // namespace
}  // namespace herald::server
