#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "herald/record/broadcaster.h"
#include "herald/record/fakes.h"
#include "record/spool/testing/spool_fixture.h"

namespace herald {
namespace {

using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using Strings = std::vector<std::string>;
using Verb = SinkRequest::Verb;

// The pipeline around it.

class SpoolDeliveryTest : public ::testing::Test {
 protected:
  // A process: its broadcaster, and the sink that it writes to.
  struct Process {
    explicit Process(SpoolDeliveryTest* test, BroadcasterOptions options = {},
                     SinkOptions sink_options = {})
        : broadcaster([&] {
            options.executor = &test->executor_;
            return options;
          }()),
          recorder(broadcaster.NewRecorder({.component = "c", .host = "h"})),
          new_style(broadcaster.NewRecorder(
              {.component = "c", .host = "h", .api = EventApi::kEventsV1})) {
      SpoolOptions spool = sink_options.spool.value_or(SpoolOptions());
      spool.directory = test->directory_.path();
      sink_options.spool = spool;
      started = broadcaster.StartRecordingToSink(test->server_, sink_options);
    }
    SinkStats Stats() const { return broadcaster.Stats().at(0); }

    Broadcaster broadcaster;
    Recorder recorder;
    Recorder new_style;
    Status started;
  };

  void SetDown(bool down) {
    server_->SetFault([down](const SinkRequest&) -> std::optional<Status> {
      if (!down) return std::nullopt;
      return Status(StatusReason::kUnreachable, "no route");
    });
  }
  void Advance(nanoseconds by) {
    for (const nanoseconds end = clock_.Steady().time_since_epoch() + by;
         clock_.Steady().time_since_epoch() < end;) {
      clock_.Advance(seconds(5));
      executor_.RunUntilIdle();
    }
  }
  static void ExpectAccounted(const SinkStats& stats) {
    std::uint64_t ended = 0;
    for (const std::uint64_t count : stats.outcomes) ended += count;
    EXPECT_EQ(stats.recorded, ended + stats.in_flight);
  }

