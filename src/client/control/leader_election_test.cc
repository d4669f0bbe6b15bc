#include "herald/client/leader_election.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/testing/fake_transport.h"
#include "herald/client/json_value.h"
#include "herald/record/fakes.h"

namespace herald {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Words = std::vector<std::string>;
using CallPtr = std::shared_ptr<FakeTransport::Call>;

// The Lease as the server returns it after this holder has renewed it n times.
std::string Lease(const std::string& holder, int version, int duration = 15) {
  return R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"c",)"
         R"("namespace":"kube-system","uid":"u","resourceVersion":")" +
         std::to_string(version) + R"("},"spec":{"holderIdentity":")" + holder +
         R"(","leaseDurationSeconds":)" + std::to_string(duration) +
         R"(,"acquireTime":"2023-11-14T22:00:00.000000Z","leaseTransitions":4,"renewTime":"v)" +
         std::to_string(version) + R"("}})";
}

std::string ErrorStatus(const std::string& reason, int code) {
  return R"({"kind":"Status","status":"Failure","message":"no","reason":")" + reason +
         R"(","code":)" + std::to_string(code) + "}";
}

class LeaderElectionTest : public ::testing::Test {
 protected:
  ~LeaderElectionTest() override { elector_.reset(); }

  void Start() {
    auto elector = LeaderElector::Open(
        server_.rest,
        {.namespace_ = "kube-system",
         .name = "c",
         .identity = "me",
         .on_started_leading = [this] { reported_.push_back("started"); },
         .on_stopped_leading =
             [this] {
               EXPECT_FALSE(elector_->IsLeader());
               reported_.push_back("stopped");
             },
         .on_new_leader = [this](const std::string& who) { reported_.push_back(who); },
         .recorder = events_.recorder(),
         .seed = 1});
    ASSERT_TRUE(elector) << elector.error().ToString();
    elector_ = std::move(*elector);
    elector_->Start();
  }
  // Returns the next request, which must have this method.
  CallPtr Expect(const std::string& method, const std::string& name = "c") {
    const CallPtr call = server_.transport->Next();
    EXPECT_NE(call, nullptr) << "no " << method;
    if (!call) return nullptr;
    EXPECT_EQ(call->request.method, method);
    EXPECT_EQ(call->request.target, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases" +
                                        (name.empty() ? "" : "/" + name));
    return call;
  }
  void Answer(const CallPtr& call, int code, const std::string& body) {
    if (call) server_.transport->Answer(call, code, body);
  }
  static JsonValue Spec(const CallPtr& call) {
    return call ? (*JsonValue::Parse(call->request.body))["spec"] : JsonValue();
  }
  void Advance(std::chrono::nanoseconds by) { server_.transport->Advance(by); }
  // Checks that the next request is sent after this time and not before.
  void ExpectQuietFor(std::chrono::nanoseconds time) {
    Advance(time);
    EXPECT_EQ(server_.transport->fresh(), 0U);
  }
  // Becomes leader with a new Lease.
  void Lead() {
    Start();
    Answer(Expect("GET"), 404, ErrorStatus("NotFound", 404));
    Answer(Expect("POST", ""), 201, Lease("me", 1));
    EXPECT_TRUE(elector_->IsLeader());
    reported_.clear();
  }

  FakeServer server_;
  FakeRecorder events_;
  std::vector<std::string> reported_;
  std::unique_ptr<LeaderElector> elector_;
};

TEST_F(LeaderElectionTest, CreatesAMissingLease) {
  Start();
  EXPECT_FALSE(elector_->IsLeader());
  EXPECT_EQ(elector_->leader(), "");
  Answer(Expect("GET"), 404, ErrorStatus("NotFound", 404));
  const CallPtr create = Expect("POST", "");
  ASSERT_NE(create, nullptr);
  const JsonValue spec = Spec(create);
  EXPECT_EQ(spec["holderIdentity"].String(), "me");
  EXPECT_EQ(spec["leaseDurationSeconds"].Int(), 15);
  EXPECT_EQ(spec["leaseTransitions"].Int(-1), 0);
  EXPECT_EQ(spec["renewTime"].String(), "2023-11-14T22:13:20.000000Z");
  EXPECT_EQ(spec["acquireTime"].String(), spec["renewTime"].String());
  EXPECT_FALSE(elector_->IsLeader());
  Answer(create, 201, Lease("me", 1));
  EXPECT_TRUE(elector_->IsLeader());
  EXPECT_EQ(elector_->leader(), "me");
  EXPECT_EQ(reported_, (Words{"me", "started"}));
  EXPECT_EQ(events_.Next(), "Normal LeaderElection me became leader");
}

