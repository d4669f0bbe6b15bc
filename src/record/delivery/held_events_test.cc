#include "record/delivery/held_events.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace herald {
namespace {

using Strings = std::vector<std::string>;

Published EventOf(std::shared_ptr<ApiChoice> choice, std::string message = "m") {
  auto event = std::make_shared<Event>();
  event->metadata.namespace_ = "ns";
  event->message = std::move(message);
  event->event_time = MicroTime(1'700'000'000, 0);
  const auto handling =
      std::make_shared<EventHandling>(EventHandling{.api_choice = std::move(choice)});
  return {.event = event, .handling = handling, .bytes = 10};
}

Strings MessagesOf(const std::vector<Published>& events) {
  Strings messages;
  for (const Published& published : events) messages.push_back(published.event->message);
  return messages;
}

class HeldEventsTest : public ::testing::Test {
 protected:
  const std::shared_ptr<ApiChoice> first_ = std::make_shared<ApiChoice>();
  const std::shared_ptr<ApiChoice> second_ = std::make_shared<ApiChoice>();
  EventBudget budget_{4, 1000};
  HeldEvents held_{&budget_};
};

TEST_F(HeldEventsTest, OnlyAChoiceThatIsNotMadeHoldsAnEvent) {
  EXPECT_FALSE(HeldEvents::IsUndecided({}));
  EXPECT_FALSE(HeldEvents::IsUndecided(EventOf(nullptr)));
  EXPECT_TRUE(HeldEvents::IsUndecided(EventOf(first_)));
  first_->Set(EventApi::kCoreV1);
  EXPECT_FALSE(HeldEvents::IsUndecided(EventOf(first_)));
}

TEST_F(HeldEventsTest, ReportsTheFirstEventOfEachChoice) {
  EXPECT_TRUE(held_.Add(EventOf(first_)));
  EXPECT_FALSE(held_.Add(EventOf(first_)));
  EXPECT_TRUE(held_.Add(EventOf(second_)));
}

TEST_F(HeldEventsTest, GivesTheEventsOfAMadeChoiceInOrderAndTheirRoomBack) {
  held_.Add(EventOf(first_, "1"));
  held_.Add(EventOf(second_, "2"));
  held_.Add(EventOf(first_, "3"));
  held_.Add(EventOf(second_, "4"));
  EXPECT_FALSE(held_.HasRoom());
  EXPECT_EQ(MessagesOf(held_.TakeDecided()), Strings());
  first_->Set(EventApi::kEventsV1);
  EXPECT_EQ(MessagesOf(held_.TakeDecided()), (Strings{"1", "3"}));
  EXPECT_EQ(budget_.room(), 2u);
  EXPECT_EQ(MessagesOf(held_.TakeAll()), (Strings{"2", "4"}));
  EXPECT_EQ(budget_.room(), 4u);
  EXPECT_TRUE(held_.empty());
}

TEST_F(HeldEventsTest, AnEventHasTheStyleOfItsNamespace) {
  const Published published = EventOf(first_);
  EXPECT_TRUE(InChosenStyle(EventOf(nullptr), false)->first_timestamp.is_zero()) << "as it is";
  EXPECT_EQ(InChosenStyle(published, false)->count, 0) << "events.k8s.io/v1 without a choice";
  EXPECT_TRUE(ChoseOtherApi(published, EventApi::kEventsV1)) << "no choice is not this one";
  first_->Set(EventApi::kEventsV1);
  EXPECT_FALSE(ChoseOtherApi(published, EventApi::kEventsV1));
  first_->FallBack("other");
  EXPECT_FALSE(ChoseOtherApi(published, EventApi::kEventsV1));
  first_->FallBack("ns");
  EXPECT_TRUE(ChoseOtherApi(published, EventApi::kEventsV1));
  EXPECT_EQ(InChosenStyle(published, false)->count, 1);
  EXPECT_FALSE(ChoseOtherApi(EventOf(nullptr), EventApi::kEventsV1));
  EXPECT_FALSE(ChoseOtherApi({}, EventApi::kEventsV1));
}

}  // namespace
}  // namespace herald
