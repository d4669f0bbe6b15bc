#include "server/access/impersonation.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace herald::server {
namespace {

const RequestInfo kListEvents = ParseRequestInfo("GET", "/api/v1/namespaces/ns/events");
const User kRequestor{.name = "proxy", .groups = {"system:authenticated"}};

// "verb group/resource/subresource namespace/name", which identifies a check.
std::string Shown(const RequestInfo& check) {
  std::string out = fmt::format("{} {}/{}", check.verb, check.api_group, check.resource);
  if (!check.subresource.empty()) out += "/" + check.subresource;
  return fmt::format("{} {}/{}", out, check.namespace_, check.name);
}

struct Outcome {
  std::vector<std::string> checks;
  Result<User> user = User();
};

// Answers all checks: allows the given ones, or all.
Outcome Decide(http::Headers headers, const std::set<std::string>& allowed,
               const User& requestor = kRequestor, bool everything = false) {
  Outcome outcome;
  auto taken = Impersonation::Take(&headers, requestor, kListEvents);
  if (!taken || !*taken) {
    ADD_FAILURE() << "the headers do not impersonate a user";
    return outcome;
  }
  EXPECT_TRUE(headers.empty()) << "no later handler sees the headers";
  while (const RequestInfo* check = (*taken)->check()) {
    EXPECT_TRUE(check->is_resource);
    outcome.checks.push_back(Shown(*check));
    (*taken)->Answer(everything || allowed.contains(outcome.checks.back()));
  }
  outcome.user = (*taken)->TakeResult();
  return outcome;
}

Outcome AllowAll(http::Headers headers, const User& requestor = kRequestor) {
  return Decide(std::move(headers), {}, requestor, true);
}

TEST(Impersonation, IsNotAttemptedWithoutHeaders) {
  for (http::Headers headers :
       {http::Headers{{"authorization", "Bearer x"}, {"impersonated", "no"}},
        http::Headers{{"impersonate-user", ""}}, http::Headers{{"impersonate-uid", ""}}}) {
    const http::Headers before = headers;
    const auto taken = Impersonation::Take(&headers, kRequestor, kListEvents);
    ASSERT_TRUE(taken.has_value());
    EXPECT_FALSE(taken->has_value());
    EXPECT_EQ(headers, before);
  }
}

TEST(Impersonation, RejectsGroupsUidAndExtraWithoutAUser) {
  struct Case {
    http::Headers headers;
    const char* user;
  };
  for (const Case& c :
       {Case{{{"impersonate-group", "a"}, {"impersonate-group", "b\"c"}},
             R"(Name:"", UID:"", Groups:[]string{"a", "b\"c"}, Extra:map[string][]string(nil))"},
        Case{{{"impersonate-uid", "7"}},
             R"(Name:"", UID:"7", Groups:[]string(nil), Extra:map[string][]string(nil))"},
        Case{{{"impersonate-group", ""}},
             R"(Name:"", UID:"", Groups:[]string{""}, Extra:map[string][]string(nil))"},
        Case{{{"impersonate-extra-b", "2"},
              {"impersonate-extra-a%2fx", "1"},
              {"impersonate-extra-b", "3"}},
             R"(Name:"", UID:"", Groups:[]string(nil), )"
             R"(Extra:map[string][]string{"a/x":[]string{"1"}, "b":[]string{"2", "3"}})"}}) {
    http::Headers headers = c.headers;
    const auto taken = Impersonation::Take(&headers, kRequestor, kListEvents);
    ASSERT_FALSE(taken.has_value());
    EXPECT_EQ(taken.error().code(), 400);
    EXPECT_EQ(
        taken.error().message(),
        fmt::format("requested &user.DefaultInfo{{{}}} without impersonating a user name", c.user));
  }
}

