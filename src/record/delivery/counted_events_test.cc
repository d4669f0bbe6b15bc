#include "record/delivery/counted_events.h"

#include <gtest/gtest.h>

#include <memory>

namespace herald {
namespace {

Published EventOfEpoch(std::uint32_t epoch) {
  const auto handling =
      std::make_shared<EventHandling>(EventHandling{.on_outcome = [](Outcome, const Status&) {}});
  return {.epoch = epoch, .event = std::make_shared<const Event>(), .handling = handling};
}

TEST(CountedEventTableTest, TakesWhatWasAddedUnderAKeyOnce) {
  CountedEventTable table(/*upstream_exact=*/false);
  table.Add("a", EventOfEpoch(0));
  table.Add("a", EventOfEpoch(2));
  table.Add("b", EventOfEpoch(2));
  const CountedEvents counted = table.Take("a");
  EXPECT_EQ(counted.count, 2u);
  EXPECT_EQ(counted.by_epoch, (std::map<std::uint32_t, std::uint64_t>{{0, 1}, {2, 1}}));
  EXPECT_EQ(counted.to_notify.size(), 2u);
  EXPECT_EQ(table.Take("a").count, 0u);
  EXPECT_EQ(table.TakeAll().size(), 1u);
  EXPECT_TRUE(table.TakeAll().empty());
}

TEST(CountedEventTableTest, AddsWhatIsPutBackToWhatCameSince) {
  CountedEventTable table(/*upstream_exact=*/true);
  table.Add("a", EventOfEpoch(1));
  CountedEvents taken = table.Take("a");
  table.Add("a", EventOfEpoch(1));
  table.PutBack("a", std::move(taken));
  const CountedEvents counted = table.Take("a");
  EXPECT_EQ(counted.count, 2u);
  EXPECT_EQ(counted.by_epoch.at(1), 2u);
  EXPECT_EQ(counted.to_notify.size(), 2u);
}

TEST(CountedEventTableTest, AsksForEarlyWritesUntilTheOutcomesAreKnown) {
  CountedEventTable table(/*upstream_exact=*/false);
  for (int i = 0; i < 999; ++i) table.Add("a", EventOfEpoch(0));
  EXPECT_FALSE(table.ShouldWriteEarly());
  table.Add("a", EventOfEpoch(0));
  EXPECT_TRUE(table.ShouldWriteEarly());
  const CountedEvents counted = table.Take("a");
  EXPECT_TRUE(table.ShouldWriteEarly()) << "its functions still wait";
  table.End(counted);
  EXPECT_FALSE(table.ShouldWriteEarly());
}

TEST(CountedEventTableTest, DropsFunctionsBeyondTheLimitUnderUpstreamExact) {
  CountedEventTable table(/*upstream_exact=*/true);
  for (int i = 0; i < 1500; ++i) table.Add("a", EventOfEpoch(0));
  EXPECT_FALSE(table.ShouldWriteEarly());
  const CountedEvents counted = table.Take("a");
  EXPECT_EQ(counted.count, 1500u);
  EXPECT_EQ(counted.to_notify.size(), 1000u);
}

}  // namespace
}  // namespace herald
