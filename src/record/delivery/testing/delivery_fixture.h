#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "herald/record/broadcaster.h"
#include "herald/record/fakes.h"

namespace herald {

inline Status FromServer(StatusReason reason, int code = 0,
                         std::chrono::seconds retry_after = std::chrono::seconds(0)) {
  return Status({.reason = reason,
                 .code = code,
                 .message = "an error of the server",
                 .retry_after = retry_after,
                 .origin = Status::Origin::kServer});
}

inline Status Unreachable() { return Status(StatusReason::kUnreachable, "no route"); }

inline ObjectReference Pod(std::string name = "web-0") {
  return {
      .kind = "Pod", .namespace_ = "ns", .name = std::move(name), .uid = "u1", .api_version = "v1"};
}

inline std::uint64_t Ended(const SinkStats& stats) {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : stats.outcomes) sum += count;
  return sum;
}

// Keeps every request until the test answers it.
class ManualSink final : public Sink {
 public:
  struct Open {
    SinkRequest request;
    Completion done;
  };

  void Send(SinkRequest request, Completion done) override {
    open.push_back({std::move(request), std::move(done)});
  }

  // Answers the oldest with the event that was asked for.
  void Accept() {
    Open first = Pop();
    Event event = *first.request.event;
    event.metadata.resource_version = "1";
    first.done(std::move(event));
  }
  void Reject(const Status& status) { Pop().done(status); }

  Open Pop() {
    Open first = std::move(open.front());
    open.erase(open.begin());
    return first;
  }

  std::vector<Open> open;
};

// Through a broadcaster, whose executor the test runs.
class DeliveryTest : public ::testing::Test {
 protected:
  void Use(BroadcasterOptions options) {
    options.executor = &executor_;
    options.drain = std::chrono::milliseconds(0);
    options.log = [this](const LogEntry& entry) { log_.emplace_back(entry.message); };
    broadcaster_ = std::make_unique<Broadcaster>(std::move(options));
    recorder_ = NewRecorder(EventApi::kCoreV1);
    series_recorder_ = NewRecorder(EventApi::kEventsV1);
  }
  void SetUp() override { Use({}); }

  Recorder NewRecorder(EventApi api) {
    return broadcaster_->NewRecorder(
        {.component = "kubelet",
         .host = "n1",
         .api = api,
         .on_outcome = [this](Outcome outcome, const Status&) { outcomes_.push_back(outcome); }});
  }

  std::shared_ptr<ManualSink> StartManualSink(SinkOptions options = {}) {
    auto sink = std::make_shared<ManualSink>();
    EXPECT_TRUE(broadcaster_->StartRecordingToSink(sink, std::move(options)).ok());
    return sink;
  }
  std::shared_ptr<MemorySink> StartMemorySink(SinkOptions options = {}) {
    auto sink = std::make_shared<MemorySink>();
    EXPECT_TRUE(broadcaster_->StartRecordingToSink(sink, std::move(options)).ok());
    return sink;
  }

  void Run() { executor_.RunUntilIdle(); }
  void Advance(std::chrono::nanoseconds by) {
    clock_.Advance(by);
    Run();
  }
  // Advances the time until all retries are over.
  void RunAllRetries() {
    for (int i = 0; i < 20; ++i) Advance(std::chrono::seconds(13));
  }

  // The statistics, after a check that they are consistent.
  SinkStats Stats(std::size_t sink = 0) {
    const SinkStats stats = broadcaster_->Stats().at(sink);
    EXPECT_EQ(stats.recorded, Ended(stats) + stats.in_flight);
    return stats;
  }

  void ExpectAllEnded() {
    const SinkStats stats = Stats();
    EXPECT_EQ(stats.in_flight, 0U);
    std::map<Outcome, std::uint64_t> notified;
    for (const Outcome outcome : outcomes_) ++notified[outcome];
    for (std::size_t i = 0; i < kOutcomes; ++i) {
      const auto outcome = static_cast<Outcome>(i);
      EXPECT_EQ(notified[outcome], stats[outcome])
          << OutcomeName(outcome) << ": called once per event";
    }
  }

  FakeClock clock_{WallTime(std::chrono::seconds(1700000000))};
  Executor executor_{{.threads = 0, .clock = &clock_}};
  std::vector<std::string> log_;
  std::vector<Outcome> outcomes_;
  std::unique_ptr<Broadcaster> broadcaster_;
  Recorder recorder_;
  Recorder series_recorder_;
};

}  // namespace herald
