#include "base/thread/fair_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace herald {
namespace {

using Kind = FairQueue::Kind;

// Runs slices one after the other in Run(), and records their order.
class FairQueueTest : public testing::Test {
 protected:
  // A job of `slices` slices that appends its name to order_ in each of them.
  Status Add(std::uint64_t flow, const std::string& name, int slices, std::size_t cost = 10,
             Kind kind = Kind::kShort) {
    return queue_.Add(flow, kind, [this, name, cost, left = slices]() mutable {
      order_ += name;
      return FairQueue::Step{.cost = cost, .done = --left == 0};
    });
  }
  std::string Run() {
    executor_.RunUntilIdle();
    return std::exchange(order_, {});
  }

  Executor executor_{{.threads = 0, .clock = nullptr}};
  FairQueue queue_{&executor_,
                   {.concurrency = 1, .max_queued = 8, .max_queued_per_flow = 5, .slice_cost = 10}};
  std::string order_;
};

TEST_F(FairQueueTest, RunsJobsOfOneFlowInOrder) {
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(Add(1, name, 1).ok());
  EXPECT_EQ(queue_.queued(), 3U);
  EXPECT_EQ(Run(), "abc");
  EXPECT_EQ(queue_.queued(), 0U);
}

TEST_F(FairQueueTest, RunsFlowsAlternately) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Add(1, "a", 1).ok());
  EXPECT_TRUE(Add(2, "b", 1).ok());
  EXPECT_TRUE(Add(3, "c", 1).ok());
  EXPECT_EQ(Run(), "abcaaa");
}

TEST_F(FairQueueTest, AShortJobWaitsForSlicesNotForWholeJobs) {
  EXPECT_TRUE(Add(1, "L", 100).ok());
  EXPECT_TRUE(queue_
                  .Add(1, Kind::kShort,
                       [&]() -> FairQueue::Step {
                         order_ += "x";
                         EXPECT_TRUE(Add(2, "s", 1).ok());
                         return {.cost = 10, .done = true};
                       })
                  .ok());
  const std::string order = Run();
  EXPECT_EQ(order.substr(0, 3), "Lxs");
  EXPECT_EQ(order.size(), 102U);
}

TEST_F(FairQueueTest, AJobIsLongAfterAFewSlices) {
  EXPECT_TRUE(Add(1, "L", 3, 10, Kind::kLong).ok());
  EXPECT_TRUE(Add(1, "a", 6).ok());
  EXPECT_EQ(Run(), "aaaaLaLaL");
}

TEST_F(FairQueueTest, NewJobsOfAFlowRunBeforeItsLongOnes) {
  EXPECT_TRUE(Add(1, "L", 2, 10, Kind::kLong).ok());
  EXPECT_TRUE(Add(1, "M", 2, 10, Kind::kLong).ok());
  EXPECT_TRUE(Add(1, "s", 1).ok());
  EXPECT_EQ(Run(), "sLMLM") << "and the long ones alternate";
}

TEST_F(FairQueueTest, LongJobsMakeProgressWhileShortOnesAreAdded) {
  EXPECT_TRUE(Add(1, "L", 2, 10, Kind::kLong).ok());
  int left = 30;
  std::function<FairQueue::Step()> next = [&]() -> FairQueue::Step {
    order_ += "s";
    if (--left > 0) {
      EXPECT_TRUE(queue_.Add(1, Kind::kShort, next).ok());
    }
    return {.cost = 1, .done = true};
  };
  EXPECT_TRUE(queue_.Add(1, Kind::kShort, next).ok());
  EXPECT_EQ(Run(), "ssssssssLssssssssL" + std::string(14, 's'));
}

TEST_F(FairQueueTest, ExpensiveJobsCountMore) {
  EXPECT_TRUE(Add(1, "E", 3, 40).ok());
  EXPECT_TRUE(Add(2, "c", 9, 10).ok());
  EXPECT_EQ(Run(), "EccccEccccEc") << "one slice of 40 for four of 10";
}

