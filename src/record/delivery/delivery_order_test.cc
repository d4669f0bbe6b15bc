#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "herald/record/broadcaster.h"
#include "herald/record/fakes.h"
#include "record/delivery/testing/delivery_fixture.h"

namespace herald {
namespace {

using std::chrono::seconds;
using Strings = std::vector<std::string>;

constexpr seconds kPatience{30};

// Order per object, and no object waits for another.

TEST_F(DeliveryTest, EventsOfOneObjectStayInOrderWhenWritesFail) {
  const auto sink = StartManualSink({.max_in_flight = 8});
  for (int i = 0; i < 5; ++i) recorder_.Eventf(Pod(), kNormal, "R", "{}", i);
  Run();
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(sink->open.size(), 1U) << "one at a time";
    EXPECT_EQ(sink->open[0].request.event->message, std::to_string(i));
    sink->Reject(Unreachable());
    Run();
    EXPECT_TRUE(sink->open.empty());
    Advance(seconds(10));
    ASSERT_EQ(sink->open.size(), 1U);
    EXPECT_EQ(sink->open[0].request.event->message, std::to_string(i)) << "the same again";
    sink->Accept();
    Run();
  }
  EXPECT_EQ(Stats()[Outcome::kWritten], 5U);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, AnObjectThatFailsDoesNotDelayOthers) {
  const auto sink = StartMemorySink({.max_in_flight = 8});
  Strings order;
  sink->SetFault([&](const SinkRequest& request) -> std::optional<Status> {
    if (request.event->involved_object.name == "bad") return Unreachable();
    order.push_back(request.event->involved_object.name + request.event->message);
    return std::nullopt;
  });
  for (int i = 0; i < 3; ++i) {
    // More that fail than may be under way, and all before the others.
    for (int j = 0; j < 20; ++j) recorder_.Eventf(Pod("bad"), kNormal, "R", "{} {}", i, j);
    recorder_.Eventf(Pod("a"), kNormal, "R", "{}", i);
    recorder_.Eventf(Pod("b"), kNormal, "R", "{}", i);
  }
  Run();
  EXPECT_EQ(order.size(), 6U) << "without the clock having moved";
  Strings of_a;
  std::ranges::copy_if(order, std::back_inserter(of_a), [](const auto& s) { return s[0] == 'a'; });
  EXPECT_EQ(of_a, (Strings{"a0", "a1", "a2"}));
  EXPECT_EQ(Stats()[Outcome::kWritten], 6U);
  EXPECT_EQ(Stats().in_flight, 60U);
}

TEST_F(DeliveryTest, AnObjectWithThousandsOfEventsDoesNotDelayOthers) {
  Use({.incoming_events = 5000, .watcher_events = 5000});
  const auto sink = StartMemorySink({.max_in_flight = 8});
  sink->SetFault([&](const SinkRequest& request) -> std::optional<Status> {
    if (request.event->involved_object.name == "bad") return Unreachable();
    return std::nullopt;
  });
  for (int i = 0; i < 3000; ++i) recorder_.Event(Pod("bad"), kNormal, "R", "m");
  recorder_.Event(Pod("good"), kNormal, "R", "m");
  Run();
  EXPECT_EQ(Stats()[Outcome::kWritten], 1U) << "without the clock having moved";
  EXPECT_EQ(Stats()[Outcome::kDropped], 2000U) << "what no room is kept for is counted";
  EXPECT_EQ(Stats().in_flight, 1000U);
  sink->SetFault(nullptr);
  Advance(seconds(10));
  EXPECT_TRUE(broadcaster_->Flush(kPatience).complete);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, SleepingWritesFreeTheirSlots) {
  const auto sink = StartManualSink({.max_in_flight = 1});
  for (const char* name : {"a", "b", "c"}) recorder_.Event(Pod(name), kNormal, "R", "m");
  Run();
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_EQ(sink->open.size(), 1U) << "no more than one is under way";
    EXPECT_EQ(sink->open[0].request.event->involved_object.name, name);
    sink->Reject(Unreachable());
    Run();
  }
  Advance(seconds(10));
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(sink->open.size(), 1U);
    sink->Accept();
    Run();
  }
  EXPECT_EQ(Stats()[Outcome::kWritten], 3U);
}

TEST_F(DeliveryTest, KeepsToMaxInFlight) {
  const auto sink = StartManualSink({.max_in_flight = 8});
  for (int i = 0; i < 50; ++i) recorder_.Event(Pod(std::to_string(i)), kNormal, "R", "m");
  Run();
  EXPECT_EQ(sink->open.size(), 8U);
  int accepted = 0;
  while (!sink->open.empty()) {
    EXPECT_LE(sink->open.size(), 8U);
    sink->Accept();
    ++accepted;
    Run();
  }
  EXPECT_EQ(accepted, 50);
}

