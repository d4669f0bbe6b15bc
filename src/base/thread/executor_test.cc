#include "herald/base/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing/tasks.h"

namespace herald {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

// An executor without threads and its clock.
class ManualExecutorTest : public testing::Test {
 protected:
  Executor::Task Say(const std::string& word) {
    return [this, word] { said_ += word; };
  }
  SteadyTime In(std::chrono::nanoseconds delay) const { return clock_.Steady() + delay; }

  FakeClock clock_{WallTime()};
  Executor executor_{{.threads = 0, .clock = &clock_}};
  std::string said_;
};

TEST_F(ManualExecutorTest, RunsTasksOnlyInRunUntilIdle) {
  executor_.Post(Say("a"));
  executor_.PostAt(In(seconds(0)), Say("b"));
  EXPECT_EQ(said_, "");
  EXPECT_EQ(executor_.RunUntilIdle(), 2u);
  EXPECT_EQ(said_, "ab");
  EXPECT_EQ(executor_.RunUntilIdle(), 0u);
}

TEST_F(ManualExecutorTest, ReturnsItsClockAndItsThreads) {
  EXPECT_EQ(&executor_.clock(), &clock_);
  EXPECT_EQ(executor_.threads(), 0);
  Executor other;
  EXPECT_EQ(&other.clock(), &SystemClock());
  EXPECT_EQ(other.threads(), 1);
}

TEST_F(ManualExecutorTest, RunsTasksInTheOrderOfTheCalls) {
  // More than the first capacity of the queue, with tasks left after each round, and once so many
  // that the memory is freed.
  std::vector<int> ran;
  int next = 0;
  for (const int burst : {3, 7, 100, 5, 9000, 2}) {
    executor_.Post([this, &ran, &next, burst] {
      for (int i = 0; i < burst; ++i) executor_.Post([&ran, n = next++] { ran.push_back(n); });
    });
    executor_.RunUntilIdle();
  }
  ASSERT_EQ(ran.size(), static_cast<std::size_t>(next));
  for (int i = 0; i < next; ++i) ASSERT_EQ(ran[static_cast<std::size_t>(i)], i);
}

TEST_F(ManualExecutorTest, RunsTasksThatATaskPosts) {
  executor_.Post([this] {
    Say("a")();
    executor_.Post([this] {
      Say("c")();
      executor_.PostAt(In(seconds(0)), Say("d"));
      executor_.PostAt(In(seconds(1)), Say("e"));
    });
    Say("b")();
  });
  EXPECT_EQ(executor_.RunUntilIdle(), 3u);
  EXPECT_EQ(said_, "abcd");
  executor_.PostAt(In(seconds(0)), [this] { clock_.Advance(seconds(1)); });
  EXPECT_EQ(executor_.RunUntilIdle(), 2u);
  EXPECT_EQ(said_, "abcde");
}

TEST_F(ManualExecutorTest, CanRunTasksInsideOfATask) {
  executor_.Post([this] {
    Say("a")();
    EXPECT_EQ(executor_.RunUntilIdle(), 1u);
    Say("c")();
  });
  executor_.Post(Say("b"));
  EXPECT_EQ(executor_.RunUntilIdle(), 1u);
  EXPECT_EQ(said_, "abc");
}

TEST(ExecutorTimerTest, ScenarioTable) {
  struct Scenario {
    const char* name;
    std::vector<int> at_seconds;        // timer i, in the order of the calls
    std::vector<int> steps_seconds;     // how far the clock advances
    std::vector<std::string> then_ran;  // after each step
  };
  const Scenario scenarios[] = {
      {"not before its time", {10}, {9, 1}, {"", "0"}},
      {"at once if the time has passed", {-5, 0}, {0}, {"01"}},
      {"in the order of the times", {3, 1, 2}, {1, 1, 1}, {"1", "2", "0"}},
      {"in the order of the times if all have passed", {3, 1, 2}, {60}, {"120"}},
      {"in the order of the calls for equal times", {5, 5, 4, 5, 5, 5}, {60}, {"201345"}},
      {"each once", {1, 2}, {1, 0, 1, 60}, {"0", "", "1", ""}},
  };
  for (const Scenario& scenario : scenarios) {
    SCOPED_TRACE(scenario.name);
    FakeClock clock{WallTime()};
    Executor executor({.threads = 0, .clock = &clock});
    std::string ran;
    const SteadyTime start = clock.Steady();
    for (std::size_t i = 0; i < scenario.at_seconds.size(); ++i) {
      executor.PostAt(start + seconds(scenario.at_seconds[i]),
                      [&ran, i] { ran += std::to_string(i); });
    }
    for (std::size_t i = 0; i < scenario.steps_seconds.size(); ++i) {
      clock.Advance(seconds(scenario.steps_seconds[i]));
      ran.clear();
      EXPECT_EQ(executor.RunUntilIdle(), scenario.then_ran[i].size());
      EXPECT_EQ(ran, scenario.then_ran[i]) << "step " << i;
    }
  }
}

TEST_F(ManualExecutorTest, ATimerDoesNotOvertakeReadyTasks) {
  executor_.PostAt(In(seconds(1)), Say("timer "));
  executor_.Post(Say("ready "));
  clock_.Advance(seconds(1));
  executor_.RunUntilIdle();
  EXPECT_EQ(said_, "ready timer ");
}

TEST_F(ManualExecutorTest, TheLatestTimeMeansNever) {
  executor_.PostAt(SteadyTime::max(), Say("never"));
  executor_.PostAt(SteadyTime::min(), Say("now"));
  clock_.Advance(hours(24 * 365));
  executor_.RunUntilIdle();
  EXPECT_EQ(said_, "now");
}

TEST_F(ManualExecutorTest, DestroysATaskBeforeTheNextOneStarts) {
  executor_.Post([this, end = Finally(Say("a destroyed, "))] { Say("a runs, ")(); });
  executor_.Post(Say("b runs"));
  executor_.RunUntilIdle();
  EXPECT_EQ(said_, "a runs, a destroyed, b runs");
}

TEST_F(ManualExecutorTest, TheDestructorOfATaskMayPost) {
  executor_.Post([end = Finally([this] { executor_.Post(Say("b")); })] {});
  EXPECT_EQ(executor_.RunUntilIdle(), 2u);
  EXPECT_EQ(said_, "b");
}

TEST_F(ManualExecutorTest, StopDestroysTheRemainingTasks) {
  int destroyed = 0;
  const auto count = [&destroyed] { return Finally([&destroyed] { ++destroyed; }); };
  executor_.Post([this, end = count()] { Say("x")(); });
  executor_.PostAt(In(seconds(0)), [this, end = count()] { Say("x")(); });
  executor_.PostAt(In(hours(1)), [this, end = count()] { Say("x")(); });
  // A task that a destructor posts is destroyed, without a deadlock.
  executor_.Post([end = Finally([this] { executor_.Post(Say("x")); })] {});
  EXPECT_EQ(destroyed, 0);

  executor_.Stop();
  EXPECT_EQ(destroyed, 3);
  executor_.Stop();
  executor_.Post([this, end = count()] { Say("x")(); });
  executor_.PostAt(In(seconds(0)), [this, end = count()] { Say("x")(); });
  EXPECT_EQ(destroyed, 5);
  EXPECT_EQ(executor_.RunUntilIdle(), 0u);
  EXPECT_EQ(said_, "");
}

TEST_F(ManualExecutorTest, StopWaitsForTheTaskThatAnotherThreadRuns) {
  std::latch started(1);
  std::atomic<bool> finished = false;
  executor_.Post([&] {
    started.count_down();
    WaitUntilStopping(executor_);
    finished = true;
  });
  executor_.Post(Say("unrun"));
  std::thread runner([this] { EXPECT_EQ(executor_.RunUntilIdle(), 1u); });
  started.wait();
  executor_.Stop();
  EXPECT_TRUE(finished);
  runner.join();
  EXPECT_EQ(said_, "");
}

TEST(ExecutorTest, RunsTasksOnItsOwnThreads) {
  for (const int threads : {1, 2, 5}) {
    Executor executor({.threads = threads});
    std::latch done(1);
    std::thread::id ran_on;
    executor.Post([&] {
      ran_on = std::this_thread::get_id();
      done.count_down();
    });
    done.wait();
    EXPECT_NE(ran_on, std::this_thread::get_id());
  }
}

TEST(ExecutorTest, RunsAsManyTasksAtOnceAsItHasThreads) {
  for (const int threads : {2, 3, 8}) {
    Executor executor({.threads = threads});
    // Each task waits for all others, so that the test hangs unless they run at once.
    std::latch all_run(threads);
    std::latch done(threads);
    for (int i = 0; i < threads; ++i) {
      executor.Post([&] {
        all_run.arrive_and_wait();
        done.count_down();
      });
    }
    done.wait();
  }
}

TEST(ExecutorTest, RunsTimersThatAreDueAtOnceOnAllThreads) {
  constexpr int kThreads = 4;
  Executor executor({.threads = kThreads});
  std::latch all_run(kThreads);
  std::latch done(kThreads);
  const SteadyTime when = executor.clock().Steady() + milliseconds(2);
  for (int i = 0; i < kThreads; ++i) {
    executor.PostAt(when, [&] {
      all_run.arrive_and_wait();
      done.count_down();
    });
  }
  done.wait();
}

TEST(ExecutorTest, RunsATimerNotBeforeItsTime) {
  for (const int threads : {1, 2}) {
    Executor executor({.threads = threads});
    std::latch done(1);
    SteadyTime ran;
    const SteadyTime when = executor.clock().Steady() + milliseconds(3);
    executor.PostAt(when, [&] {
      ran = executor.clock().Steady();
      done.count_down();
    });
    done.wait();
    EXPECT_GE(ran, when);
  }
}

TEST(ExecutorTest, WakesUpEarlierForAnEarlierTimer) {
  for (const int threads : {1, 2, 3}) {
    Executor executor({.threads = threads});
    executor.PostAt(SteadyTime::max(), [] { FAIL(); });
    executor.PostAt(executor.clock().Steady() + hours(5), [] { FAIL(); });
    std::latch done(1);
    executor.PostAt(executor.clock().Steady() + milliseconds(1), [&] { done.count_down(); });
    done.wait();
  }
}

TEST(ExecutorTest, RunsATimerWhileAnotherThreadIsBlocked) {
  // The blocked thread may be the keeper; then another thread has to become the keeper. Several
  // rounds, because the threads are in different states each time.
  for (const int threads : {2, 3}) {
    Executor executor({.threads = threads});
    for (int round = 0; round < 20; ++round) {
      std::latch timer_ran(1);
      std::latch held(1);
      std::latch over(1);
      const auto hold = [&] {
        held.count_down();
        timer_ran.wait();
        over.count_down();
      };
      const SteadyTime soon = executor.clock().Steady() + milliseconds(1);
      if (round % 3 == 0) {
        executor.PostAt(soon, hold);  // the keeper runs this one
        executor.PostAt(soon + milliseconds(1), [&] { timer_ran.count_down(); });
      } else if (round % 3 == 1) {
        executor.PostAt(soon, [&] { timer_ran.count_down(); });
        executor.Post(hold);
      } else {
        executor.Post(hold);
        held.wait();
        executor.PostAt(soon, [&] { timer_ran.count_down(); });
      }
      over.wait();
    }
  }
}

TEST(ExecutorTest, RunsDueTimersOfAFakeClockAtTheNextPost) {
  for (const int threads : {1, 2}) {
    FakeClock clock{WallTime()};
    Executor executor({.threads = threads, .clock = &clock});
    std::latch done(2);
    executor.PostAt(clock.Steady() + hours(1), [&] { done.count_down(); });
    clock.Advance(hours(1));
    executor.Post([&] { done.count_down(); });
    done.wait();
  }
}

TEST(ExecutorTest, StopWaitsForRunningTasksAndDestroysTheOthers) {
  for (const int threads : {1, 2}) {
    Executor executor({.threads = threads});
    std::latch running(threads);
    std::atomic<int> finished = 0;
    for (int i = 0; i < threads; ++i) {
      executor.Post([&] {
        running.count_down();
        WaitUntilStopping(executor);
        ++finished;
      });
    }
    running.wait();
    std::atomic<int> dropped = 0;
    for (int i = 0; i < 10; ++i) {
      executor.Post([end = Finally([&] { ++dropped; })] { FAIL() << "ran after Stop()"; });
    }
    executor.Stop();
    EXPECT_EQ(finished, threads);
    EXPECT_EQ(dropped, 10);
  }
}

TEST(ExecutorTest, StopDestroysTheRestOfABatchOfASingleThread) {
  Executor executor;
  std::latch holds(1);
  std::latch go_on(1);
  std::latch batch_runs(1);
  executor.Post([&] {
    holds.count_down();
    go_on.wait();
  });
  holds.wait();
  // The thread takes these together when it continues.
  executor.Post([&] {
    batch_runs.count_down();
    WaitUntilStopping(executor);
  });
  std::atomic<int> dropped = 0;
  for (int i = 0; i < 10; ++i) {
    executor.Post([end = Finally([&] { ++dropped; })] { FAIL() << "ran after Stop()"; });
  }
  go_on.count_down();
  batch_runs.wait();
  executor.Stop();
  EXPECT_EQ(dropped, 10);
}

TEST(ExecutorTest, TheDestructorStops) {
  std::atomic<int> destroyed = 0;
  {
    Executor executor({.threads = 2});
    for (int i = 0; i < 1000; ++i) executor.Post([end = Finally([&] { ++destroyed; })] {});
    executor.PostAt(SteadyTime::max(), [end = Finally([&] { ++destroyed; })] {});
  }
  EXPECT_EQ(destroyed, 1001);
}

TEST(ExecutorTest, StartsTheTasksOfOneThreadInOrder) {
  constexpr int kProducers = 4;
  constexpr int kTasks = 5000;
  Executor executor;  // with one thread, the order of starting is the order of running
  std::vector<int> last(kProducers, -1);
  std::latch done(kProducers * kTasks);
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kTasks; ++i) {
        executor.Post([&, p, i] {
          EXPECT_EQ(last[static_cast<std::size_t>(p)], i - 1);
          last[static_cast<std::size_t>(p)] = i;
          done.count_down();
        });
      }
    });
  }
  done.wait();
  for (std::thread& producer : producers) producer.join();
}

