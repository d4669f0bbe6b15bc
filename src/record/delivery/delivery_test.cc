#include "record/delivery/delivery.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "herald/record/broadcaster.h"
#include "herald/record/fakes.h"
#include "record/delivery/testing/delivery_fixture.h"

namespace herald {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using Outcomes = std::vector<Outcome>;
using Strings = std::vector<std::string>;
using Verb = SinkRequest::Verb;

constexpr seconds kPatience{30};

// What client-go's tools/record promises (event_test.go).

TEST_F(DeliveryTest, PatchesRepeatsAndCreatesOtherEvents) {
  const auto sink = StartMemorySink();
  Strings lines;
  Strings structured;
  ASSERT_TRUE(
      broadcaster_->StartLogging([&](std::string_view line) { lines.emplace_back(line); }).ok());
  ASSERT_TRUE(broadcaster_
                  ->StartStructuredLogging([&](const LogEntry& entry) {
                    std::string line(entry.message);
                    for (const auto& [key, value] : entry.fields) {
                      line += " " + std::string(key) + "=" + std::string(value);
                    }
                    structured.push_back(line);
                  })
                  .ok());
  struct Step {
    std::string uid;
    std::string field_path;
    std::string reason;
    std::string message;
    Verb verb;
    int count;
  };
  const std::vector<Step> steps = {
      {"bar", "spec.containers[2]", "Started", "some verbose message: 1", Verb::kCreate, 1},
      {"bar", "spec.containers[2]", "Killed", "some other verbose message: 1", Verb::kCreate, 1},
      {"bar", "spec.containers[2]", "Started", "some verbose message: 1", Verb::kPatch, 2},
      {"bar", "spec.containers[3]", "Started", "some verbose message: 1", Verb::kCreate, 1},
      {"bar", "spec.containers[2]", "Started", "some verbose message: 1", Verb::kPatch, 3},
      {"differentUid", "spec.containers[3]", "Stopped", "some verbose message: 1", Verb::kCreate,
       1},
      {"differentUid", "spec.containers[3]", "Stopped", "some verbose message: 1", Verb::kPatch, 2},
  };
  std::size_t number = 0;
  for (const Step& step : steps) {
    SCOPED_TRACE("step " + std::to_string(++number));
    const ObjectReference object{.kind = "Pod",
                                 .namespace_ = "baz",
                                 .name = "foo",
                                 .uid = step.uid,
                                 .api_version = "v1",
                                 .field_path = step.field_path};
    clock_.Advance(seconds(1));
    recorder_.Eventf(object, kNormal, step.reason, "{}", step.message);
    Run();
    const std::vector<SinkRequest> requests = sink->Requests();
    ASSERT_EQ(requests.size(), number);
    EXPECT_EQ(requests.back().verb, step.verb);
    const Event& event = *requests.back().event;
    EXPECT_TRUE(event.metadata.name.starts_with("foo."));
    EXPECT_EQ(event.count, step.count);
    EXPECT_EQ(event.first_timestamp == event.last_timestamp, step.count == 1);
    // And that is what the server has now.
    const std::vector<Event> events = sink->Events();
    const auto stored = std::ranges::find_if(
        events, [&](const Event& e) { return e.metadata.name == event.metadata.name; });
    ASSERT_NE(stored, events.end());
    EXPECT_EQ(stored->count, step.count);
    EXPECT_EQ(stored->last_timestamp, event.last_timestamp);
    EXPECT_EQ(stored->involved_object, object);
    EXPECT_EQ(lines.back(),
              "Event(v1.ObjectReference{Kind:\"Pod\", Namespace:\"baz\", Name:\"foo\", UID:\"" +
                  step.uid + "\", APIVersion:\"v1\", ResourceVersion:\"\", FieldPath:\"" +
                  step.field_path + "\"}): type: 'Normal' reason: '" + step.reason + "' " +
                  step.message);
    EXPECT_EQ(structured.back(), "Event occurred object=baz/foo fieldPath=" + step.field_path +
                                     " kind=Pod apiVersion=v1 type=Normal reason=" + step.reason +
                                     " message=" + step.message);
  }
  EXPECT_EQ(sink->Events().size(), 4U);
  EXPECT_EQ(Stats()[Outcome::kWritten], 4U);
  EXPECT_EQ(Stats()[Outcome::kMerged], 3U);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, MakesTheTriesOfTheTable) {
  struct Case {
    std::string name;
    std::vector<Status> answers;  // the last one is repeated; OK: success
    int attempts;
    Outcome outcome;
  };
  const std::vector<Case> cases = {
      {"cannot be built", {Status(StatusReason::kBadRequest, "bad URL")}, 1, Outcome::kRejected},
      {"the server rejects", {FromServer(StatusReason::kForbidden)}, 1, Outcome::kRejected},
      {"an unexpected object", {Status(StatusReason::kUnknown, "a Pod")}, 12, Outcome::kGaveUp},
      {"anything else", {Unreachable()}, 12, Outcome::kGaveUp},
      {"once, then success", {Unreachable(), Status()}, 2, Outcome::kWritten},
  };
  for (const bool exact : {false, true}) {
    for (const Case& c : cases) {
      SCOPED_TRACE(c.name);
      Use({.upstream_exact = exact});
      outcomes_.clear();
      const auto sink = StartMemorySink();
      int attempts = 0;
      sink->SetFault([&](const SinkRequest&) -> std::optional<Status> {
        const std::size_t i = static_cast<std::size_t>(attempts++);
        const Status& answer = c.answers[std::min(i, c.answers.size() - 1)];
        return answer.ok() ? std::nullopt : std::optional(answer);
      });
      recorder_.Event(Pod(), kNormal, "R", "m");
      Run();
      RunAllRetries();
      EXPECT_EQ(attempts, c.attempts);
      EXPECT_EQ(outcomes_, Outcomes{c.outcome});
      EXPECT_EQ(Stats().requests, static_cast<std::uint64_t>(c.attempts));
      EXPECT_EQ(Stats().retries, static_cast<std::uint64_t>(c.attempts - 1));
      ExpectAllEnded();
    }
  }
}

TEST_F(DeliveryTest, LogsTheMessagesOfClientGo) {
  const auto sink = StartMemorySink({.max_tries = 2});
  sink->SetFault([](const SinkRequest&) { return Unreachable(); });
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  EXPECT_EQ(log_, Strings{"Unable to write event (may retry after sleeping)"});
  RunAllRetries();
  EXPECT_EQ(log_.back(), "Unable to write event (retry limit exceeded!)");
  sink->SetFault([](const SinkRequest&) { return FromServer(StatusReason::kForbidden); });
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  EXPECT_EQ(log_.back(), "Server rejected event (will not retry!)");
  EXPECT_EQ(log_.size(), 3U);
}

TEST_F(DeliveryTest, CreatesAnExpiredEventAgainWithoutResourceVersion) {
  const auto sink = StartMemorySink();
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  const Event first = sink->Events().at(0);
  ASSERT_NE(first.metadata.resource_version, "");
  sink->Expire("ns", first.metadata.name);
  clock_.Advance(seconds(5));
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  const std::vector<SinkRequest> requests = sink->Requests();
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_EQ(requests[1].verb, Verb::kPatch);
  EXPECT_EQ(requests[1].event->metadata.resource_version, first.metadata.resource_version);
  EXPECT_EQ(requests[2].verb, Verb::kCreate);
  EXPECT_EQ(requests[2].event->metadata.resource_version, "");
  EXPECT_EQ(requests[2].patch, "");
  EXPECT_EQ(requests[2].event->metadata.name, first.metadata.name) << "people look for it there";
  EXPECT_EQ(requests[2].event->count, 2);
  EXPECT_EQ(requests[2].event->first_timestamp, first.first_timestamp);
  EXPECT_EQ(outcomes_, (Outcomes{Outcome::kWritten, Outcome::kWritten}));
  EXPECT_EQ(Stats().retries, 0U) << "it is still the same try";
  ExpectAllEnded();
}

TEST_F(DeliveryTest, DoesNotRetryAfterShutdown) {
  const auto sink = StartMemorySink();
  sink->SetFault([](const SinkRequest&) { return Unreachable(); });
  recorder_.Event(Pod(), kNormal, "R", "m");
  const DrainReport report = broadcaster_->Shutdown(seconds(0));
  EXPECT_FALSE(report.complete);
  EXPECT_EQ(report.in_flight, 1U);
  RunAllRetries();
  EXPECT_EQ(sink->Requests().size(), 1U);
  EXPECT_EQ(outcomes_, Outcomes{Outcome::kLost});
  ExpectAllEnded();
}

TEST_F(DeliveryTest, AThousandEventsThatFailFourTimesAreAllWritten) {
  const auto sink = StartMemorySink();
  std::map<std::string, int> attempts;
  sink->SetFault([&](const SinkRequest& request) -> std::optional<Status> {
    if (++attempts[request.event->message] <= 4) return Unreachable();
    return std::nullopt;
  });
  int logged = 0;
  ASSERT_TRUE(broadcaster_->StartLogging([&](std::string_view) { ++logged; }).ok());
  for (int i = 0; i < 1000; ++i) {
    // Each about its own object, lest the spam filter has a say.
    recorder_.Eventf(Pod("pod-" + std::to_string(i)), kNormal, "R", "{}", i);
  }
  Run();
  RunAllRetries();
  EXPECT_EQ(logged, 1000);
  ASSERT_EQ(attempts.size(), 1000U);
  for (const auto& [message, count] : attempts) EXPECT_EQ(count, 5) << message;
  EXPECT_EQ(Stats()[Outcome::kWritten], 1000U);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, EventsOfAnObjectWithoutNamespaceAreInDefault) {
  const auto sink = StartMemorySink();
  std::string line;
  ASSERT_TRUE(broadcaster_->StartLogging([&](std::string_view text) { line = text; }).ok());
  recorder_.Event({.kind = "Pod",
                   .name = "foo",
                   .uid = "bar",
                   .api_version = "v1",
                   .field_path = "spec.containers[2]"},
                  kNormal, "Started", "some verbose message: 1");
  Run();
  ASSERT_EQ(sink->Events().size(), 1U);
  EXPECT_EQ(sink->Events()[0].metadata.namespace_, "default");
  EXPECT_EQ(sink->Events()[0].involved_object.namespace_, "");
  EXPECT_EQ(line,
            "Event(v1.ObjectReference{Kind:\"Pod\", Namespace:\"\", Name:\"foo\", UID:\"bar\", "
            "APIVersion:\"v1\", ResourceVersion:\"\", FieldPath:\"spec.containers[2]\"}): type: "
            "'Normal' reason: 'Started' some verbose message: 1");
}

TEST_F(DeliveryTest, EachSinkCorrelatesForItself) {
  const auto first = StartMemorySink();
  recorder_.Event(Pod(), kNormal, "R", "m");
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  const auto second = StartMemorySink();
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  ASSERT_EQ(second->Requests().size(), 1U);
  EXPECT_EQ(second->Requests()[0].verb, Verb::kCreate) << "it has never seen this event";
  EXPECT_EQ(second->Events().at(0).count, 1);
  EXPECT_EQ(first->Events().at(0).count, 3);
}

// What client-go's correlator promises (tools/record/events_cache_test.go), seen from the
// sink. count_correlator_test.cc has the rest of it, compared with the real one.

struct Said {
  std::string object = "my-pod";
  std::string field_path{};
  std::string reason{};
  std::string message{};
};

std::vector<Said> Times(std::size_t times, const Said& said) {
  return std::vector<Said>(times, said);
}

// The same with different messages, or about different objects.
std::vector<Said> Similar(int times, const Said& said) {
  std::vector<Said> all = Times(static_cast<std::size_t>(times), said);
  for (int i = 0; i < times; ++i) all[static_cast<std::size_t>(i)].message += std::to_string(i);
  return all;
}
std::vector<Said> Unique(int times, const Said& said) {
  std::vector<Said> all = Times(static_cast<std::size_t>(times), said);
  for (int i = 0; i < times; ++i) all[static_cast<std::size_t>(i)].object += std::to_string(i);
  return all;
}

TEST_F(DeliveryTest, CountsCombinesAndFiltersAsTheCorrelatorDoes) {
  const Said duplicate{.reason = "duplicate", .message = "me again"};
  const Said similar{.field_path = "spec.containers{container1}",
                     .reason = "similar",
                     .message = "similar message"};
  Said other_container = similar;
  other_container.field_path = "spec.containers{container2}";
  const std::string combined = "(combined from similar events): similar message";
  struct Case {
    std::string name;
    std::vector<Said> before;
    Said last;
    seconds apart;
    int count;  // 0: filtered
    std::string message;
  };
  const std::vector<Case> cases = {
      {"one event", {}, duplicate, seconds(5), 1, "me again"},
      {"a repeat counts", Times(1, duplicate), duplicate, seconds(5), 2, "me again"},
      {"however often, a repeat is not combined", Times(10, duplicate), duplicate, seconds(30), 11,
       "me again"},
      {"too often is spam", Times(26, duplicate), duplicate, seconds(1), 0, ""},
      {"others do not matter", Unique(30, duplicate), duplicate, seconds(5), 1, "me again"},
      {"the tenth similar one is combined", Similar(9, similar), similar, seconds(5), 1, combined},
      {"the eleventh counts the combined one", Similar(10, similar), similar, seconds(5), 2,
       combined},
      {"two containers are two things", Times(1, other_container), similar, seconds(5), 1,
       "similar message"},
      {"too far apart to be combined", Similar(9, similar), similar, seconds(601), 1,
       "similar message"},
  };
  for (const bool exact : {false, true}) {
    for (const Case& c : cases) {
      SCOPED_TRACE(c.name);
      Use({.upstream_exact = exact});
      const auto sink = StartMemorySink();
      const auto record = [&](const Said& said) {
        ObjectReference pod = Pod(said.object);
        pod.field_path = said.field_path;
        recorder_.Event(pod, kNormal, said.reason, said.message);
        Run();
        clock_.Advance(c.apart);
      };
      for (const Said& said : c.before) record(said);
      const std::size_t requests = sink->Requests().size();
      record(c.last);
      ASSERT_EQ(sink->Requests().size(), requests + (c.count == 0 ? 0 : 1));
      if (c.count == 0) {
        EXPECT_EQ(outcomes_.back(), Outcome::kFiltered);
        continue;
      }
      const SinkRequest request = sink->Requests().back();
      EXPECT_EQ(request.event->count, c.count);
      EXPECT_EQ(request.event->message, c.message);
      EXPECT_EQ(request.verb, c.count == 1 ? Verb::kCreate : Verb::kPatch);
    }
  }
}

TEST_F(DeliveryTest, UsesTheSpamKeyOfTheCaller) {
  const auto by_reason = [](const Event& event) {
    return event.involved_object.name + "/" + event.reason;
  };
  struct Case {
    std::string name;
    std::function<std::string(const Event&)> spam_key;
    std::string reason;
    bool passes;
  };
  const std::vector<Case> cases = {
      {"by object, whatever the reason", nullptr, "other", false},
      {"by reason: another one passes", by_reason, "other", true},
      {"by reason: another message does not", by_reason, "original", false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Use({});
    outcomes_.clear();
    StartMemorySink({.count = {.spam_burst = 1, .spam_key = c.spam_key}});
    recorder_.Event(Pod(), kNormal, "original", "i am first");
    Run();
    clock_.Advance(seconds(1));
    recorder_.Event(Pod(), kNormal, c.reason, "me again");
    Run();
    EXPECT_EQ(outcomes_,
              (Outcomes{Outcome::kWritten, c.passes ? Outcome::kWritten : Outcome::kFiltered}));
  }
}

// What client-go's tools/events promises (event_broadcaster_test.go, eventseries_test.go).

TEST_F(DeliveryTest, TheSecondOfTwoEqualEventsStartsASeries) {
  const auto sink = StartMemorySink();
  const auto record = [&](std::string_view action) {
    series_recorder_.Record(Pod(), {.reason = "Scheduled", .action = action}, "note");
    Run();
  };
  record("Binding");
  record("Binding");
  record("Unbinding");
  const std::vector<SinkRequest> requests = sink->Requests();
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_EQ(requests[0].verb, Verb::kCreate);
  EXPECT_EQ(requests[0].api, EventApi::kEventsV1);
  EXPECT_FALSE(requests[0].event->series);
  EXPECT_EQ(requests[1].verb, Verb::kPatch);
  EXPECT_EQ(requests[1].event->series->count, 2);
  EXPECT_EQ(requests[1].patch,
            R"({"series":{"count":2,"lastObservedTime":"2023-11-14T22:13:20.000000Z"}})");
  EXPECT_EQ(requests[2].verb, Verb::kCreate);
  EXPECT_FALSE(requests[2].event->series);
  for (const SinkRequest& request : requests) {
    EXPECT_TRUE(request.event->metadata.name.starts_with("web-0."));
  }
  EXPECT_EQ(sink->Events().size(), 2U);
  EXPECT_EQ(outcomes_, (Outcomes{Outcome::kWritten, Outcome::kMerged, Outcome::kWritten}));
}

TEST_F(DeliveryTest, WritesEventsThatAreRecordedWithASeries) {
  // The original and its series in every order, as another program may hand them over.
  Event original;
  original.metadata = {.name = "web-0.1", .namespace_ = "ns"};
  original.involved_object = Pod();
  original.type = kNormal;
  original.reason = "Scheduled";
  original.action = "Binding";
  original.event_time = MicroTime(1700000000, 0);
  original.reporting_controller = "scheduler";
  original.reporting_instance = "scheduler-1";
  Event again = original;
  again.series = EventSeries{.count = 2, .last_observed_time = MicroTime(1700000001, 0)};
  const std::vector<std::vector<Event>> orders = {
      {original}, {original, again}, {again, original}, {again}};
  for (const std::vector<Event>& order : orders) {
    Use({});
    const auto sink = StartMemorySink();
    for (const Event& event : order) {
      ASSERT_TRUE(
          broadcaster_->Action(WatchType::kAdded, std::make_shared<const Event>(event)).ok());
      Run();
    }
    broadcaster_->Flush(kPatience);
    ASSERT_EQ(sink->Events().size(), 1U);
    const bool is_series = order.size() > 1 || order[0].series;
    EXPECT_EQ(sink->Events()[0].series.has_value(), is_series);
    if (is_series) {
      EXPECT_GE(sink->Events()[0].series->count, 2);
    }
  }
}

TEST(DeliveryThreadsTest, TwoEqualEventsAtOnceBecomeOneSeries) {
  for (int round = 0; round < 20; ++round) {
    const auto sink = std::make_shared<MemorySink>();
    Broadcaster broadcaster;
    ASSERT_TRUE(broadcaster.StartRecordingToSink(sink).ok());
    Recorder recorder = broadcaster.NewRecorder({.component = "c", .api = EventApi::kEventsV1});
    std::thread other([&, copy = recorder]() mutable { copy.Event(Pod(), kNormal, "R", "m"); });
    recorder.Event(Pod(), kNormal, "R", "m");
    other.join();
    EXPECT_TRUE(broadcaster.Shutdown(kPatience).complete);
    ASSERT_EQ(sink->Events().size(), 1U);
    ASSERT_TRUE(sink->Events()[0].series);
    EXPECT_EQ(sink->Events()[0].series->count, 2);
  }
}

TEST_F(DeliveryTest, WritesASeriesThatEndsOnceMoreAndNoOtherEvent) {
  const auto sink = StartMemorySink();
  series_recorder_.Event(Pod(), kNormal, "R", "m");
  series_recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  Advance(minutes(5));
  series_recorder_.Event(Pod(), kNormal, "R", "m");  // merged, to be written later
  series_recorder_.Event(Pod("single"), kNormal, "R", "m");
  Run();
  const std::size_t before = sink->Requests().size();
  for (int i = 0; i < 12; ++i) Advance(minutes(1));
  const std::vector<SinkRequest> requests = sink->Requests();
  ASSERT_GT(requests.size(), before);
  for (std::size_t i = before; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].verb, Verb::kPatch);
    EXPECT_EQ(requests[i].event->series->count, 3);
    EXPECT_EQ(requests[i].event->series->last_observed_time, MicroTime(1700000300, 0));
  }
  Advance(hours(2));
  EXPECT_EQ(sink->Requests().size(), requests.size()) << "and then it is over";
  ExpectAllEnded();
}

TEST_F(DeliveryTest, ASeriesWhosePatchFailedIsStillASeries) {
  for (const bool refuse : {false, true}) {
    Use({});
    const auto sink = StartMemorySink();
    series_recorder_.Event(Pod(), kNormal, "R", "m");
    series_recorder_.Event(Pod(), kNormal, "R", "m");
    Run();
    if (refuse) {
      sink->SetFault([](const SinkRequest&) { return FromServer(StatusReason::kForbidden); });
    }
    series_recorder_.Event(Pod(), kNormal, "R", "m");
    broadcaster_->Flush(kPatience);
    EXPECT_EQ(sink->Requests().size(), 3U);
    sink->SetFault(nullptr);
    series_recorder_.Event(Pod(), kNormal, "R", "m");
    broadcaster_->Flush(kPatience);
    ASSERT_EQ(sink->Requests().size(), 4U);
    EXPECT_EQ(sink->Requests()[3].verb, Verb::kPatch);
    EXPECT_EQ(sink->Events().at(0).series->count, 4);
  }
}

}  // namespace
}  // namespace herald
