// Tests the rules of the controller one by one, without a server.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "herald/base/clock.h"
#include "replicaset_controller/batches.h"
#include "replicaset_controller/claim.h"
#include "replicaset_controller/expectations.h"
#include "replicaset_controller/objects.h"
#include "replicaset_controller/pod_control.h"
#include "replicaset_controller/ranking.h"
#include "replicaset_controller/status.h"

namespace replicaset_controller {
namespace {

using herald::FakeClock;
using herald::Status;
using herald::StatusReason;
using herald::WallTime;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using Words = std::vector<std::string>;

const WallTime kNow{seconds(1'700'000'000)};

std::string Ago(std::chrono::seconds age) { return herald::Time(kNow - age).ToString(); }

JsonValue Json(const std::string& text) {
  auto json = JsonValue::Parse(text);
  EXPECT_TRUE(json) << text;
  return json.value_or(JsonValue());
}

Object ReplicaSet(const std::string& spec =
                      R"({"replicas":3,"selector":{"matchLabels":{"app":"web"}},)"
                      R"("template":{"metadata":{"labels":{"app":"web","tier":"front"}},)"
                      R"("spec":{"containers":[{"name":"c","image":"i"}]}}})") {
  Object set;
  set.json.Member("apiVersion") = "apps/v1";
  set.json.Member("kind") = "ReplicaSet";
  set.json.Member("metadata") =
      Json(R"({"name":"web","namespace":"shop","uid":"set-uid","generation":2})");
  set.json.Member("spec") = Json(spec);
  set.json.Member("status") = Json(R"({"replicas":0})");
  return set;
}

// A running pod that has been ready for an hour. Tests change it.
Object Pod(const std::string& name, const std::function<void(JsonValue&)>& change = {}) {
  Object pod;
  pod.json = Json(R"({"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"n1"},"status":{"phase":)"
                  R"("Running","conditions":[{"type":"Ready","status":"True"}]}})");
  JsonValue& metadata = pod.json.Member("metadata");
  metadata.Member("name") = name;
  metadata.Member("namespace") = "shop";
  metadata.Member("uid") = "uid-" + name;
  metadata.Member("labels").Member("app") = "web";
  metadata.Member("creationTimestamp") = Ago(hours(2));
  pod.json.Member("status").Member("conditions").MutableArray()[0].Member("lastTransitionTime") =
      Ago(hours(1));
  if (change) change(pod.json);
  return pod;
}
ObjectPtr Shared(Object object) { return std::make_shared<const Object>(std::move(object)); }

void SetReady(JsonValue& pod, const std::string& status, const std::string& since) {
  JsonValue condition;
  condition.Member("type") = "Ready";
  condition.Member("status") = status;
  if (!since.empty()) condition.Member("lastTransitionTime") = since;
  pod.Member("status").Member("conditions") = JsonValue::Array{condition};
}
void SetRestarts(JsonValue& pod, int restarts) {
  pod.Member("status").Member("containerStatuses") =
      JsonValue::Array{Json(R"({"name":"c","restartCount":)" + std::to_string(restarts) + "}")};
}
void SetOwner(JsonValue& pod, const std::string& uid) {
  pod.Member("metadata").Member("ownerReferences") = JsonValue::Array{
      Json(R"({"kind":"ReplicaSet","name":"web","controller":true,"uid":")" + uid + R"("})")};
}
void SetDeleted(JsonValue& object) {
  object.Member("metadata").Member("deletionTimestamp") = Ago(seconds(1));
}

// -- selectors ------------------------------------------------------------------

TEST(Selector, ReadsLabelsAndExpressions) {
  struct Row {
    const char* selector;
    const char* text;  // empty: rejected
  };
  for (const Row& row : std::vector<Row>{
           {R"({"matchLabels":{"a":"1","b":""}})", "a=1,b="},
           {R"({"matchExpressions":[{"key":"a","operator":"In","values":["y","x"]}]})",
            "a in (x,y)"},
           {R"({"matchExpressions":[{"key":"a","operator":"NotIn","values":["x"]}]})",
            "a notin (x)"},
           {R"({"matchLabels":{"a":"1"},"matchExpressions":[{"key":"b","operator":"Exists"},)"
            R"({"key":"c","operator":"DoesNotExist"}]})",
            "a=1,b,!c"},
           {R"({"matchExpressions":[{"key":"a","operator":"Gt","values":["1"]}]})", ""},
           {R"({})", ""},
           {R"(null)", ""}}) {
    const auto selector =
        SelectorOf(ReplicaSet(R"({"selector":)" + std::string(row.selector) + "}"));
    EXPECT_EQ(selector ? selector->ToString() : "", row.text) << row.selector;
  }
}

// -- pods -----------------------------------------------------------------------

TEST(Pod, IsActiveUntilItHasFinishedOrIsBeingDeleted) {
  using Row = std::pair<const char*, bool>;
  for (const auto& [phase, active] : std::vector<Row>{{"Pending", true},
                                                      {"Running", true},
                                                      {"Unknown", true},
                                                      {"Succeeded", false},
                                                      {"Failed", false}}) {
    EXPECT_EQ(IsActive(Pod("a", [&](JsonValue& p) { p.Member("status").Member("phase") = phase; })),
              active)
        << phase;
  }
  EXPECT_FALSE(IsActive(Pod("a", SetDeleted)));
}

TEST(Pod, BecomesAvailableWhenItHasBeenReadyForLongEnough) {
  struct Row {
    const char* ready;
    std::string since;
    int min_ready_seconds;
    bool available;
  };
  for (const Row& row : std::vector<Row>{{"False", Ago(hours(1)), 0, false},
                                         {"True", "", 0, true},
                                         {"True", "", 1, false},
                                         {"True", Ago(seconds(9)), 10, false},
                                         {"True", Ago(seconds(10)), 10, true},
                                         {"Unknown", Ago(hours(1)), 10, false}}) {
    const Object pod = Pod("a", [&](JsonValue& p) { SetReady(p, row.ready, row.since); });
    EXPECT_EQ(IsAvailable(pod, row.min_ready_seconds, kNow), row.available)
        << row.ready << row.since << row.min_ready_seconds;
  }
}

TEST(Pod, ReturnsTheTimeUntilTheNextPodBecomesAvailable) {
  const auto ready_for = [](int s) {
    return Shared(Pod("a", [&](JsonValue& p) { SetReady(p, "True", Ago(seconds(s))); }));
  };
  const ObjectPtr not_ready = Shared(Pod("b", [](JsonValue& p) { SetReady(p, "False", ""); }));
  EXPECT_EQ(NextAvailable({ready_for(3), ready_for(7), ready_for(30), not_ready}, 10, kNow),
            seconds(3));
  EXPECT_EQ(NextAvailable({ready_for(30), not_ready}, 10, kNow), std::nullopt);
  EXPECT_EQ(NextAvailable({}, 10, kNow), std::nullopt);
}

// -- expectations ---------------------------------------------------------------

class ExpectationsTest : public ::testing::Test {
 protected:
  FakeClock clock_{kNow};
  Expectations expectations_{clock_};
};

TEST_F(ExpectationsTest, AreFulfilledWhenEveryCreationIsSeen) {
  EXPECT_TRUE(expectations_.Satisfied("shop/web"));
  expectations_.ExpectCreations("shop/web", 3);
  EXPECT_FALSE(expectations_.Satisfied("shop/web"));
  EXPECT_TRUE(expectations_.Satisfied("shop/other"));
  expectations_.CreationObserved("shop/web");
  expectations_.CreationObserved("shop/web");
  EXPECT_FALSE(expectations_.Satisfied("shop/web"));
  expectations_.CreationObserved("shop/web");
  EXPECT_TRUE(expectations_.Satisfied("shop/web"));
}

TEST_F(ExpectationsTest, AreLoweredByFailedRequests) {
  expectations_.ExpectCreations("shop/web", 10);
  expectations_.CreationObserved("shop/web", 9);
  EXPECT_FALSE(expectations_.Satisfied("shop/web"));
  expectations_.CreationObserved("shop/web");
  EXPECT_TRUE(expectations_.Satisfied("shop/web"));
}

TEST_F(ExpectationsTest, CountADeletionOnceIfItIsSeenTwice) {
  expectations_.ExpectDeletions("shop/web", {"shop/a", "shop/b"});
  expectations_.DeletionObserved("shop/web", "shop/a");
  expectations_.DeletionObserved("shop/web", "shop/a");
  expectations_.DeletionObserved("shop/web", "shop/stranger");
  EXPECT_FALSE(expectations_.Satisfied("shop/web"));
  expectations_.DeletionObserved("shop/web", "shop/b");
  EXPECT_TRUE(expectations_.Satisfied("shop/web"));
}

TEST_F(ExpectationsTest, ExpireAfterFiveMinutes) {
  expectations_.ExpectCreations("shop/web", 1);
  clock_.Advance(minutes(5));
  EXPECT_FALSE(expectations_.Satisfied("shop/web"));
  clock_.Advance(std::chrono::nanoseconds(1));
  EXPECT_TRUE(expectations_.Satisfied("shop/web"));
  // New expectations start a new timeout.
  expectations_.ExpectDeletions("shop/web", {"shop/a"});
  EXPECT_FALSE(expectations_.Satisfied("shop/web"));
}

TEST_F(ExpectationsTest, AreDeletedWithTheirObject) {
  expectations_.ExpectCreations("shop/web", 1);
  expectations_.Forget("shop/web");
  EXPECT_TRUE(expectations_.Satisfied("shop/web"));
  expectations_.CreationObserved("shop/web");  // late; has no effect
  EXPECT_TRUE(expectations_.Satisfied("shop/web"));
}

// -- slow start -----------------------------------------------------------------

TEST(SlowStart, DoublesItsBatchesUntilOneFails) {
  struct Row {
    int count;
    int fails_at;  // the number of the request that fails; -1: none
    int started;
    int succeeded;
  };
  // Batches begin at 0, 1, 3, 7, 15, 31.
  for (const Row& row : std::vector<Row>{{0, -1, 0, 0},
                                         {1, -1, 1, 1},
                                         {50, -1, 50, 50},
                                         {500, 0, 1, 0},
                                         {500, 1, 3, 2},
                                         {500, 2, 3, 2},
                                         {500, 7, 15, 14},
                                         {10, 9, 10, 9}}) {
    std::vector<int> started;
    const SlowStartResult result = SlowStart(row.count, [&](int number, const Done& done) {
      started.push_back(number);
      done(number == row.fails_at ? Status(StatusReason::kForbidden, "exceeded quota") : Status());
    });
    EXPECT_EQ(static_cast<int>(started.size()), row.started) << row.count << " " << row.fails_at;
    EXPECT_EQ(result.succeeded, row.succeeded);
    EXPECT_EQ(result.error.ok(), row.fails_at < 0);
    for (int i = 0; i < row.started; ++i) EXPECT_EQ(started[static_cast<std::size_t>(i)], i);
  }
}

TEST(SlowStart, WaitsForAWholeBatchBeforeTheNext) {
  // Requests end on another thread and out of order.
  std::vector<std::jthread> threads;
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  const SlowStartResult result = SlowStart(15, [&](int, Done done) {
    most = std::max<int>(most, ++running);
    threads.emplace_back([&running, done = std::move(done)] {
      --running;
      done(Status());
    });
  });
  EXPECT_EQ(result.succeeded, 15);
  EXPECT_LE(most, 8);
}

TEST(SlowStart, StartsNoNewBatchAfterAStop) {
  std::stop_source stop;
  int started = 0;
  const SlowStartResult result = SlowStart(
      100,
      [&](int number, const Done& done) {
        ++started;
        if (number == 4) stop.request_stop();
        done(Status());
      },
      stop.get_token());
  EXPECT_EQ(started, 7);
  EXPECT_EQ(result.succeeded, 7);
  EXPECT_TRUE(result.error.ok());
}

// -- adoption -------------------------------------------------------------------

TEST(Claim, DependsOnOwnerLabelsAndDeletion) {
  struct Row {
    const char* owner;  // of the pod; empty: none
    bool matches;
    bool set_deleted;
    bool pod_deleted;
    Claim claim;
  };
  for (const Row& row : std::vector<Row>{
           {"set-uid", true, false, false, Claim::kOwned},
           {"set-uid", true, true, false, Claim::kOwned},  // no patch needed
           {"set-uid", false, false, false, Claim::kRelease},
           {"set-uid", false, true, false, Claim::kNone},    // the garbage collector deletes it
           {"other-uid", true, false, false, Claim::kNone},  // has another controller
           {"other-uid", false, false, false, Claim::kNone},
           {"", true, false, false, Claim::kAdopt},
           {"", false, false, false, Claim::kNone},
           {"", true, true, false, Claim::kNone},
           {"", true, false, true, Claim::kNone}}) {
    Object set = ReplicaSet();
    if (row.set_deleted) SetDeleted(set.json);
    const Object pod = Pod("a", [&](JsonValue& p) {
      if (*row.owner != '\0') SetOwner(p, row.owner);
      if (!row.matches) p.Member("metadata").Member("labels").Member("app") = "debug";
      if (row.pod_deleted) SetDeleted(p);
    });
    EXPECT_EQ(DecideClaim(set, *SelectorOf(set), pod), row.claim)
        << row.owner << row.matches << row.set_deleted << row.pod_deleted;
  }
}

TEST(Claim, IsNotMadeAcrossNamespaces) {
  const Object set = ReplicaSet();
  const Object pod =
      Pod("a", [](JsonValue& p) { p.Member("metadata").Member("namespace") = "elsewhere"; });
  EXPECT_EQ(DecideClaim(set, *SelectorOf(set), pod), Claim::kNone);
}

TEST(Claim, PatchesContainTheUidOfThePod) {
  const Object set = ReplicaSet();
  const Object pod = Pod("a");
  EXPECT_EQ(AdoptionPatch(set, pod).ToString(),
            R"({"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,)"
            R"("controller":true,"kind":"ReplicaSet","name":"web","uid":"set-uid"}],)"
            R"("uid":"uid-a"}})");
  EXPECT_EQ(ReleasePatch(set, pod).ToString(),
            R"({"metadata":{"ownerReferences":[{"$patch":"delete","uid":"set-uid"}],)"
            R"("uid":"uid-a"}})");
}

// -- ranking --------------------------------------------------------------------

Words Names(const Pods& pods) {
  Words names;
  for (const ObjectPtr& pod : pods) names.push_back(pod->name());
  return names;
}

TEST(Ranking, EachRuleDecidesIfAllRulesBeforeItAreEqual) {
  const auto cost = [](const char* value) {
    return [value](JsonValue& p) {
      p.Member("metadata")
          .Member("annotations")
          .Member("controller.kubernetes.io/pod-deletion-cost") = value;
    };
  };
  const auto phase = [](const char* value) {
    return [value](JsonValue& p) { p.Member("status").Member("phase") = value; };
  };
  const auto ready_for = [](seconds age) {
    return [age](JsonValue& p) { SetReady(p, "True", Ago(age)); };
  };
  const auto created = [](seconds age) {
    return [age](JsonValue& p) { p.Member("metadata").Member("creationTimestamp") = Ago(age); };
  };
  const auto restarts = [](int count) { return [count](JsonValue& p) { SetRestarts(p, count); }; };
  const auto sidecar_restarts = [](int count) {
    return [count](JsonValue& p) {
      p.Member("spec").Member("initContainers") = JsonValue::Array{
          Json(R"({"name":"s","restartPolicy":"Always"})"), Json(R"({"name":"i"})")};
      p.Member("status").Member("initContainerStatuses") =
          JsonValue::Array{Json(R"({"name":"s","restartCount":)" + std::to_string(count) + "}"),
                           Json(R"({"name":"i","restartCount":100})")};
    };
  };
  const auto node = [](const char* name) {
    return [name](JsonValue& p) { p.Member("spec").Member("nodeName") = name; };
  };
  struct Row {
    const char* rule;
    std::function<void(JsonValue&)> first;   // changes the pod that is deleted first
    std::function<void(JsonValue&)> second;  // changes the other pod
  };
  const std::vector<Row> rows{
      {"not assigned", [](JsonValue& p) { p.Member("spec").Erase("nodeName"); }, {}},
      {"pending before unknown", phase("Pending"), phase("Unknown")},
      {"unknown before running", phase("Unknown"), {}},
      {"not ready", [](JsonValue& p) { SetReady(p, "False", ""); }, {}},
      {"cheaper", cost("-5"), {}},
      {"dearer", {}, cost("10")},
      {"a cost that is none counts as 0", cost("-1"), cost("+7")},
      {"nor is one with zeros before it", cost("-1"), cost("007")},
      {"nor one that is too large", cost("-1"), cost("99999999999")},
      {"crowded node", node("crowded"), node("n1")},
      {"ready without a time", [](JsonValue& p) { SetReady(p, "True", ""); }, {}},
      {"ready for less long", ready_for(minutes(10)), ready_for(hours(1))},
      {"more restarts", restarts(3), restarts(2)},
      {"more restarts of a sidecar", sidecar_restarts(3), sidecar_restarts(2)},
      {"no time of creation",
       [](JsonValue& p) { p.Member("metadata").Erase("creationTimestamp"); },
       {}},
      {"younger", created(minutes(30)), created(hours(2))},
      {"by uid where the ages are alike", created(minutes(61)), created(minutes(60))},
  };
  for (const Row& row : rows) {
    const ObjectPtr a = Shared(Pod("a", row.first));
    const ObjectPtr b = Shared(Pod("b", row.second));
    // One node has two pods more than the other.
    const Pods related{a, b, Shared(Pod("c", node("crowded"))), Shared(Pod("d", node("crowded")))};
    EXPECT_EQ(Names(PodsToDelete({b, a}, related, 1, kNow)), Words{"a"}) << row.rule;
    EXPECT_EQ(Names(PodsToDelete({a, b}, related, 1, kNow)), Words{"a"}) << row.rule;
  }
  // Each rule is weaker than all before it.
  for (std::size_t strong = 0; strong < rows.size(); ++strong) {
    for (std::size_t weak = strong + 1; weak < rows.size(); ++weak) {
      const auto both = [](const auto& x, const auto& y) {
        return [&x, &y](JsonValue& p) {
          // The stronger rule is applied last, so that it wins if both change the same member.
          if (y) y(p);
          if (x) x(p);
        };
      };
      const ObjectPtr a = Shared(Pod("a", both(rows[strong].first, rows[weak].second)));
      const ObjectPtr b = Shared(Pod("b", both(rows[strong].second, rows[weak].first)));
      const Pods related{a, b, Shared(Pod("c", node("crowded"))),
                         Shared(Pod("d", node("crowded")))};
      EXPECT_EQ(Names(PodsToDelete({b, a}, related, 1, kNow)), Words{"a"})
          << rows[strong].rule << " against " << rows[weak].rule;
    }
  }
}

TEST(Ranking, DoesNotCountInactivePodsOnANode) {
  const ObjectPtr a = Shared(Pod("a"));
  const ObjectPtr b =
      Shared(Pod("b", [](JsonValue& p) { p.Member("spec").Member("nodeName") = "n2"; }));
  const auto on = [](const char* name, const char* node, bool deleted) {
    return Shared(Pod(name, [&](JsonValue& p) {
      p.Member("spec").Member("nodeName") = node;
      if (deleted) SetDeleted(p);
    }));
  };
  // n1 has more pods than n2 only if inactive pods are counted.
  EXPECT_EQ(
      Names(PodsToDelete(
          {a, b}, {a, b, on("c", "n1", true), on("d", "n1", true), on("e", "n2", false)}, 1, kNow)),
      Words{"b"});
}

TEST(Ranking, DoesNotDependOnTheInitialOrder) {
  // Many pods that are equal in some rules and differ in others. A comparison that is not a strict
  // order would give different results.
  Pods pods;
  for (int i = 0; i < 200; ++i) {
    pods.push_back(Shared(Pod("p" + std::to_string(i), [i](JsonValue& p) {
      SetReady(p, i % 5 == 0 ? "False" : "True", Ago(seconds(60 + i % 7)));
      SetRestarts(p, i % 3);
      p.Member("metadata").Member("creationTimestamp") = Ago(seconds(3600 + i % 11));
    })));
  }
  const Words order = Names(PodsToDelete(pods, {}, 199, kNow));
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(pods.begin(), pods.end(), random);
    ASSERT_EQ(Names(PodsToDelete(pods, {}, 199, kNow)), order);
  }
}

// -- status ---------------------------------------------------------------------

TEST(ReplicaSetStatus, CountsPodsByState) {
  Object set = ReplicaSet();
  set.json.Member("spec").Member("minReadySeconds") = 30;
  const Pods active{
      Shared(Pod(
          "available",
          [](JsonValue& p) { p.Member("metadata").Member("labels").Member("tier") = "front"; })),
      Shared(Pod("ready", [](JsonValue& p) { SetReady(p, "True", Ago(seconds(29))); })),
      Shared(Pod("starting", [](JsonValue& p) { SetReady(p, "False", ""); }))};
  EXPECT_EQ(CalculateStatus(set, active, Status(), kNow).ToString(),
            R"({"availableReplicas":1,"fullyLabeledReplicas":1,"readyReplicas":2,"replicas":3})");
  // Counts of 0 are omitted, as by the server.
  EXPECT_EQ(CalculateStatus(set, {}, Status(), kNow).ToString(), R"({"replicas":0})");
}

TEST(ReplicaSetStatus, HasAFailureConditionUntilTheFailureIsOver) {
  Object set = ReplicaSet();
  set.json.Member("status") = Json(
      R"({"replicas":0,"observedGeneration":2,"conditions":[{"type":"Other","status":"True"}]})");
  const Status quota(StatusReason::kForbidden, "exceeded quota");
  const JsonValue failed = CalculateStatus(set, {}, quota, kNow);
  EXPECT_EQ(failed["conditions"].ToString(),
            R"([{"status":"True","type":"Other"},{"lastTransitionTime":"2023-11-14T22:13:20Z",)"
            R"("message":"exceeded quota","reason":"FailedCreate","status":"True",)"
            R"("type":"ReplicaFailure"}])");
  EXPECT_FALSE(HasStatus(set, failed));

  // It fails again with another message: the first message is kept, and nothing is written.
  set.json.Member("status") = failed;
  const Status again(StatusReason::kForbidden, "exceeded quota once more");
  EXPECT_EQ(CalculateStatus(set, {}, again, kNow + hours(1)), failed);
  EXPECT_TRUE(HasStatus(set, failed));

  EXPECT_EQ(CalculateStatus(set, {}, Status(), kNow)["conditions"].ToString(),
            R"([{"status":"True","type":"Other"}])");
}

TEST(ReplicaSetStatus, ReportsAFailedDeletionIfThereAreTooManyPods) {
  Object set = ReplicaSet(R"({"replicas":0})");
  const JsonValue status =
      CalculateStatus(set, {Shared(Pod("a"))}, Status(StatusReason::kForbidden, "no"), kNow);
  EXPECT_EQ(status["conditions"].At(0)["reason"].String(), "FailedDelete");
}

TEST(ReplicaSetStatus, IsWrittenAgainForANewGeneration) {
  Object set = ReplicaSet();
  set.json.Member("status") = Json(R"({"replicas":0,"observedGeneration":1})");
  EXPECT_FALSE(HasStatus(set, CalculateStatus(set, {}, Status(), kNow)));
  set.json.Member("status").Member("observedGeneration") = 2;
  EXPECT_TRUE(HasStatus(set, CalculateStatus(set, {}, Status(), kNow)));
  // terminatingReplicas is not compared: this controller does not write it.
  set.json.Member("status").Member("terminatingReplicas") = 0;
  EXPECT_TRUE(HasStatus(set, CalculateStatus(set, {}, Status(), kNow)));
}

// -- new pods -------------------------------------------------------------------

TEST(NewPod, FollowsTheTemplateAndIsOwnedByTheSet) {
  Object set = ReplicaSet();
  JsonValue& meta = set.json.Member("spec").Member("template").Member("metadata");
  meta.Member("annotations").Member("note") = "x";
  meta.Member("finalizers") = JsonValue::Array{"example.com/f"};
  meta.Member("name") = "ignored";
  EXPECT_EQ(PodFromTemplate(set).ToString(),
            R"({"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"note":"x"},)"
            R"("finalizers":["example.com/f"],"generateName":"web-",)"
            R"("labels":{"app":"web","tier":"front"},"ownerReferences":[{"apiVersion":"apps/v1",)"
            R"("blockOwnerDeletion":true,"controller":true,"kind":"ReplicaSet","name":"web",)"
            R"("uid":"set-uid"}]},"spec":{"containers":[{"image":"i","name":"c"}]}})");
  set.json.Member("metadata").Member("name") = std::string(253, 'w');
  EXPECT_EQ(PodFromTemplate(set)["metadata"]["generateName"].String(), std::string(253, 'w'));
}

}  // namespace
}  // namespace replicaset_controller