TEST_F(FairQueueTest, AFlowThatPausesNeitherSavesNorLosesService) {
  // Flow 1 adds its next job only when the one before is done.
  int left = 3;
  std::function<FairQueue::Step()> next = [&]() -> FairQueue::Step {
    order_ += "E";
    if (--left > 0) executor_.Post([&] { EXPECT_TRUE(queue_.Add(1, Kind::kShort, next).ok()); });
    return {.cost = 40, .done = true};
  };
  EXPECT_TRUE(queue_.Add(1, Kind::kShort, next).ok());
  EXPECT_TRUE(Add(2, "c", 9, 10).ok());
  EXPECT_EQ(Run(), "EccccEccccEc") << "as if all jobs had been added at the start";

  EXPECT_TRUE(Add(2, "c", 2).ok());
  EXPECT_TRUE(Add(3, "n", 2).ok());
  EXPECT_EQ(Run(), "cncn") << "an old flow is equal to a new one";
}

TEST_F(FairQueueTest, LimitsTheJobsOfAFlow) {
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Add(1, "a", 1).ok());
  const Status full = Add(1, "a", 1);
  EXPECT_TRUE(full.Is(StatusReason::kTooManyRequests)) << full.ToString();
  EXPECT_EQ(full.message(), "Too many requests, please try again later.");
  EXPECT_EQ(full.retry_after(), std::chrono::seconds(1));
  EXPECT_TRUE(Add(2, "b", 1).ok()) << "other flows are not affected";
  EXPECT_EQ(Run(), "abaaaa");
  EXPECT_TRUE(Add(1, "a", 1).ok());
}

TEST_F(FairQueueTest, LimitsTheJobsOfAllFlows) {
  for (std::uint64_t flow = 0; flow < 8; ++flow) EXPECT_TRUE(Add(flow, "a", 1).ok());
  EXPECT_TRUE(Add(9, "b", 1).Is(StatusReason::kTooManyRequests));
  EXPECT_EQ(Run(), "aaaaaaaa");
}

TEST_F(FairQueueTest, DestroysAJobWhenItIsDone) {
  auto held = std::make_shared<int>(0);
  EXPECT_TRUE(queue_.Add(1, Kind::kShort, [held]() -> FairQueue::Step { return {}; }).ok());
  EXPECT_EQ(held.use_count(), 2);
  Run();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(FairQueueThreadsTest, RunsEverySliceOnceOnSeveralThreads) {
  constexpr int kFlows = 4;
  constexpr int kReads = 200;
  constexpr int kSlices = 5;
  std::latch done(kFlows * kReads);
  std::atomic<int> slices = 0;
  std::atomic<int> running = 0;
  std::atomic<bool> too_many = false;
  Executor executor({.threads = 4, .clock = nullptr});
  FairQueue queue(&executor, {.concurrency = 2, .slice_cost = 10});
  std::vector<std::thread> clients;
  for (std::uint64_t flow = 0; flow < kFlows; ++flow) {
    clients.emplace_back([&, flow] {
      for (int i = 0; i < kReads; ++i) {
        const Kind kind = i % 2 == 0 ? Kind::kShort : Kind::kLong;
        EXPECT_TRUE(queue
                        .Add(flow, kind,
                             [&, left = kSlices]() mutable -> FairQueue::Step {
                               if (++running > 2) too_many = true;
                               ++slices;
                               --running;
                               const bool last = --left == 0;
                               if (last) done.count_down();
                               return {.cost = 10, .done = last};
                             })
                        .ok());
      }
    });
  }
  for (std::thread& client : clients) client.join();
  done.wait();
  executor.Stop();
  EXPECT_EQ(slices, kFlows * kReads * kSlices);
  EXPECT_FALSE(too_many);
  EXPECT_EQ(queue.queued(), 0U);
}

}  // namespace
}  // namespace herald