TEST(Impersonation, ChecksEveryPartOfAUser) {
  const http::Headers headers{{"impersonate-user", "alice"},
                              {"impersonate-uid", "7"},
                              {"impersonate-group", "dev"},
                              {"impersonate-group", "ops"},
                              {"impersonate-extra-acme.com%2fteam", "a"},
                              {"impersonate-extra-acme.com%2fteam", "b"}};
  const std::vector<std::string> constrained = {
      "impersonate-on:user-info:list /events ns/",
      "impersonate:user-info authentication.k8s.io/users /alice",
      "impersonate:user-info authentication.k8s.io/uids /7",
      "impersonate:user-info authentication.k8s.io/groups /dev",
      "impersonate:user-info authentication.k8s.io/groups /ops",
      "impersonate:user-info authentication.k8s.io/userextras/acme.com/team /a",
      "impersonate:user-info authentication.k8s.io/userextras/acme.com/team /b"};
  const std::vector<std::string> legacy = {
      "impersonate /users /alice",
      "impersonate authentication.k8s.io/uids /7",
      "impersonate /groups /dev",
      "impersonate /groups /ops",
      "impersonate authentication.k8s.io/userextras/acme.com/team /a",
      "impersonate authentication.k8s.io/userextras/acme.com/team /b"};
  const User alice{.name = "alice",
                   .uid = "7",
                   .groups = {"dev", "ops", "system:authenticated"},
                   .extra = {{"acme.com/team", {"a", "b"}}}};

  const Outcome all = AllowAll(headers);
  EXPECT_EQ(all.checks, constrained);
  ASSERT_TRUE(all.user.has_value());
  EXPECT_EQ(*all.user, alice);

  const Outcome old = Decide(headers, {legacy.begin(), legacy.end()});
  ASSERT_TRUE(old.user.has_value()) << old.user.error().message();
  EXPECT_EQ(*old.user, alice);
  EXPECT_EQ(old.checks.size(), 1 + legacy.size());

  // If any one of them is denied, the request is denied.
  for (const std::vector<std::string>& mode : {constrained, legacy}) {
    for (const std::string& missing : mode) {
      std::set<std::string> allowed(mode.begin(), mode.end());
      allowed.erase(missing);
      EXPECT_FALSE(Decide(headers, allowed).user.has_value()) << missing;
    }
  }
}

TEST(Impersonation, ReportsTheDenialOfTheFirstModeThatApplies) {
  const Outcome user = Decide({{"impersonate-user", "bob"}}, {});
  EXPECT_EQ(user.checks, (std::vector<std::string>{"impersonate-on:user-info:list /events ns/",
                                                   "impersonate /users /bob"}));
  ASSERT_FALSE(user.user.has_value());
  EXPECT_EQ(user.user.error().code(), 403);
  EXPECT_EQ(user.user.error().message(),
            "events is forbidden: User \"proxy\" cannot impersonate-on:user-info:list resource "
            "\"events\" in API group \"\" in the namespace \"ns\"");

  const Outcome node =
      Decide({{"impersonate-user", "system:node:n1"}, {"impersonate-group", "x"}}, {});
  EXPECT_EQ(node.checks, (std::vector<std::string>{"impersonate /users /system:node:n1"}))
      << "nodes are impersonated by name only, and not as other users";
  EXPECT_EQ(node.user.error().message(),
            "users \"system:node:n1\" is forbidden: User \"proxy\" cannot impersonate resource "
            "\"users\" in API group \"\" at the cluster scope");
}

TEST(Impersonation, AddsTheReasonOfTheAuthorizerToTheDenial) {
  http::Headers headers{{"impersonate-user", "bob"}};
  auto taken = Impersonation::Take(&headers, kRequestor, kListEvents);
  ASSERT_TRUE(taken.has_value() && taken->has_value());
  (*taken)->Answer(false, "because");
  (*taken)->Answer(false, "a later reason");
  ASSERT_EQ((*taken)->check(), nullptr);
  EXPECT_TRUE(
      (*taken)->TakeResult().error().message().ends_with("in the namespace \"ns\": because"));
}

