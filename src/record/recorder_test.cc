#include "herald/record/recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "herald/api/reference.h"
#include "herald/api/validation.h"
#include "herald/record/broadcaster.h"
#include "herald/record/fakes.h"

namespace herald {

// An argument that cannot be formatted.
struct Unprintable {};

}  // namespace herald

template <>
struct fmt::formatter<herald::Unprintable> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  auto format(const herald::Unprintable&, fmt::format_context& context) const
      -> decltype(context.out()) {
    throw std::runtime_error("unprintable");
  }
};

namespace herald {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;
using Outcomes = std::vector<Outcome>;
using Strings = std::vector<std::string>;

// 2023-11-14T22:13:20.123456789Z
constexpr WallTime kNow{nanoseconds(1700000000'123456789)};

// Letters that take more than one byte, so that a cut may fall into one.
const std::string kEuro = "\xe2\x82\xac";

ObjectReference Pod(std::string name = "web-0") {
  return {.kind = "Pod",
          .namespace_ = "ns",
          .name = std::move(name),
          .uid = "u1",
          .api_version = "v1",
          .resource_version = "41",
          .field_path = "spec.containers{web}"};
}

std::string Repeat(const std::string& text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

class RecorderTest : public ::testing::Test {
 protected:
  void Use(BroadcasterOptions options, EventApi api = EventApi::kCoreV1) {
    watcher_.reset();
    options.executor = &executor_;
    options.log = [this](const LogEntry& entry) { log_.emplace_back(entry.message); };
    broadcaster_ = std::make_unique<Broadcaster>(std::move(options));
    watcher_ = *broadcaster_->Watch();
    recorder_ = NewRecorder(api);
  }
  void SetUp() override { Use({}); }

  Recorder NewRecorder(EventApi api) {
    return broadcaster_->NewRecorder(
        {.component = "kubelet",
         .host = "n1",
         .api = api,
         .on_outcome = [this](Outcome outcome, const Status&) { outcomes_.push_back(outcome); }});
  }

  // The event that was recorded last.
  std::shared_ptr<const Event> Next() {
    executor_.RunUntilIdle();
    const auto item = watcher_->TryNext();
    return item ? item->event : nullptr;
  }

  FakeClock clock_{kNow};
  Executor executor_{{.threads = 0, .clock = &clock_}};
  Strings log_;
  Outcomes outcomes_;
  std::unique_ptr<Broadcaster> broadcaster_;
  std::unique_ptr<Watcher> watcher_;
  Recorder recorder_;
};

TEST_F(RecorderTest, AnOldStyleEventIsWhatToolsRecordMakes) {
  Use({.upstream_exact = true});
  recorder_.Eventf(Pod(), kWarning, "BackOff", "Back-off restarting {} ({} times)", "web", 3);
  Event expected;
  expected.metadata.name = MakeEventName("web-0", kNow);
  expected.metadata.namespace_ = "ns";
  expected.involved_object = Pod();
  expected.reason = "BackOff";
  expected.message = "Back-off restarting web (3 times)";
  expected.source = {.component = "kubelet", .host = "n1"};
  expected.first_timestamp = expected.last_timestamp = Time(kNow);
  expected.count = 1;
  expected.type = kWarning;
  expected.reporting_controller = "kubelet";
  expected.reporting_instance = "n1";
  const auto event = Next();
  ASSERT_TRUE(event);
  EXPECT_EQ(*event, expected);
  EXPECT_EQ(event->metadata.name, "web-0.17979cfe3d85cd15");
}

TEST_F(RecorderTest, ANewStyleEventIsWhatToolsEventsMakes) {
  Use({.upstream_exact = true}, EventApi::kEventsV1);
  const ObjectReference node{.kind = "Node", .name = "n1", .uid = "n1", .api_version = "v1"};
  recorder_.Record(Pod(),
                   {.type = kNormal, .reason = "Scheduled", .action = "Binding", .related = node},
                   "bound to {}", node.name);
  Event expected;
  expected.metadata.name = MakeEventName("web-0", kNow);
  expected.metadata.namespace_ = "ns";
  expected.involved_object = Pod();
  expected.reason = "Scheduled";
  expected.message = "bound to n1";
  expected.type = kNormal;
  expected.event_time = MicroTime(1700000000, 123456000);
  expected.action = "Binding";
  expected.related = node;
  expected.reporting_controller = "kubelet";
  expected.reporting_instance = "kubelet-n1";
  const auto event = Next();
  ASSERT_TRUE(event);
  EXPECT_EQ(*event, expected);
}

TEST_F(RecorderTest, BothStylesAreValidForTheServer) {
  for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
    for (const std::string& message : {std::string("m"), Repeat(kEuro, 40'000)}) {
      for (const std::string& host : {std::string("n1"), std::string(300, 'h')}) {
        Recorder recorder =
            broadcaster_->NewRecorder({.component = "kubelet", .host = host, .api = api});
        recorder.Event(Pod(), kNormal, "Started", message);
        recorder.Record(Pod(), {.reason = std::string(300, 'r'), .action = std::string(300, 'a')},
                        "{}", message);
        for (int i = 0; i < 2; ++i) {
          const auto event = Next();
          ASSERT_TRUE(event);
          // The limits hold in the new style only; the old one has none to break.
          if (i == 1 && api == EventApi::kCoreV1) continue;
          const Status status = ValidateEventCreate(*event, api);
          EXPECT_TRUE(status.ok()) << status.ToString();
        }
      }
    }
  }
}

TEST_F(RecorderTest, AClusterScopedObjectsEventIsInDefault) {
  for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
    NewRecorder(api).Event({.kind = "Node", .name = "n1", .api_version = "v1"}, kNormal, "R", "m");
    const auto event = Next();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->metadata.namespace_, "default");
    EXPECT_EQ(event->involved_object.namespace_, "");
  }
}

TEST_F(RecorderTest, ReplacesAnObjectNameThatIsInvalidInAnEventName) {
  for (const std::string& name :
       {std::string("2001:db8::123"), std::string(300, 'x'), std::string("Upper")}) {
    for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
      NewRecorder(api).Event({.kind = "Widget", .name = name, .api_version = "x/v1"}, kNormal, "R",
                             "m");
      const auto event = Next();
      ASSERT_TRUE(event);
      EXPECT_EQ(event->involved_object.name, name) << "the reference stays as it is";
      EXPECT_EQ(event->metadata.name.size(), 36U) << event->metadata.name;
      EXPECT_EQ(event->metadata.namespace_, "default");
    }
  }
}

TEST_F(RecorderTest, NamesAreUnique) {
  // client-go's names collide if two calls happen in one nanosecond; this clock does not move.
  constexpr int kThreads = 8;
  constexpr int kEach = 100;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([recorder = recorder_]() mutable {
      for (int i = 0; i < kEach; ++i) recorder.Event(Pod(), kNormal, "R", "m");
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> names;
  while (const auto event = Next()) {
    EXPECT_TRUE(event->metadata.name.starts_with("web-0."));
    EXPECT_EQ(event->first_timestamp, Time(kNow)) << "only the name is moved";
    EXPECT_TRUE(names.insert(event->metadata.name).second) << event->metadata.name;
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kThreads * kEach));
}

TEST_F(RecorderTest, NamesAreUniqueAcrossBroadcasters) {
  Broadcaster other({.executor = &executor_});
  const auto watcher = *other.Watch();
  recorder_.Event(Pod(), kNormal, "R", "m");
  other.NewRecorder({.component = "x"}).Event(Pod(), kNormal, "R", "m");
  const auto event = Next();
  EXPECT_NE(event->metadata.name, watcher->TryNext()->event->metadata.name);
}

TEST_F(RecorderTest, APastEventHasItsOwnTime) {
  const WallTime when = kNow - std::chrono::hours(1);
  recorder_.PastEventf(Pod(), when, kNormal, "Killing", "Killed {}", "web");
  const auto old_style = Next();
  EXPECT_EQ(old_style->first_timestamp, Time(when));
  EXPECT_EQ(old_style->last_timestamp, Time(when));
  EXPECT_EQ(old_style->message, "Killed web");
  NewRecorder(EventApi::kEventsV1).PastEventf(Pod(), when, kNormal, "Killing", "m");
  EXPECT_EQ(Next()->event_time, MicroTime(Timestamp(when).seconds(), 123456000));
}

TEST_F(RecorderTest, KeepsAnnotations) {
  recorder_.AnnotatedEventf(Pod(), {{"k", "v"}, {"a", ""}}, kNormal, "Scaled", "to {}", 3);
  const auto event = Next();
  EXPECT_EQ(event->metadata.annotations, (StringMap{{"a", ""}, {"k", "v"}}));
  EXPECT_EQ(event->message, "to 3");
}

TEST_F(RecorderTest, EventDoesNotFormatItsMessage) {
  recorder_.Event(Pod(), kNormal, "R", "100% {} {0} %s");
  EXPECT_EQ(Next()->message, "100% {} {0} %s");
}

TEST_F(RecorderTest, UsesTheReasonAsAMissingAction) {
  NewRecorder(EventApi::kEventsV1).Event(Pod(), kNormal, "Started", "m");
  EXPECT_EQ(Next()->action, "Started");
  recorder_.Event(Pod(), kNormal, "Started", "m");
  EXPECT_EQ(Next()->action, "");
}

// Strings that a server would reject are cut, between characters and with a marker.

TEST_F(RecorderTest, CutsLongMessages) {
  struct Case {
    std::string name;
    EventApi api;
    std::string message;
    std::string expected;
  };
  const std::vector<Case> cases = {
      {"a note at the limit", EventApi::kEventsV1, std::string(1024, 'x'), std::string(1024, 'x')},
      {"a note beyond it", EventApi::kEventsV1, std::string(1025, 'x'),
       std::string(1021, 'x') + "..."},
      {"a note of three-byte letters, cut at their end", EventApi::kEventsV1,
       "x" + Repeat(kEuro, 400), "x" + Repeat(kEuro, 340) + "..."},
      {"cut inside one", EventApi::kEventsV1, Repeat(kEuro, 400), Repeat(kEuro, 340) + "..."},
      {"cut inside a four-byte one", EventApi::kEventsV1, Repeat("\xf0\x9f\x98\x80", 300),
       Repeat("\xf0\x9f\x98\x80", 255) + "..."},
      {"an old-style message at the limit", EventApi::kCoreV1, std::string(65536, 'x'),
       std::string(65536, 'x')},
      {"a megabyte", EventApi::kCoreV1, std::string(1 << 20, 'x'), std::string(65533, 'x') + "..."},
      {"a megabyte of euros", EventApi::kCoreV1, Repeat(kEuro, 350'000),
       Repeat(kEuro, 21'844) + "..."},
      // Not UTF-8, so there is no character to keep whole.
      {"no UTF-8 at all", EventApi::kEventsV1, std::string(2000, '\x80'),
       std::string(1021, '\x80') + "..."},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    NewRecorder(c.api).Event(Pod(), kNormal, "R", c.message);
    const auto event = Next();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->message.size(), c.expected.size());
    EXPECT_TRUE(event->message == c.expected);
  }
}

TEST_F(RecorderTest, CutsReasonActionAndInstanceInTheNewStyle) {
  Recorder recorder = broadcaster_->NewRecorder(
      {.component = "kubelet", .host = std::string(200, 'h'), .api = EventApi::kEventsV1});
  recorder.Record(Pod(), {.reason = std::string(129, 'r'), .action = std::string(200, 'a')}, "m");
  const auto event = Next();
  EXPECT_EQ(event->reason, std::string(125, 'r') + "...");
  EXPECT_EQ(event->action, std::string(125, 'a') + "...");
  EXPECT_EQ(event->reporting_instance, "kubelet-" + std::string(117, 'h') + "...");
}

TEST_F(RecorderTest, MakesTheControllerAQualifiedNameInTheNewStyle) {
  struct Case {
    std::string component;
    std::string controller;
  };
  for (const Case& c :
       {Case{"example.com/agent", "example.com/agent"}, Case{"My Agent (beta)", "My-Agent--beta"},
        Case{std::string(80, 'a'), std::string(63, 'a')}, Case{"", "unknown"}}) {
    SCOPED_TRACE(c.component);
    const RecorderOptions options{
        .component = c.component, .host = Repeat(kEuro, 50), .api = EventApi::kEventsV1};
    Use({});
    broadcaster_->NewRecorder(options).Event(Pod(), kNormal, "R", "m");
    Event event = *Next();
    EXPECT_EQ(event.reporting_controller, c.controller);
    event.metadata.uid = "u";
    const Status status = ValidateEventCreate(event, EventApi::kEventsV1);
    EXPECT_TRUE(status.ok()) << status.ToString();

    // core/v1 takes whatever it is, and upstream sends it.
    RecorderOptions old = options;
    old.api = EventApi::kCoreV1;
    broadcaster_->NewRecorder(old).Event(Pod(), kNormal, "R", "m");
    EXPECT_EQ(Next()->reporting_controller, c.component);
    Use({.upstream_exact = true});
    broadcaster_->NewRecorder(options).Event(Pod(), kNormal, "R", "m");
    EXPECT_EQ(Next()->reporting_controller, c.component);
  }
}

TEST_F(RecorderTest, CutsNothingUnderUpstreamExact) {
  Use({.upstream_exact = true}, EventApi::kEventsV1);
  recorder_.Event(Pod(), kNormal, std::string(200, 'r'), std::string(1 << 20, 'x'));
  const auto event = Next();
  EXPECT_EQ(event->reason.size(), 200U);
  EXPECT_EQ(event->message.size(), std::size_t{1} << 20);
  EXPECT_EQ(event->action, "");
}

TEST_F(RecorderTest, KeepsNulAndInvalidUtf8) {
  // What becomes of them is the codec's to decide; here nothing may stumble.
  const std::string bytes("a\0b\xff\xc3(", 6);
  recorder_.Event(Pod(bytes), kNormal, bytes, bytes);
  const auto event = Next();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->message, bytes);
  EXPECT_EQ(event->reason, bytes);
  EXPECT_EQ(event->involved_object.name, bytes);
  EXPECT_EQ(event->metadata.name.size(), 36U);
}

// What cannot be an event.

TEST_F(RecorderTest, RejectsAndCountsInvalidEvents) {
  struct Case {
    std::string name;
    ObjectReference object;
    std::string type;
    std::string complaint;
  };
  const std::string no_reference = "Could not construct reference, will not report event";
  const std::vector<Case> cases = {
      {"an empty reference", {}, "Normal", no_reference},
      {"only a namespace", {.namespace_ = "ns", .uid = "u"}, "Normal", no_reference},
      {"about an event",
       {.kind = "Event", .namespace_ = "ns", .name = "x", .api_version = "v1"},
       "Normal",
       no_reference},
      {"about an event of the new API",
       {.kind = "Event", .namespace_ = "ns", .name = "x", .api_version = "events.k8s.io/v1"},
       "Normal",
       no_reference},
      {"an unknown type", Pod(), "Error", "Unsupported event type"},
      {"no type", Pod(), "", "Unsupported event type"},
      {"a type in lower case", Pod(), "warning", "Unsupported event type"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    log_.clear();
    outcomes_.clear();
    recorder_.Event(c.object, c.type, "R", "m");
    EXPECT_FALSE(Next());
    EXPECT_EQ(log_, Strings{c.complaint});
    EXPECT_EQ(outcomes_, Outcomes{Outcome::kInvalid});
  }
}

TEST_F(RecorderTest, AnEventKindOfAnotherGroupIsNotAnEvent) {
  recorder_.Event({.kind = "Event", .name = "party", .api_version = "calendar.example/v1"}, kNormal,
                  "R", "m");
  EXPECT_TRUE(Next());
}

TEST_F(RecorderTest, UpstreamExactRejectsOnlyTheType) {
  Use({.upstream_exact = true});
  recorder_.Event({}, kNormal, "R", "m");
  EXPECT_TRUE(Next());
  recorder_.Event({.kind = "Event", .name = "x", .api_version = "v1"}, kNormal, "R", "m");
  EXPECT_TRUE(Next());
  recorder_.Event(Pod(), "Odd", "R", "m");
  EXPECT_FALSE(Next());
}

TEST_F(RecorderTest, AnArgumentThatThrowsLosesOnlyItsEvent) {
  recorder_.Eventf(Pod(), kNormal, "R", "value {}", Unprintable());
  EXPECT_FALSE(Next());
  EXPECT_EQ(outcomes_, Outcomes{Outcome::kInvalid}) << "and that is counted";
  EXPECT_EQ(log_, Strings{"Could not format the message, will not report event"});
}

// After the end.

TEST_F(RecorderTest, RecordingAfterShutdownIsCountedAsLost) {
  broadcaster_->Shutdown(seconds(1));
  recorder_.Event(Pod(), kNormal, "R", "m");
  recorder_.Eventf(Pod(), kNormal, "R", "{}", 1);
  EXPECT_EQ(outcomes_, (Outcomes{Outcome::kLost, Outcome::kLost}));
  EXPECT_EQ(log_, (Strings{"Unable to record event (will not retry!)",
                           "Unable to record event (will not retry!)"}));
}

TEST_F(RecorderTest, ARecorderOutlivesItsBroadcaster) {
  Recorder copy = recorder_;
  watcher_.reset();
  broadcaster_.reset();
  copy.Event(Pod(), kNormal, "R", "m");
  copy.WithLogger(nullptr).AnnotatedEventf(Pod(), {}, kNormal, "R", "m");
  EXPECT_EQ(outcomes_, (Outcomes{Outcome::kLost, Outcome::kLost}));
}

TEST(RecorderAloneTest, ARecorderOutlivesABroadcasterWithAThread) {
  Recorder recorder;
  {
    Broadcaster broadcaster;
    recorder = broadcaster.NewRecorder({.component = "test"});
    recorder.Event(Pod(), kNormal, "R", "m");
  }
  recorder.Event(Pod(), kNormal, "R", "m");
}

TEST(RecorderAloneTest, ADefaultRecorderRecordsNothing) {
  Recorder recorder;
  recorder.Event(Pod(), kNormal, "R", "m");
  recorder.Eventf(Pod(), kNormal, "R", "{}", 1);
  recorder.WithLogger([](const LogEntry&) { FAIL(); }).Event(Pod(), "odd", "R", "m");
}

// Outcome functions.

TEST_F(RecorderTest, ReportsAFullQueueOnce) {
  Use({.incoming_events = 1});
  recorder_.Event(Pod(), kNormal, "R", "a");
  recorder_.Event(Pod(), kNormal, "R", "b");
  EXPECT_EQ(outcomes_, Outcomes{Outcome::kDropped});
  EXPECT_EQ(log_, Strings{"Unable to record event: too many queued events, dropped event"});
  EXPECT_EQ(Next()->message, "a");
  EXPECT_FALSE(Next());
}

// If each of them were reported, the stack would overflow.
TEST_F(RecorderTest, DoesNotReportEventsRecordedWhileReportingAFullQueue) {
  Use({.incoming_events = 1});
  const auto sink = std::make_shared<MemorySink>();
  ASSERT_TRUE(broadcaster_->StartRecordingToSink(sink).ok());
  int notified = 0;
  int logged = 0;
  Recorder inner;
  const Recorder outer = broadcaster_->NewRecorder(
      {.component = "c", .on_outcome = [&](Outcome outcome, const Status&) {
         if (outcome != Outcome::kDropped && outcome != Outcome::kInvalid) return;
         ++notified;
         inner.Event(Pod(), kNormal, "R", "from the callback");
         inner.Event(Pod(), "odd", "R", "from the callback");
       }});
  inner = outer.WithLogger([&](const LogEntry&) {
    ++logged;
    inner.Event(Pod(), kNormal, "R", "from the log");
  });
  inner.Event(Pod(), kNormal, "R", "fills the queue");
  inner.Event(Pod(), kNormal, "R", "does not fit");
  EXPECT_EQ(notified, 1);
  EXPECT_EQ(logged, 1);
  // And once more: the mark is taken off again.
  inner.Event(Pod(), "odd", "R", "is none");
  EXPECT_EQ(notified, 2);
  EXPECT_EQ(logged, 2);
  broadcaster_->Shutdown(seconds(1));
  const SinkStats stats = broadcaster_->Stats().at(0);
  EXPECT_EQ(stats.recorded, 9u) << "3, and from each report 2 by the callback and 1 by the log";
  EXPECT_EQ(stats[Outcome::kWritten], 1u);
  EXPECT_EQ(stats[Outcome::kInvalid], 3u);
  EXPECT_EQ(stats[Outcome::kDropped], 5u);
  inner = Recorder();
}

TEST_F(RecorderTest, AnEventMayHaveItsOwnOutcomeFunction) {
  Outcomes own;
  recorder_.Record(Pod(),
                   {.reason = "R",
                    .on_outcome =
                        [&](Outcome outcome, const Status& why) {
                          own.push_back(outcome);
                          EXPECT_FALSE(why.ok());
                        }},
                   "m");
  recorder_.Event(Pod(), kNormal, "R", "m");
  executor_.RunUntilIdle();
  EXPECT_EQ(own, Outcomes{Outcome::kNoSink});
  EXPECT_EQ(outcomes_, (Outcomes{Outcome::kNoSink, Outcome::kNoSink}));
}

TEST_F(RecorderTest, IgnoresWhatAnOutcomeFunctionThrows) {
  int calls = 0;
  Recorder recorder =
      broadcaster_->NewRecorder({.component = "test", .on_outcome = [&](Outcome, const Status&) {
                                   ++calls;
                                   throw std::runtime_error("callback");
                                 }});
  int own = 0;
  const auto record = [&](std::string_view type) {
    recorder.Record(Pod(),
                    {.type = type,
                     .reason = "R",
                     .on_outcome =
                         [&](Outcome, const Status&) {
                           ++own;
                           throw 7;
                         }},
                    "m");
  };
  record(kNormal);
  record("odd");
  executor_.RunUntilIdle();
  broadcaster_->Shutdown(seconds(1));
  record(kNormal);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(own, 3) << "the other function is called even if one throws";
}

TEST_F(RecorderTest, IgnoresWhatALogFunctionThrows) {
  Recorder recorder = recorder_.WithLogger([](const LogEntry&) { throw 7; });
  recorder.Event(Pod(), "odd", "R", "m");
  recorder.Event(Pod(), kNormal, "R", "m");
  EXPECT_TRUE(Next());
}

TEST_F(RecorderTest, WithLoggerLogsErrorsToAnotherFunction) {
  Strings elsewhere;
  Recorder recorder = recorder_.WithLogger([&](const LogEntry& entry) {
    EXPECT_EQ(entry.level, LogLevel::kError);
    elsewhere.emplace_back(entry.message);
  });
  recorder.Event(Pod(), "odd", "R", "m");
  EXPECT_EQ(elsewhere, Strings{"Unsupported event type"});
  EXPECT_TRUE(log_.empty());
  EXPECT_EQ(outcomes_, Outcomes{Outcome::kInvalid}) << "all else is the same";
}

}  // namespace
}  // namespace herald