TEST_F(LeaderElectionTest, RenewsWithoutReadingAndKeepsTheAcquireTime) {
  Lead();
  for (int version = 1; version < 20; ++version) {
    ExpectQuietFor(milliseconds(1999));
    Advance(milliseconds(1));
    const CallPtr renewal = Expect("PUT");
    ASSERT_NE(renewal, nullptr);
    EXPECT_EQ((*JsonValue::Parse(renewal->request.body))["metadata"]["resourceVersion"].String(),
              std::to_string(version));
    EXPECT_EQ(Spec(renewal)["acquireTime"].String(), "2023-11-14T22:00:00.000000Z");
    EXPECT_EQ(Spec(renewal)["leaseTransitions"].Int(), 4);
    Answer(renewal, 200, Lease("me", version + 1));
  }
  EXPECT_TRUE(elector_->IsLeader());
  EXPECT_EQ(reported_, Words{});
}

TEST_F(LeaderElectionTest, WaitsUntilALeaseExpiresByTheLocalClock) {
  Start();
  Answer(Expect("GET"), 200, Lease("other", 7));
  EXPECT_EQ(elector_->leader(), "other");
  // The other holder renews 10 seconds later.
  Advance(seconds(10));
  Answer(Expect("GET"), 200, Lease("other", 8));
  // The Lease is valid for 15 seconds from now, whatever its renewTime is.
  for (int i = 0; i < 3; ++i) {
    Advance(milliseconds(4400));  // the longest delay of a candidate
    Answer(Expect("GET"), 200, Lease("other", 8));
  }
  EXPECT_FALSE(elector_->IsLeader());
  Advance(milliseconds(4400));
  Answer(Expect("GET"), 200, Lease("other", 8));
  const CallPtr takeover = Expect("PUT");
  ASSERT_NE(takeover, nullptr);
  EXPECT_EQ(Spec(takeover)["holderIdentity"].String(), "me");
  EXPECT_EQ(Spec(takeover)["leaseTransitions"].Int(), 5);
  EXPECT_EQ(Spec(takeover)["acquireTime"].String(), Spec(takeover)["renewTime"].String());
  Answer(takeover, 200, Lease("me", 9));
  EXPECT_TRUE(elector_->IsLeader());
  EXPECT_EQ(reported_, (Words{"other", "me", "started"}));
}

TEST_F(LeaderElectionTest, AcquiresAReleasedLeaseAtOnce) {
  Start();
  Answer(Expect("GET"), 200, Lease("", 7, 1));
  Answer(Expect("PUT"), 200, Lease("me", 8));
  EXPECT_TRUE(elector_->IsLeader());
}

TEST_F(LeaderElectionTest, StaysACandidateAfterAConflict) {
  Start();
  Answer(Expect("GET"), 200, Lease("", 7, 1));
  Answer(Expect("PUT"), 409, ErrorStatus("Conflict", 409));
  EXPECT_FALSE(elector_->IsLeader());
  Advance(milliseconds(4400));
  Answer(Expect("GET"), 200, Lease("other", 8));
  EXPECT_EQ(reported_, Words{"other"});
}

TEST_F(LeaderElectionTest, StopsWhenItCannotRenewInTime) {
  Lead();
  Advance(seconds(2));
  const CallPtr hanging = Expect("PUT");  // never answered
  ASSERT_NE(hanging, nullptr);
  Advance(milliseconds(7999));
  EXPECT_TRUE(elector_->IsLeader());
  // 10 seconds after the last renewal was sent, 5 seconds before another candidate may take over.
  Advance(milliseconds(1));
  EXPECT_FALSE(elector_->IsLeader());
  EXPECT_EQ(reported_, Words{"stopped"});
  EXPECT_TRUE(hanging->cancelled);
  events_.Next();
  EXPECT_EQ(events_.Next(), "Normal LeaderElection me stopped leading");
  // No further request is sent.
  ExpectQuietFor(seconds(60));
  EXPECT_EQ(reported_, Words{"stopped"});
}

TEST_F(LeaderElectionTest, IsNotLeaderAfterTheDeadlineEvenBeforeTheTimerRuns) {
  Lead();
  server_.clock.Advance(seconds(10));  // the client's thread is blocked: no timer runs
  EXPECT_FALSE(elector_->IsLeader());
  EXPECT_EQ(reported_, Words{});
}

TEST_F(LeaderElectionTest, KeepsTheLeaseIfARetrySucceedsInTime) {
  Lead();
  Advance(seconds(2));
  server_.transport->Fail(Expect("PUT"), Status(StatusReason::kUnreachable, "refused"));
  Advance(seconds(2));
  Answer(Expect("PUT"), 500, ErrorStatus("InternalError", 500));
  // The server answered with an error, so the leader reads the Lease before it writes again.
  Answer(Expect("GET"), 500, ErrorStatus("InternalError", 500));
  Advance(seconds(2));
  Answer(Expect("PUT"), 409, ErrorStatus("Conflict", 409));
  Answer(Expect("GET"), 200, Lease("me", 5));
  Answer(Expect("PUT"), 200, Lease("me", 6));
  Advance(seconds(2));
  Answer(Expect("PUT"), 200, Lease("me", 7));
  EXPECT_TRUE(elector_->IsLeader());
  EXPECT_EQ(reported_, Words{});
}

