#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "herald/record/broadcaster.h"
#include "herald/record/fakes.h"
#include "record/delivery/testing/delivery_fixture.h"

namespace herald {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr seconds kPatience{30};

// Flush and Shutdown.

TEST_F(DeliveryTest, FlushWritesTheCountsOfOpenSeries) {
  const auto sink = StartMemorySink();
  for (int i = 0; i < 10; ++i) series_recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  EXPECT_EQ(sink->Events().at(0).series->count, 2) << "the rest is counted, not yet written";
  EXPECT_EQ(Stats().in_flight, 8U);
  EXPECT_EQ(outcomes_.size(), 2U) << "merged counts once a write that carries it is acknowledged";
  const DrainReport report = broadcaster_->Flush(kPatience);
  EXPECT_TRUE(report.complete);
  EXPECT_EQ(report.in_flight, 0U);
  EXPECT_EQ(sink->Events().at(0).series->count, 10);
  EXPECT_EQ(Stats()[Outcome::kMerged], 9U);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, ShutdownWritesTheCountsOfOpenSeries) {
  const auto sink = StartMemorySink();
  for (int i = 0; i < 10; ++i) series_recorder_.Event(Pod(), kNormal, "R", "m");
  EXPECT_TRUE(broadcaster_->Shutdown(kPatience).complete);
  EXPECT_EQ(sink->Events().at(0).series->count, 10);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, WritesCountsEvenIfAnObjectIsStuck) {
  const auto sink = StartMemorySink();
  sink->SetFault([](const SinkRequest& request) -> std::optional<Status> {
    if (request.event->involved_object.name == "bad") return Unreachable();
    return std::nullopt;
  });
  for (int i = 0; i < 10; ++i) series_recorder_.Event(Pod(), kNormal, "R", "m");
  recorder_.Event(Pod("bad"), kNormal, "R", "m");
  const DrainReport report = broadcaster_->Shutdown(kPatience);
  EXPECT_FALSE(report.complete);
  EXPECT_EQ(report.in_flight, 1U);
  EXPECT_EQ(sink->Events().at(0).series->count, 10);
  EXPECT_EQ(Stats()[Outcome::kLost], 1U);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, ARejectedCountIsNotMerged) {
  const auto sink = StartMemorySink();
  for (int i = 0; i < 5; ++i) series_recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  sink->SetFault([](const SinkRequest&) { return FromServer(StatusReason::kForbidden); });
  EXPECT_TRUE(broadcaster_->Flush(kPatience).complete);
  EXPECT_EQ(Stats()[Outcome::kMerged], 1U);
  EXPECT_EQ(Stats()[Outcome::kRejected], 3U);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, FlushReportsUnwrittenEventsAndRetriesContinue) {
  const auto sink = StartManualSink();
  recorder_.Event(Pod("a"), kNormal, "R", "m");
  recorder_.Event(Pod("b"), kNormal, "R", "m");
  DrainReport report = broadcaster_->Flush(kPatience);
  EXPECT_FALSE(report.complete);
  EXPECT_EQ(report.in_flight, 2U);
  sink->Accept();
  report = broadcaster_->Flush(kPatience);
  EXPECT_FALSE(report.complete);
  EXPECT_EQ(report.in_flight, 1U);
  sink->Accept();
  report = broadcaster_->Flush(kPatience);
  EXPECT_TRUE(report.complete);
  EXPECT_EQ(report.in_flight, 0U);
}

TEST_F(DeliveryTest, FlushDoesNotWaitForWhatIsRecordedAfterIt) {
  // Whatever it is asked about the old pod, it records something about the new one, of
  // which it never speaks again.
  class Chatty final : public Sink {
   public:
    void Send(SinkRequest request, Completion done) override {
      if (request.event->involved_object.name == "new") {
        stuck.push_back(std::move(done));
        return;
      }
      recorder.Event(Pod("new"), kNormal, "R", std::to_string(stuck.size()));
      done(*request.event);
    }
    Recorder recorder;
    std::vector<Completion> stuck;
  };
  const auto sink = std::make_shared<Chatty>();
  sink->recorder = recorder_;
  ASSERT_TRUE(broadcaster_->StartRecordingToSink(sink).ok());
  for (int i = 0; i < 3; ++i) recorder_.Event(Pod("old"), kNormal, "R", "m");
  for (int i = 0; i < 10; ++i) series_recorder_.Event(Pod("old"), kNormal, "R", "m");
  const DrainReport report = broadcaster_->Flush(kPatience);
  EXPECT_TRUE(report.complete);
  EXPECT_EQ(report.in_flight, 0U);
  EXPECT_EQ(sink->stuck.size(), 1U);
  EXPECT_EQ(Stats()[Outcome::kWritten] + Stats()[Outcome::kMerged], 13U) << "counts included";
  EXPECT_GT(Stats().in_flight, 0U);
  // They have become old now.
  EXPECT_FALSE(broadcaster_->Flush(kPatience).complete);
}

TEST_F(DeliveryTest, EachFlushWaitsForItsOwnEvents) {
  const auto sink = StartManualSink();
  recorder_.Event(Pod("a"), kNormal, "R", "m");
  EXPECT_FALSE(broadcaster_->Flush(kPatience).complete);
  recorder_.Event(Pod("b"), kNormal, "R", "m");
  EXPECT_FALSE(broadcaster_->Flush(kPatience).complete);
  recorder_.Event(Pod("c"), kNormal, "R", "m");
  Run();
  ASSERT_EQ(sink->open.size(), 3U);
  sink->Accept();
  sink->Accept();
  Run();
  // Nothing waits for it any more, and later flushes are not affected.
  EXPECT_FALSE(broadcaster_->Flush(kPatience).complete);
  sink->Accept();
  EXPECT_TRUE(broadcaster_->Flush(kPatience).complete);
}

// If it waited for an empty pipeline, it would wait as long as the threads record.
TEST(DeliveryThreadsTest, FlushEndsWhileThreadsRecord) {
  const auto sink = std::make_shared<MemorySink>();
  // Before the broadcaster, whose destructor still calls the handler.
  std::atomic<bool> stop{false};
  Recorder recorder;
  Broadcaster broadcaster({.watcher_events = 1 << 20});
  ASSERT_TRUE(broadcaster.StartRecordingToSink(sink, {.count = {.spam_burst = 1 << 30}}).ok());
  recorder = broadcaster.NewRecorder({.component = "test"});
  // A handler for whom there is always more to do.
  ASSERT_TRUE(broadcaster
                  .StartEventWatcher([&](const Event&) {
                    if (!stop) recorder.Event(Pod("handled"), kNormal, "R", "m");
                  })
                  .ok());
  recorder.Event(Pod("first"), kNormal, "R", "m");
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(broadcaster.Flush(kPatience).complete);
  stop = true;
}

TEST_F(DeliveryTest, LimitsOutcomeFunctionsThatWaitForCounts) {
  const auto sink = StartMemorySink();
  // Each of these is asked after, and none is written for a minute but for the bound.
  for (int batch = 0; batch < 50; ++batch) {
    for (int i = 0; i < 100; ++i) series_recorder_.Event(Pod(), kNormal, "R", "m");
    Run();
    ASSERT_LT(Stats().in_flight, 2000U) << "the limit of outcome functions that wait";
  }
  EXPECT_GT(sink->Requests().size(), 2U);
  EXPECT_LT(sink->Requests().size(), 10U) << "the counts go on being merged";
  broadcaster_->Flush(kPatience);
  EXPECT_EQ(sink->Events().at(0).series->count, 5000);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, UpstreamExactDoesNotWriteCountsEarly) {
  Use({.incoming_events = 5000, .watcher_events = 5000, .upstream_exact = true});
  const auto sink = StartMemorySink();
  for (int i = 0; i < 3000; ++i) series_recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  EXPECT_EQ(sink->Requests().size(), 2U);
  Advance(minutes(30));
  EXPECT_EQ(Stats()[Outcome::kMerged], 2999U);
  EXPECT_EQ(outcomes_.size(), 1002U) << "beyond the bound they are only counted";
}

// A sink may record events itself, for example about errors of its server.
TEST_F(DeliveryTest, ASinkMayOwnARecorderOfItsBroadcaster) {
  struct Holder final : Sink {
    void Send(SinkRequest request, Completion done) override { done(*request.event); }
    Recorder recorder;
  };
  auto sink = std::make_shared<Holder>();
  sink->recorder = recorder_;
  const std::weak_ptr<Holder> held = sink;
  ASSERT_TRUE(broadcaster_->StartRecordingToSink(std::move(sink)).ok());
  recorder_.Event(Pod(), kNormal, "R", "m");
  EXPECT_FALSE(held.expired());
  EXPECT_TRUE(broadcaster_->Shutdown(kPatience).complete);
  EXPECT_TRUE(held.expired());
  EXPECT_EQ(Stats()[Outcome::kWritten], 1U);
}

// A log may not own one (nothing could be freed), but it may know one.
TEST_F(DeliveryTest, ALogFunctionMayReferToARecorderOfItsBroadcaster) {
  const auto token = std::make_shared<int>(0);
  std::weak_ptr<int> watched = token;
  auto recorder = std::make_shared<Recorder>();
  {
    BroadcasterOptions options;
    options.executor = &executor_;
    options.log = [token, weak = std::weak_ptr(recorder)](const LogEntry&) {
      if (const auto own = weak.lock()) own->Event(Pod("log"), kNormal, "Complained", "m");
    };
    Broadcaster broadcaster(options);
    options.log = nullptr;
    const auto sink = std::make_shared<MemorySink>();
    ASSERT_TRUE(broadcaster.StartRecordingToSink(sink).ok());
    *recorder = broadcaster.NewRecorder({.component = "c"});
    recorder->Event(Pod(), "odd", "R", "m");
    EXPECT_TRUE(broadcaster.Shutdown(kPatience).complete);
    EXPECT_EQ(sink->Events().at(0).reason, "Complained");
  }
  recorder.reset();
  EXPECT_EQ(watched.use_count(), 1) << "only our own";
}

TEST(DeliveryThreadsTest, FlushWaitsForASinkThatAnswersFromAnotherThread) {
  // A sink with a thread of its own, as a client has.
  class Elsewhere final : public Sink {
   public:
    void Send(SinkRequest request, Completion done) override {
      executor_.Post(
          [request = std::move(request), done = std::move(done)] { done(*request.event); });
    }

   private:
    Executor executor_{{.threads = 2}};
  };
  const auto sink = std::make_shared<Elsewhere>();
  Broadcaster broadcaster;
  ASSERT_TRUE(broadcaster.StartRecordingToSink(sink).ok());
  Recorder recorder = broadcaster.NewRecorder({.component = "test"});
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 50; ++i) recorder.Event(Pod(std::to_string(i)), kNormal, "R", "m");
    EXPECT_TRUE(broadcaster.Flush(kPatience).complete);
    EXPECT_EQ(broadcaster.Stats()[0].in_flight, 0U);
  }
}

}  // namespace
}  // namespace herald