TEST(Impersonation, AddsTheGroupsOfServiceAccountsAndNodes) {
  const Outcome account = AllowAll({{"impersonate-user", "system:serviceaccount:ci:robot"}});
  EXPECT_EQ(account.checks,
            (std::vector<std::string>{
                "impersonate-on:serviceaccount:list /events ns/",
                "impersonate:serviceaccount authentication.k8s.io/serviceaccounts ci/robot"}));
  EXPECT_EQ(account.user->groups,
            (std::vector<std::string>{"system:serviceaccounts", "system:serviceaccounts:ci",
                                      "system:authenticated"}));

  const Outcome legacy = Decide({{"impersonate-user", "system:serviceaccount:ci:robot"}},
                                {"impersonate /serviceaccounts ci/robot"});
  EXPECT_EQ(legacy.user->groups, account.user->groups);

  const Outcome grouped = AllowAll(
      {{"impersonate-user", "system:serviceaccount:ci:robot"}, {"impersonate-group", "x"}});
  EXPECT_EQ(grouped.checks, (std::vector<std::string>{"impersonate /serviceaccounts ci/robot",
                                                      "impersonate /groups /x"}));
  EXPECT_EQ(grouped.user->groups, (std::vector<std::string>{"x", "system:authenticated"}))
      << "groups that are given are all there are";

  const Outcome node = AllowAll({{"impersonate-user", "system:node:n1"}});
  EXPECT_EQ(node.checks, (std::vector<std::string>{
                             "impersonate-on:arbitrary-node:list /events ns/",
                             "impersonate:arbitrary-node authentication.k8s.io/nodes /n1"}));
  EXPECT_EQ(node.user->groups, (std::vector<std::string>{"system:nodes", "system:authenticated"}));
  const Outcome old_node =
      Decide({{"impersonate-user", "system:node:n1"}}, {"impersonate /users /system:node:n1"});
  EXPECT_EQ(old_node.user->groups, (std::vector<std::string>{"system:authenticated"}));

  // Invalid names of nodes and service accounts are treated as ordinary users.
  for (const char* name : {"system:serviceaccount:ci:robot:x", "system:serviceaccount:ci",
                           "system:serviceaccount:CI:robot",
                           "system:serviceaccount:ci:", "system:node:", "system:node:A"}) {
    const Outcome other = AllowAll({{"impersonate-user", name}});
    EXPECT_EQ(other.checks.back(),
              fmt::format("impersonate:user-info authentication.k8s.io/users /{}", name));
  }
}

TEST(Impersonation, AServiceAccountMayActAsTheNodeItRunsOn) {
  const auto on = [](std::vector<std::string> nodes) {
    return User{.name = "system:serviceaccount:kube-system:agent",
                .extra = {{"authentication.kubernetes.io/node-name", std::move(nodes)}}};
  };
  const http::Headers headers{{"impersonate-user", "system:node:n1"}};
  const Outcome same = AllowAll(headers, on({"n1"}));
  EXPECT_EQ(same.checks, (std::vector<std::string>{
                             "impersonate-on:associated-node:list /events ns/",
                             "impersonate:associated-node authentication.k8s.io/nodes /*"}));
  EXPECT_EQ(same.user->name, "system:node:n1");
  for (const User& other : {on({"n2"}), on({"n1", "n2"}), on({}), kRequestor})
    EXPECT_EQ(AllowAll(headers, other).checks.front(),
              "impersonate-on:arbitrary-node:list /events ns/");
}

TEST(Impersonation, AddsSystemAuthenticatedOrSystemUnauthenticated) {
  const auto groups = [](http::Headers headers) {
    return AllowAll(std::move(headers)).user->groups;
  };
  using Groups = std::vector<std::string>;
  EXPECT_EQ(groups({{"impersonate-user", "bob"}}), (Groups{"system:authenticated"}));
  EXPECT_EQ(groups({{"impersonate-user", "bob"}, {"impersonate-group", "system:authenticated"}}),
            (Groups{"system:authenticated"}));
  EXPECT_EQ(groups({{"impersonate-user", "bob"}, {"impersonate-group", "system:unauthenticated"}}),
            (Groups{"system:unauthenticated"}));
  EXPECT_EQ(groups({{"impersonate-user", "system:anonymous"}}), (Groups{"system:unauthenticated"}));
  EXPECT_EQ(groups({{"impersonate-user", "system:anonymous"}, {"impersonate-group", "x"}}),
            (Groups{"x", "system:unauthenticated"}));
}

