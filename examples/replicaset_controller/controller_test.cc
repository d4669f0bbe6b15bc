// The whole controller against a fake server. Tests that need a real kube-apiserver are in
// test/interop/replicaset.
#include "replicaset_controller/controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "herald/record/fakes.h"
#include "replicaset_controller/fake_cluster.h"

namespace replicaset_controller {
namespace {

using herald::http::Response;

JsonValue NewReplicaSet(const std::string& name, int replicas) {
  JsonValue set = *JsonValue::Parse(
      R"({"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":"shop",)"
      R"("generation":1},"spec":{"template":{"spec":{"containers":[{"name":"c"}]}}},)"
      R"("status":{"replicas":0}})");
  set.Member("metadata").Member("name") = name;
  set.Member("spec").Member("replicas") = replicas;
  set.Member("spec").Member("selector").Member("matchLabels").Member("app") = name;
  set.Member("spec").Member("template").Member("metadata").Member("labels").Member("app") = name;
  return set;
}

JsonValue NewPod(const std::string& name, const std::string& app) {
  JsonValue pod = *JsonValue::Parse(
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop"},"status":{}})");
  pod.Member("metadata").Member("name") = name;
  pod.Member("metadata").Member("labels").Member("app") = app;
  return pod;
}

class ControllerTest : public ::testing::Test {
 protected:
  ~ControllerTest() override { StopController(); }

  void StartController(ControllerOptions options = {}) {
    // All requests share one connection, as with a real server.
    auto rest = herald::RestClient::Open(cluster_.config(), {.plain_http2 = true});
    ASSERT_TRUE(rest);
    options.abort = abort_.get_token();
    controller_ =
        std::make_unique<ReplicaSetController>(*rest, events_.recorder(), std::move(options));
    thread_ = std::jthread([this](const std::stop_token& stop) { controller_->Run(stop); });
  }
  void StopController() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
    controller_.reset();
  }

  FakeCluster::Objects Owned(const std::string& set_name = "web") {
    FakeCluster::Objects owned;
    const JsonValue set = cluster_.All("replicasets")["shop/" + set_name];
    for (const auto& [key, pod] : cluster_.All("pods")) {
      if (pod["metadata"]["ownerReferences"].At(0)["uid"] == set["metadata"]["uid"])
        owned.emplace(key, pod);
    }
    return owned;
  }
  JsonValue StatusOf(const std::string& name = "web") {
    return cluster_.All("replicasets")["shop/" + name]["status"];
  }
  bool WaitForPods(std::size_t count) {
    return cluster_.WaitUntil([&] { return Owned().size() == count; });
  }
  bool WaitForStatus(int replicas, int generation = 1) {
    return cluster_.WaitUntil([&] {
      const JsonValue status = StatusOf();
      return status["replicas"].Int() == replicas &&
             status["observedGeneration"].Int() == generation;
    });
  }
  void Scale(int replicas, int generation) {
    cluster_.Change("replicasets", "shop/web", [&](JsonValue& set) {
      set.Member("spec").Member("replicas") = replicas;
      set.Member("metadata").Member("generation") = generation;
    });
  }
  // The number of events by type and reason.
  std::map<std::string, int> Events() {
    std::map<std::string, int> count;
    while (const auto event = events_.NextEvent()) ++count[event->reason];
    return count;
  }
  using Counts = std::map<std::string, int>;

  std::stop_source abort_;
  FakeCluster cluster_;
  herald::FakeRecorder events_;
  std::unique_ptr<ReplicaSetController> controller_;
  std::jthread thread_;
};

TEST_F(ControllerTest, CreatesTheWantedNumberOfPodsAndRecordsEvents) {
  cluster_.Put("replicasets", NewReplicaSet("web", 20));
  StartController();
  ASSERT_TRUE(WaitForStatus(20));
  EXPECT_EQ(Owned().size(), 20U);
  StopController();
  EXPECT_EQ(cluster_.Asked("POST pods"), 20);
  const auto event = events_.NextEvent();
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->reason, "SuccessfulCreate");
  EXPECT_EQ(event->message.substr(0, 17), "Created pod: web-");
  EXPECT_EQ(event->involved_object.kind, "ReplicaSet");
  EXPECT_EQ(event->involved_object.name, "web");
  EXPECT_EQ(Events(), (Counts{{"SuccessfulCreate", 19}}));
}

