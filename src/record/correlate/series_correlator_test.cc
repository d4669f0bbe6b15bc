#include "record/correlate/series_correlator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "herald/api/codec.h"
#include "herald/api/patch.h"
#include "test/golden.h"

namespace herald {
namespace {

using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using Action = Correlation::Action;
using Verb = SinkRequest::Verb;

std::string Json(const Event& event) {
  std::string text;
  JsonCodec().AppendEvent(event, EventApi::kEventsV1, &text);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// Runs what the real client-go ran (test/interop/go/cmd/goldens/correlate.go): inputs
// at their times, and in between the timers.
class Replay {
 public:
  explicit Replay(const testing::Vector& scenario)
      : scenario_(scenario), start_(nanoseconds(scenario.at("start_ns").get<std::int64_t>())) {}

  void Run() {
    Take(correlator_.TakeDue(At({}), /*all=*/false), {});
    for (const testing::Vector& input : scenario_.at("inputs")) {
      const nanoseconds at(input.at("at_ns").get<std::int64_t>());
      RunTimers(at);
      const Result<Event> event =
          JsonCodec().DecodeEvent(input.at("event").dump(), EventApi::kEventsV1);
      ASSERT_TRUE(event);
      Correlation result =
          correlator_.Correlate(std::make_shared<const Event>(*event), start_ + at, At(at));
      if (result.action == Action::kSend) {
        std::vector<Correlation> one;
        one.push_back(std::move(result));
        Take(std::move(one), at);
      } else {
        ASSERT_EQ(result.action, Action::kMerge);
      }
    }
    RunTimers(nanoseconds(scenario_.at("until_ns").get<std::int64_t>()));
    EXPECT_EQ(taken_, scenario_.at("requests").size());
  }

 private:
  SteadyTime At(nanoseconds at) const { return SteadyTime(seconds(1000)) + at; }

  void RunTimers(nanoseconds until) {
    for (auto due = correlator_.NextDue(); due && *due <= At(until); due = correlator_.NextDue()) {
      Take(correlator_.TakeDue(*due, /*all=*/false), *due - At({}));
    }
  }

  // What is written at one instant comes in any order; there it is sorted by name.
  void Take(std::vector<Correlation> correlations, nanoseconds at) {
    std::ranges::sort(correlations, {},
                      [](const Correlation& c) { return c.request.event->metadata.name; });
    for (const Correlation& c : correlations) {
      SCOPED_TRACE("request " + std::to_string(taken_ + 1));
      ASSERT_LT(taken_, scenario_.at("requests").size());
      const testing::Vector& expected = scenario_.at("requests").at(taken_++);
      EXPECT_EQ(at.count(), expected.at("at_ns").get<std::int64_t>());
      EXPECT_EQ(c.request.verb, expected.at("verb") == "patch" ? Verb::kPatch : Verb::kCreate);
      EXPECT_EQ(c.request.api, EventApi::kEventsV1);
      EXPECT_EQ(Json(*c.request.event), expected.at("event").get<std::string>());
      EXPECT_EQ(c.request.patch,
                testing::HasBytes(expected, "patch") ? testing::Bytes(expected, "patch") : "");
      Event answer =
          *JsonCodec().DecodeEvent(expected.at("event").get<std::string>(), EventApi::kEventsV1);
      answer.metadata.resource_version = expected.at("rv");
      if (answer.series) {
        EventSeries& series = *answer.series;
        series.count += scenario_.value("server_adds", 0);
        series.last_observed_time =
            MicroTime(series.last_observed_time.seconds() + scenario_.value("server_shift_s", 0),
                      series.last_observed_time.nanos());
      }
      correlator_.Learn(c.key, answer);
    }
  }

  const testing::Vector& scenario_;
  const WallTime start_;
  SeriesCorrelator correlator_{SeriesOptions{}, /*upstream_exact=*/true};
  std::size_t taken_ = 0;
};

TEST(SeriesScenarios, EndAsTheyDoInClientGo) {
  int scenarios = 0;
  for (const testing::Vector& vector : testing::LoadGolden("correlate.json")) {
    if (vector.at("correlator") != "series") continue;
    SCOPED_TRACE(vector.at("name").get<std::string>());
    Replay(vector).Run();
    ++scenarios;
  }
  EXPECT_GE(scenarios, 30);
}

// Where we do not follow client-go.

class SeriesCorrelatorTest : public ::testing::Test {
 protected:
  Event MakeEvent(std::string_view object = "web-0") const {
    Event event;
    event.metadata.name = std::string(object) + "." + std::to_string(recorded_);
    event.metadata.namespace_ = "ns";
    event.involved_object = {.kind = "Pod",
                             .namespace_ = "ns",
                             .name = std::string(object),
                             .uid = "u1",
                             .api_version = "v1",
                             .resource_version = {},
                             .field_path = {}};
    event.reason = "Pulled";
    event.message = "note";
    event.type = kNormal;
    event.event_time = MicroTime(now_);
    event.action = "Pulling";
    event.reporting_controller = "ctl";
    event.reporting_instance = "ctl-1";
    return event;
  }

  Correlation Record(Event event) {
    ++recorded_;
    return correlator_->Correlate(std::make_shared<const Event>(std::move(event)), now_, steady_);
  }

  void Advance(nanoseconds by) {
    now_ += by;
    steady_ += by;
  }

  void Use(SeriesOptions options) {
    correlator_ = std::make_unique<SeriesCorrelator>(options, /*upstream_exact=*/false);
  }

  std::vector<Correlation> TakeDue(bool all = false) { return correlator_->TakeDue(steady_, all); }

  WallTime now_{seconds(1700000000)};
  SteadyTime steady_{seconds(1000)};
  int recorded_ = 0;
  std::unique_ptr<SeriesCorrelator> correlator_ =
      std::make_unique<SeriesCorrelator>(SeriesOptions{}, /*upstream_exact=*/false);
};

TEST_F(SeriesCorrelatorTest, TheSecondOccurrenceStartsASeries) {
  const auto first = std::make_shared<const Event>(MakeEvent());
  const Correlation created = correlator_->Correlate(first, now_, steady_);
  EXPECT_EQ(created.action, Action::kSend);
  EXPECT_EQ(created.request.verb, Verb::kCreate);
  EXPECT_EQ(created.request.event, first) << "nothing changes, so nothing is copied";

  Advance(seconds(1));
  const Correlation patched = Record(MakeEvent());
  ASSERT_EQ(patched.request.verb, Verb::kPatch);
  EXPECT_EQ(patched.request.patch,
            R"({"series":{"count":2,"lastObservedTime":"2023-11-14T22:13:21.000000Z"}})");
  Event expected = *first;
  expected.series = EventSeries{.count = 2, .last_observed_time = MicroTime(now_)};
  EXPECT_EQ(*patched.request.event, expected) << "a create after 404 needs the whole event";
  EXPECT_FALSE(first->series) << "a published event was changed";
  const Result<Event> on_server =
      ApplyPatch(*first, EventApi::kEventsV1, PatchType::kStrategicMerge, patched.request.patch);
  ASSERT_TRUE(on_server);
  EXPECT_EQ(*on_server, expected);
}

TEST_F(SeriesCorrelatorTest, EventsThatDifferInTheirNoteAreDifferentEvents) {
  const auto record = [&](std::string note) {
    Event event = MakeEvent();
    event.message = std::move(note);
    return Record(event);
  };
  EXPECT_EQ(record("container a").request.verb, Verb::kCreate);
  const Correlation other = record("container b");
  EXPECT_EQ(other.request.verb, Verb::kCreate);
  EXPECT_EQ(other.request.event->message, "container b");
  // Each has its own series, whichever of them comes next.
  const Correlation again = record("container a");
  EXPECT_EQ(again.request.verb, Verb::kPatch);
  EXPECT_EQ(again.request.event->message, "container a");
  EXPECT_EQ(record("container b").request.verb, Verb::kPatch);
  EXPECT_EQ(record("container b").action, Action::kMerge);
}

TEST_F(SeriesCorrelatorTest, ManyNotesBecomeOneCombinedSeries) {
  const auto record = [&](int number) {
    Event event = MakeEvent();
    event.message = "attempt " + std::to_string(number);
    return Record(event);
  };
  for (int i = 0; i < 9; ++i) EXPECT_EQ(record(i).request.verb, Verb::kCreate) << i;
  const Correlation combined = record(9);
  EXPECT_EQ(combined.request.verb, Verb::kCreate);
  EXPECT_EQ(combined.request.event->message, "(combined from similar events): attempt 9");
  EXPECT_EQ(record(10).request.verb, Verb::kPatch);
  for (int i = 11; i < 100; ++i) EXPECT_EQ(record(i).action, Action::kMerge) << i;
  // One of the nine is still itself.
  EXPECT_EQ(record(3).request.verb, Verb::kPatch);
  // After a while without any, notes are taken for what they say again.
  Advance(seconds(601));
  EXPECT_EQ(record(200).request.event->message, "attempt 200");
}

TEST_F(SeriesCorrelatorTest, ACombinedNoteIsCutToTheLimit) {
  Use({.aggregate_after = 1});
  Event event = MakeEvent();
  event.message = std::string(1024, 'x');
  const std::string note = Record(event).request.event->message;
  EXPECT_EQ(note.size(), 1024u);
  EXPECT_TRUE(note.starts_with("(combined from similar events): x"));
  EXPECT_TRUE(note.ends_with("x..."));
}

TEST_F(SeriesCorrelatorTest, UpstreamExactLosesOtherNotes) {
  SeriesCorrelator upstream({}, /*upstream_exact=*/true);
  Event event = MakeEvent();
  (void)upstream.Correlate(std::make_shared<const Event>(event), now_, steady_);
  event.message = "another";
  const Correlation second =
      upstream.Correlate(std::make_shared<const Event>(event), now_, steady_);
  EXPECT_EQ(second.request.verb, Verb::kPatch);
  EXPECT_EQ(second.request.event->message, "note");
}

TEST_F(SeriesCorrelatorTest, AnObjectThatChangesHasASeries) {
  Event event = MakeEvent();
  event.involved_object.resource_version = "1";
  event.related = ObjectReference{.kind = "Node",
                                  .namespace_ = {},
                                  .name = "n1",
                                  .uid = {},
                                  .api_version = "v1",
                                  .resource_version = "5",
                                  .field_path = {}};
  Record(event);
  event.involved_object.resource_version = "2";
  event.related->resource_version = "6";
  EXPECT_EQ(Record(event).request.verb, Verb::kPatch);
}

TEST_F(SeriesCorrelatorTest, HeartbeatsComeAtDoublingTimes) {
  Record(MakeEvent());
  Record(MakeEvent());
  const SteadyTime began = steady_;
  std::vector<std::int64_t> beats;
  for (int i = 0; i < 3 * 3600; ++i) {
    Advance(seconds(1));
    for (const Correlation& due : TakeDue()) {
      EXPECT_EQ(due.request.verb, Verb::kPatch);
      EXPECT_EQ(due.request.event->series->count, i + 2);
      beats.push_back(std::chrono::duration_cast<seconds>(steady_ - began).count());
    }
    const Correlation result = Record(MakeEvent());
    EXPECT_EQ(result.action, Action::kMerge);
  }
  EXPECT_EQ(beats, (std::vector<std::int64_t>{60, 180, 420, 900, 1860, 3660, 5460, 7260, 9060}));
}

TEST_F(SeriesCorrelatorTest, ThereIsNoHeartbeatWithoutANewCount) {
  Record(MakeEvent());
  Record(MakeEvent());
  Advance(minutes(5));
  EXPECT_TRUE(TakeDue().empty());
}

TEST_F(SeriesCorrelatorTest, ARepeatLongAfterTheLastWriteIsDueAtOnce) {
  Record(MakeEvent());
  Record(MakeEvent());
  Advance(minutes(5));
  EXPECT_EQ(Record(MakeEvent()).action, Action::kMerge);
  ASSERT_TRUE(correlator_->NextDue());
  EXPECT_LE(*correlator_->NextDue(), steady_);
  const std::vector<Correlation> due = TakeDue();
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].request.event->series->count, 3);
}

TEST_F(SeriesCorrelatorTest, AShortRefreshIsAShortHeartbeat) {
  Use({.refresh_every = seconds(10)});
  Record(MakeEvent());
  Record(MakeEvent());
  Advance(seconds(1));
  Record(MakeEvent());
  Advance(seconds(9));
  EXPECT_EQ(TakeDue().size(), 1U);
}

TEST_F(SeriesCorrelatorTest, ASeriesEndsWithALastPatch) {
  Record(MakeEvent());
  Record(MakeEvent());
  Advance(seconds(30));
  const Correlation merged = Record(MakeEvent());
  Advance(minutes(6));
  // The heartbeat was due long ago, but TakeDue() was not called.
  EXPECT_EQ(TakeDue().size(), 1U);
  EXPECT_TRUE(TakeDue().empty());
  Advance(nanoseconds(1));
  const std::vector<Correlation> due = TakeDue();
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].request.event->series->count, 3);
  EXPECT_EQ(due[0].key, merged.key);
  EXPECT_EQ(correlator_->NextDue(), std::nullopt);
  EXPECT_EQ(Record(MakeEvent()).request.verb, Verb::kCreate);
}

