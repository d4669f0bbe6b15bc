#include "base/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <limits>
#include <memory>
#include <string>
#include <thread>

namespace herald {
namespace {

constexpr std::size_t kNoByteBound = std::numeric_limits<std::size_t>::max();

TEST(BoundedQueueTest, GivesItemsInTheOrderTheyCame) {
  BoundedQueue<int> queue(100, kNoByteBound);
  // Twice around the ring and through a growth, with a tail left each time.
  int next_in = 0;
  int next_out = 0;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 5; ++i) {
      ASSERT_EQ(queue.TryPush(next_in++, 1), PushResult::kAccepted);
    }
    for (int i = 0; i < 4; ++i) ASSERT_EQ(queue.TryPop(), next_out++);
  }
  while (auto item = queue.TryPop()) EXPECT_EQ(*item, next_out++);
  EXPECT_EQ(next_out, next_in);
}

TEST(BoundedQueueTest, SaysWhichBoundRefusedAnItem) {
  BoundedQueue<int> queue(2, 10);
  EXPECT_EQ(queue.TryPush(1, 8), PushResult::kAccepted);
  EXPECT_EQ(queue.TryPush(2, 3), PushResult::kFullBytes);
  EXPECT_EQ(queue.TryPush(2, 2), PushResult::kAccepted);
  EXPECT_EQ(queue.TryPush(3, 0), PushResult::kFullCount);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.bytes(), 10u);
  queue.Close();
  EXPECT_EQ(queue.TryPush(3, 0), PushResult::kClosed);
}

TEST(BoundedQueueTest, FreesAnItemsBytesWhenItLeaves) {
  BoundedQueue<int> queue(10, 10);
  ASSERT_EQ(queue.TryPush(1, 7), PushResult::kAccepted);
  ASSERT_EQ(queue.TryPush(2, 3), PushResult::kAccepted);
  ASSERT_EQ(queue.TryPop(), 1);
  EXPECT_EQ(queue.bytes(), 3u);
  EXPECT_EQ(queue.TryPush(3, 7), PushResult::kAccepted);
  EXPECT_EQ(queue.bytes(), 10u);
}

TEST(BoundedQueueTest, RefusesAnItemThatNoEmptyQueueCouldHold) {
  BoundedQueue<int> queue(10, 10);
  EXPECT_EQ(queue.TryPush(1, 11), PushResult::kFullBytes);
  EXPECT_EQ(queue.Push(1, 11), PushResult::kFullBytes) << "and does not wait for ever";
  EXPECT_EQ(queue.TryPush(1, 10), PushResult::kAccepted);
  EXPECT_EQ(queue.Push(1, 11), PushResult::kFullBytes);
}

TEST(BoundedQueueTest, DoesNotOverflowWhenItemsClaimAllBytesThereAre) {
  BoundedQueue<int> queue(10, kNoByteBound);
  EXPECT_EQ(queue.TryPush(1, kNoByteBound), PushResult::kAccepted);
  EXPECT_EQ(queue.TryPush(2, 1), PushResult::kFullBytes);
  EXPECT_EQ(queue.TryPush(3, kNoByteBound), PushResult::kFullBytes);
}

TEST(BoundedQueueTest, LeavesARefusedItemWithItsOwner) {
  BoundedQueue<std::unique_ptr<int>> queue(1, 10);
  auto first = std::make_unique<int>(1);
  auto second = std::make_unique<int>(2);
  ASSERT_EQ(queue.TryPush(std::move(first), 1), PushResult::kAccepted);
  EXPECT_EQ(first, nullptr);
  EXPECT_EQ(queue.TryPush(std::move(second), 1), PushResult::kFullCount);
  ASSERT_NE(second, nullptr);
  queue.Close();
  EXPECT_EQ(queue.Push(std::move(second), 1), PushResult::kClosed);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(*second, 2);
}

TEST(BoundedQueueTest, ConsumersDrainAClosedQueueAndThenLearnThatItIsClosed) {
  BoundedQueue<int> queue(10, kNoByteBound);
  queue.TryPush(1, 1);
  queue.TryPush(2, 1);
  queue.TryPush(3, 1);
  queue.Close();
  queue.Close();
  EXPECT_TRUE(queue.closed());
  EXPECT_EQ(queue.Pop(), 1);
  std::vector<int> batch;
  EXPECT_EQ(queue.PopBatch(batch, 10), 2u);
  EXPECT_EQ(batch, (std::vector<int>{2, 3}));
  EXPECT_EQ(queue.Pop(), std::nullopt);
  EXPECT_EQ(queue.PopBatch(batch, 10), 0u);
  EXPECT_EQ(queue.TryPop(), std::nullopt);
}

