#include "herald/record/api_choice.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "herald/api/validation.h"
#include "herald/record/broadcaster.h"
#include "herald/record/fakes.h"
#include "record/event/event_style.h"

namespace herald {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;
using Strings = std::vector<std::string>;

constexpr seconds kPatience{30};

TEST(ApiChoiceTest, CallsTheFunctionOnceWhenTheChoiceIsMade) {
  ApiChoice choice;
  EXPECT_EQ(choice.Get(), std::nullopt);
  int notified = 0;
  choice.WhenSet([&] { ++notified; });
  EXPECT_EQ(notified, 0);
  choice.Set(EventApi::kEventsV1);
  EXPECT_EQ(notified, 1);
  EXPECT_EQ(choice.Get(), EventApi::kEventsV1);
  choice.Set(EventApi::kCoreV1);
  EXPECT_EQ(notified, 1) << "it is called only once";
  EXPECT_EQ(choice.Get(), EventApi::kCoreV1);
  choice.WhenSet([&] { ++notified; });
  EXPECT_EQ(notified, 2) << "the choice was already made";
}

class ApiChoiceFallbackTest : public ::testing::Test {
 protected:
  FakeClock clock_{WallTime(seconds(1))};
  ApiChoice choice_{&clock_};
};

TEST_F(ApiChoiceFallbackTest, AFallbackOfOneNamespaceEndsAfterTenMinutes) {
  choice_.Set(EventApi::kEventsV1);
  EXPECT_FALSE(choice_.fell_back());
  EXPECT_TRUE(choice_.FallBack("shop"));
  EXPECT_TRUE(choice_.fell_back());
  EXPECT_EQ(choice_.Get("shop"), EventApi::kCoreV1);
  EXPECT_EQ(choice_.Get("bank"), EventApi::kEventsV1);
  EXPECT_EQ(choice_.Get(), EventApi::kEventsV1);
  clock_.Advance(ApiChoice::kFallbackTime);
  EXPECT_EQ(choice_.Get("shop"), EventApi::kEventsV1);
  EXPECT_FALSE(choice_.fell_back());
  EXPECT_FALSE(choice_.FallBack("shop")) << "no news";
  EXPECT_EQ(choice_.Get("shop"), EventApi::kCoreV1);
}

TEST_F(ApiChoiceFallbackTest, AFallbackOfAllNamespacesIsAChoice) {
  int notified = 0;
  choice_.WhenSet([&] { ++notified; });
  EXPECT_TRUE(choice_.FallBack());
  EXPECT_EQ(notified, 1);
  EXPECT_EQ(choice_.Get("shop"), EventApi::kCoreV1);
  EXPECT_EQ(choice_.Get(), EventApi::kCoreV1);
  clock_.Advance(ApiChoice::kFallbackTime);
  EXPECT_EQ(choice_.Get("shop"), EventApi::kEventsV1);
  EXPECT_FALSE(choice_.FallBack()) << "no news";
}

TEST_F(ApiChoiceFallbackTest, SetEndsAllFallbacksAndIsPermanent) {
  choice_.FallBack("shop");
  choice_.FallBack();
  choice_.Set(EventApi::kEventsV1);
  EXPECT_EQ(choice_.Get("shop"), EventApi::kEventsV1);
  choice_.Set(EventApi::kCoreV1);
  choice_.FallBack("shop");
  clock_.Advance(ApiChoice::kFallbackTime);
  EXPECT_EQ(choice_.Get("shop"), EventApi::kCoreV1);
  EXPECT_FALSE(choice_.fell_back());
}

TEST_F(ApiChoiceFallbackTest, RemembersABoundedNumberOfNamespaces) {
  choice_.Set(EventApi::kEventsV1);
  for (int i = 0; i <= 1024; ++i) {
    choice_.FallBack("n" + std::to_string(i));
    EXPECT_EQ(choice_.Get("n0"), EventApi::kCoreV1) << "used all the time";
  }
  EXPECT_EQ(choice_.Get("n1"), EventApi::kEventsV1);
  EXPECT_EQ(choice_.Get("n2"), EventApi::kCoreV1);
}

class ApiChoiceDeliveryTest : public ::testing::Test {
 protected:
  void Use(BroadcasterOptions options, SinkOptions sink_options = {}) {
    options.executor = &executor_;
    options.drain = std::chrono::milliseconds(0);
    broadcaster_ = std::make_unique<Broadcaster>(options);
    server_ = std::make_shared<MemorySink>();
    ASSERT_TRUE(broadcaster_->StartRecordingToSink(server_, sink_options).ok());
    choice_ = std::make_shared<ApiChoice>();
    recorder_ = broadcaster_->NewRecorder(Options());
  }
  void SetUp() override { Use({}); }

