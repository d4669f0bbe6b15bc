#include "record/correlate/count_correlator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "herald/api/codec.h"
#include "herald/api/patch.h"
#include "test/golden.h"

namespace herald {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;
using Action = Correlation::Action;
using Verb = SinkRequest::Verb;

std::string Json(const Event& event) {
  std::string text;
  JsonCodec().AppendEvent(event, EventApi::kCoreV1, &text);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// Runs what the real client-go ran (test/interop/go/cmd/goldens/correlate.go).

// The twins of the functions there.
void SetFunctions(const testing::Vector& options, CountOptions* out) {
  const std::string key = options.value("aggregate_key", "");
  if (key == "by-kind") {
    out->aggregate_key = [](const Event& e) {
      return CountOptions::AggregateKey{e.involved_object.kind + e.reason, e.involved_object.name};
    };
  } else if (key == "all-one") {
    out->aggregate_key = [](const Event& e) { return CountOptions::AggregateKey{"", e.message}; };
  }
  const std::string message = options.value("aggregate_message", "");
  if (message == "reason") {
    out->aggregate_message = [](const Event& e) { return "<many " + e.reason + ">"; };
  } else if (message == "empty") {
    out->aggregate_message = [](const Event&) { return std::string(); };
  }
  const std::string spam = options.value("spam_key", "");
  if (spam == "reason") {
    out->spam_key = [](const Event& e) { return e.involved_object.name + e.reason; };
  } else if (spam == "count-parity") {
    out->spam_key = [](const Event& e) { return std::to_string(e.count % 2) + e.message; };
  }
}

CountOptions OptionsOf(const testing::Vector& options) {
  CountOptions out;
  // Where one is missing, zero asks for client-go's default here as it does there.
  out.cache_entries = options.value("cache_entries", 0U);
  out.spam_burst = options.value("spam_burst", 0);
  out.spam_qps = options.value("spam_qps", 0.0F);
  out.aggregate_after = options.value("aggregate_after", 0U);
  out.aggregate_within = seconds(options.value("aggregate_within", 0));
  SetFunctions(options, &out);
  return out;
}

Event InputOf(const testing::Vector& step) {
  Result<Event> event = JsonCodec().DecodeEvent(step.at("event").dump(), EventApi::kCoreV1);
  EXPECT_TRUE(event) << step.dump();
  if (testing::HasBytes(step, "message")) event->message = testing::Bytes(step, "message");
  return *std::move(event);
}

Event AnswerOf(const Event& sent, const testing::Vector& answer) {
  Event event = sent;
  event.metadata.resource_version = answer.at("rv");
  event.metadata.name = answer.value("name", event.metadata.name);
  event.count = answer.value("count", event.count);
  return event;
}

void Replay(const testing::Vector& scenario) {
  CountCorrelator correlator(OptionsOf(scenario.at("options")), /*upstream_exact=*/true);
  WallTime now{nanoseconds(scenario.at("start_ns").get<std::int64_t>())};
  SteadyTime steady{seconds(1000)};
  int number = 0;
  for (const testing::Vector& step : scenario.at("steps")) {
    SCOPED_TRACE("step " + std::to_string(++number));
    const nanoseconds advance(step.value("advance_ns", std::int64_t{0}));
    now += advance;
    steady += advance;
    const auto event = std::make_shared<const Event>(InputOf(step));
    const std::string before = Json(*event);
    const Correlation result = correlator.Correlate(event, now, steady);
    EXPECT_EQ(Json(*event), before) << "a published event was changed";
    if (step.value("skip", false)) {
      ASSERT_EQ(result.action, Action::kSuppress);
      continue;
    }
    ASSERT_EQ(result.action, Action::kSend);
    ASSERT_EQ(result.request.verb, step.at("verb") == "patch" ? Verb::kPatch : Verb::kCreate);
    EXPECT_EQ(result.request.api, EventApi::kCoreV1);
    ASSERT_EQ(Json(*result.request.event), step.value("result", before));
    ASSERT_EQ(result.request.patch,
              testing::HasBytes(step, "patch") ? testing::Bytes(step, "patch") : "");
    if (step.contains("answer")) {
      correlator.Learn(result.key, AnswerOf(*result.request.event, step.at("answer")));
    }
  }
}

TEST(CountScenarios, EndAsTheyDoInClientGo) {
  int scenarios = 0;
  for (const testing::Vector& vector : testing::LoadGolden("correlate.json")) {
    if (vector.at("correlator") != "count") continue;
    SCOPED_TRACE(vector.at("name").get<std::string>());
    Replay(vector);
    ++scenarios;
  }
  EXPECT_GE(scenarios, 60);
}

// Where we do not follow client-go.

class CountCorrelatorTest : public ::testing::Test {
 protected:
  static Event MakeEvent(std::string_view message = "m") {
    Event event;
    event.metadata.name = "web-0.1";
    event.metadata.namespace_ = "ns";
    event.involved_object = {.kind = "Pod",
                             .namespace_ = "ns",
                             .name = "web-0",
                             .uid = "u1",
                             .api_version = "v1",
                             .resource_version = {},
                             .field_path = {}};
    event.reason = "BackOff";
    event.message = message;
    event.source = {.component = "kubelet", .host = "n1"};
    event.first_timestamp = event.last_timestamp = Time(1700000000, 0);
    event.count = 1;
    event.type = kNormal;
    event.reporting_controller = "kubelet";
    event.reporting_instance = "n1";
    return event;
  }

  Correlation Correlate(Event event) {
    return correlator_->Correlate(std::make_shared<const Event>(std::move(event)), now_, steady_);
  }

  // Writes what comes of it, as a server that takes everything does.
  Correlation Record(Event event) {
    Correlation result = Correlate(std::move(event));
    if (result.action == Action::kSend) correlator_->Learn(result.key, *result.request.event);
    return result;
  }

  void Use(CountOptions options, bool upstream_exact = false) {
    correlator_ = std::make_unique<CountCorrelator>(std::move(options), upstream_exact);
  }

  WallTime now_{seconds(1700000000)};
  SteadyTime steady_{seconds(1000)};
  std::unique_ptr<CountCorrelator> correlator_ =
      std::make_unique<CountCorrelator>(CountOptions{}, /*upstream_exact=*/false);
};

TEST_F(CountCorrelatorTest, AFirstEventIsSentAsItIs) {
  const auto event = std::make_shared<const Event>(MakeEvent());
  const Correlation result = correlator_->Correlate(event, now_, steady_);
  EXPECT_EQ(result.request.verb, Verb::kCreate);
  EXPECT_EQ(result.request.event, event) << "nothing changes, so nothing is copied";
  EXPECT_TRUE(result.request.patch.empty());
}

TEST_F(CountCorrelatorTest, ThePatchedEventOnTheServerIsTheIntendedOne) {
  Record(MakeEvent("x < y"));
  Event again = MakeEvent("x < y");
  again.metadata.name = "web-0.2";
  again.last_timestamp = Time(1700000060, 0);
  const Correlation result = Record(again);
  ASSERT_EQ(result.request.verb, Verb::kPatch);
  EXPECT_EQ(result.request.patch,
            R"({"count":2,"lastTimestamp":"2023-11-14T22:14:20Z","message":"x \u003c y"})");
  const Result<Event> patched = ApplyPatch(MakeEvent("x < y"), EventApi::kCoreV1,
                                           PatchType::kStrategicMerge, result.request.patch);
  ASSERT_TRUE(patched);
  EXPECT_EQ(*patched, *result.request.event);
}

TEST_F(CountCorrelatorTest, CountsAnEventTheFilterThenDrops) {
  Use({.spam_burst = 1});
  Record(MakeEvent());
  EXPECT_EQ(Record(MakeEvent()).action, Action::kSuppress);
  EXPECT_EQ(Record(MakeEvent()).action, Action::kSuppress);
  steady_ += seconds(300);
  EXPECT_EQ(Record(MakeEvent()).request.event->count, 4);
}

TEST_F(CountCorrelatorTest, SeparatesEventsWhoseClientGoKeysCollide) {
  Event ab = MakeEvent();
  ab.source = {.component = "ab", .host = "c"};
  Event a = MakeEvent();
  a.source = {.component = "a", .host = "bc"};
  Record(ab);
  EXPECT_EQ(Record(a).request.verb, Verb::kCreate);
  EXPECT_EQ(Record(ab).request.verb, Verb::kPatch);
}

TEST_F(CountCorrelatorTest, CountsDifferentEventsSeparately) {
  struct Case {
    std::string_view name;
    void (*change)(Event*);
  };
  const Case cases[] = {
      {"as it is", [](Event*) {}},
      {"component", [](Event* e) { e->source.component = "x"; }},
      {"host", [](Event* e) { e->source.host = "x"; }},
      {"kind", [](Event* e) { e->involved_object.kind = "x"; }},
      {"namespace", [](Event* e) { e->involved_object.namespace_ = "x"; }},
      {"name", [](Event* e) { e->involved_object.name = "x"; }},
      {"field path", [](Event* e) { e->involved_object.field_path = "x"; }},
      {"uid", [](Event* e) { e->involved_object.uid = "x"; }},
      {"api version", [](Event* e) { e->involved_object.api_version = "x"; }},
      {"type", [](Event* e) { e->type = kWarning; }},
      {"reason", [](Event* e) { e->reason = "x"; }},
      {"message", [](Event* e) { e->message = "x"; }},
  };
  for (const Verb expected : {Verb::kCreate, Verb::kPatch}) {
    for (const Case& c : cases) {
      Event event = MakeEvent();
      c.change(&event);
      EXPECT_EQ(Record(event).request.verb, expected) << c.name;
    }
  }
}

TEST_F(CountCorrelatorTest, AGroupKeyIsNotAnEventKey) {
  // In upstream the key of this group is also that of the event without a message.
  Use({.aggregate_after = 2});
  const auto bare = [](std::string_view message) {
    Event event = MakeEvent(message);
    event.reporting_controller.clear();
    event.reporting_instance.clear();
    return event;
  };
  Record(bare(""));
  const Correlation result = Record(bare("x"));
  EXPECT_EQ(result.request.verb, Verb::kCreate);
  EXPECT_EQ(result.request.event->count, 1);
}

TEST_F(CountCorrelatorTest, ACombinedEventKeepsEverythingExceptMessageAndTimes) {
  Use({.aggregate_after = 2});
  Record(MakeEvent("a"));
  Event event = MakeEvent("b");
  event.metadata.name = "web-0.2";
  event.metadata.annotations = {{"k", "v"}};
  event.action = "Pulling";
  now_ += nanoseconds(5'000'000'007);
  const Correlation result = Record(event);
  Event expected = event;
  expected.message = "(combined from similar events): b";
  expected.first_timestamp = expected.last_timestamp = Time(now_);
  ASSERT_EQ(result.request.verb, Verb::kCreate);
  EXPECT_EQ(*result.request.event, expected);
}

TEST_F(CountCorrelatorTest, CombinedEventsOfOneInstantHaveDifferentNames) {
  Use({.aggregate_after = 1});
  std::set<std::string> names;
  for (int i = 0; i < 5; ++i) {
    Event event = MakeEvent();
    event.reason = "R" + std::to_string(i);
    event.metadata.name.clear();
    const std::string name = Record(event).request.event->metadata.name;
    EXPECT_TRUE(name.starts_with("web-0.")) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

TEST_F(CountCorrelatorTest, ACombinedEventWithGenerateNameHasNoName) {
  Use({.aggregate_after = 1});
  Event event = MakeEvent();
  event.metadata.name.clear();
  event.metadata.generate_name = "web-";
  const Correlation first = Correlate(event);
  EXPECT_EQ(first.request.event->metadata.name, "");
  Event answer = *first.request.event;
  answer.metadata.name = "web-x7k2p";
  correlator_->Learn(first.key, answer);
  EXPECT_EQ(Correlate(event).request.event->metadata.name, "web-x7k2p");
}

TEST_F(CountCorrelatorTest, ACombinedEventLearnsTheAnswerOfTheServer) {
  Use({.aggregate_after = 1});
  const Correlation first = Correlate(MakeEvent("a"));
  Event answer = *first.request.event;
  answer.metadata.name = "renamed";
  answer.metadata.resource_version = "7";
  answer.count = 10;
  correlator_->Learn(first.key, answer);
  const Correlation second = Correlate(MakeEvent("b"));
  EXPECT_EQ(second.request.event->metadata.name, "renamed");
  EXPECT_EQ(second.request.event->metadata.resource_version, "7");
  EXPECT_EQ(second.request.event->count, 11);
}

TEST_F(CountCorrelatorTest, TheFirstNineSimilarEventsAreAlwaysCountedSeparately) {
  Use({.spam_burst = 1000});
  for (int i = 0; i < 20; ++i) Record(MakeEvent("message " + std::to_string(i)));
  for (int i = 0; i < 9; ++i) {
    const Correlation result = Record(MakeEvent("message " + std::to_string(i)));
    EXPECT_EQ(result.request.event->count, 2) << i;
    EXPECT_FALSE(result.request.event->message.starts_with("(combined")) << i;
  }
  EXPECT_EQ(Record(MakeEvent("message 9")).request.event->count, 12);
}

// What became of so many events of a reason, each with the same message.
TEST_F(CountCorrelatorTest, AFairFilterGivesEachReasonItsOwnBudget) {
  struct Case {
    bool fair;
    bool upstream_exact;
    int second_reason;  // how many of its two events pass after the first reason's flood
  };
  for (const Case& c : {Case{false, false, 0}, Case{true, false, 2}, Case{true, true, 0}}) {
    SCOPED_TRACE(c.fair);
    Use({.spam_burst = 3, .fair_filter = c.fair}, c.upstream_exact);
    const auto passes = [&](const std::string& reason) {
      Event event = MakeEvent();
      event.reason = reason;
      return Record(event).action == Correlation::Action::kSend;
    };
    int flood = 0;
    for (int i = 0; i < 20; ++i) flood += passes("Unhealthy");
    EXPECT_EQ(flood, 3);
    EXPECT_EQ(passes("Killing") + passes("Killing"), c.second_reason);
  }
}

TEST_F(CountCorrelatorTest, AFairFilterSuppressesOnlyRepeats) {
  Use({.spam_burst = 1, .fair_filter = true});
  const auto passes = [&](const std::string& message) {
    return Record(MakeEvent(message)).action == Correlation::Action::kSend;
  };
  // Nine messages of their own, then the first combined one.
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(passes("message " + std::to_string(i))) << i;
  // All further events are repeats, and no token is left.
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(passes("message " + std::to_string(i))) << i;
  // With the next token an event with the true count passes.
  steady_ += std::chrono::seconds(301);
  const Correlation next = Record(MakeEvent("message 0"));
  EXPECT_EQ(next.action, Correlation::Action::kSend);
  EXPECT_EQ(next.request.event->count, 3);
}

TEST_F(CountCorrelatorTest, IgnoresAnAnswerWithoutAName) {
  const Correlation first = Correlate(MakeEvent());
  correlator_->Learn(first.key, Event());
  const Correlation second = Correlate(MakeEvent());
  EXPECT_EQ(second.request.verb, Verb::kPatch);
  EXPECT_EQ(second.request.event->metadata.name, "web-0.1");
}

TEST_F(CountCorrelatorTest, CreatesAnEventThatIsRecordedWithACount) {
  // Upstream would patch what does not exist, with no patch at all.
  Event event = MakeEvent();
  event.count = 7;
  const Correlation result = Record(event);
  EXPECT_EQ(result.request.verb, Verb::kCreate);
  EXPECT_EQ(Record(event).request.event->count, 8);
}

TEST_F(CountCorrelatorTest, TheCountDoesNotOverflow) {
  const Correlation first = Correlate(MakeEvent());
  Event answer = *first.request.event;
  answer.count = 2147483647;
  correlator_->Learn(first.key, answer);
  EXPECT_EQ(Correlate(MakeEvent()).request.event->count, 2147483647);
}

TEST_F(CountCorrelatorTest, UsesTheDefaultWhereAFunctionThrows) {
  CountOptions options;
  options.aggregate_after = 2;
  options.aggregate_key = [](const Event&) -> CountOptions::AggregateKey {
    throw std::runtime_error("key");
  };
  options.aggregate_message = [](const Event&) -> std::string {
    throw std::runtime_error("message");
  };
  options.spam_key = [](const Event&) -> std::string { throw std::runtime_error("spam"); };
  Use(options);
  Record(MakeEvent("a"));
  EXPECT_EQ(Record(MakeEvent("b")).request.event->message, "(combined from similar events): b");
}

TEST_F(CountCorrelatorTest, NothingIsEverDue) {
  Record(MakeEvent());
  Record(MakeEvent());
  EXPECT_EQ(correlator_->NextDue(), std::nullopt);
  EXPECT_TRUE(correlator_->TakeDue(steady_ + std::chrono::hours(24), /*all=*/true).empty());
}

TEST_F(CountCorrelatorTest, CachesAreLimited) {
  Use({.cache_entries = 3});
  for (int i = 0; i < 100; ++i) {
    Event event = MakeEvent();
    event.involved_object.name = "pod-" + std::to_string(i);
    EXPECT_EQ(Record(event).request.verb, Verb::kCreate);
  }
  Event last = MakeEvent();
  last.involved_object.name = "pod-99";
  EXPECT_EQ(Record(last).request.verb, Verb::kPatch);
  Event first = MakeEvent();
  first.involved_object.name = "pod-0";
  EXPECT_EQ(Record(first).request.verb, Verb::kCreate);
}

}  // namespace
}  // namespace herald