// Every task either runs or is destroyed, exactly once, with concurrent posts from threads, tasks
// and timers, with sleeps and wake-ups in between, and with several calls of Stop().
TEST(ExecutorStressTest, RunsOrDestroysEveryTaskWhenItIsStopped) {
  constexpr int kProducers = 4;
  for (const int threads : {1, 2, 3}) {
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> posted = 0;
      std::atomic<int> ran = 0;
      std::atomic<int> destroyed = 0;
      {
        Executor executor({.threads = threads});
        std::atomic<bool> halt = false;
        const auto task = [&] {
          ++posted;
          return [&, end = Finally([&] { ++destroyed; })] { ++ran; };
        };
        std::vector<std::thread> producers;
        for (int p = 0; p < kProducers; ++p) {
          producers.emplace_back([&, p] {
            for (int i = 0; !halt; ++i) {
              const SteadyTime now = executor.clock().Steady();
              switch ((i + p) % 4) {
                case 0:
                  executor.Post(task());
                  break;
                case 1:
                  executor.PostAt(now + std::chrono::microseconds(i % 50), task());
                  break;
                case 2:
                  executor.Post([&executor, inner = Executor::Task(task())]() mutable {
                    executor.Post(std::move(inner));
                  });
                  break;
                default:
                  // Lets the queue become empty, so that threads sleep and are woken.
                  std::this_thread::yield();
              }
            }
          });
        }
        while (ran < 200) std::this_thread::yield();
        std::thread other_stop([&] { executor.Stop(); });
        executor.Stop();
        const int ran_by_then = ran;
        halt = true;
        other_stop.join();
        for (std::thread& producer : producers) producer.join();
        EXPECT_EQ(ran, ran_by_then) << "no task runs after Stop() has returned";
      }
      EXPECT_EQ(destroyed, posted);
      EXPECT_LE(ran, posted);
    }
  }
}