TEST(BoundedQueueTest, BatchesAppendAndTakeNoMoreThanAsked) {
  BoundedQueue<int> queue(10, kNoByteBound);
  for (int i = 0; i < 5; ++i) queue.TryPush(int{i}, 2);
  std::vector<int> batch{-1};
  EXPECT_EQ(queue.PopBatch(batch, 3), 3u);
  EXPECT_EQ(batch, (std::vector<int>{-1, 0, 1, 2}));
  EXPECT_EQ(queue.bytes(), 4u);
  EXPECT_EQ(queue.TryPopBatch(batch, 100), 2u);
  EXPECT_EQ(queue.TryPopBatch(batch, 100), 0u);
  EXPECT_EQ(batch.size(), 6u);
}

TEST(BoundedQueueTest, DestroysWhatNobodyTook) {
  auto item = std::make_shared<int>(1);
  {
    BoundedQueue<std::shared_ptr<int>> queue(100, kNoByteBound);
    for (int i = 0; i < 20; ++i) queue.TryPush(std::shared_ptr<int>(item), 1);
    for (int i = 0; i < 5; ++i) (void)queue.TryPop();
    EXPECT_EQ(item.use_count(), 16);
  }
  EXPECT_EQ(item.use_count(), 1);
}

// An item whose destructor asks the queue that held it, which would deadlock if
// it ran under the queue's lock.
struct AsksItsQueue {
  BoundedQueue<AsksItsQueue>* queue = nullptr;
  std::size_t* seen = nullptr;
  AsksItsQueue(BoundedQueue<AsksItsQueue>* q, std::size_t* s) : queue(q), seen(s) {}
  AsksItsQueue(AsksItsQueue&& other) noexcept
      : queue(std::exchange(other.queue, nullptr)), seen(other.seen) {}
  ~AsksItsQueue() {
    if (queue != nullptr) *seen = queue->size();
  }
};

TEST(BoundedQueueTest, DestroysNoItemUnderItsLock) {
  std::size_t seen = 99;
  BoundedQueue<AsksItsQueue> queue(10, kNoByteBound);
  queue.TryPush({&queue, &seen}, 1);
  queue.TryPush({&queue, &seen}, 1);
  (void)queue.TryPop();
  EXPECT_EQ(seen, 1u);
  (void)queue.Pop();
  EXPECT_EQ(seen, 0u);
  queue.Close();
  seen = 99;
  EXPECT_EQ(queue.TryPush({&queue, &seen}, 1), PushResult::kClosed);
  EXPECT_EQ(seen, 0u);
}

TEST(BoundedQueueTest, AStopThatCameEarlierDoesNotRefuseWhatFits) {
  BoundedQueue<int> queue(1, kNoByteBound);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(queue.Push(1, 1, stop.get_token()), PushResult::kAccepted);
  EXPECT_EQ(queue.Push(2, 1, stop.get_token()), PushResult::kFullCount);
  EXPECT_EQ(queue.Pop(stop.get_token()), 1);
  EXPECT_EQ(queue.Pop(stop.get_token()), std::nullopt);
  std::vector<int> batch;
  EXPECT_EQ(queue.PopBatch(batch, 1, stop.get_token()), 0u);
}

TEST(BoundedQueueDeathTest, RefusesBoundsAndBatchesThatMakeNoSense) {
  EXPECT_DEATH(BoundedQueue<int>(0, 1), "max_items > 0");
  BoundedQueue<int> queue(1, 1);
  std::vector<int> batch;
  EXPECT_DEATH((void)queue.PopBatch(batch, 0), "a batch of nothing");
}

// The tests below let a thread wait. Whether it already waits or is only about
// to when the other side acts is left open on purpose: both must end well, and
// TSan sees both. A wake-up that gets lost hangs the test until ctest ends it.

TEST(BoundedQueueThreadTest, StopWakesAProducerAndNamesTheBound) {
  for (int round = 0; round < 50; ++round) {
    BoundedQueue<int> queue(1, 10);
    queue.TryPush(1, 6);
    PushResult by_count = PushResult::kAccepted;
    std::latch started(1);
    std::jthread producer([&](const std::stop_token& stop) {
      started.count_down();
      by_count = queue.Push(2, 1, stop);
    });
    started.wait();
    producer.request_stop();
    producer.join();
    EXPECT_EQ(by_count, PushResult::kFullCount);
    EXPECT_EQ(queue.size(), 1u);
  }
}

TEST(BoundedQueueThreadTest, StopWakesConsumers) {
  for (int round = 0; round < 50; ++round) {
    BoundedQueue<int> queue(1, 10);
    std::latch started(2);
    std::jthread one([&](const std::stop_token& stop) {
      started.count_down();
      EXPECT_EQ(queue.Pop(stop), std::nullopt);
    });
    std::jthread many([&](const std::stop_token& stop) {
      std::vector<int> batch;
      started.count_down();
      EXPECT_EQ(queue.PopBatch(batch, 4, stop), 0u);
    });
    started.wait();
    one.request_stop();
    many.request_stop();
  }
}