  const ObjectReference pod_{.kind = "Pod", .namespace_ = "ns", .name = "web-0", .uid = "u1"};
  const SpoolDirectory directory_;
  FakeClock clock_{WallTime(seconds(1'700'000'000))};
  Executor executor_{{.threads = 0, .clock = &clock_}};
  const std::shared_ptr<MemorySink> server_ = std::make_shared<MemorySink>();
};

TEST_F(SpoolDeliveryTest, TheNextProcessDeliversWhatIsLeftAtShutdown) {
  SetDown(true);
  {
    Process first(this);
    ASSERT_TRUE(first.started.ok());
    first.recorder.Event(pod_, kWarning, "BackOff", "old style");
    first.new_style.Event(pod_, kNormal, "Bound", "new style");
    executor_.RunUntilIdle();
    first.broadcaster.Shutdown(nanoseconds(0));
    EXPECT_EQ(first.Stats()[Outcome::kSpooled], 2u);
    EXPECT_EQ(first.Stats().in_flight, 0u);
    ExpectAccounted(first.Stats());
  }
  const SinkRequest tried = server_->Requests().at(0);
  clock_.Advance(minutes(30));
  SetDown(false);
  Process second(this);
  executor_.RunUntilIdle();
  ASSERT_EQ(server_->Events().size(), 2u);
  for (const Event& event : server_->Events()) {
    if (event.message != "old style") {
      EXPECT_EQ(event.event_time.seconds(), 1'700'000'000);
      continue;
    }
    EXPECT_EQ(event.metadata.name, tried.event->metadata.name);
    EXPECT_EQ(event.first_timestamp.seconds(), 1'700'000'000);
    EXPECT_EQ(event.last_timestamp.seconds(), 1'700'000'000);
  }
  EXPECT_EQ(second.Stats().recorded, 2u);
  EXPECT_EQ(second.Stats()[Outcome::kWritten], 2u);
  EXPECT_EQ(directory_.Segments(), Strings());
  ExpectAccounted(second.Stats());
}

TEST_F(SpoolDeliveryTest, RetriesEventsThatWereGivenUp) {
  SetDown(true);
  Process process(this);
  std::vector<Outcome> outcomes;
  process.recorder.Event(pod_, kNormal, "R", "m");
  Advance(minutes(3));
  EXPECT_EQ(process.Stats()[Outcome::kSpooled], 1u);
  EXPECT_EQ(process.Stats()[Outcome::kGaveUp], 0u);
  SetDown(false);
  Advance(minutes(3));
  EXPECT_EQ(server_->Events().size(), 1u);
  EXPECT_EQ(process.Stats().recorded, 2u);
  EXPECT_EQ(process.Stats()[Outcome::kWritten], 1u);
  EXPECT_EQ(process.Stats().spool_bytes, 0u);
  ExpectAccounted(process.Stats());
}

TEST_F(SpoolDeliveryTest, ALongOutageKeepsAllSegments) {
  SetDown(true);
  Process process(this);
  for (int i = 0; i < 5; ++i) process.recorder.Eventf(pod_, kNormal, "R", "m{}", i);
  Advance(minutes(60));
  ExpectAccounted(process.Stats());
  // The one that is being tried, and one for what came meanwhile.
  EXPECT_EQ(directory_.Segments().size(), 2u);
  SetDown(false);
  Advance(minutes(5));
  EXPECT_EQ(server_->Events().size(), 5u);
  EXPECT_EQ(process.Stats().in_flight, 0u);
  ExpectAccounted(process.Stats());
}

TEST_F(SpoolDeliveryTest, AnEventThatIsNeverAcceptedDoesNotDelayOthers) {
  const auto refuse_bad = [](const SinkRequest& request) -> std::optional<Status> {
    if (request.event->reason != "Bad") return std::nullopt;
    return Status({.reason = StatusReason::kInternalError, .origin = Status::Origin::kServer});
  };
  SetDown(true);
  {
    Process first(this, {}, {.max_tries = 1});
    first.recorder.Event(pod_, kNormal, "Bad", "m");
    first.recorder.Event(pod_, kNormal, "Good", "m");
    executor_.RunUntilIdle();
    first.broadcaster.Shutdown(nanoseconds(0));
  }
  server_->SetFault(refuse_bad);
  Process second(this, {}, {.max_tries = 1});
  second.recorder.Event(pod_, kNormal, "Bad", "another");
  executor_.RunUntilIdle();
  ASSERT_EQ(server_->Events().size(), 1u);
  EXPECT_EQ(server_->Events().at(0).reason, "Good");
  const std::size_t requests = server_->Requests().size();
  Advance(minutes(2));
  // Both bad ones are tried, and no event that was delivered.
  EXPECT_GE(server_->Requests().size(), requests + 2);
  for (std::size_t i = requests; i < server_->Requests().size(); ++i) {
    EXPECT_EQ(server_->Requests()[i].event->reason, "Bad");
  }
  ExpectAccounted(second.Stats());
  second.broadcaster.Shutdown(nanoseconds(0));
  EXPECT_GT(second.Stats().spool_bytes, 0u);
}

TEST_F(SpoolDeliveryTest, APatchOnDiskDoesNotLowerTheCountOnTheServer) {
  Process process(this, {}, {.max_tries = 1});
  process.recorder.Event(pod_, kNormal, "R", "m");
  executor_.RunUntilIdle();
  SetDown(true);
  process.recorder.Event(pod_, kNormal, "R", "m");
  executor_.RunUntilIdle();
  ASSERT_EQ(process.Stats()[Outcome::kSpooled], 1u);
  SetDown(false);
  process.recorder.Event(pod_, kNormal, "R", "m");
  executor_.RunUntilIdle();
  ASSERT_EQ(server_->Events().at(0).count, 3);
  const std::size_t requests = server_->Requests().size();
  Advance(minutes(2));
  EXPECT_EQ(server_->Events().at(0).count, 3);
  ASSERT_EQ(server_->Requests().size(), requests + 1);
  EXPECT_EQ(server_->Requests().back().patch, "{}") << "only asks for the count";
  EXPECT_EQ(process.Stats()[Outcome::kMerged], 2u);
  EXPECT_EQ(process.Stats().spool_bytes, 0u);
  ExpectAccounted(process.Stats());
}

// Processes that end before their patches are replayed. Only the server knows what it has.
TEST_F(SpoolDeliveryTest, TheNextProcessDoesNotLowerACountThatTheServerHas) {
  {
    Process first(this, {}, {.max_tries = 1});
    first.recorder.Event(pod_, kNormal, "R", "m");
    executor_.RunUntilIdle();
    SetDown(true);
    first.recorder.Event(pod_, kNormal, "R", "m");
    executor_.RunUntilIdle();
    ASSERT_EQ(first.Stats()[Outcome::kSpooled], 1u);
    SetDown(false);
    first.recorder.Event(pod_, kNormal, "R", "m");
    executor_.RunUntilIdle();
    ASSERT_EQ(server_->Events().at(0).count, 3);
  }
  ASSERT_EQ(directory_.Segments().size(), 1u);
  Process second(this);
  executor_.RunUntilIdle();
  EXPECT_EQ(server_->Events().at(0).count, 3);
  EXPECT_EQ(second.Stats()[Outcome::kMerged], 1u);
  EXPECT_EQ(directory_.Segments(), Strings());
  ExpectAccounted(second.Stats());
}

TEST_F(SpoolDeliveryTest, WritesTheHighestCountForAnyOrderOnDisk) {
  struct Case {
    const char* name;
    std::vector<int> on_disk;  // 0: the create
    int on_server;             // 0: nothing
    int expected;
  };
  const Case cases[] = {
      {"in order", {5, 8}, 1, 8},
      {"queued again behind a later one", {8, 5}, 1, 8},
      {"behind several", {6, 8, 5, 7}, 1, 8},
      {"the server has more", {5, 8}, 9, 9},
      {"the server has one of them", {5, 8}, 5, 8},
      {"the server has forgotten it", {8, 5}, 0, 8},
      {"a create behind the patches", {8, 5, 0}, 0, 8},
      {"a create that was written", {0, 5}, 7, 7},
  };
  for (const bool series : {false, true}) {
    // One segment for all, and one for each.
    for (const std::uint64_t segment_bytes : {1 << 20, 1}) {
      for (const Case& c : cases) {
        SCOPED_TRACE(std::string(c.name) + (series ? ", series" : ""));
        const auto event_with = [&](int count) {
          auto event = std::make_shared<Event>(*Create("e").request.event);
          if (series) {
            event->event_time = MicroTime(1'700'000'000, 0);
            event->count = 0;
            if (count > 1) event->series = EventSeries{.count = count};
          } else {
            event->count = count;
          }
          return event;
        };
        {
          const auto spool = OpenIn(directory_, {.segment_bytes = segment_bytes});
          for (const int count : c.on_disk) {
            SinkRequest request{.verb = count == 0 ? Verb::kCreate : Verb::kPatch,
                                .api = series ? EventApi::kEventsV1 : EventApi::kCoreV1,
                                .event = event_with(std::max(count, 1))};
            const std::string number = std::to_string(count);
            if (count > 0) {
              request.patch =
                  series ? R"({"series":{"count":)" + number + "}}" : R"({"count":)" + number + "}";
            }
            ASSERT_TRUE(spool->Append({.request = request}).ok());
          }
        }
        server_->Expire("ns", "e");
        if (c.on_server > 0) {
          server_->Send({.api = series ? EventApi::kEventsV1 : EventApi::kCoreV1,
                         .event = event_with(c.on_server)},
                        [](const Result<Event>& result) { ASSERT_TRUE(result); });
        }
        // A process that delivers nothing, then one that fails at every other write, then
        // one that does its work.
        SetDown(true);
        {
          const Process process(this, {}, {.max_tries = 1});
        }
        server_->SetFault([n = 0](const SinkRequest&) mutable -> std::optional<Status> {
          if (++n % 2 == 0) return std::nullopt;
          return Status(StatusReason::kUnreachable, "no route");
        });
        {
          const Process process(this, {}, {.max_tries = 1});
          Advance(minutes(2));
        }
        SetDown(false);
        const Process process(this);
        executor_.RunUntilIdle();
        ASSERT_EQ(server_->Events().size(), 1u);
        const Event event = server_->Events().at(0);
        EXPECT_EQ(series ? event.series.value_or(EventSeries()).count : event.count, c.expected);
        EXPECT_EQ(directory_.Segments(), Strings());
        ExpectAccounted(process.Stats());
      }
    }
  }
}

TEST_F(SpoolDeliveryTest, RemovesSegmentsWhoseCountsAreOutdated) {
  // A segment for each write.
  Process process(this, {}, {.max_tries = 1, .spool = SpoolOptions{.segment_bytes = 1}});
  process.recorder.Event(pod_, kNormal, "R", "m");
  executor_.RunUntilIdle();
  SetDown(true);
  for (int i = 0; i < 3; ++i) process.recorder.Event(pod_, kNormal, "R", "m");
  process.recorder.Event(pod_, kNormal, "Other", "m");
  executor_.RunUntilIdle();
  ASSERT_EQ(directory_.Segments().size(), 4u);
  SetDown(false);
  process.recorder.Event(pod_, kNormal, "R", "m");
  executor_.RunUntilIdle();
  clock_.Advance(minutes(1));
  executor_.RunUntilIdle();
  EXPECT_EQ(directory_.Segments(), Strings());
  EXPECT_EQ(server_->Events().size(), 2u);
  EXPECT_EQ(process.Stats().in_flight, 0u);
  ExpectAccounted(process.Stats());
}

TEST_F(SpoolDeliveryTest, TheCountOfASeriesSurvivesWithTheNumberOfItsEvents) {
  {
    Process first(this);
    for (int i = 0; i < 5; ++i) first.new_style.Event(pod_, kNormal, "R", "again");
    executor_.RunUntilIdle();
    SetDown(true);
    first.broadcaster.Shutdown(nanoseconds(0));
    EXPECT_EQ(first.Stats()[Outcome::kSpooled], 3u);
    ExpectAccounted(first.Stats());
  }
  SetDown(false);
  Process second(this);
  executor_.RunUntilIdle();
  ASSERT_EQ(server_->Events().size(), 1u);
  ASSERT_TRUE(server_->Events().at(0).series);
  EXPECT_EQ(server_->Events().at(0).series.value_or(EventSeries()).count, 5);
  EXPECT_EQ(second.Stats()[Outcome::kMerged], 3u);
  ExpectAccounted(second.Stats());
}

TEST_F(SpoolDeliveryTest, AnEventWhoseAnswerWasLostIsWritten) {
  // The server took it, but its answer was lost.
  server_->SetFault(nullptr);
  {
    Process first(this, {}, {.max_tries = 1});
    server_->SetFault([this](const SinkRequest& request) -> std::optional<Status> {
      server_->SetFault(nullptr);
      server_->Send(request, [](const Result<Event>&) {});
      return Status(StatusReason::kUnreachable, "connection reset");
    });
    first.recorder.Event(pod_, kNormal, "R", "m");
    executor_.RunUntilIdle();
    first.broadcaster.Shutdown(nanoseconds(0));
    EXPECT_EQ(first.Stats()[Outcome::kSpooled], 1u);
  }
  Process second(this);
  executor_.RunUntilIdle();
  EXPECT_EQ(server_->Events().size(), 1u);
  EXPECT_EQ(second.Stats()[Outcome::kWritten], 1u);
}

TEST_F(SpoolDeliveryTest, DoesNotKeepRejectedEvents) {
  server_->SetFault([](const SinkRequest&) {
    return Status({.reason = StatusReason::kInvalid, .origin = Status::Origin::kServer});
  });
  Process process(this);
  process.recorder.Event(pod_, kNormal, "R", "m");
  executor_.RunUntilIdle();
  process.broadcaster.Shutdown(nanoseconds(0));
  EXPECT_EQ(process.Stats()[Outcome::kRejected], 1u);
  EXPECT_EQ(directory_.Segments(), Strings());
}

TEST_F(SpoolDeliveryTest, KeepsEventsWithoutAChoiceForEventsV1) {
  {
    Process first(this);
    first.broadcaster.NewRecorder({.component = "c", .api_choice = std::make_shared<ApiChoice>()})
        .Event(pod_, kNormal, "R", "m");
    executor_.RunUntilIdle();
    first.broadcaster.Shutdown(nanoseconds(0));
    EXPECT_EQ(first.Stats()[Outcome::kSpooled], 1u);
  }
  Process second(this);
  executor_.RunUntilIdle();
  ASSERT_EQ(server_->Requests().size(), 1u);
  EXPECT_EQ(server_->Requests().at(0).api, EventApi::kEventsV1);
  EXPECT_EQ(second.Stats()[Outcome::kWritten], 1u);
}

TEST_F(SpoolDeliveryTest, UpstreamExactRejectsASpool) {
  Process process(this, {.upstream_exact = true});
  EXPECT_TRUE(process.started.Is(StatusReason::kInvalid));
}

TEST_F(SpoolDeliveryTest, ASecondSinkCannotUseTheSameDirectory) {
  Process first(this);
  {
    Process second(this);
    EXPECT_TRUE(second.started.Is(StatusReason::kConflict));
  }
  // A recorder that outlives its broadcaster does not keep the directory.
  first.broadcaster.Shutdown(nanoseconds(0));
  Process third(this);
  EXPECT_TRUE(third.started.ok());
}

TEST_F(SpoolDeliveryTest, LosesAndCountsAnEventIfTheDiskFails) {
  SetDown(true);
  std::vector<std::string> complaints;
  Process process(this,
                  {.log = [&](const LogEntry& entry) { complaints.emplace_back(entry.message); }});
  // A directory in the place of the first segment.
  ASSERT_EQ(mkdir((directory_.path() + "/0000000000000001.spool").c_str(), 0700), 0);
  process.recorder.Event(pod_, kNormal, "R", "m");
  executor_.RunUntilIdle();
  process.broadcaster.Shutdown(nanoseconds(0));
  EXPECT_EQ(process.Stats()[Outcome::kLost], 1u);
  EXPECT_EQ(complaints.back(), "Unable to spool event");
  ExpectAccounted(process.Stats());
}

}  // namespace
}  // namespace herald