TEST_F(SeriesCorrelatorTest, ASingleEventIsForgottenWithoutAWrite) {
  Record(MakeEvent());
  EXPECT_EQ(correlator_->NextDue(), std::nullopt);
  Advance(minutes(6) + nanoseconds(1));
  EXPECT_TRUE(TakeDue().empty());
  EXPECT_EQ(Record(MakeEvent()).request.verb, Verb::kCreate);
}

TEST_F(SeriesCorrelatorTest, ARepeatWithinSixMinutesMakesASeries) {
  Record(MakeEvent());
  Advance(minutes(6));
  EXPECT_EQ(Record(MakeEvent()).request.verb, Verb::kPatch);
}

TEST_F(SeriesCorrelatorTest, ASeriesThatEndedBeforeARepeatGetsItsLastPatch) {
  Record(MakeEvent());
  Record(MakeEvent());
  const Correlation merged = Record(MakeEvent());
  Advance(minutes(20));
  const Correlation created = Record(MakeEvent());
  EXPECT_EQ(created.request.verb, Verb::kCreate);
  EXPECT_NE(created.key, merged.key) << "the new series does not include events of the old one";
  const std::vector<Correlation> due = TakeDue();
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].key, merged.key);
  EXPECT_EQ(due[0].request.event->series->count, 3);
  EXPECT_EQ(due[0].request.event->metadata.name, "web-0.0");
}