TEST_F(ControllerTest, ReplacesPodsThatOthersDelete) {
  cluster_.Put("replicasets", NewReplicaSet("web", 5));
  StartController();
  ASSERT_TRUE(WaitForStatus(5));
  const FakeCluster::Objects before = Owned();
  cluster_.Remove("pods", before.begin()->first);
  ASSERT_TRUE(cluster_.WaitUntil([&] { return cluster_.Asked("POST pods") == 6; }));
  ASSERT_TRUE(WaitForPods(5));
  EXPECT_FALSE(Owned().contains(before.begin()->first));
  // A failed pod is replaced as well, but not deleted.
  cluster_.Change("pods", Owned().begin()->first,
                  [](JsonValue& pod) { pod.Member("status").Member("phase") = "Failed"; });
  ASSERT_TRUE(WaitForPods(6));
}

TEST_F(ControllerTest, DeletesTheLeastUsefulPodsFirst) {
  cluster_.Put("replicasets", NewReplicaSet("web", 6));
  StartController();
  ASSERT_TRUE(WaitForStatus(6));
  std::set<std::string> ready;
  for (const auto& [key, pod] : Owned()) {
    if (ready.size() == 2) break;
    ready.insert(key);
    cluster_.Change("pods", key, [](JsonValue& changed) {
      changed.Member("spec").Member("nodeName") = "n1";
      changed.Member("status") =
          *JsonValue::Parse(R"({"phase":"Running","conditions":[{"type":"Ready","status":"True",)"
                            R"("lastTransitionTime":"2023-11-14T22:13:20Z"}]})");
    });
  }
  ASSERT_TRUE(cluster_.WaitUntil([&] { return StatusOf()["availableReplicas"].Int() == 2; }));
  Scale(2, 2);
  ASSERT_TRUE(WaitForStatus(2, 2));
  for (const auto& [key, pod] : Owned()) EXPECT_TRUE(ready.contains(key)) << key;
  StopController();
  EXPECT_EQ(cluster_.Asked("DELETE pods"), 4);
  EXPECT_EQ(Events(), (Counts{{"SuccessfulCreate", 6}, {"SuccessfulDelete", 4}}));
}

TEST_F(ControllerTest, DoesNotCreatePodsAgainBeforeItHasSeenThem) {
  cluster_.HoldPodWatches(true);
  cluster_.Put("replicasets", NewReplicaSet("web", 7));
  StartController();
  ASSERT_TRUE(WaitForPods(7));
  // The informer has no pods yet, and another sync is caused. The status is written after the pods
  // were counted.
  Scale(8, 2);
  ASSERT_TRUE(WaitForStatus(0, 2));
  EXPECT_EQ(cluster_.Asked("POST pods"), 7);
  cluster_.HoldPodWatches(false);
  ASSERT_TRUE(WaitForStatus(8, 2));
  StopController();
  EXPECT_EQ(cluster_.Asked("POST pods"), 8);
}

TEST_F(ControllerTest, CreatesAtMostOneBurstOfPodsPerSync) {
  cluster_.HoldPodWatches(true);
  cluster_.Put("replicasets", NewReplicaSet("web", 25));
  StartController({.burst_replicas = 10});
  ASSERT_TRUE(WaitForStatus(0));
  EXPECT_EQ(cluster_.Asked("POST pods"), 10);
  cluster_.HoldPodWatches(false);
  ASSERT_TRUE(WaitForStatus(25));
  Scale(0, 2);
  ASSERT_TRUE(WaitForStatus(0, 2));
  StopController();
  EXPECT_EQ(cluster_.Asked("POST pods"), 25);
  EXPECT_EQ(cluster_.Asked("DELETE pods"), 25);
}