  RecorderOptions Options() const {
    return {.component = "agent", .host = "n1", .api_choice = choice_};
  }

  SinkStats Stats() const {
    const SinkStats stats = broadcaster_->Stats().at(0);
    std::uint64_t ended = 0;
    for (const std::uint64_t count : stats.outcomes) ended += count;
    EXPECT_EQ(stats.recorded, ended + stats.in_flight);
    return stats;
  }

  // Everything about an event that is the same in all tests, and the rest as given.
  void Record(const std::string& message = "m") {
    const ObjectReference node{.kind = "Node", .name = "n"};
    recorder_.Record(pod_, {.type = kWarning, .reason = "R", .action = "Binding", .related = node},
                     "{}", message);
  }

  const ObjectReference pod_{.kind = "Pod", .namespace_ = "ns", .name = "web-0", .uid = "u1"};
  FakeClock clock_{WallTime(nanoseconds(1'700'000'000'123'456'789))};
  Executor executor_{{.threads = 0, .clock = &clock_}};
  std::unique_ptr<Broadcaster> broadcaster_;
  std::shared_ptr<MemorySink> server_;
  std::shared_ptr<ApiChoice> choice_;
  Recorder recorder_;
};

// An event that waited for the choice, and one that did not, are what a recorder that
// knew it from the beginning makes.
TEST_F(ApiChoiceDeliveryTest, MakesTheSameEventsAsARecorderOfThatApi) {
  for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
    SCOPED_TRACE(ApiVersionName(api));
    Use({});
    Record("before the choice");
    executor_.RunUntilIdle();
    EXPECT_TRUE(server_->Requests().empty());
    EXPECT_EQ(Stats().in_flight, 1u);
    choice_->Set(api);
    Record("after the choice");
    executor_.RunUntilIdle();
    const std::vector<SinkRequest> requests = server_->Requests();
    ASSERT_EQ(requests.size(), 2u);
    EXPECT_EQ(requests[0].event->message, "before the choice");
    EXPECT_EQ(requests[1].event->message, "after the choice");
    EXPECT_EQ(requests[0].api, api);

    recorder_ = broadcaster_->NewRecorder({.component = "agent", .host = "n1", .api = api});
    Record("known");
    executor_.RunUntilIdle();
    Event expected = *server_->Requests().at(2).event;
    for (const SinkRequest& request : {requests[0], requests[1]}) {
      Event event = *request.event;
      expected.metadata.name = event.metadata.name;
      expected.message = event.message;
      // In memory alone the time of an old-style event is finer; the wire has seconds.
      expected.first_timestamp = event.first_timestamp;
      expected.last_timestamp = event.last_timestamp;
      EXPECT_EQ(event, expected);
      EXPECT_EQ(event.count == 0, api == EventApi::kEventsV1);
      if (api == EventApi::kCoreV1) {
        EXPECT_EQ(event.first_timestamp.seconds(), 1'700'000'000);
      }
      event.metadata.uid = "u";
      EXPECT_TRUE(ValidateEventCreate(event, api).ok());
    }
    EXPECT_EQ(Stats()[Outcome::kWritten], 3u);
  }
}

TEST_F(ApiChoiceDeliveryTest, CutsLongMessagesForTheChosenApi) {
  for (const auto& [api, bytes] :
       {std::pair{EventApi::kCoreV1, 5000u}, {EventApi::kEventsV1, 1024u}}) {
    Use({});
    Record(std::string(5000, 'x'));
    choice_->Set(api);
    executor_.RunUntilIdle();
    EXPECT_EQ(server_->Events().at(0).message.size(), bytes);
  }
}

TEST_F(ApiChoiceDeliveryTest, MergesRepeatsInTheChosenStyle) {
  for (int i = 0; i < 5; ++i) Record();
  executor_.RunUntilIdle();
  choice_->Set(EventApi::kEventsV1);
  EXPECT_TRUE(broadcaster_->Flush(kPatience).complete);
  ASSERT_EQ(server_->Events().size(), 1u);
  EXPECT_EQ(server_->Events().at(0).series.value_or(EventSeries()).count, 5);
  EXPECT_EQ(Stats()[Outcome::kMerged], 4u);
}

TEST_F(ApiChoiceDeliveryTest, RecordersWithAnApiDoNotWaitForAChoice) {
  Record();
  broadcaster_->NewRecorder({.component = "other"}).Event(pod_, kNormal, "Known", "m");
  executor_.RunUntilIdle();
  ASSERT_EQ(server_->Events().size(), 1u);
  EXPECT_EQ(server_->Events().at(0).reason, "Known");
  EXPECT_FALSE(broadcaster_->Flush(kPatience).complete) << "what waits is not forgotten";
}

TEST_F(ApiChoiceDeliveryTest, WatchersReceiveEventsBeforeTheChoice) {
  const auto watcher = *broadcaster_->Watch();
  Record("whole");
  executor_.RunUntilIdle();
  const auto item = watcher->TryNext();
  ASSERT_TRUE(item);
  EXPECT_EQ(item->event->message, "whole");
  EXPECT_EQ(item->event->source.component, "agent");
  EXPECT_FALSE(item->event->event_time.is_zero());
}

// A server that offers events.k8s.io but does not let us write there. The client notices
// and changes the choice; the event that was rejected must not be lost.
TEST_F(ApiChoiceDeliveryTest, WritesAForbiddenEventThroughTheApiThatIsChosenNow) {
  server_->SetFault([this](const SinkRequest& request) -> std::optional<Status> {
    if (request.api == EventApi::kCoreV1) return std::nullopt;
    choice_->Set(EventApi::kCoreV1);
    return Status({.reason = StatusReason::kForbidden, .origin = Status::Origin::kServer});
  });
  choice_->Set(EventApi::kEventsV1);
  Record("first");
  Record("second");
  executor_.RunUntilIdle();
  ASSERT_EQ(server_->Events().size(), 2u);
  for (const Event& event : server_->Events()) EXPECT_EQ(event.count, 1);
  EXPECT_EQ(server_->Requests().size(), 3u);
  EXPECT_EQ(Stats()[Outcome::kWritten], 2u);
  EXPECT_EQ(Stats()[Outcome::kRejected], 0u);
}

TEST_F(ApiChoiceDeliveryTest, EachNamespaceHasTheStyleOfItsApi) {
  choice_->Set(EventApi::kEventsV1);
  choice_->FallBack("ns");
  Record();
  recorder_.Event({.kind = "Pod", .namespace_ = "other", .name = "web-0"}, kNormal, "R", "m");
  executor_.RunUntilIdle();
  ASSERT_EQ(server_->Requests().size(), 2u);
  for (const SinkRequest& request : server_->Requests()) {
    const bool is_old = request.event->metadata.namespace_ == "ns";
    EXPECT_EQ(request.api, is_old ? EventApi::kCoreV1 : EventApi::kEventsV1);
    EXPECT_EQ(request.event->event_time.is_zero(), is_old);
  }
}

TEST_F(ApiChoiceDeliveryTest, RejectionThroughTheChosenApiIsFinal) {
  server_->SetFault([](const SinkRequest&) {
    return Status({.reason = StatusReason::kForbidden, .origin = Status::Origin::kServer});
  });
  choice_->Set(EventApi::kEventsV1);
  Record();
  executor_.RunUntilIdle();
  EXPECT_EQ(Stats()[Outcome::kRejected], 1u);
}

TEST_F(ApiChoiceDeliveryTest, LimitsEventsWithoutAChoiceAndLosesThemAtShutdown) {
  std::vector<Outcome> outcomes;
  RecorderOptions options = Options();
  options.on_outcome = [&](Outcome outcome, const Status&) { outcomes.push_back(outcome); };
  recorder_ = broadcaster_->NewRecorder(options);
  for (int i = 0; i < 1500; ++i) {
    Record(std::to_string(i));
    executor_.RunUntilIdle();
  }
  EXPECT_EQ(Stats()[Outcome::kDropped], 500u);
  EXPECT_EQ(Stats().in_flight, 1000u);
  EXPECT_FALSE(broadcaster_->Shutdown(nanoseconds(0)).complete);
  EXPECT_EQ(Stats()[Outcome::kLost], 1000u);
  EXPECT_EQ(outcomes.size(), 1500u);
  choice_->Set(EventApi::kCoreV1);  // too late, and no harm
  executor_.RunUntilIdle();
  EXPECT_TRUE(server_->Requests().empty());
}

TEST_F(ApiChoiceDeliveryTest, CanBeUsedWithUpstreamExact) {
  Use({.upstream_exact = true});
  Record();
  choice_->Set(EventApi::kCoreV1);
  executor_.RunUntilIdle();
  const Event event = server_->Events().at(0);
  EXPECT_EQ(event.count, 1);
  EXPECT_EQ(event.action, "") << "EventRecorderAdapter forwards neither";
  EXPECT_FALSE(event.related);
}

// The recorder keeps the pipeline alive, but nobody keeps the executor of the caller alive.
TEST(ApiChoiceLifetimeTest, AChoiceMayBeMadeAfterTheExecutorIsDestroyed) {
  const auto choice = std::make_shared<ApiChoice>();
  const auto server = std::make_shared<MemorySink>();
  Recorder recorder;
  {
    Executor executor({.threads = 0});
    Broadcaster broadcaster({.executor = &executor, .drain = std::chrono::milliseconds(0)});
    ASSERT_TRUE(broadcaster.StartRecordingToSink(server).ok());
    recorder = broadcaster.NewRecorder({.component = "agent", .api_choice = choice});
    recorder.Event({.kind = "Pod", .name = "web-0"}, kNormal, "R", "m");
    executor.RunUntilIdle();
  }
  choice->Set(EventApi::kEventsV1);
  EXPECT_TRUE(server->Requests().empty());
}

TEST(ApiChoiceThreadsTest, TheChoiceCanBeMadeWhileThreadsRecord) {
  const auto server = std::make_shared<MemorySink>();
  Broadcaster broadcaster({.incoming_events = 10'000, .watcher_events = 10'000});
  ASSERT_TRUE(broadcaster.StartRecordingToSink(server).ok());
  const auto choice = std::make_shared<ApiChoice>();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Recorder recorder = broadcaster.NewRecorder({.component = "agent", .api_choice = choice});
      for (int i = 0; i < 200; ++i) {
        const ObjectReference pod{
            .kind = "Pod", .namespace_ = "ns", .name = "web-" + std::to_string(t)};
        recorder.Eventf(pod, kNormal, "R" + std::to_string(i), "{}", i);
      }
    });
  }
  choice->Set(EventApi::kEventsV1);
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(broadcaster.Shutdown(kPatience).complete);
  const SinkStats stats = broadcaster.Stats().at(0);
  EXPECT_EQ(stats[Outcome::kWritten], 800u);
  // Of each object in the order in which they were recorded.
  std::map<std::string, int> next;
  for (const SinkRequest& request : server->Requests()) {
    EXPECT_EQ(request.event->message, std::to_string(next[request.event->involved_object.name]++));
  }
}

}  // namespace
}  // namespace herald
