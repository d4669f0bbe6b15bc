#include "record/delivery/object_queues.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace herald {
namespace {

using Strings = std::vector<std::string>;

std::shared_ptr<const Event> EventAbout(const std::string& object, std::string message,
                                        bool new_style = false) {
  auto event = std::make_shared<Event>();
  event->involved_object.name = object;
  event->message = std::move(message);
  if (new_style) event->event_time = MicroTime(1, 0);
  return event;
}

class ObjectQueuesTest : public ::testing::Test {
 protected:
  bool Add(const std::string& object, std::string message) {
    Published published{.event = EventAbout(object, std::move(message)), .bytes = 10};
    return queues_.Add(&published);
  }
  void AddPlanned(const std::string& object, std::string message) {
    queues_.AddPlanned(
        {.correlation = {.request = {.event = EventAbout(object, std::move(message))}}});
  }
  static std::string MessageOf(const EventWrite& write) {
    return write.published.event ? write.published.event->message
                                 : write.correlation.request.event->message;
  }
  // Starts everything that may start.
  Strings StartAll() {
    Strings messages;
    while (auto write = queues_.Start()) {
      messages.push_back(MessageOf(*write));
      started_.push_back(std::move(write));
    }
    return messages;
  }
  void End(std::size_t index) {
    if (started_[index]->published.event) queues_.Release(started_[index]->published);
    queues_.End(started_[index].get());
  }

  EventBudget admitted_{10, 1000};
  EventBudget parked_{2, 1000};
  ObjectQueues queues_{/*upstream_exact=*/false, &admitted_, &parked_};
  std::vector<std::shared_ptr<EventWrite>> started_;
};

TEST_F(ObjectQueuesTest, OneWritePerObjectIsUnderWayAndObjectsTakeTurns) {
  EXPECT_TRUE(queues_.empty());
  for (const char* message : {"a1", "a2", "b1"}) Add(std::string(message, 1), message);
  EXPECT_EQ(StartAll(), (Strings{"a1", "b1"}));
  Add("b", "b2");
  EXPECT_EQ(StartAll(), Strings());
  End(1);
  EXPECT_EQ(StartAll(), Strings{"b2"});
  End(0);
  EXPECT_EQ(StartAll(), Strings{"a2"});
  End(2);
  End(3);
  EXPECT_TRUE(queues_.empty());
  EXPECT_EQ(admitted_.room(), 10u);
}

TEST_F(ObjectQueuesTest, PlannedWritesGoBeforeEventsThatWait) {
  Add("a", "first");
  EXPECT_EQ(StartAll(), Strings{"first"});
  Add("a", "event");
  AddPlanned("a", "planned");
  End(0);
  EXPECT_EQ(StartAll(), Strings{"planned"});
  End(1);
  EXPECT_EQ(StartAll(), Strings{"event"});
}

TEST_F(ObjectQueuesTest, AWriteWithoutARequestGivesItsTurnToTheNextOfItsObject) {
  for (const char* message : {"a1", "a2", "b1"}) Add(std::string(message, 1), message);
  const auto write = queues_.Start();
  EXPECT_EQ(MessageOf(*write), "a1");
  ASSERT_TRUE(queues_.StartNextOf(write.get()));
  EXPECT_EQ(MessageOf(*write), "a2");
  EXPECT_FALSE(queues_.StartNextOf(write.get()));
  EXPECT_EQ(StartAll(), Strings{"b1"});
  EXPECT_FALSE(queues_.empty());
  End(0);
  EXPECT_TRUE(queues_.empty());
}

TEST_F(ObjectQueuesTest, ARequeuedEventComesFirst) {
  Add("a", "a1");
  Add("a", "a2");
  StartAll();
  queues_.EndAndRequeue(started_[0].get());
  EXPECT_EQ(StartAll(), Strings{"a1"});
}

TEST_F(ObjectQueuesTest, ParkedEventsMakeRoomAmongTheAdmittedOnesAndHaveALimit) {
  Add("a", "a1");
  StartAll();
  queues_.Park(started_[0].get());
  EXPECT_EQ(admitted_.room(), 10u);
  EXPECT_TRUE(Add("a", "a2"));
  EXPECT_FALSE(parked_.HasRoom());
  EXPECT_FALSE(Add("a", "a3"));
  EXPECT_TRUE(Add("b", "b1")) << "another object";
  queues_.Unpark(started_[0].get());
  EXPECT_EQ(admitted_.room(), 7u);
  EXPECT_EQ(parked_.room(), 2u);
}

TEST_F(ObjectQueuesTest, AnObjectStaysAdmittedWhereThereIsNoRoomToParkIt) {
  for (const char* message : {"a1", "b1", "c1"}) Add(std::string(message, 1), message);
  StartAll();
  for (const auto& write : started_) queues_.Park(write.get());
  EXPECT_EQ(parked_.room(), 0u);
  EXPECT_EQ(admitted_.room(), 9u);
  for (const auto& write : started_) queues_.Unpark(write.get());
  EXPECT_EQ(admitted_.room(), 7u);
}

TEST_F(ObjectQueuesTest, TakesAllAtTheEnd) {
  Add("a", "a1");
  StartAll();
  Add("a", "a2");
  AddPlanned("a", "a3");
  const std::vector<ObjectQueue> all = queues_.TakeAll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(MessageOf(*all[0].current), "a1");
  EXPECT_EQ(all[0].waiting.size(), 1u);
  EXPECT_EQ(all[0].planned.size(), 1u);
  EXPECT_TRUE(queues_.empty());
  EXPECT_EQ(queues_.Start(), nullptr);
}

TEST_F(ObjectQueuesTest, UnderUpstreamExactOldStyleIsOneQueueAndNewStyleHasNoOrder) {
  ObjectQueues queues(/*upstream_exact=*/true, &admitted_, &parked_);
  for (const bool new_style : {false, true}) {
    for (const char* object : {"a", "b", "b"}) {
      Published published{.event = EventAbout(object, object, new_style)};
      queues.Add(&published);
    }
  }
  int started = 0;
  while (const auto write = queues.Start()) {
    ++started;
    queues.Park(write.get());
  }
  EXPECT_EQ(started, 4);
  EXPECT_EQ(parked_.room(), 2u) << "nothing is parked";
}

}  // namespace
}  // namespace herald