TEST_F(ControllerTest, StopsWaitingForPodsThatItNeverSees) {
  herald::FakeClock clock(herald::WallTime(std::chrono::seconds(1'700'000'000)));
  cluster_.HoldPodWatches(true);
  cluster_.Put("replicasets", NewReplicaSet("web", 2));
  StartController({.clock = &clock});
  ASSERT_TRUE(WaitForStatus(0));
  // It syncs once more and does not see the pods yet.
  Scale(2, 2);
  ASSERT_TRUE(WaitForStatus(0, 2));
  EXPECT_EQ(cluster_.Asked("POST pods"), 2);
  // Another set wakes up the workers, which then find that the delayed key is due.
  clock.Advance(Expectations::kTimeout + std::chrono::seconds(1));
  cluster_.Put("replicasets", NewReplicaSet("alarm", 0));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return cluster_.Asked("POST pods") == 4; }));
  StopController();
}

TEST_F(ControllerTest, StopsWhenAPodIsRejectedAndContinuesWhenTheQuotaAllows) {
  // A quota of 3 pods.
  std::atomic<int> room{3};
  cluster_.SetFault([&](const std::string& verb) -> std::optional<Response> {
    if (verb != "POST pods" || room-- > 0) return std::nullopt;
    return FakeCluster::Refusal(403, "Forbidden", "exceeded quota: pods");
  });
  cluster_.Put("replicasets", NewReplicaSet("web", 100));
  StartController();
  // The first 1 + 2 pods are created, the next 4 are rejected. After that each sync tries one.
  ASSERT_TRUE(cluster_.WaitUntil([&] { return StatusOf()["conditions"].array().size() == 1; }));
  EXPECT_EQ(StatusOf()["conditions"].At(0)["reason"].String(), "FailedCreate");
  EXPECT_EQ(StatusOf()["conditions"].At(0)["message"].String(), "exceeded quota: pods");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return cluster_.Asked("POST pods") >= 9; }));
  EXPECT_EQ(Owned().size(), 3U);
  EXPECT_LT(cluster_.Asked("POST pods"), 50);
  // If the expectations were not lowered, nothing would happen for five minutes.
  room = 1000;
  ASSERT_TRUE(cluster_.WaitUntil([&] { return StatusOf()["replicas"].Int() == 100; }));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !StatusOf().Has("conditions"); }));
  StopController();
  const Counts events = Events();
  EXPECT_EQ(events.at("SuccessfulCreate"), 100);
  EXPECT_EQ(events.at("FailedCreate"), cluster_.Asked("POST pods") - 100);
}

TEST_F(ControllerTest, RecordsAFailedDeletionAndRetries) {
  std::atomic<int> refusals{3};
  cluster_.SetFault([&](const std::string& verb) -> std::optional<Response> {
    if (verb != "DELETE pods" || refusals-- <= 0) return std::nullopt;
    return FakeCluster::Refusal(403, "Forbidden", "not you");
  });
  cluster_.Put("replicasets", NewReplicaSet("web", 4));
  StartController();
  ASSERT_TRUE(WaitForStatus(4));
  Scale(0, 2);
  ASSERT_TRUE(WaitForStatus(0, 2));
  StopController();
  EXPECT_EQ(Events(),
            (Counts{{"SuccessfulCreate", 4}, {"FailedDelete", 3}, {"SuccessfulDelete", 4}}));
}

TEST_F(ControllerTest, RecordsNoEventsInATerminatingNamespace) {
  cluster_.SetFault([&](const std::string& verb) -> std::optional<Response> {
    if (verb != "POST pods") return std::nullopt;
    return FakeCluster::Refusal(403, "Forbidden", "it is being terminated", "NamespaceTerminating");
  });
  cluster_.Put("replicasets", NewReplicaSet("web", 5));
  StartController();
  ASSERT_TRUE(WaitForStatus(0));
  StopController();
  EXPECT_EQ(cluster_.Asked("POST pods"), 5);
  EXPECT_EQ(Events(), Counts{});
  EXPECT_FALSE(StatusOf().Has("conditions"));
}

