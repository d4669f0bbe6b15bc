#include "record/event/event_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "herald/record/fakes.h"

namespace herald {
namespace {

std::shared_ptr<Event> Take() { return TakePooledEvent(MakeMakerId()).event; }

TEST(EventPool, ReusesAReleasedEvent) {
  std::shared_ptr<Event> event = Take();
  const Event* const address = event.get();
  event->message = "first";
  event = nullptr;
  event = Take();
  if (EventsArePooled()) {
    EXPECT_EQ(event.get(), address);
  }
}

TEST(EventPool, DoesNotReuseAnEventThatIsInUse) {
  std::shared_ptr<Event> event = Take();
  const std::shared_ptr<const Event> kept = event;
  event = nullptr;
  EXPECT_NE(Take(), kept);
}

TEST(EventPool, DoesNotReuseAnEventWithAWeakPointer) {
  std::shared_ptr<Event> event = Take();
  const Event* const address = event.get();
  const std::weak_ptr<const Event> known = event;
  event = nullptr;
  EXPECT_TRUE(known.expired());
  EXPECT_NE(Take().get(), address);
}

TEST(EventPool, ReportsWhetherTheSameMakerUsedTheEvent) {
  const std::uint64_t one = MakeMakerId();
  const std::uint64_t other = MakeMakerId();
  TakePooledEvent(one);
  EXPECT_EQ(TakePooledEvent(one).is_makers, EventsArePooled());
  EXPECT_FALSE(TakePooledEvent(other).is_makers);
  EXPECT_FALSE(TakePooledEvent(one).is_makers);
}

TEST(EventPool, DoesNotKeepALongMessage) {
  std::shared_ptr<Event> event = Take();
  event->message.assign(1 << 20, 'x');
  event = nullptr;
  EXPECT_LE(Take()->message.capacity(), 1024u);
}

TEST(EventPool, EventsMayBeReleasedOnOtherThreads) {
  constexpr int kEvents = 5000;  // more than are kept
  for (int i = 0; i < kEvents; ++i) {
    std::shared_ptr<Event> event = Take();
    event->message = "across threads";
    if (i % 100 == 0) std::thread([moved = std::move(event)]() mutable { moved = nullptr; }).join();
  }
  std::vector<std::shared_ptr<Event>> many;
  for (int i = 0; i < kEvents; ++i) many.push_back(Take());
  std::thread([moved = std::move(many)]() mutable { moved.clear(); }).join();
  EXPECT_NE(Take(), nullptr);
}

// What a recorder leaves in an event must not show up in the next one.
TEST(EventPool, ARecorderKeepsNothingOfAnEarlierEvent) {
  const ObjectReference pod{.kind = "Pod", .namespace_ = "shop", .name = "web-0", .uid = "u-1"};
  FakeRecorder old_style;
  FakeRecorder new_style({.api = EventApi::kEventsV1});

  Recorder recorder = new_style.recorder();
  recorder.Record(pod,
                  {.reason = "Bound",
                   .action = "Binding",
                   .related = ObjectReference{.kind = "Node", .name = "node-1"}},
                  "to a node");
  ASSERT_TRUE(new_style.NextEvent());
  recorder = old_style.recorder();
  recorder.Event({.kind = "Node", .name = "node-1"}, kWarning, "Down", "gone");
  const std::shared_ptr<const Event> second = old_style.NextEvent();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->action, "");
  EXPECT_FALSE(second->related);
  EXPECT_TRUE(second->event_time.is_zero());
  EXPECT_EQ(second->metadata.namespace_, "default");
  EXPECT_EQ(second->involved_object, (ObjectReference{.kind = "Node", .name = "node-1"}));

  recorder.AnnotatedEventf(pod, {{"k", "v"}}, kNormal, "Started", "web");
  ASSERT_TRUE(old_style.NextEvent());
  recorder = new_style.recorder();
  recorder.Event(pod, kNormal, "Started", "again");
  const std::shared_ptr<const Event> fourth = new_style.NextEvent();
  ASSERT_TRUE(fourth);
  EXPECT_TRUE(fourth->metadata.annotations.empty());
  EXPECT_EQ(fourth->source, EventSource());
  EXPECT_EQ(fourth->count, 0);
  EXPECT_TRUE(fourth->first_timestamp.is_zero());
  EXPECT_TRUE(fourth->last_timestamp.is_zero());
}

// A string replaces an earlier one that may have been longer or shorter.
TEST(EventPool, ARecorderSetsStringsOfAnyLength) {
  FakeRecorder fake;
  Recorder recorder = fake.recorder();
  for (const std::size_t size : {40, 7, 33, 3, 2, 1, 0, 16, 15, 100, 99, 31}) {
    const std::string text(size, static_cast<char>('a' + size % 26));
    const ObjectReference object{.kind = "Pod" + text,
                                 .namespace_ = "n" + text,
                                 .name = "web" + text,
                                 .uid = text,
                                 .api_version = text,
                                 .resource_version = text,
                                 .field_path = text};
    recorder.Event(object, kNormal, text, text);
    const std::shared_ptr<const Event> event = fake.NextEvent();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->involved_object, object);
    EXPECT_EQ(event->metadata.namespace_, object.namespace_);
    EXPECT_EQ(event->reason, text);
    EXPECT_EQ(event->message, text);
    EXPECT_EQ(event->message.c_str()[size], '\0');
  }
}

}  // namespace
}  // namespace herald