TEST(BoundedQueueThreadTest, CloseWakesEveryone) {
  for (int round = 0; round < 50; ++round) {
    BoundedQueue<int> full(1, 10);
    BoundedQueue<int> empty(1, 10);
    full.TryPush(1, 1);
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] { EXPECT_EQ(full.Push(2, 1), PushResult::kClosed); });
      threads.emplace_back([&] { EXPECT_EQ(empty.Pop(), std::nullopt); });
    }
    full.Close();
    empty.Close();
    threads.clear();
    EXPECT_EQ(full.Pop(), 1);
  }
}

TEST(BoundedQueueThreadTest, RoomForASmallItemIsNotLostOnAProducerThatNeedsMore) {
  for (int round = 0; round < 50; ++round) {
    BoundedQueue<int> queue(10, 10);
    queue.TryPush(0, 3);
    queue.TryPush(0, 7);
    std::jthread large([&] { EXPECT_EQ(queue.Push(1, 10), PushResult::kAccepted); });
    std::jthread small([&] { EXPECT_EQ(queue.Push(2, 3), PushResult::kAccepted); });
    ASSERT_EQ(queue.Pop(), 0);  // 3 bytes are free now: enough for the small one alone
    small.join();
    ASSERT_EQ(queue.Pop(), 0);
    ASSERT_EQ(queue.Pop(), 2);
    large.join();
    EXPECT_EQ(queue.Pop(), 1);
  }
}

TEST(BoundedQueueThreadTest, EveryItemComesOutOnceAndEachProducersInOrder) {
  constexpr int kProducers = 4;
  constexpr int kConsumers = 3;
  constexpr int kPerProducer = 3000;
  struct Item {
    int producer;
    int number;
  };
  // Small enough that producers wait on both bounds again and again.
  BoundedQueue<Item> queue(16, 64);
  std::vector<std::vector<Item>> taken(kConsumers);

  std::vector<std::jthread> consumers;
  for (int c = 0; c < kConsumers; ++c) {
    consumers.emplace_back([&, c] {
      if (c == 0) {  // one by one; the others in batches
        while (auto item = queue.Pop()) taken[c].push_back(*item);
        return;
      }
      std::vector<Item> batch;
      while (queue.PopBatch(batch, 5) > 0) {
        taken[c].insert(taken[c].end(), batch.begin(), batch.end());
        batch.clear();
      }
    });
  }
  {
    std::vector<std::jthread> producers;
    for (int p = 0; p < kProducers; ++p) {
      producers.emplace_back([&, p] {
        std::stop_source never;
        for (int i = 0; i < kPerProducer; ++i) {
          const std::size_t bytes = static_cast<std::size_t>(i % 40);
          ASSERT_EQ(queue.Push({p, i}, bytes, never.get_token()), PushResult::kAccepted);
          ASSERT_LE(queue.bytes(), 64u);
          ASSERT_LE(queue.size(), 16u);
        }
      });
    }
  }
  queue.Close();
  consumers.clear();

  std::vector<std::vector<int>> count(kProducers, std::vector<int>(kPerProducer, 0));
  for (const auto& of_one : taken) {
    std::vector<int> last(kProducers, -1);
    for (const Item& item : of_one) {
      EXPECT_LT(last[item.producer], item.number);
      last[item.producer] = item.number;
      ++count[item.producer][item.number];
    }
  }
  for (const auto& of_one : count) {
    for (int times : of_one) ASSERT_EQ(times, 1);
  }
  EXPECT_EQ(queue.size(), 0u);
  EXPECT_EQ(queue.bytes(), 0u);
}

TEST(BoundedQueueThreadTest, WhatWasAcceptedAndWhatWasRefusedAddUpWhenClosedInTheMiddle) {
  constexpr int kProducers = 4;
  constexpr int kPerProducer = 2000;
  BoundedQueue<std::shared_ptr<int>> queue(8, 1000);
  std::atomic<int> accepted{0};
  std::atomic<int> refused{0};
  int popped = 0;

  std::jthread consumer([&] {
    while (queue.Pop()) {
      if (++popped == kPerProducer) queue.Close();
    }
  });
  std::vector<std::jthread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kPerProducer; ++i) {
        auto item = std::make_shared<int>(i);
        // Half of the producers wait, the others take no for an answer.
        const PushResult result =
            p % 2 == 0 ? queue.Push(std::move(item), 10) : queue.TryPush(std::move(item), 10);
        ++(result == PushResult::kAccepted ? accepted : refused);
        EXPECT_EQ(item == nullptr, result == PushResult::kAccepted);
      }
    });
  }
  producers.clear();
  queue.Close();
  consumer.join();
  EXPECT_EQ(accepted + refused, kProducers * kPerProducer);
  EXPECT_EQ(popped, accepted);
}

}  // namespace
}  // namespace herald
