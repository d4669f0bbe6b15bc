#include "herald/base/clock.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace herald {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr WallTime kStart{seconds(1'700'000'000)};

TEST(SystemClockTest, IsOneObjectWithTheTimeOfTheMachine) {
  EXPECT_EQ(&SystemClock(), &SystemClock());

  const WallTime before = std::chrono::system_clock::now();
  const WallTime now = SystemClock().Now();
  EXPECT_GE(now, before);
  EXPECT_LE(now, WallTime(std::chrono::system_clock::now()));
}

TEST(SystemClockTest, SteadyTimeNeverGoesBackwards) {
  SteadyTime last = SystemClock().Steady();
  for (int i = 0; i < 1000; ++i) {
    const SteadyTime now = SystemClock().Steady();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(SystemClockTest, TimeSinceBootIsNotBehindSteadyTime) {
  const SteadyTime steady = SystemClock().Steady();
  const SteadyTime first = SystemClock().SinceBoot();
  EXPECT_GE(first, steady)
      << "Linux counts both from the boot, but only this one during suspension";
  EXPECT_GE(SystemClock().SinceBoot(), first);
}

// Uses the clock in static destruction. It is constructed before the clock's own static, and so
// destroyed after it.
struct UsesTheClockWhenDestroyed {
  bool armed = false;
  ~UsesTheClockWhenDestroyed() {
    if (armed && SystemClock().Now() > WallTime()) std::fputs("the clock still works\n", stderr);
  }
};
UsesTheClockWhenDestroyed asks_when_destroyed;

TEST(SystemClockDeathTest, WorksDuringStaticDestruction) {
  EXPECT_EXIT(
      {
        asks_when_destroyed.armed = true;
        std::exit(0);
      },
      testing::ExitedWithCode(0), "the clock still works");
}

TEST(FakeClockTest, ChangesOnlyWhenItIsAdvanced) {
  FakeClock clock(kStart);
  const SteadyTime steady = clock.Steady();
  EXPECT_EQ(clock.Now(), kStart);
  EXPECT_EQ(clock.Now(), kStart);
  EXPECT_EQ(clock.Steady(), steady);
}

TEST(FakeClockTest, AdvancesWallTimeAndSteadyTimeTogether) {
  FakeClock clock(kStart);
  const SteadyTime steady = clock.Steady();
  clock.Advance(seconds(3));
  clock.Advance(nanoseconds(1));
  clock.Advance(nanoseconds(0));
  EXPECT_EQ(clock.Now() - kStart, seconds(3) + nanoseconds(1));
  EXPECT_EQ(clock.Steady() - steady, seconds(3) + nanoseconds(1));
}

TEST(FakeClockTest, AJumpMovesOnlyTheWallClock) {
  FakeClock clock(kStart);
  const SteadyTime steady = clock.Steady();
  const SteadyTime boot = clock.SinceBoot();
  clock.JumpWallClock(seconds(7200));
  EXPECT_EQ(clock.Now() - kStart, seconds(7200));
  clock.JumpWallClock(seconds(-7201));
  EXPECT_EQ(clock.Now() - kStart, seconds(-1));
  EXPECT_EQ(clock.Steady(), steady);
  EXPECT_EQ(clock.SinceBoot(), boot);
}

TEST(FakeClockTest, SuspensionDoesNotAdvanceSteadyTime) {
  FakeClock clock(kStart);
  const SteadyTime steady = clock.Steady();
  const SteadyTime boot = clock.SinceBoot();
  clock.Suspend(seconds(3));
  EXPECT_EQ(clock.Now() - kStart, seconds(3));
  EXPECT_EQ(clock.SinceBoot() - boot, seconds(3));
  EXPECT_EQ(clock.Steady(), steady);
}

TEST(FakeClockTest, DoesNotStartAtTheTimeThatMeansNever) {
  EXPECT_GT(FakeClock(kStart).Steady(), SteadyTime());
}

TEST(FakeClockTest, CountsEveryStepOfManyThreads) {
  FakeClock clock(kStart);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&clock] {
      for (int i = 0; i < 500; ++i) {
        clock.Advance(nanoseconds(1));
        (void)clock.Now();
        (void)clock.Steady();
      }
    });
  }
  threads.clear();
  EXPECT_EQ(clock.Now() - kStart, nanoseconds(2000));
}

TEST(FakeClockDeathTest, CannotGoBackwards) {
  FakeClock clock(kStart);
  EXPECT_DEATH(clock.Advance(nanoseconds(-1)), "the clock must not go backwards");
}

}  // namespace
}  // namespace herald