TEST_F(SeriesCorrelatorTest, AnEvictedSeriesWritesItsCount) {
  Use({.cache_entries = 2});
  Record(MakeEvent("a"));
  Record(MakeEvent("a"));
  const Correlation merged = Record(MakeEvent("a"));
  Record(MakeEvent("b"));
  EXPECT_TRUE(TakeDue().empty());
  Record(MakeEvent("c"));
  ASSERT_TRUE(correlator_->NextDue());
  EXPECT_LE(*correlator_->NextDue(), steady_);
  const std::vector<Correlation> due = TakeDue();
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].key, merged.key);
  EXPECT_EQ(due[0].request.verb, Verb::kPatch);
  EXPECT_EQ(due[0].request.event->series->count, 3);
  EXPECT_EQ(correlator_->NextDue(), std::nullopt);
}

TEST_F(SeriesCorrelatorTest, AnEvictedSeriesWithoutANewCountWritesNothing) {
  Use({.cache_entries = 1});
  Record(MakeEvent("a"));
  Record(MakeEvent("a"));
  Record(MakeEvent("b"));
  EXPECT_EQ(correlator_->NextDue(), std::nullopt);
  EXPECT_TRUE(TakeDue(/*all=*/true).empty());
}

TEST_F(SeriesCorrelatorTest, WithAllEveryOpenCountIsDueOnce) {
  for (const std::string_view object : {"a", "b", "c"}) {
    Record(MakeEvent(object));
    Record(MakeEvent(object));
  }
  Record(MakeEvent("a"));
  Record(MakeEvent("c"));
  EXPECT_EQ(TakeDue(/*all=*/true).size(), 2U);
  EXPECT_TRUE(TakeDue(/*all=*/true).empty());
  // They stay open.
  EXPECT_EQ(Record(MakeEvent("a")).action, Action::kMerge);
  EXPECT_EQ(TakeDue(/*all=*/true).size(), 1U);
}

