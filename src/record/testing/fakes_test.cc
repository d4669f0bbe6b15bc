#include "herald/record/fakes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace herald {
namespace {

using Verb = SinkRequest::Verb;

ObjectReference Pod() {
  return {.kind = "Pod", .namespace_ = "ns", .name = "web-0", .api_version = "v1"};
}

TEST(FakeRecorderTest, PrintsTheLinesOfClientGosFakes) {
  FakeRecorder fake;
  Recorder recorder = fake.recorder();
  recorder.Event(Pod(), kNormal, "Started", "Started container web");
  recorder.Eventf(Pod(), kWarning, "BackOff", "{} times", 3);
  recorder.AnnotatedEventf(Pod(), {{"k2", "v2"}, {"k1", "v1"}}, kNormal, "Scaled", "to {}", 2);
  EXPECT_EQ(fake.Next(), "Normal Started Started container web");
  EXPECT_EQ(fake.Next(), "Warning BackOff 3 times");
  EXPECT_EQ(fake.Next(), "Normal Scaled to 2 map[k1:v1 k2:v2]");
  EXPECT_EQ(fake.Next(), std::nullopt);
}

TEST(FakeRecorderTest, PrintsTheObjectIfRequested) {
  FakeRecorder fake({.include_object = true});
  fake.recorder().AnnotatedEventf(Pod(), {{"k", "v"}}, kNormal, "R", "m");
  EXPECT_EQ(fake.Next(), "Normal R m involvedObject{kind=Pod,apiVersion=v1} map[k:v]");
}

TEST(FakeRecorderTest, RecordsInEitherStyle) {
  FakeRecorder fake({.api = EventApi::kEventsV1});
  fake.recorder().Record(Pod(), {.reason = "Scheduled", .action = "Binding"}, "bound");
  const auto event = fake.NextEvent();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->action, "Binding");
  EXPECT_FALSE(event->event_time.is_zero());
  fake.recorder().Record(Pod(), {.reason = "Scheduled", .action = "Binding"}, "bound");
  EXPECT_EQ(fake.Next(), "Normal Scheduled bound");
}

TEST(FakeRecorderTest, NewStyleLinesMayBeVerbose) {
  FakeRecorder fake({.api = EventApi::kEventsV1, .verbose = true});
  const ObjectReference node{.kind = "Node", .name = "n", .api_version = "v1"};
  fake.recorder().Record(Pod(),
                         {.type = kWarning,
                          .reason = "Scheduled",
                          .action = "Binding",
                          .related = node,
                          .annotations = {{"b", "2"}, {"a", "1"}}},
                         "bound to {}", "n");
  EXPECT_EQ(fake.Next(),
            "Warning Scheduled Binding bound to n {kind=Pod,apiVersion=v1} "
            "{kind=Node,apiVersion=v1} map[a:1 b:2]");
  // Whose kind is not known is left out.
  fake.recorder().Record({.name = "web-0"}, {.reason = "R", .action = "A"}, "m");
  EXPECT_EQ(fake.Next(), "Normal R A m");
  // The action is optional.
  fake.recorder().Event({.name = "web-0"}, kNormal, "R", "m");
  EXPECT_EQ(fake.Next(), "Normal R R m");
}

TEST(FakeRecorderTest, NewStyleLinesHaveAnnotationsOnlyIfVerbose) {
  FakeRecorder fake({.api = EventApi::kEventsV1});
  fake.recorder().AnnotatedEventf(Pod(), {{"k", "v"}}, kNormal, "R", "m");
  EXPECT_EQ(fake.Next(), "Normal R m");
}

