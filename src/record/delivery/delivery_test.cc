#include "record/delivery/delivery.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "herald/record/broadcaster.h"
#include "herald/record/fakes.h"

namespace herald {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Outcomes = std::vector<Outcome>;
using Strings = std::vector<std::string>;
using Verb = SinkRequest::Verb;

constexpr seconds kPatience{30};

Status FromServer(StatusReason reason, int code = 0, seconds retry_after = seconds(0)) {
  return Status({.reason = reason,
                 .code = code,
                 .message = "the server says so",
                 .retry_after = retry_after,
                 .origin = Status::Origin::kServer});
}

Status Unreachable() { return Status(StatusReason::kUnreachable, "no route"); }

ObjectReference Pod(std::string name = "web-0") {
  return {
      .kind = "Pod", .namespace_ = "ns", .name = std::move(name), .uid = "u1", .api_version = "v1"};
}

std::uint64_t Ended(const SinkStats& stats) {
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
  void Refuse(const Status& status) { Pop().done(status); }

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
    options.drain = milliseconds(0);
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
  // Until no retry is left that could come.
  void RunAllRetries() {
    for (int i = 0; i < 20; ++i) Advance(seconds(13));
  }

  // Which also checks that nothing is missing from the accounts.
  SinkStats Stats(std::size_t sink = 0) {
    const SinkStats stats = broadcaster_->Stats().at(sink);
    EXPECT_EQ(stats.recorded, Ended(stats) + stats.in_flight);
    return stats;
  }

  void ExpectAllEnded() {
    const SinkStats stats = Stats();
    EXPECT_EQ(stats.in_flight, 0U);
    std::map<Outcome, std::uint64_t> told;
    for (const Outcome outcome : outcomes_) ++told[outcome];
    for (std::size_t i = 0; i < kOutcomes; ++i) {
      const auto outcome = static_cast<Outcome>(i);
      EXPECT_EQ(told[outcome], stats[outcome]) << OutcomeName(outcome) << ": told once each";
    }
  }

  FakeClock clock_{WallTime(seconds(1700000000))};
  Executor executor_{{.threads = 0, .clock = &clock_}};
  Strings log_;
  Outcomes outcomes_;
  std::unique_ptr<Broadcaster> broadcaster_;
  Recorder recorder_;
  Recorder series_recorder_;
};

// What client-go's tools/record promises (event_test.go).

TEST_F(DeliveryTest, RepeatsArePatchesAndOtherEventsAreNot) {
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

TEST_F(DeliveryTest, TriesAsOftenAsItMakesSense) {
  struct Case {
    std::string name;
    std::vector<Status> answers;  // the last one goes on; none: success
    int attempts;
    Outcome outcome;
  };
  const std::vector<Case> cases = {
      {"cannot be built", {Status(StatusReason::kBadRequest, "bad URL")}, 1, Outcome::kRejected},
      {"the server refuses", {FromServer(StatusReason::kForbidden)}, 1, Outcome::kRejected},
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

TEST_F(DeliveryTest, SaysInTheLogWhatClientGoSays) {
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

TEST_F(DeliveryTest, AnEventThatExpiredIsMadeAnewWithoutItsVersion) {
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

TEST_F(DeliveryTest, AShutDownBroadcasterTriesOnceAndNoMore) {
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

TEST_F(DeliveryTest, AnObjectWithoutNamespaceHasItsEventsInDefault) {
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

TEST_F(DeliveryTest, TheCallerMaySayWhatIsSpam) {
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

TEST_F(DeliveryTest, TheSecondOfTwoLikeEventsStartsASeries) {
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

TEST_F(DeliveryTest, EventsThatComeWithTheirSeriesAreWrittenWithIt) {
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

TEST(DeliveryThreadsTest, TwoLikeEventsAtOnceAreOneObjectWithASeries) {
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

TEST_F(DeliveryTest, ASeriesThatFellSilentIsWrittenOnceMoreAndOtherEventsStay) {
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

// Order, and nobody waits for another's object.

TEST_F(DeliveryTest, EventsOfOneObjectStayInOrderWhateverFails) {
  const auto sink = StartManualSink({.max_in_flight = 8});
  for (int i = 0; i < 5; ++i) recorder_.Eventf(Pod(), kNormal, "R", "{}", i);
  Run();
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(sink->open.size(), 1U) << "one at a time";
    EXPECT_EQ(sink->open[0].request.event->message, std::to_string(i));
    sink->Refuse(Unreachable());
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

TEST_F(DeliveryTest, AnObjectThatFailsHoldsUpNobodyElse) {
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

TEST_F(DeliveryTest, NorDoesOneWithThousandsOfEvents) {
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

TEST_F(DeliveryTest, ObjectsThatSleepGiveUpTheirTurn) {
  const auto sink = StartManualSink({.max_in_flight = 1});
  for (const char* name : {"a", "b", "c"}) recorder_.Event(Pod(name), kNormal, "R", "m");
  Run();
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_EQ(sink->open.size(), 1U) << "no more than one is under way";
    EXPECT_EQ(sink->open[0].request.event->involved_object.name, name);
    sink->Refuse(Unreachable());
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

TEST_F(DeliveryTest, NoMoreThanAskedForAreUnderWay) {
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

TEST_F(DeliveryTest, UpstreamWritesOneAtATimeAndEverybodyWaits) {
  Use({.upstream_exact = true});
  const auto sink = StartManualSink();
  recorder_.Event(Pod("a"), kNormal, "R", "m");
  recorder_.Event(Pod("b"), kNormal, "R", "m");
  Run();
  ASSERT_EQ(sink->open.size(), 1U);
  sink->Refuse(Unreachable());
  Run();
  EXPECT_TRUE(sink->open.empty());
  Advance(seconds(10));
  ASSERT_EQ(sink->open.size(), 1U);
  EXPECT_EQ(sink->open[0].request.event->involved_object.name, "a");
}

// Retries.

TEST_F(DeliveryTest, WaitsAsLongAsTheServerAsks) {
  const auto sink = StartManualSink();
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  sink->Refuse(FromServer(StatusReason::kTooManyRequests, 0, seconds(42)));
  Run();
  Advance(seconds(41));
  EXPECT_TRUE(sink->open.empty());
  Advance(seconds(1));
  EXPECT_EQ(sink->open.size(), 1U);
}

TEST_F(DeliveryTest, ButNotForEver) {
  const auto sink = StartManualSink();
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  sink->Refuse(FromServer(StatusReason::kServiceUnavailable, 0, hours(24)));
  Run();
  Advance(minutes(5));
  EXPECT_EQ(sink->open.size(), 1U);
}

TEST_F(DeliveryTest, TheFirstWaitIsShorterAndTheOthersAreNot) {
  const auto sink = StartManualSink();
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  sink->Refuse(Unreachable());
  Run();
  Advance(seconds(10));
  ASSERT_EQ(sink->open.size(), 1U) << "anything below ten seconds";
  sink->Refuse(Unreachable());
  Run();
  Advance(milliseconds(9999));
  EXPECT_TRUE(sink->open.empty());
  Advance(milliseconds(1));
  EXPECT_EQ(sink->open.size(), 1U);
}

TEST_F(DeliveryTest, InTheNewStyleAWaitIsUpToAQuarterLonger) {
  const auto sink = StartManualSink();
  series_recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  for (int i = 0; i < 5; ++i) {
    sink->Refuse(Unreachable());
    Run();
    Advance(milliseconds(9999));
    EXPECT_TRUE(sink->open.empty());
    Advance(milliseconds(2501));
    ASSERT_EQ(sink->open.size(), 1U);
  }
}

TEST_F(DeliveryTest, TriesAsOftenAsItIsTold) {
  const auto sink = StartMemorySink({.max_tries = 3, .retry_after = milliseconds(100)});
  sink->SetFault([](const SinkRequest&) { return FromServer(StatusReason::kInternalError); });
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  for (int i = 0; i < 10; ++i) Advance(milliseconds(100));
  EXPECT_EQ(sink->Requests().size(), 3U);
  EXPECT_EQ(outcomes_, Outcomes{Outcome::kGaveUp});
}

TEST_F(DeliveryTest, ASeriesThatExistsAlreadyIsTriedAgain) {
  // Its first event raced with it: patch 404, create 409, and then the patch works.
  const auto sink = StartManualSink();
  series_recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  sink->Accept();
  Run();
  series_recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  ASSERT_EQ(sink->open[0].request.verb, Verb::kPatch);
  sink->Refuse(FromServer(StatusReason::kNotFound));
  Run();
  ASSERT_EQ(sink->open[0].request.verb, Verb::kCreate);
  ASSERT_TRUE(sink->open[0].request.event->series);
  sink->Refuse(FromServer(StatusReason::kAlreadyExists));
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

TEST_F(DeliveryTest, ACreateThatMeetsItsOwnFirstTryWasWritten) {
  const auto sink = StartManualSink();
  recorder_.Event(Pod("lost answer"), kNormal, "R", "m");
  Run();
  sink->Refuse(Unreachable());
  Run();
  Advance(seconds(10));
  sink->Refuse(FromServer(StatusReason::kAlreadyExists));
  Run();
  recorder_.Event(Pod("name taken"), kNormal, "R", "m");
  Run();
  sink->Refuse(FromServer(StatusReason::kAlreadyExists));
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

TEST_F(DeliveryTest, ASinkThatThrowsIsTriedAgain) {
  const auto sink = std::make_shared<ThrowingSink>(/*answers_first=*/false);
  ASSERT_TRUE(broadcaster_->StartRecordingToSink(sink).ok());
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  RunAllRetries();
  EXPECT_EQ(sink->calls, 12);
  EXPECT_EQ(outcomes_, Outcomes{Outcome::kGaveUp});
}

TEST_F(DeliveryTest, ASinkThatAnswersAndThenThrowsHasAnswered) {
  const auto sink = std::make_shared<ThrowingSink>(/*answers_first=*/true);
  ASSERT_TRUE(broadcaster_->StartRecordingToSink(sink).ok());
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  RunAllRetries();
  EXPECT_EQ(sink->calls, 1);
  EXPECT_EQ(outcomes_, Outcomes{Outcome::kWritten});
}

TEST_F(DeliveryTest, ASecondAnswerIsNone) {
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

TEST_F(DeliveryTest, AnAnswerToAnEarlierTryIsNoneToTheNext) {
  const auto sink = StartManualSink();
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  sink->Accept();
  Run();
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  // The patch finds nothing, and the sink says so twice: the create that follows is
  // another request and has its own answer.
  const ManualSink::Open patch = sink->Pop();
  patch.done(FromServer(StatusReason::kNotFound));
  patch.done(FromServer(StatusReason::kNotFound));
  Run();
  ASSERT_EQ(sink->open.size(), 1U);
  sink->Refuse(Unreachable());
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

TEST_F(DeliveryTest, ASinkMayAnswerAfterTheBroadcasterIsGone) {
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

TEST(DeliveryThreadsTest, ASinkMayAnswerAfterABroadcasterWithAThreadIsGone) {
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

TEST_F(DeliveryTest, ASinkThatNeverAnswersLosesOnlyWhatItWasGiven) {
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

TEST_F(DeliveryTest, ASinkThatKeepsItsRequestsKeepsNothingElse) {
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

// Full queues.

TEST_F(DeliveryTest, WhatTheQueueCannotHoldIsCounted) {
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

TEST_F(DeliveryTest, WhatTheBroadcasterCannotHoldIsCountedForEverySink) {
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

TEST_F(DeliveryTest, WarningsOutliveNormalsWhenAsked) {
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

TEST_F(DeliveryTest, UnderWaitASlowSinkLosesNothing) {
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

TEST_F(DeliveryTest, TheSequencerIsBoundedByBytesToo) {
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

TEST_F(DeliveryTest, MoreThanItTakesInAtOnceIsNotForgotten) {
  // All of these but the first end without a request, so no answer wakes it.
  Use({.incoming_events = 5000, .watcher_events = 5000});
  const auto sink = StartMemorySink({.count = {.spam_burst = 1}});
  for (int i = 0; i < 4000; ++i) recorder_.Event(Pod(), kNormal, "R", "m");
  EXPECT_TRUE(broadcaster_->Flush(kPatience).complete);
  EXPECT_EQ(Stats()[Outcome::kWritten], 1U);
  EXPECT_EQ(Stats()[Outcome::kFiltered], 3999U);
  ExpectAllEnded();
}

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

TEST_F(DeliveryTest, AnObjectThatIsStuckDoesNotCostTheOthersTheirCounts) {
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

TEST_F(DeliveryTest, ACountThatIsRefusedIsNotMerged) {
  const auto sink = StartMemorySink();
  for (int i = 0; i < 5; ++i) series_recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  sink->SetFault([](const SinkRequest&) { return FromServer(StatusReason::kForbidden); });
  EXPECT_TRUE(broadcaster_->Flush(kPatience).complete);
  EXPECT_EQ(Stats()[Outcome::kMerged], 1U);
  EXPECT_EQ(Stats()[Outcome::kRejected], 3U);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, FlushReportsWhatIsLeftAndGoesOnTrying) {
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

TEST_F(DeliveryTest, SeveralFlushesWaitEachForItsOwn) {
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
  // Nobody waits for it any more, and it does not disturb those who come later.
  EXPECT_FALSE(broadcaster_->Flush(kPatience).complete);
  sink->Accept();
  EXPECT_TRUE(broadcaster_->Flush(kPatience).complete);
}

// Were it to wait for an empty pipeline, it would wait for as long as this goes on.
TEST(DeliveryThreadsTest, FlushEndsWhileOthersGoOnRecording) {
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

TEST_F(DeliveryTest, ThoseWhoWaitForCountsAreBounded) {
  const auto sink = StartMemorySink();
  // Each of these is asked after, and none is written for a minute but for the bound.
  for (int batch = 0; batch < 50; ++batch) {
    for (int i = 0; i < 100; ++i) series_recorder_.Event(Pod(), kNormal, "R", "m");
    Run();
    ASSERT_LT(Stats().in_flight, 2000U) << "as many as are waiting to be told";
  }
  EXPECT_GT(sink->Requests().size(), 2U);
  EXPECT_LT(sink->Requests().size(), 10U) << "the counts go on being merged";
  broadcaster_->Flush(kPatience);
  EXPECT_EQ(sink->Events().at(0).series->count, 5000);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, UpstreamsCountsHaveTheirTimeWhoeverWaits) {
  Use({.incoming_events = 5000, .watcher_events = 5000, .upstream_exact = true});
  const auto sink = StartMemorySink();
  for (int i = 0; i < 3000; ++i) series_recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  EXPECT_EQ(sink->Requests().size(), 2U);
  Advance(minutes(30));
  EXPECT_EQ(Stats()[Outcome::kMerged], 2999U);
  EXPECT_EQ(outcomes_.size(), 1002U) << "beyond the bound they are only counted";
}

// A sink that records itself, as a client that complains of its server may.
TEST_F(DeliveryTest, ASinkMayHoldARecorderOfItsOwnBroadcaster) {
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
TEST_F(DeliveryTest, ALogMayKnowARecorderOfItsOwnBroadcaster) {
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

TEST(DeliveryThreadsTest, FlushWaitsForASinkThatAnswersFromElsewhere) {
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

// The summary after a loss.

TEST_F(DeliveryTest, ALossIsSummedUpAtMostOnceAMinute) {
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
  EXPECT_EQ(Stats().recorded, 5U) << "nobody recorded the summaries";
  ExpectAllEnded();
}

TEST_F(DeliveryTest, WhatHappenedWithinTheMinuteIsSummedUpAtItsEnd) {
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

TEST_F(DeliveryTest, DroppedEventsAreSummedUpTooAndWhyIsSaid) {
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

TEST_F(DeliveryTest, ASummaryThatIsLostIsNotSummedUp) {
  const auto sink = StartMemorySink({.self = Pod("agent")});
  sink->SetFault([](const SinkRequest&) { return FromServer(StatusReason::kForbidden); });
  recorder_.Event(Pod(), kNormal, "R", "m");
  Run();
  for (int i = 0; i < 10; ++i) Advance(minutes(1));
  EXPECT_EQ(sink->Requests().size(), 2U);
  EXPECT_EQ(Stats().recorded, 1U);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, WithoutASelfOrUnderUpstreamExactThereIsNoSummary) {
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

TEST_F(DeliveryTest, EachEventIsToldItsOutcomeOnceWithTheReason) {
  const auto sink = StartMemorySink({.count = {.spam_burst = 3}});
  std::vector<std::pair<Outcome, bool>> told;
  const auto record = [&](const ObjectReference& object, std::string_view type) {
    recorder_.Record(object,
                     {.type = type,
                      .reason = "R",
                      .on_outcome =
                          [&](Outcome outcome, const Status& why) {
                            told.emplace_back(outcome, why.ok());
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
  EXPECT_EQ(told, expected);
  ExpectAllEnded();
}

TEST_F(DeliveryTest, EverythingIsAccountedForAtEveryInstant) {
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