TEST_F(SeriesCorrelatorTest, TheAnswerOfTheServerChangesNothing) {
  Record(MakeEvent());
  const Correlation second = Record(MakeEvent());
  Event answer = *second.request.event;
  answer.series->count = 100;
  correlator_->Learn(second.key, answer);
  Record(MakeEvent());
  EXPECT_EQ(TakeDue(/*all=*/true).at(0).request.event->series->count, 3);
}

TEST_F(SeriesCorrelatorTest, AnEventThatIsRecordedWithASeriesContinuesIt) {
  Event event = MakeEvent();
  event.series = EventSeries{.count = 9, .last_observed_time = MicroTime(now_)};
  EXPECT_EQ(Record(event).request.verb, Verb::kPatch);
  EXPECT_EQ(Record(MakeEvent()).action, Action::kMerge);
  Advance(seconds(60));
  EXPECT_EQ(TakeDue().at(0).request.event->series->count, 10);
}

TEST_F(SeriesCorrelatorTest, EachOfManySeriesWritesItsCount) {
  // Whatever falls out, ends or beats: in the end the server knows every occurrence.
  Use({.cache_entries = 8});
  std::vector<std::tuple<std::string, int>> last;  // name of the event, its count
  const auto write = [&last](const Correlation& c) {
    const Event& event = *c.request.event;
    const int count = event.series ? event.series->count : 1;
    const auto known =
        std::ranges::find(last, event.metadata.name, [](const auto& l) { return std::get<0>(l); });
    if (known == last.end()) {
      EXPECT_EQ(c.request.verb, Verb::kCreate);
      last.emplace_back(event.metadata.name, count);
    } else {
      EXPECT_GE(count, std::get<1>(*known));
      std::get<1>(*known) = count;
    }
  };
  std::uint32_t random = 1;
  for (int i = 0; i < 5000; ++i) {
    random = random * 1664525 + 1013904223;
    Advance(seconds(random >> 28));
    const Correlation result = Record(MakeEvent("pod-" + std::to_string((random >> 16) % 12)));
    if (result.action == Action::kSend) write(result);
    if (const auto due = correlator_->NextDue(); due && *due <= steady_) {
      for (const Correlation& c : TakeDue()) write(c);
    }
  }
  for (const Correlation& c : TakeDue(/*all=*/true)) write(c);
  int occurrences = 0;
  for (const auto& l : last) occurrences += std::get<1>(l);
  EXPECT_EQ(occurrences, 5000);
}

}  // namespace
}  // namespace herald