TEST_F(ControllerTest, AdoptsMatchingPodsInsteadOfCreatingNewOnes) {
  cluster_.Put("pods", NewPod("stray", "web"));
  cluster_.Put("pods", NewPod("other", "db"));
  cluster_.Put("replicasets", NewReplicaSet("web", 1));
  StartController();
  ASSERT_TRUE(WaitForPods(1));
  ASSERT_TRUE(WaitForStatus(1));
  EXPECT_TRUE(Owned().contains("shop/stray"));
  EXPECT_EQ(cluster_.Asked("POST pods"), 0);
  EXPECT_EQ(cluster_.Asked("GET replicasets"),
            3);  // a list, a watch, and the check before adoption
  // A pod that is adopted later is one too many. Which of the two is deleted is random.
  cluster_.Put("pods", NewPod("late", "web"));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return cluster_.Asked("DELETE pods") == 1; }));
  EXPECT_EQ(Owned().size(), 1U);
}

TEST_F(ControllerTest, AdoptsNoPodsForASetThatTheServerIsDeleting) {
  // The informer has not seen yet that the set is being deleted.
  std::atomic<int> looks{0};
  cluster_.SetFault([&](const std::string& verb) -> std::optional<Response> {
    if (verb != "GET replicasets" || ++looks <= 2) return std::nullopt;  // its list and watch
    JsonValue set = cluster_.All("replicasets")["shop/web"];
    set.Member("metadata").Member("deletionTimestamp") = "2023-11-14T22:13:20Z";
    return FakeCluster::Answer(200, set);
  });
  cluster_.Put("pods", NewPod("stray", "web"));
  cluster_.Put("replicasets", NewReplicaSet("web", 1));
  StartController();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return looks >= 5; }));  // it retries
  StopController();
  EXPECT_EQ(cluster_.Asked("PATCH pods"), 0);
  EXPECT_EQ(cluster_.Asked("POST pods"), 0);
}

TEST_F(ControllerTest, ReleasesAPodThatNoLongerMatches) {
  cluster_.Put("replicasets", NewReplicaSet("web", 3));
  StartController();
  ASSERT_TRUE(WaitForStatus(3));
  const std::string taken_out = Owned().begin()->first;
  cluster_.Change("pods", taken_out, [](JsonValue& pod) {
    pod.Member("metadata").Member("labels").Member("app") = "debug";
  });
  ASSERT_TRUE(cluster_.WaitUntil([&] { return cluster_.Asked("POST pods") == 4; }));
  ASSERT_TRUE(WaitForPods(3));
  EXPECT_FALSE(Owned().contains(taken_out));
  EXPECT_TRUE(cluster_.All("pods")[taken_out]["metadata"]["ownerReferences"].array().empty());
}

TEST_F(ControllerTest, CreatesNoPodsForASetThatIsDeletedOrBeingDeleted) {
  JsonValue set = NewReplicaSet("web", 3);
  set.Member("metadata").Member("deletionTimestamp") = "2023-11-14T22:13:20Z";
  cluster_.Put("replicasets", set);
  cluster_.Put("replicasets", NewReplicaSet("db", 2));
  StartController();
  ASSERT_TRUE(WaitForStatus(0));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return StatusOf("db")["replicas"].Int() == 2; }));
  EXPECT_EQ(cluster_.Asked("POST pods"), 2);
  const FakeCluster::Objects orphans = Owned("db");
  cluster_.Remove("replicasets", "shop/db");
  for (const auto& [key, pod] : orphans) cluster_.Remove("pods", key);
  // When the third set has its pods, the other two have been synced.
  cluster_.Put("replicasets", NewReplicaSet("last", 1));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return StatusOf("last")["replicas"].Int() == 1; }));
  StopController();
  EXPECT_EQ(cluster_.Asked("POST pods"), 3);
}