TEST_F(LeaderElectionTest, StopsAtOnceWhenAnotherCandidateHoldsTheLease) {
  Lead();
  Advance(seconds(2));
  Answer(Expect("PUT"), 409, ErrorStatus("Conflict", 409));
  Answer(Expect("GET"), 200, Lease("other", 5));
  EXPECT_FALSE(elector_->IsLeader());
  EXPECT_EQ(reported_, (Words{"other", "stopped"}));
}

TEST_F(LeaderElectionTest, CreatesTheLeaseAgainIfItWasDeleted) {
  Lead();
  Advance(seconds(2));
  Answer(Expect("PUT"), 404, ErrorStatus("NotFound", 404));
  Answer(Expect("GET"), 404, ErrorStatus("NotFound", 404));
  const CallPtr create = Expect("POST", "");
  ASSERT_NE(create, nullptr);
  EXPECT_FALSE((*JsonValue::Parse(create->request.body))["metadata"].Has("resourceVersion"));
  Answer(create, 201, Lease("me", 9));
  EXPECT_TRUE(elector_->IsLeader());
  EXPECT_EQ(reported_, Words{});
}

TEST_F(LeaderElectionTest, ReleasesTheLeaseWhenItResigns) {
  Lead();
  std::vector<std::string> answers;
  elector_->Resign([&](const Status& status) { answers.push_back(status.ToString()); });
  EXPECT_FALSE(elector_->IsLeader());
  const CallPtr release = Expect("PUT");
  ASSERT_NE(release, nullptr);
  EXPECT_EQ(Spec(release)["holderIdentity"].String(), "");
  EXPECT_EQ(Spec(release)["leaseDurationSeconds"].Int(), 1);
  EXPECT_EQ(Spec(release)["leaseTransitions"].Int(), 4);
  // A renewal that was under way came first. We still hold the Lease, so it is released.
  Answer(release, 409, ErrorStatus("Conflict", 409));
  Answer(Expect("GET"), 200, Lease("me", 2));
  Answer(Expect("PUT"), 200, Lease("", 3, 1));
  EXPECT_EQ(answers, Words{"OK"});
  EXPECT_EQ(reported_, Words{});
  ExpectQuietFor(seconds(60));
}

TEST_F(LeaderElectionTest, DoesNotReleaseTheLeaseOfAnotherHolder) {
  Start();
  Answer(Expect("GET"), 200, Lease("other", 7));
  std::vector<std::string> answers;
  elector_->Resign([&](const Status& status) { answers.push_back(status.ToString()); });
  EXPECT_EQ(server_.transport->fresh(), 0U);
  EXPECT_EQ(answers, Words{"OK"});
}

TEST_F(LeaderElectionTest, DoesNotChangeTheLeaseWhenStopped) {
  Lead();
  elector_->Stop();
  elector_->Stop();
  EXPECT_FALSE(elector_->IsLeader());
  ExpectQuietFor(seconds(60));
  EXPECT_EQ(reported_, Words{});
}

TEST(LeaderElectionOptions, AreRejectedIfInvalid) {
  FakeServer server;
  const LeaderElectionOptions good{.name = "c", .identity = "me"};
  EXPECT_TRUE(LeaderElector::Open(server.rest, good));
  struct Row {
    const char* message;
    std::function<void(LeaderElectionOptions&)> change;
  };
  for (const Row& row : std::vector<Row>{
           {"name must not be empty", [](auto& o) { o.name.clear(); }},
           {"namespace must not be empty", [](auto& o) { o.namespace_.clear(); }},
           {"identity must not be empty", [](auto& o) { o.identity.clear(); }},
           {"lease_duration must be greater than renew_deadline",
            [](auto& o) { o.lease_duration = seconds(10); }},
           {"renew_deadline must be greater than 1.2 times retry_period",
            [](auto& o) { o.renew_deadline = milliseconds(2400); }},
           {"retry_period must be greater than 0", [](auto& o) { o.retry_period = seconds(0); }}}) {
    LeaderElectionOptions options = good;
    row.change(options);
    const auto elector = LeaderElector::Open(server.rest, options);
    ASSERT_FALSE(elector) << row.message;
    EXPECT_EQ(elector.error().message(), std::string("leader election: ") + row.message);
  }
}

}  // namespace
}  // namespace herald