TEST(FakeRecorderTest, NeverBlocksAndCountsDroppedEvents) {
  FakeRecorder fake({.max_events = 2});
  Recorder recorder = fake.recorder();
  for (int i = 0; i < 5; ++i) recorder.Eventf(Pod(), kNormal, "R", "{}", i);
  EXPECT_EQ(fake.dropped(), 3U);
  EXPECT_EQ(fake.Next(), "Normal R 0");
  recorder.Event(Pod(), kNormal, "R", "5");
  recorder.Event(Pod(), kNormal, "R", "6");
  EXPECT_EQ(fake.Next(), "Normal R 1");
  EXPECT_EQ(fake.Next(), "Normal R 5");
  EXPECT_EQ(fake.Next(), std::nullopt);
  EXPECT_EQ(fake.dropped(), 4U);
}

TEST(FakeRecorderTest, RejectsWhatARealRecorderRejects) {
  FakeRecorder fake;
  fake.recorder().Event(Pod(), "Odd", "R", "m");
  EXPECT_EQ(fake.Next(), std::nullopt);
  EXPECT_EQ(fake.dropped(), 0U);
}

TEST(FakeRecorderTest, TheRecorderMayOutliveTheFake) {
  Recorder recorder;
  {
    FakeRecorder fake;
    recorder = fake.recorder();
  }
  recorder.Event(Pod(), kNormal, "R", "m");
}

TEST(FakeRecorderTest, ThreadsMayRecordWhileOneReads) {
  FakeRecorder fake;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([recorder = fake.recorder()]() mutable {
      for (int i = 0; i < 100; ++i) recorder.Event(Pod(), kNormal, "R", "m");
    });
  }
  int seen = 0;
  while (seen < 200) {
    if (fake.Next()) ++seen;
  }
  for (std::thread& thread : threads) thread.join();
  while (fake.Next()) ++seen;
  EXPECT_EQ(seen, 400);
}

class MemorySinkTest : public ::testing::Test {
 protected:
  static std::shared_ptr<const Event> MakeEvent(std::string name = "web-0.1", int count = 1) {
    Event event;
    event.metadata.name = std::move(name);
    event.metadata.namespace_ = "ns";
    event.involved_object = Pod();
    event.type = kNormal;
    event.count = count;
    return std::make_shared<const Event>(std::move(event));
  }

  Result<Event> Send(Verb verb, std::shared_ptr<const Event> event, std::string patch = {}) {
    std::optional<Result<Event>> answer;
    sink_.Send({.verb = verb, .event = std::move(event), .patch = std::move(patch)},
               [&](Result<Event> result) { answer = std::move(result); });
    return std::move(answer).value();
  }

  MemorySink sink_;
};

TEST_F(MemorySinkTest, CreatesEventsWithUidAndResourceVersion) {
  const Result<Event> first = Send(Verb::kCreate, MakeEvent("a"));
  const Result<Event> second = Send(Verb::kCreate, MakeEvent("b"));
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->metadata.uid, second->metadata.uid);
  EXPECT_NE(first->metadata.resource_version, second->metadata.resource_version);
  EXPECT_EQ(sink_.Events(), (std::vector<Event>{*first, *second}));
}

TEST_F(MemorySinkTest, RejectsASecondCreate) {
  ASSERT_TRUE(Send(Verb::kCreate, MakeEvent()));
  const Result<Event> again = Send(Verb::kCreate, MakeEvent());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().reason(), StatusReason::kAlreadyExists);
  EXPECT_EQ(again.error().origin(), Status::Origin::kServer);
  EXPECT_EQ(again.error().message(), "events \"web-0.1\" already exists");
}

TEST_F(MemorySinkTest, Patches) {
  ASSERT_TRUE(Send(Verb::kCreate, MakeEvent()));
  const Result<Event> patched = Send(Verb::kPatch, MakeEvent(), R"({"count":2,"message":"m"})");
  ASSERT_TRUE(patched);
  EXPECT_EQ(patched->count, 2);
  EXPECT_EQ(patched->message, "m");
  EXPECT_EQ(sink_.Events(), std::vector<Event>{*patched});
  EXPECT_FALSE(Send(Verb::kPatch, MakeEvent(), "{")) << "no JSON";
}

