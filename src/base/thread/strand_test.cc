#include "base/thread/strand.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing/tasks.h"

namespace herald {
namespace {

// Strands on an executor without threads, which the test runs.
class StrandTest : public testing::Test {
 protected:
  Strand::Task Say(const std::string& word) {
    return [this, word] { said_ += word; };
  }

  Executor executor_{{.threads = 0}};
  std::string said_;
};

TEST_F(StrandTest, TryRunRunsATaskOfAnIdleStrandInsideOfTheCall) {
  Strand strand(&executor_);
  bool here = false;
  EXPECT_TRUE(strand.TryRun([&] {
    here = strand.RunsHere();
    strand.Post(Say("b"));
    EXPECT_FALSE(strand.TryRun(Say("never"))) << "one at a time";
    said_ += "a";
  }));
  EXPECT_TRUE(here);
  EXPECT_FALSE(strand.RunsHere());
  EXPECT_EQ(said_, "a") << "tasks posted in the meantime run on the executor";
  EXPECT_FALSE(strand.TryRun(Say("never"))) << "and run first";
  executor_.RunUntilIdle();
  EXPECT_EQ(said_, "ab");
  EXPECT_TRUE(strand.TryRun(Say("c")));
  EXPECT_EQ(said_, "abc");
}

TEST_F(StrandTest, RunsTasksInTheOrderOfTheCalls) {
  Strand strand(&executor_);
  strand.Post(Say("a"));
  strand.Post(Say("b"));
  EXPECT_EQ(said_, "") << "and never inside of the call";
  executor_.RunUntilIdle();
  EXPECT_EQ(said_, "ab");
  strand.Post(Say("c"));
  executor_.RunUntilIdle();
  EXPECT_EQ(said_, "abc");
}

TEST_F(StrandTest, RunsATaskThatATaskPostsAfterIt) {
  Strand strand(&executor_);
  strand.Post([&] {
    strand.Post(Say("c"));
    Say("a")();
  });
  strand.Post(Say("b"));
  executor_.RunUntilIdle();
  EXPECT_EQ(said_, "abc");
}

TEST_F(StrandTest, QueuesOneTurnForManyTasks) {
  Strand strand(&executor_);
  for (int i = 0; i < 10; ++i) strand.Post(Say("a"));
  EXPECT_EQ(executor_.RunUntilIdle(), 1u);
  EXPECT_EQ(said_, "aaaaaaaaaa");
}

TEST_F(StrandTest, YieldsToOtherTasksWhenItIsBusy) {
  Strand busy(&executor_);
  Strand other(&executor_);
  int ran = 0;
  for (int i = 0; i < 1000; ++i) busy.Post([&ran] { ++ran; });
  int ran_before_other = 0;
  other.Post([&] { ran_before_other = ran; });
  executor_.RunUntilIdle();
  EXPECT_EQ(ran, 1000);
  EXPECT_EQ(ran_before_other, 64);
}

TEST_F(StrandTest, TakesNoTurnWithoutTasks) {
  struct {
    int tasks;
    std::size_t turns;
  } const kScenarios[] = {{1, 1}, {63, 1}, {64, 1}, {65, 2}, {128, 2}, {129, 3}, {1000, 16}};
  for (const auto& scenario : kScenarios) {
    Strand strand(&executor_);
    int ran = 0;
    for (int i = 0; i < scenario.tasks; ++i) strand.Post([&ran] { ++ran; });
    EXPECT_EQ(executor_.RunUntilIdle(), scenario.turns) << scenario.tasks << " tasks";
    EXPECT_EQ(ran, scenario.tasks);
  }
}

TEST_F(StrandTest, RunsHereOnlyInsideOfItsTasks) {
  Strand strand(&executor_);
  Strand other(&executor_);
  int asked = 0;
  EXPECT_FALSE(strand.RunsHere());
  strand.Post([&, end = Finally([&] { EXPECT_TRUE(strand.RunsHere()); })] {
    EXPECT_TRUE(strand.RunsHere());
    EXPECT_FALSE(other.RunsHere());
    std::thread([&] { EXPECT_FALSE(strand.RunsHere()); }).join();
    other.Post([&] {
      EXPECT_TRUE(other.RunsHere());
      EXPECT_TRUE(strand.RunsHere()) << "the inner task runs inside of a task of this strand";
      ++asked;
    });
    executor_.RunUntilIdle();
    EXPECT_TRUE(strand.RunsHere());
    EXPECT_FALSE(other.RunsHere());
    ++asked;
  });
  executor_.RunUntilIdle();
  EXPECT_FALSE(strand.RunsHere());

  // Between two turns it runs on no thread.
  for (int i = 0; i < 65; ++i) strand.Post([] {});
  executor_.Post([&] {
    EXPECT_FALSE(strand.RunsHere());
    ++asked;
  });
  executor_.RunUntilIdle();
  EXPECT_EQ(asked, 3);
}

TEST_F(StrandTest, DestroysATaskBeforeTheNextOneStarts) {
  Strand strand(&executor_);
  strand.Post([this, end = Finally(Say("a destroyed, "))] { Say("a runs, ")(); });
  strand.Post(Say("b runs"));
  executor_.RunUntilIdle();
  EXPECT_EQ(said_, "a runs, a destroyed, b runs");
}

TEST_F(StrandTest, RunsItsTasksAfterItIsDestroyed) {
  {
    Strand strand(&executor_);
    strand.Post(Say("a"));
    strand.Post(Say("b"));
  }
  executor_.RunUntilIdle();
  EXPECT_EQ(said_, "ab");
}

TEST_F(StrandTest, MayBeDestroyedByItsOwnTask) {
  auto strand = std::make_unique<Strand>(&executor_);
  strand->Post([&] {
    strand.reset();
    Say("a")();
  });
  for (int i = 0; i < 100; ++i) strand->Post(Say("b"));
  executor_.RunUntilIdle();
  EXPECT_EQ(said_, "a" + std::string(100, 'b'));
}

TEST_F(StrandTest, DestroysItsTasksWhenTheExecutorStops) {
  int destroyed = 0;
  const auto count = [&destroyed] { return Finally([&destroyed] { ++destroyed; }); };
  Strand strand(&executor_);
  strand.Post([this, end = count()] { Say("x")(); });
  strand.Post([this, end = count()] { Say("x")(); });
  // A task that a destructor posts is destroyed, without a deadlock.
  strand.Post([end = Finally([&] { strand.Post([end = count()] {}); })] {});
  EXPECT_EQ(destroyed, 0);
  executor_.Stop();
  EXPECT_EQ(destroyed, 3);
  for (int i = 0; i < 10; ++i) {
    strand.Post([this, end = count()] { Say("x")(); });
    EXPECT_EQ(destroyed, 4 + i) << "at once, so that tasks do not accumulate";
  }
  EXPECT_EQ(said_, "");
}

TEST(StrandStopTest, DestroysTheRemainingTasksWhenTheExecutorStops) {
  std::atomic<int> ran = 0;
  std::atomic<int> destroyed = 0;
  std::latch turn_ends(1);
  Executor executor;
  Strand strand(&executor);
  // In a task of the only thread, so that all are posted when the first turn starts.
  executor.Post([&] {
    for (int i = 1; i <= 100; ++i) {
      strand.Post([&, i, end = Finally([&] { ++destroyed; })] {
        ++ran;
        if (i != 64) return;
        // The last task of its turn. The next turn is queued when Stop() has begun.
        turn_ends.count_down();
        WaitUntilStopping(executor);
      });
    }
  });
  turn_ends.wait();
  executor.Stop();
  EXPECT_EQ(ran, 64);
  EXPECT_EQ(destroyed, 100);
}

// All tasks write counters without a lock: the thread sanitizer reports a race, a lost task makes
// the test hang, and a task that is out of its producer's order is a failure.
TEST(StrandStressTest, KeepsEachProducersOrderAndNeverRunsTwoTasksAtOnce) {
  constexpr int kProducers = 6;
  constexpr int kTasks = 4000;
  constexpr int kStrands = 3;
  for (const int threads : {1, 2, 4}) {
    struct Counted {
      explicit Counted(Executor* executor) : strand(executor) {}
      Strand strand;
      int ran = 0;
      std::vector<int> next = std::vector<int>(kProducers, 0);
      bool in_order = true;
    };
    Executor executor({.threads = threads});
    std::vector<std::unique_ptr<Counted>> all;
    for (int s = 0; s < kStrands; ++s) all.push_back(std::make_unique<Counted>(&executor));
    std::latch done(kProducers * kTasks * kStrands);
    std::vector<std::thread> producers;
    for (int p = 0; p < kProducers; ++p) {
      producers.emplace_back([&, p] {
        for (int i = 0; i < kTasks; ++i) {
          for (const auto& counted : all) {
            counted->strand.Post([&done, c = counted.get(), p, i] {
              if (!c->strand.RunsHere()) c->in_order = false;
              int& next = c->next[static_cast<std::size_t>(p)];
              if (next != i) c->in_order = false;
              next = i + 1;
              ++c->ran;
              done.count_down();
            });
          }
          // Lets the strands become idle sometimes, because that is where wake-ups could be lost.
          if (i % 16 == p) std::this_thread::yield();
        }
      });
    }
    for (std::thread& producer : producers) producer.join();
    done.wait();
    executor.Stop();
    for (const auto& counted : all) {
      EXPECT_EQ(counted->ran, kProducers * kTasks);
      EXPECT_TRUE(counted->in_order);
    }
  }
}

TEST(StrandStressTest, LosesNoWakeUp) {
  for (const int threads : {1, 2}) {
    Executor executor({.threads = threads});
    Strand strand(&executor);
    std::atomic<int> ran = 0;
    for (int i = 1; i <= 3000; ++i) {
      strand.Post([&] {
        ++ran;
        ran.notify_one();
      });
      ran.wait(i - 1);
      ASSERT_EQ(ran, i);
    }
  }
}

TEST(StrandStressTest, MayBeDestroyedByATaskBeforeItsPostReturns) {
  Executor executor({.threads = 2});
  std::atomic<int> ran = 0;
  for (int i = 1; i <= 2000; ++i) {
    auto owner = std::make_shared<Strand>(&executor);
    Strand* const strand = owner.get();
    // Another task first in every second round, so that Post() is tested with an idle and a busy
    // strand.
    if (i % 2 == 0) strand->Post([owner] {});
    strand->Post([&ran, owner = std::move(owner)]() mutable {
      owner.reset();
      ++ran;
      ran.notify_one();
    });
    ran.wait(i - 1);
    ASSERT_EQ(ran, i);
  }
}

TEST(StrandStressTest, RunsOrDestroysEveryTaskWhenTheExecutorStops) {
  constexpr int kProducers = 4;
  for (const int threads : {1, 2}) {
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> posted = 0;
      std::atomic<int> ran = 0;
      std::atomic<int> destroyed = 0;
      {
        Executor executor({.threads = threads});
        Strand strand(&executor);
        std::atomic<bool> halt = false;
        std::vector<std::thread> producers;
        for (int p = 0; p < kProducers; ++p) {
          producers.emplace_back([&] {
            while (!halt) {
              ++posted;
              strand.Post([&, end = Finally([&] { ++destroyed; })] { ++ran; });
              if (posted % 32 == 0) std::this_thread::yield();
            }
          });
        }
        while (ran < 500) std::this_thread::yield();
        executor.Stop();
        halt = true;
        for (std::thread& producer : producers) producer.join();
        EXPECT_EQ(destroyed, posted);
        EXPECT_LE(ran, posted);
      }
    }
  }
}

TEST(StrandDeathTest, RejectsAnEmptyTaskInPost) {
  // The child process starts the test again, because a fork of a process with threads is not safe.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Executor executor({.threads = 0});
  Strand strand(&executor);
  EXPECT_DEATH(strand.Post(nullptr), "must not be empty");
}

}  // namespace
}  // namespace herald