// Each task is posted after the one before has run, so that a lost wake-up makes the test hang.
TEST(ExecutorStressTest, LosesNoWakeUp) {
  for (const int threads : {1, 2, 3}) {
    for (const bool with_timer : {false, true}) {
      Executor executor({.threads = threads});
      if (with_timer) executor.PostAt(SteadyTime::max(), [] {});
      std::atomic<int> ran = 0;
      for (int i = 1; i <= 2000; ++i) {
        if (i % 7 == 0) {
          executor.PostAt(executor.clock().Steady() + std::chrono::microseconds(i % 30), [&] {
            ++ran;
            ran.notify_one();
          });
        } else {
          executor.Post([&] {
            ++ran;
            ran.notify_one();
          });
        }
        ran.wait(i - 1);
        ASSERT_EQ(ran, i);
      }
    }
  }
}

class ExecutorDeathTest : public testing::Test {
 protected:
  // The child process starts the test again, because a fork of a process with threads is not safe.
  ExecutorDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ExecutorDeathTest, RejectsAnEmptyTaskInPost) {
  Executor executor({.threads = 0});
  EXPECT_DEATH(executor.Post(nullptr), "must not be empty");
  EXPECT_DEATH(executor.PostAt(SteadyTime(), Executor::Task()), "must not be empty");
}

TEST_F(ExecutorDeathTest, RunUntilIdleRequiresNoThreads) {
  EXPECT_DEATH(Executor().RunUntilIdle(), "requires threads == 0");
}

TEST_F(ExecutorDeathTest, AnExceptionOfATaskTerminatesTheProcess) {
  EXPECT_DEATH(
      {
        Executor executor({.threads = 0});
        executor.Post([] { throw std::runtime_error("thrown by a task"); });
        try {
          executor.RunUntilIdle();
        } catch (const std::exception&) {
        }
      },
      "thrown by a task");
}

TEST_F(ExecutorDeathTest, DetectsAStopThatWouldWaitForItself) {
  EXPECT_DEATH(
      {
        Executor executor({.threads = 0});
        executor.Post([&] { executor.Stop(); });
        executor.RunUntilIdle();
      },
      "would wait for itself");
  EXPECT_DEATH(
      {
        Executor executor;
        std::latch never(1);
        executor.Post([&] { executor.Stop(); });
        never.wait();
      },
      "would wait for itself");
}

}  // namespace
}  // namespace herald
