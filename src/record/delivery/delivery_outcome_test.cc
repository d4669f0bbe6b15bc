#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
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
using Strings = std::vector<std::string>;

constexpr seconds kPatience{30};

// Reports of losses.

TEST_F(DeliveryTest, ReportsLossesAtMostOncePerMinute) {
  const auto sink = StartMemorySink({.self = Pod("agent")});
  const auto summaries = [&] {
    Strings messages;
    for (const Event& event : sink->Events()) {
      if (event.reason == "EventsLost") messages.push_back(event.message);
    }
    return messages;
  };
  bool refuse = true;
  sink->SetFault([&](const SinkRequest& request) -> std::optional<Status> {
    if (refuse && request.event->involved_object.name == "bad") {
      return FromServer(StatusReason::kForbidden);
    }
    return std::nullopt;
  });
  recorder_.Event(Pod("bad"), kNormal, "R", "1");
  Run();
  EXPECT_EQ(summaries(), Strings{"1 event was lost: 1 rejected"});
  const Event summary = sink->Events().at(0);
  EXPECT_EQ(summary.involved_object, Pod("agent"));
  EXPECT_EQ(summary.type, kWarning);
  EXPECT_EQ(summary.metadata.namespace_, "ns");
  for (int i = 0; i < 3; ++i) {
    recorder_.Eventf(Pod("bad"), kNormal, "R", "again {}", i);
    Run();
  }
  Advance(seconds(59));
  EXPECT_EQ(summaries().size(), 1U);
  refuse = false;
  Advance(seconds(1));
  recorder_.Event(Pod("good"), kNormal, "R", "m");
  Run();
  EXPECT_EQ(summaries(),
            (Strings{"1 event was lost: 1 rejected", "3 events were lost: 3 rejected"}));
  EXPECT_EQ(Stats().recorded, 5U) << "reports are not recorded events";
  ExpectAllEnded();
}

TEST_F(DeliveryTest, ReportsLossesWithinTheMinuteAtItsEnd) {
  const auto sink = StartMemorySink({.self = Pod("agent")});
  sink->SetFault([&](const SinkRequest& request) -> std::optional<Status> {
    if (request.event->involved_object.name == "bad") return FromServer(StatusReason::kForbidden);
    return std::nullopt;
  });
  recorder_.Event(Pod("bad"), kNormal, "R", "1");
  Run();
  recorder_.Event(Pod("bad"), kNormal, "R", "2");
  Run();
  EXPECT_EQ(sink->Events().size(), 1U);
  Advance(minutes(1));
  EXPECT_EQ(sink->Events().size(), 2U) << "also where nothing else happens";
}

TEST_F(DeliveryTest, ReportsDroppedEventsWithTheReason) {
  Use({.watcher_events = 2});
  const auto sink = StartMemorySink({.self = ObjectReference{.kind = "Node", .name = "n1"}});
  sink->SetFault([](const SinkRequest& request) -> std::optional<Status> {
    if (request.event->involved_object.name == "bad") return FromServer(StatusReason::kForbidden);
    return std::nullopt;
  });
  recorder_.Event(Pod("bad"), kNormal, "R", "m");
  for (int i = 0; i < 4; ++i) recorder_.Event(Pod("good"), kNormal, "R", "m");
  Run();
  Advance(minutes(1));
  std::string all;
  for (const Event& event : sink->Events()) {
    if (event.reason != "EventsLost") continue;
    EXPECT_EQ(event.metadata.namespace_, "default");
    all += event.message + ";";
  }
  EXPECT_NE(all.find("3 dropped"), std::string::npos) << all;
  EXPECT_NE(all.find("1 rejected"), std::string::npos) << all;
}

TEST_F(DeliveryTest, DoesNotReportTheLossOfAReport) {
  const auto sink = StartMemorySink({.self = Pod("agent")});
  sink->SetFault([](const SinkRequest&) { return FromServer(StatusReason::kForbidden); });
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  for (int i = 0; i < 10; ++i) Advance(minutes(1));
  EXPECT_EQ(sink->Requests().size(), 2U);
  EXPECT_EQ(Stats().recorded, 1U);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, ReportsNothingWithoutSelfOrUnderUpstreamExact) {
  for (const bool exact : {false, true}) {
    Use({.upstream_exact = exact});
    const auto sink = StartMemorySink(exact ? SinkOptions{.self = Pod("agent")} : SinkOptions{});
    sink->SetFault([](const SinkRequest&) { return FromServer(StatusReason::kForbidden); });
    recorder_.Event(Pod(), kNormal, "R", "m");
    Run();
    Advance(minutes(2));
    EXPECT_EQ(sink->Requests().size(), 1U);
  }
}

// Outcomes.

TEST_F(DeliveryTest, CallsTheOutcomeFunctionOncePerEventWithTheReason) {
  const auto sink = StartMemorySink({.count = {.spam_burst = 3}});
  std::vector<std::pair<Outcome, bool>> reported;
  const auto record = [&](const ObjectReference& object, std::string_view type) {
    recorder_.Record(object,
                     {.type = type,
                      .reason = "R",
                      .on_outcome =
                          [&](Outcome outcome, const Status& why) {
                            reported.emplace_back(outcome, why.ok());
                            throw std::runtime_error("callback");
                          }},
                     "m");
    Run();
  };
  record(Pod(), kNormal);
  record(Pod(), kNormal);
  sink->SetFault([](const SinkRequest&) { return FromServer(StatusReason::kForbidden); });
  record(Pod(), kNormal);
  record(Pod(), kNormal);
  record(Pod(), "odd");
  broadcaster_->Shutdown(kPatience);
  record(Pod(), kNormal);
  const std::vector<std::pair<Outcome, bool>> expected = {
      {Outcome::kWritten, true},  {Outcome::kMerged, true},   {Outcome::kRejected, false},
      {Outcome::kFiltered, true}, {Outcome::kInvalid, false}, {Outcome::kLost, false}};
  EXPECT_EQ(reported, expected);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, StatisticsAreConsistentAtEveryStep) {
  // Stats() checks the sum; here between any two steps.
  const auto sink = StartMemorySink({.max_tries = 3});
  int n = 0;
  sink->SetFault([&](const SinkRequest&) -> std::optional<Status> {
    Stats();
    switch (++n % 5) {
      case 0:
        return Unreachable();
      case 1:
        return FromServer(StatusReason::kForbidden);
      default:
        return std::nullopt;
    }
  });
  for (int i = 0; i < 300; ++i) {
    Recorder& recorder = i % 3 == 0 ? series_recorder_ : recorder_;
    recorder.Eventf(Pod(std::to_string(i % 7)), i % 50 == 0 ? "odd" : kNormal, "R", "{}", i % 4);
    Stats();
    if (i % 2 == 0) Run();
    Stats();
    if (i % 10 == 0) Advance(seconds(3));
    Stats();
  }
  broadcaster_->Shutdown(seconds(1));
  ExpectAllEnded();
  EXPECT_EQ(Stats().recorded, 300U);
}

}  // namespace
}  // namespace herald
