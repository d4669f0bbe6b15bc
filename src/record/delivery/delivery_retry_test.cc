#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "herald/record/broadcaster.h"
#include "herald/record/fakes.h"
#include "record/delivery/testing/delivery_fixture.h"

namespace herald {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Outcomes = std::vector<Outcome>;
using Verb = SinkRequest::Verb;

// Retries.

TEST_F(DeliveryTest, SleepsAsLongAsTheServerAsks) {
  const auto sink = StartManualSink();
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  sink->Reject(FromServer(StatusReason::kTooManyRequests, 0, seconds(42)));
  Run();
  Advance(seconds(41));
  EXPECT_TRUE(sink->open.empty());
  Advance(seconds(1));
  EXPECT_EQ(sink->open.size(), 1U);
}

TEST_F(DeliveryTest, LimitsTheTimeThatTheServerAsksFor) {
  const auto sink = StartManualSink();
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  sink->Reject(FromServer(StatusReason::kServiceUnavailable, 0, hours(24)));
  Run();
  Advance(minutes(5));
  EXPECT_EQ(sink->open.size(), 1U);
}

TEST_F(DeliveryTest, TheFirstDelayIsShorter) {
  const auto sink = StartManualSink();
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  sink->Reject(Unreachable());
  Run();
  Advance(seconds(10));
  ASSERT_EQ(sink->open.size(), 1U) << "anything below ten seconds";
  sink->Reject(Unreachable());
  Run();
  Advance(milliseconds(9999));
  EXPECT_TRUE(sink->open.empty());
  Advance(milliseconds(1));
  EXPECT_EQ(sink->open.size(), 1U);
}

TEST_F(DeliveryTest, NewStyleDelaysAreUpToAQuarterLonger) {
  const auto sink = StartManualSink();
  series_recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  for (int i = 0; i < 5; ++i) {
    sink->Reject(Unreachable());
    Run();
    Advance(milliseconds(9999));
    EXPECT_TRUE(sink->open.empty());
    Advance(milliseconds(2501));
    ASSERT_EQ(sink->open.size(), 1U);
  }
}

TEST_F(DeliveryTest, KeepsToMaxTries) {
  const auto sink = StartMemorySink({.max_tries = 3, .retry_after = milliseconds(100)});
  sink->SetFault([](const SinkRequest&) { return FromServer(StatusReason::kInternalError); });
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  for (int i = 0; i < 10; ++i) Advance(milliseconds(100));
  EXPECT_EQ(sink->Requests().size(), 3U);
  EXPECT_EQ(outcomes_, Outcomes{Outcome::kGaveUp});
}

TEST_F(DeliveryTest, RetriesASeriesThatAlreadyExists) {
  // Its first event raced with it: patch 404, create 409, and then the patch works.
  const auto sink = StartManualSink();
  series_recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  sink->Accept();
  Run();
  series_recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  ASSERT_EQ(sink->open[0].request.verb, Verb::kPatch);
  sink->Reject(FromServer(StatusReason::kNotFound));
  Run();
  ASSERT_EQ(sink->open[0].request.verb, Verb::kCreate);
  ASSERT_TRUE(sink->open[0].request.event->series);
  sink->Reject(FromServer(StatusReason::kAlreadyExists));
  Run();
  EXPECT_TRUE(sink->open.empty());
  Advance(milliseconds(12'500));
  ASSERT_EQ(sink->open.size(), 1U);
  EXPECT_EQ(sink->open[0].request.verb, Verb::kPatch) << "a create would meet it there for ever";
  sink->Accept();
  Run();
  EXPECT_EQ(outcomes_, (Outcomes{Outcome::kWritten, Outcome::kMerged}));
  ExpectAllEnded();
}

TEST_F(DeliveryTest, ACreateThatMeetsItsOwnEarlierTryIsWritten) {
  const auto sink = StartManualSink();
  recorder_.Event(Pod("lost answer"), kNormal, "R", "m");
  Run();
  sink->Reject(Unreachable());
  Run();
  Advance(seconds(10));
  sink->Reject(FromServer(StatusReason::kAlreadyExists));
  Run();
  recorder_.Event(Pod("name taken"), kNormal, "R", "m");
  Run();
  sink->Reject(FromServer(StatusReason::kAlreadyExists));
  Run();
  EXPECT_EQ(outcomes_, (Outcomes{Outcome::kWritten, Outcome::kRejected}));
}

// Sinks that do not keep their side of the contract.

class ThrowingSink final : public Sink {
 public:
  explicit ThrowingSink(bool answers_first) : answers_first_(answers_first) {}
  void Send(SinkRequest request, Completion done) override {
    ++calls;
    if (answers_first_) done(*request.event);
    if (calls % 2 == 0) throw 7;
    throw std::runtime_error("sink");
  }
  int calls = 0;

 private:
  const bool answers_first_;
};

TEST_F(DeliveryTest, RetriesWhenASinkThrows) {
  const auto sink = std::make_shared<ThrowingSink>(/*answers_first=*/false);
  ASSERT_TRUE(broadcaster_->StartRecordingToSink(sink).ok());
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  RunAllRetries();
  EXPECT_EQ(sink->calls, 12);
  EXPECT_EQ(outcomes_, Outcomes{Outcome::kGaveUp});
}

TEST_F(DeliveryTest, UsesTheAnswerOfASinkThatThrowsAfterwards) {
  const auto sink = std::make_shared<ThrowingSink>(/*answers_first=*/true);
  ASSERT_TRUE(broadcaster_->StartRecordingToSink(sink).ok());
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  RunAllRetries();
  EXPECT_EQ(sink->calls, 1);
  EXPECT_EQ(outcomes_, Outcomes{Outcome::kWritten});
}

TEST_F(DeliveryTest, IgnoresASecondAnswer) {
  struct Case {
    std::string name;
    Status first;
    Status second;
    Outcome outcome;
  };
  const std::vector<Case> cases = {
      {"yes, then no", Status(), FromServer(StatusReason::kForbidden), Outcome::kWritten},
      {"no, then yes", FromServer(StatusReason::kForbidden), Status(), Outcome::kRejected},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Use({});
    outcomes_.clear();
    const auto sink = StartManualSink();
    recorder_.Event(Pod(), kNormal, "R", "m");
    Run();
    const ManualSink::Open open = sink->Pop();
    for (const Status& status : {c.first, c.second}) {
      if (status.ok()) {
        open.done(*open.request.event);
      } else {
        open.done(status);
      }
    }
    Run();
    open.done(*open.request.event);
    Run();
    EXPECT_EQ(outcomes_, Outcomes{c.outcome});
    ExpectAllEnded();
  }
}

TEST_F(DeliveryTest, IgnoresALateAnswerToAnEarlierTry) {
  const auto sink = StartManualSink();
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  sink->Accept();
  Run();
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  // The patch finds nothing, and the sink answers twice: the create that follows is
  // another request and has its own answer.
  const ManualSink::Open patch = sink->Pop();
  patch.done(FromServer(StatusReason::kNotFound));
  patch.done(FromServer(StatusReason::kNotFound));
  Run();
  ASSERT_EQ(sink->open.size(), 1U);
  sink->Reject(Unreachable());
  Run();
  Advance(seconds(10));
  patch.done(FromServer(StatusReason::kForbidden));
  Run();
  ASSERT_EQ(sink->open.size(), 1U);
  EXPECT_EQ(sink->open[0].request.verb, Verb::kPatch) << "each try begins with what was meant";
  sink->Accept();
  Run();
  EXPECT_EQ(outcomes_, (Outcomes{Outcome::kWritten, Outcome::kMerged}));
  ExpectAllEnded();
}

TEST_F(DeliveryTest, ASinkMayAnswerAfterTheBroadcasterIsDestroyed) {
  const auto sink = StartManualSink();
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  broadcaster_.reset();
  EXPECT_EQ(outcomes_, Outcomes{Outcome::kLost});
  sink->Accept();
  Run();
  recorder_ = Recorder();
  series_recorder_ = Recorder();
  EXPECT_EQ(outcomes_, Outcomes{Outcome::kLost}) << "counted once, and that stands";
}

TEST(DeliveryThreadsTest, ASinkMayAnswerAfterABroadcasterWithAThreadIsDestroyed) {
  const auto sink = std::make_shared<ManualSink>();
  {
    Broadcaster broadcaster({.drain = milliseconds(0)});
    ASSERT_TRUE(broadcaster.StartRecordingToSink(sink).ok());
    Recorder recorder = broadcaster.NewRecorder({.component = "test"});
    recorder.Event(Pod(), kNormal, "R", "m");
    // This one cannot be complete, but the request is out when it returns.
    while (broadcaster.Stats()[0].requests == 0) std::this_thread::yield();
  }
  ASSERT_EQ(sink->open.size(), 1U);
  sink->Accept();
}

TEST_F(DeliveryTest, ASinkThatNeverAnswersLosesOnlyItsOwnEvents) {
  const auto silent = StartManualSink({.name = "silent"});
  const auto good = StartMemorySink({.name = "good"});
  for (int i = 0; i < 20; ++i) recorder_.Event(Pod(std::to_string(i)), kNormal, "R", "m");
  const DrainReport report = broadcaster_->Shutdown(seconds(1));
  EXPECT_FALSE(report.complete);
  EXPECT_EQ(report.in_flight, 20U);
  EXPECT_EQ(Stats(0)[Outcome::kLost], 20U);
  EXPECT_EQ(Stats(1)[Outcome::kWritten], 20U);
  EXPECT_EQ(Stats(0).in_flight, 0U);
}

TEST_F(DeliveryTest, ASinkThatKeepsItsRequestsIsDestroyedWithTheBroadcaster) {
  // The sink holds the completion, and we hold the sink: that must not be for ever.
  const std::weak_ptr<ManualSink> sink = StartManualSink();
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  ASSERT_EQ(sink.lock()->open.size(), 1U);
  broadcaster_.reset();
  recorder_ = Recorder();
  series_recorder_ = Recorder();
  EXPECT_TRUE(sink.expired());
}

}  // namespace
}  // namespace herald