TEST_F(ControllerTest, SyncsManySetsAtOnceWithoutExtraPods) {
  for (int i = 0; i < 30; ++i) {
    cluster_.Put("replicasets", NewReplicaSet("set-" + std::to_string(i), 10));
  }
  StartController();
  for (int i = 0; i < 30; ++i) {
    const std::string name = "set-" + std::to_string(i);
    ASSERT_TRUE(cluster_.WaitUntil([&] { return StatusOf(name)["replicas"].Int() == 10; })) << name;
  }
  StopController();
  EXPECT_EQ(cluster_.Asked("POST pods"), 300);
  EXPECT_EQ(cluster_.Asked("DELETE pods"), 0);
}

TEST_F(ControllerTest, FinishesRunningSyncsWhenStopped) {
  // In the middle of the batch with the 8th to the 15th pod.
  std::atomic<int> asked{0};
  cluster_.SetFault([&](const std::string& verb) -> std::optional<Response> {
    if (verb == "POST pods" && ++asked == 10) thread_.request_stop();
    return std::nullopt;
  });
  cluster_.Put("replicasets", NewReplicaSet("web", 100));
  StartController();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return asked >= 10; }));
  StopController();
  EXPECT_EQ(cluster_.Asked("POST pods"), 15);
  EXPECT_EQ(Events(), (Counts{{"SuccessfulCreate", 15}}));
}

TEST_F(ControllerTest, CancelsItsRequestsWhenAborted) {
  // The 10th request is answered only after the controller has ended. The server still processes
  // requests that were sent, so the objects that it needs must outlive this function.
  struct Shared {
    std::atomic<int> asked{0};
    std::promise<void> ended;
  };
  const auto shared = std::make_shared<Shared>();
  cluster_.SetFault([this, shared](const std::string& verb) -> std::optional<Response> {
    if (verb == "POST pods" && ++shared->asked == 10) {
      abort_.request_stop();
      shared->ended.get_future().wait();
    }
    return std::nullopt;
  });
  cluster_.Put("replicasets", NewReplicaSet("web", 100));
  StartController();
  thread_.join();
  shared->ended.set_value();
  // Seven pods were created. No event is recorded for the others, whose result is unknown.
  const Counts events = Events();
  EXPECT_GE(events.at("SuccessfulCreate"), 7);
  EXPECT_LE(events.at("SuccessfulCreate"), 9);
  EXPECT_FALSE(events.contains("FailedCreate"));
}

TEST_F(ControllerTest, SyncsNothingWhileItMayNotWork) {
  std::atomic<bool> may_work{false};
  std::atomic<int> checks{0};
  std::promise<void> checked;
  cluster_.Put("replicasets", NewReplicaSet("web", 3));
  StartController({.may_work = [&] {
    if (++checks == 3) checked.set_value();
    return may_work.load();
  }});
  checked.get_future().wait();
  EXPECT_EQ(cluster_.Asked("POST pods"), 0);
  may_work = true;
  EXPECT_TRUE(WaitForStatus(3));
  StopController();
  EXPECT_EQ(cluster_.Asked("POST pods"), 3);
}

TEST_F(ControllerTest, DoesNotStartIfTheServerHasNoReplicaSets) {
  const auto rest = herald::RestClient::Open(cluster_.config());
  ASSERT_TRUE(rest);
  EXPECT_TRUE(ReplicaSetController::CheckServer(*rest, {}).ok());
  cluster_.LoseReplicaSets();
  EXPECT_EQ(ReplicaSetController::CheckServer(*rest, {}).message(),
            "the server " + cluster_.config().server +
                " has no replicasets in apps/v1, so there is nothing to control");
}

}  // namespace
}  // namespace replicaset_controller