TEST(Impersonation, ManyGroupsOrExtraValuesMayBeAllowedAtOnce) {
  http::Headers headers{{"impersonate-user", "bob"}};
  for (const char* group : {"a", "b", "c", "d"}) headers.Add("impersonate-group", group);
  const Outcome at_once = AllowAll(headers);
  EXPECT_EQ(at_once.checks.size(), 3U);
  EXPECT_EQ(at_once.checks.back(), "impersonate:user-info authentication.k8s.io/groups /*");
  EXPECT_EQ(at_once.user->groups.size(), 5U);

  std::set<std::string> each = {"impersonate-on:user-info:list /events ns/",
                                "impersonate:user-info authentication.k8s.io/users /bob"};
  for (const char* group : {"a", "b", "c", "d"})
    each.insert(fmt::format("impersonate:user-info authentication.k8s.io/groups /{}", group));
  EXPECT_TRUE(Decide(headers, each).user.has_value());
  each.erase("impersonate:user-info authentication.k8s.io/groups /d");
  EXPECT_FALSE(Decide(headers, each).user.has_value());

  const Outcome extra = AllowAll({{"impersonate-user", "bob"},
                                  {"impersonate-extra-a.io%2fx", "1"},
                                  {"impersonate-extra-a.io%2fx", "2"},
                                  {"impersonate-extra-a.io%2fy", "3"},
                                  {"impersonate-extra-a.io%2fy", "4"}});
  EXPECT_EQ(extra.checks.back(), "impersonate:user-info authentication.k8s.io/userextras/* /*");
  EXPECT_EQ(extra.user->extra.size(), 2U);
}

TEST(Impersonation, ConstrainedModesDenyUsersThatTheLegacyModeMayAllow) {
  struct Case {
    http::Headers::Field field;
    const char* reason;
    const char* legacy;  // the check that decides instead
  };
  const Case cases[] = {
      {{"impersonate-group", "system:masters"},
       "groups.authentication.k8s.io \"system:masters\" is forbidden: User \"proxy\" cannot "
       "impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at the "
       "cluster scope: impersonating the system:masters group is not allowed",
       "impersonate /groups /system:masters"},
      {{"impersonate-group", ""},
       "impersonating the empty string group is not allowed",
       "impersonate /groups /"},
      {{"impersonate-extra-team", "a"},
       "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: \"team\": "
       "must be a domain-prefixed path (such as \"acme.io/foo\")",
       "impersonate authentication.k8s.io/userextras/team /a"},
      {{"impersonate-extra-", "a"},
       "impersonating the empty string key in extra is not allowed",
       "impersonate authentication.k8s.io/userextras /a"},
      {{"impersonate-extra-a.io%2f%20", "a"},
       "extra.key: Invalid value: \" \": Invalid path (regex used for validation is "
       "'[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
       "impersonate authentication.k8s.io/userextras/a.io/  /a"},
      {{"impersonate-extra-a.io%2f%41", "a"},
       "impersonating a non-lowercase key in extra is not allowed: \"a.io/A\"",
       "impersonate authentication.k8s.io/userextras/a.io/A /a"},
      {{"impersonate-extra-a.io%2fx", ""},
       "impersonating the empty string value in extra is not allowed",
       "impersonate authentication.k8s.io/userextras/a.io/x /"},
  };
  const std::set<std::string> up_to_there = {
      "impersonate-on:user-info:list /events ns/",
      "impersonate:user-info authentication.k8s.io/users /bob"};
  for (const Case& c : cases) {
    const http::Headers headers{{"impersonate-user", "bob"}, c.field};
    const Outcome denied = Decide(headers, up_to_there);
    ASSERT_FALSE(denied.user.has_value()) << c.reason;
    EXPECT_TRUE(denied.user.error().message().ends_with(c.reason)) << denied.user.error().message();
    const Outcome legacy = Decide(headers, {"impersonate /users /bob", c.legacy});
    EXPECT_TRUE(legacy.user.has_value()) << c.legacy;
  }
}

}  // namespace
}  // namespace herald::server