TEST_F(MemorySinkTest, DeletesAnExpiredEvent) {
  ASSERT_TRUE(Send(Verb::kCreate, MakeEvent()));
  sink_.Expire("ns", "web-0.1");
  sink_.Expire("ns", "never there");
  EXPECT_TRUE(sink_.Events().empty());
  const Result<Event> patched = Send(Verb::kPatch, MakeEvent(), "{}");
  ASSERT_FALSE(patched);
  EXPECT_EQ(patched.error().code(), 404);
}

TEST_F(MemorySinkTest, AnUpdateReplacesOrCreates) {
  // As API servers do for events: the recorders of old days rely on it.
  EXPECT_TRUE(Send(Verb::kUpdate, MakeEvent("web-0.1", 3)));
  EXPECT_TRUE(Send(Verb::kUpdate, MakeEvent("web-0.1", 4)));
  ASSERT_EQ(sink_.Events().size(), 1U);
  EXPECT_EQ(sink_.Events()[0].count, 4);
}

TEST_F(MemorySinkTest, AnswersWithTheFault) {
  sink_.SetFault([](const SinkRequest& request) -> std::optional<Status> {
    if (request.verb == Verb::kCreate) return Status(StatusReason::kUnreachable, "no route");
    return std::nullopt;
  });
  EXPECT_EQ(Send(Verb::kCreate, MakeEvent()).error().reason(), StatusReason::kUnreachable);
  EXPECT_TRUE(sink_.Events().empty());
  sink_.SetFault(nullptr);
  EXPECT_TRUE(Send(Verb::kCreate, MakeEvent()));
  EXPECT_EQ(sink_.Requests().size(), 2U) << "those that failed too";
}

TEST_F(MemorySinkTest, WritesToTheNamespaceOfTheEvent) {
  // client-go's typed client rejects an event of another namespace; a sink has no
  // namespace of its own, and the event's is the only one there is.
  Event other = *MakeEvent();
  other.metadata.namespace_ = "other";
  ASSERT_TRUE(Send(Verb::kCreate, MakeEvent()));
  ASSERT_TRUE(Send(Verb::kCreate, std::make_shared<const Event>(other)));
  ASSERT_TRUE(Send(Verb::kPatch, std::make_shared<const Event>(other), R"({"count":7})"));
  ASSERT_EQ(sink_.Events().size(), 2U);
  EXPECT_EQ(sink_.Events()[0].metadata.namespace_, "ns");
  EXPECT_EQ(sink_.Events()[0].count, 1);
  EXPECT_EQ(sink_.Events()[1].metadata.namespace_, "other");
  EXPECT_EQ(sink_.Events()[1].count, 7);
}

TEST(BlockingSinkTest, RunsTheFunctionOneRequestAtATime) {
  int inside = 0;
  int most = 0;
  int calls = 0;
  const auto sink = MakeBlockingSink([&](const SinkRequest& request) -> Result<Event> {
    most = std::max(most, ++inside);
    ++calls;
    --inside;
    return *request.event;
  });
  std::vector<std::thread> threads;
  std::atomic<int> answers{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 100; ++j) {
        sink->Send({.event = std::make_shared<const Event>()}, [&](const Result<Event>& answer) {
          if (answer) ++answers;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(calls, 400);
  EXPECT_EQ(answers, 400);
}

TEST(BlockingSinkTest, ReturnsTheResultOfTheFunction) {
  const auto sink = MakeBlockingSink(
      [](const SinkRequest&) -> Result<Event> { return Status(StatusReason::kForbidden, "no"); });
  std::optional<Status> status;
  sink->Send({.event = std::make_shared<const Event>()},
             [&](const Result<Event>& answer) { status = answer.error(); });
  ASSERT_TRUE(status);
  EXPECT_EQ(status->message(), "no");
}

}  // namespace
}  // namespace herald
