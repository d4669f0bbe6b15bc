#include "record/channel/channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace herald {
namespace {

Published Make(std::string_view message, std::string_view type = kNormal, std::size_t bytes = 1) {
  auto event = std::make_shared<Event>();
  event->message = message;
  event->type = type;
  return {.type = WatchType::kAdded, .event = std::move(event), .handling = {}, .bytes = bytes};
}

std::vector<Published> Batch(const std::vector<std::string>& messages) {
  std::vector<Published> batch;
  for (const std::string& message : messages) {
    // The first letter is the type.
    batch.push_back(Make(message, message.starts_with('W') ? kWarning : kNormal));
  }
  return batch;
}

std::string Messages(const std::vector<Published>& events) {
  std::string text;
  for (const Published& published : events) {
    if (!text.empty()) text += ' ';
    text += published.event->message;
  }
  return text;
}

std::string TakeAll(Channel* channel) {
  std::vector<Published> events;
  channel->Take(1000, &events);
  return Messages(events);
}

TEST(ChannelTest, ReturnsEventsInTheOrderOffered) {
  Channel channel({}, {});
  EXPECT_EQ(channel.Offer(Batch({"a", "b"}), 0, 0), 2U);
  EXPECT_EQ(channel.Offer(Batch({"c"}), 2, 0), 1U);
  std::vector<Published> events;
  EXPECT_EQ(channel.Take(2, &events), 2U);
  EXPECT_EQ(Messages(events), "a b");
  EXPECT_FALSE(channel.empty());
  EXPECT_EQ(channel.Take(2, &events), 1U) << "appends to what is there";
  EXPECT_EQ(Messages(events), "a b c");
  EXPECT_TRUE(channel.empty());
}

TEST(ChannelTest, MovesEventsToTheLastListener) {
  int notified = 0;
  Channel channel({.max_events = 3, .max_bytes = 3, .first_position = 1},
                  {.on_items = [&] { ++notified; }});
  // One was recorded before it was there.
  std::vector<Published> first = Batch({"a", "b"});
  EXPECT_EQ(channel.OfferLast(&first, 0, 0, 2), 2U);
  EXPECT_EQ(TakeAll(&channel), "b");
  // All at once, where there is nothing.
  std::vector<Published> second = Batch({"c", "d"});
  EXPECT_EQ(channel.OfferLast(&second, 2, 0, 2), 2U);
  EXPECT_TRUE(second.empty());
  EXPECT_EQ(notified, 2);
  // Behind what is there, as far as there is room.
  std::vector<Published> third = Batch({"e", "f"});
  EXPECT_EQ(channel.OfferLast(&third, 4, 0, 2), 2U);
  EXPECT_EQ(channel.dropped(), 1U);
  EXPECT_EQ(notified, 2) << "the consumer was already notified";
  EXPECT_EQ(TakeAll(&channel), "c d e");
  // Also where the events do not fit all at once.
  std::vector<Published> many = Batch({"g", "h", "i", "j"});
  EXPECT_EQ(channel.OfferLast(&many, 6, 0, 4), 4U);
  EXPECT_EQ(TakeAll(&channel), "g h i");
  channel.Close();
  std::vector<Published> late = Batch({"k"});
  EXPECT_EQ(channel.OfferLast(&late, 10, 0, 1), 1U);
  EXPECT_EQ(TakeAll(&channel), "");
}

TEST(ChannelTest, SkipsEventsBeforeItsFirstPosition) {
  struct Case {
    std::uint64_t first;
    std::string expected;
  };
  for (const Case& c :
       std::vector<Case>{{0, "a b c"}, {10, "a b c"}, {11, "b c"}, {12, "c"}, {13, ""}, {99, ""}}) {
    Channel channel({.first_position = c.first}, {});
    EXPECT_EQ(channel.Offer(Batch({"a", "b", "c"}), 10, 0), 3U) << c.first;
    EXPECT_EQ(TakeAll(&channel), c.expected) << c.first;
    EXPECT_EQ(channel.dropped(), 0U) << c.first;
  }
}

TEST(ChannelTest, DropsTheLatestWhenFullAndCountsThem) {
  std::string reported;
  Channel channel({.max_events = 2}, {.on_drop = [&](const Published& published) {
                    reported += published.event->message;
                  }});
  EXPECT_EQ(channel.Offer(Batch({"a", "b", "c", "d"}), 0, 0), 4U);
  EXPECT_EQ(channel.dropped(), 2U);
  EXPECT_EQ(reported, "cd");
  EXPECT_EQ(TakeAll(&channel), "a b");
  channel.Offer(Batch({"e"}), 4, 0);
  EXPECT_EQ(TakeAll(&channel), "e");
}

TEST(ChannelTest, QueuesAPartUnderWaitAndReportsRoom) {
  int rooms = 0;
  Channel channel({.max_events = 2, .when_full = WhenFull::kWait}, {.on_room = [&] { ++rooms; }});
  const std::vector<Published> batch = Batch({"a", "b", "c", "d"});
  EXPECT_EQ(channel.Offer(batch, 0, 0), 2U);
  std::vector<Published> events;
  channel.Take(1, &events);
  EXPECT_EQ(rooms, 1);
  channel.Take(1, &events);
  EXPECT_EQ(rooms, 1) << "once per Offer() that found none";
  EXPECT_EQ(channel.Offer(batch, 0, 2), 4U);
  EXPECT_EQ(TakeAll(&channel), "c d");
  EXPECT_EQ(rooms, 1);
  EXPECT_EQ(channel.dropped(), 0U);
}

TEST(ChannelTest, NotifiesOnceWhenItStopsBeingEmpty) {
  int wakes = 0;
  Channel channel({}, {.on_items = [&] { ++wakes; }});
  channel.Offer(Batch({"a"}), 0, 0);
  channel.Offer(Batch({"b"}), 1, 0);
  EXPECT_EQ(wakes, 1);
  TakeAll(&channel);
  channel.Offer(Batch({"c"}), 2, 0);
  EXPECT_EQ(wakes, 2);
}

TEST(ChannelTest, IsLimitedByBytes) {
  Channel channel({.max_bytes = 100}, {});
  channel.Offer({Make("a", kNormal, 60), Make("b", kNormal, 60), Make("c", kNormal, 40)}, 0, 0);
  EXPECT_EQ(channel.dropped(), 1U);
  EXPECT_EQ(TakeAll(&channel), "a c");
  channel.Offer({Make("d", kNormal, 100)}, 3, 0);
  EXPECT_EQ(TakeAll(&channel), "d") << "what was taken counts no more";
}

TEST(ChannelTest, QueuesOneEventThatIsLargerThanTheLimit) {
  Channel channel({.max_bytes = 100}, {});
  channel.Offer({Make("huge", kNormal, 1000), Make("small", kNormal, 1)}, 0, 0);
  EXPECT_EQ(TakeAll(&channel), "huge");
}

TEST(ChannelTest, WarningsReplaceTheOldestNormalEvent) {
  struct Case {
    bool prefer_warnings;
    std::vector<std::string> offered;
    std::string kept;
    std::string dropped;
  };
  const std::vector<Case> cases = {
      {true, {"N1", "N2", "W1"}, "N2 W1", "N1"},
      {true, {"N1", "W1", "W2"}, "W1 W2", "N1"},
      {true, {"W1", "W2", "W3"}, "W1 W2", "W3"},
      {true, {"W1", "N1", "N2"}, "W1 N1", "N2"},
      {true, {"N1", "N2", "W1", "W2", "N3", "W3"}, "W1 W2", "N1 N2 N3 W3"},
      {false, {"N1", "N2", "W1"}, "N1 N2", "W1"},
  };
  for (const Case& c : cases) {
    std::vector<Published> dropped;
    Channel channel({.max_events = 2, .prefer_warnings = c.prefer_warnings},
                    {.on_drop = [&](const Published& event) { dropped.push_back(event); }});
    channel.Offer(Batch(c.offered), 0, 0);
    EXPECT_EQ(TakeAll(&channel), c.kept);
    EXPECT_EQ(Messages(dropped), c.dropped);
    EXPECT_EQ(channel.dropped(), dropped.size());
  }
}

TEST(ChannelTest, AWarningMakesRoomForAllItsBytes) {
  Channel channel({.max_bytes = 100, .prefer_warnings = true}, {});
  channel.Offer({Make("n1", kNormal, 40), Make("n2", kNormal, 40), Make("w", kWarning, 90)}, 0, 0);
  EXPECT_EQ(TakeAll(&channel), "w");
  EXPECT_EQ(channel.dropped(), 2U);
}

TEST(ChannelTest, ReturnsPreloadedEventsFirst) {
  Channel channel({.max_events = 1}, {});
  channel.Preload(Batch({"p", "q"}));
  channel.Offer(Batch({"a"}), 0, 0);
  EXPECT_EQ(channel.dropped(), 1U) << "the prefix takes up room, but is never dropped";
  EXPECT_EQ(TakeAll(&channel), "p q");
}

TEST(ChannelTest, CloseKeepsQueuedEvents) {
  Channel channel({}, {});
  channel.Offer(Batch({"a"}), 0, 0);
  channel.Close();
  EXPECT_EQ(channel.Offer(Batch({"b"}), 1, 0), 1U) << "the distributor goes on";
  std::vector<Published> events;
  EXPECT_EQ(channel.WaitAndTake(10, &events), 1U);
  EXPECT_EQ(channel.WaitAndTake(10, &events), 0U) << "and does not wait any more";
  EXPECT_EQ(Messages(events), "a");
  channel.Close();
}

TEST(ChannelTest, ReportsEventsOfferedAfterClose) {
  // The sink's accounts depend on it: nothing that was recorded may just vanish.
  std::string reported;
  Channel channel({.first_position = 1},
                  {.on_drop = [&](const Published& event) { reported += event.event->message; }});
  channel.Close();
  channel.Offer(Batch({"a", "b", "c"}), 0, 0);
  EXPECT_EQ(reported, "bc") << "events recorded before the channel was added are not reported";
}

TEST(ChannelTest, CloseAndDiscardReportsDroppedEvents) {
  std::string reported;
  Channel channel({},
                  {.on_drop = [&](const Published& event) { reported += event.event->message; }});
  channel.Offer(Batch({"a", "b"}), 0, 0);
  channel.CloseAndDiscard();
  EXPECT_EQ(reported, "ab");
  EXPECT_TRUE(channel.empty());
  channel.CloseAndDiscard();
  EXPECT_EQ(reported, "ab");
}

TEST(ChannelTest, ClosingReportsRoomAfterAnOfferFoundNone) {
  for (const bool discard : {false, true}) {
    int rooms = 0;
    Channel channel({.max_events = 1, .when_full = WhenFull::kWait}, {.on_room = [&] { ++rooms; }});
    const std::vector<Published> batch = Batch({"a", "b"});
    EXPECT_EQ(channel.Offer(batch, 0, 0), 1U);
    if (discard) {
      channel.CloseAndDiscard();
    } else {
      channel.Close();
    }
    EXPECT_EQ(rooms, 1);
    EXPECT_EQ(channel.Offer(batch, 0, 1), 2U);
  }
}

TEST(ChannelTest, WaitAndTakeReturnsOnAnEventOrClose) {
  Channel channel({}, {});
  std::vector<Published> taken;
  std::thread taker([&] {
    while (channel.WaitAndTake(2, &taken) > 0) {
    }
  });
  for (std::uint64_t i = 0; i < 100; ++i) channel.Offer(Batch({std::to_string(i)}), i, 0);
  channel.Close();
  taker.join();
  ASSERT_EQ(taken.size(), 100U);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(taken[i].event->message, std::to_string(i));
}

TEST(ChannelTest, ReturnsNothingAfterDiscard) {
  // Against an Offer() that runs at the same time.
  for (int round = 0; round < 200; ++round) {
    Channel channel({}, {});
    std::atomic<bool> stop{false};
    std::thread distributor([&] {
      for (std::uint64_t i = 0; !stop; ++i) channel.Offer(Batch({"x"}), i, 0);
    });
    channel.CloseAndDiscard();
    std::vector<Published> events;
    EXPECT_EQ(channel.WaitAndTake(10, &events), 0U);
    stop = true;
    distributor.join();
  }
}

}  // namespace
}  // namespace herald