TEST_F(DeliveryTest, UpstreamExactWritesOneEventAtATime) {
  Use({.upstream_exact = true});
  const auto sink = StartManualSink();
  recorder_.Event(Pod("a"), kNormal, "R", "m");
  recorder_.Event(Pod("b"), kNormal, "R", "m");
  Run();
  ASSERT_EQ(sink->open.size(), 1U);
  sink->Reject(Unreachable());
  Run();
  EXPECT_TRUE(sink->open.empty());
  Advance(seconds(10));
  ASSERT_EQ(sink->open.size(), 1U);
  EXPECT_EQ(sink->open[0].request.event->involved_object.name, "a");
}

// Full queues.

TEST_F(DeliveryTest, CountsEventsDroppedByAFullQueue) {
  Use({.watcher_events = 10});
  const auto sink = StartManualSink();
  for (int i = 0; i < 15; ++i) recorder_.Event(Pod(std::to_string(i)), kNormal, "R", "m");
  Run();
  EXPECT_EQ(Stats()[Outcome::kDropped], 5U);
  while (!sink->open.empty()) {
    sink->Accept();
    Run();
  }
  EXPECT_EQ(Stats()[Outcome::kWritten], 10U);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, CountsEventsDroppedByTheBroadcasterForEverySink) {
  Use({.incoming_events = 3});
  StartMemorySink();
  StartMemorySink();
  for (int i = 0; i < 5; ++i) recorder_.Event(Pod(), kNormal, "R", std::to_string(i));
  Run();
  for (const std::size_t sink : {std::size_t{0}, std::size_t{1}}) {
    EXPECT_EQ(Stats(sink).recorded, 5U);
    EXPECT_EQ(Stats(sink)[Outcome::kDropped], 2U);
    EXPECT_EQ(Stats(sink)[Outcome::kWritten], 3U);
  }
}

TEST_F(DeliveryTest, WarningsReplaceNormalEventsWithPreferWarnings) {
  for (const bool prefer : {false, true}) {
    Use({.watcher_events = 4});
    const auto sink = StartMemorySink({.prefer_warnings = prefer});
    for (int i = 0; i < 4; ++i) recorder_.Eventf(Pod(std::to_string(i)), kNormal, "R", "normal");
    for (int i = 0; i < 4; ++i) {
      recorder_.Eventf(Pod(std::to_string(i)), kWarning, "R", "warning");
    }
    Run();
    EXPECT_EQ(Stats()[Outcome::kDropped], 4U);
    ASSERT_EQ(sink->Events().size(), 4U);
    for (const Event& event : sink->Events()) {
      EXPECT_EQ(event.type, prefer ? kWarning : kNormal);
    }
  }
}

TEST_F(DeliveryTest, ASlowSinkLosesNothingUnderWait) {
  Use({.watcher_events = 10, .when_full = WhenFull::kWait});
  const auto sink = StartManualSink({.max_in_flight = 1});
  int accepted = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 500; ++i) recorder_.Event(Pod(std::to_string(i)), kNormal, "R", "m");
    Run();
    for (int i = 0; i < 450 && !sink->open.empty(); ++i, ++accepted) {
      sink->Accept();
      Run();
    }
  }
  while (!sink->open.empty()) {
    sink->Accept();
    ++accepted;
    Run();
  }
  EXPECT_EQ(Stats()[Outcome::kDropped], 0U);
  EXPECT_EQ(Stats()[Outcome::kWritten] + Stats()[Outcome::kMerged], 2500U);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, TheSequencerIsLimitedByBytes) {
  const std::string large(60'000, 'x');
  Use({.queue_bytes = 1'000'000});
  const auto sink = StartManualSink({.max_in_flight = 1});
  std::uint64_t recorded = 0;
  // Nobody answers: what is taken in is incoming, channel and sequencer, each bounded.
  for (int i = 0; i < 400; ++i, ++recorded) {
    recorder_.Event(Pod(std::to_string(i)), kNormal, "R", large);
    Run();
  }
  EXPECT_LE(Stats().in_flight * large.size(), 3'200'000U);
  EXPECT_GT(Stats()[Outcome::kDropped], 300U);
  EXPECT_EQ(Stats().recorded, recorded);
  while (!sink->open.empty()) {
    sink->Accept();
    Run();
  }
  ExpectAllEnded();
}

TEST_F(DeliveryTest, WritesMoreEventsThanItTakesAtOnce) {
  // All of these but the first end without a request, so no answer wakes it.
  Use({.incoming_events = 5000, .watcher_events = 5000});
  const auto sink = StartMemorySink({.count = {.spam_burst = 1}});
  for (int i = 0; i < 4000; ++i) recorder_.Event(Pod(), kNormal, "R", "m");
  EXPECT_TRUE(broadcaster_->Flush(kPatience).complete);
  EXPECT_EQ(Stats()[Outcome::kWritten], 1U);
  EXPECT_EQ(Stats()[Outcome::kFiltered], 3999U);
  ExpectAllEnded();
}

}  // namespace
}  // namespace herald
