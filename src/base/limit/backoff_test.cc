#include "base/limit/backoff.h"

#include <gtest/gtest.h>

#include <vector>

namespace herald {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr SteadyTime kStart{hours(1)};

BackoffOptions Plain() {
  BackoffOptions options;
  options.jitter = 0;
  return options;
}

TEST(JitterTest, AddsUpToFactorTimesTheBase) {
  EXPECT_EQ(Jitter(seconds(10), 1.0, 0.0), seconds(10));
  EXPECT_EQ(Jitter(seconds(10), 1.0, 0.5), seconds(15));
  EXPECT_EQ(Jitter(seconds(10), 0.25, 0.5), milliseconds(11'250));
  EXPECT_EQ(Jitter(nanoseconds(3), 1.0, 0.5), nanoseconds(4)) << "truncated, not rounded";
  EXPECT_EQ(Jitter(seconds(10), 0.0, 0.5), seconds(10));
  EXPECT_EQ(Jitter(seconds(10), -1.0, 0.5), seconds(10));
}

TEST(JitterTest, DoesNotOverflow) {
  EXPECT_EQ(Jitter(nanoseconds::max(), 1.0, 0.5), nanoseconds::max());
  EXPECT_EQ(Jitter(seconds(1), 1e300, 0.5), nanoseconds::max());
}

TEST(BackoffTest, DoublesUpToItsCap) {
  Backoff backoff(Plain(), 1);
  std::vector<nanoseconds> waits;
  for (int i = 0; i < 9; ++i) waits.push_back(backoff.Next(kStart));
  EXPECT_EQ(waits, (std::vector<nanoseconds>{milliseconds(800), milliseconds(1600),
                                             milliseconds(3200), milliseconds(6400),
                                             milliseconds(12'800), milliseconds(25'600),
                                             seconds(30), seconds(30), seconds(30)}));
}

TEST(BackoffTest, AddsJitterToTheSequenceWithoutJitter) {
  Backoff plain(Plain(), 1);
  Backoff backoff(BackoffOptions{}, 42);
  Random random(42);
  for (int i = 0; i < 9; ++i) {
    const nanoseconds base = plain.Next(kStart);
    const nanoseconds wait = backoff.Next(kStart);
    EXPECT_EQ(wait, Jitter(base, 1.0, random.Unit())) << i;
    EXPECT_GE(wait, base);
    EXPECT_LT(wait, 2 * base);
  }
}

TEST(BackoffTest, HasTheSameDelaysOnlyForTheSameSeed) {
  Backoff a(BackoffOptions{}, 7);
  Backoff b(BackoffOptions{}, 7);
  Backoff c(BackoffOptions{}, 8);
  const nanoseconds first = a.Next(kStart);
  EXPECT_EQ(first, b.Next(kStart));
  EXPECT_NE(first, c.Next(kStart));
}

TEST(BackoffTest, StartsAgainAfterMoreThanTwoMinutesWithoutFailure) {
  Backoff backoff(Plain(), 1);
  SteadyTime now = kStart;
  EXPECT_EQ(backoff.Next(now), milliseconds(800));
  EXPECT_EQ(backoff.Next(now), milliseconds(1600));
  now += minutes(2);
  EXPECT_EQ(backoff.Next(now), milliseconds(3200)) << "exactly two minutes are not more";
  now += minutes(2) + nanoseconds(1);
  EXPECT_EQ(backoff.Next(now), milliseconds(800));
}

TEST(BackoffTest, DoesNotStartAgainInTheMiddleOfALongOutage) {
  Backoff backoff(Plain(), 1);
  SteadyTime now = kStart;
  for (int i = 0; i < 6; ++i) now += backoff.Next(now);
  for (int i = 0; i < 100; ++i) {
    const nanoseconds wait = backoff.Next(now);
    ASSERT_EQ(wait, seconds(30));
    now += wait;
  }
}

TEST(BackoffTest, StartsAgainAfterReset) {
  Backoff backoff(Plain(), 1);
  (void)backoff.Next(kStart);
  (void)backoff.Next(kStart);
  backoff.Reset();
  EXPECT_EQ(backoff.Next(kStart), milliseconds(800));
}

TEST(BackoffTest, WithoutAResetIntervalItDoesNotStartAgain) {
  BackoffOptions options = Plain();
  options.reset_after = nanoseconds(0);
  Backoff backoff(options, 1);
  (void)backoff.Next(kStart);
  EXPECT_EQ(backoff.Next(kStart + hours(1000)), milliseconds(1600));
}

TEST(BackoffTest, AFactorOfOneOrLessKeepsTheFirstDelay) {
  for (double factor : {1.0, 0.0}) {
    BackoffOptions options = Plain();
    options.initial = seconds(10);
    options.factor = factor;
    Backoff backoff(options, 1);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(backoff.Next(kStart), seconds(10));
  }
}

TEST(BackoffTest, WithoutACapItDoesNotOverflow) {
  BackoffOptions options = Plain();
  options.cap = nanoseconds(0);
  Backoff backoff(options, 1);
  nanoseconds last(0);
  for (int i = 0; i < 100; ++i) {
    const nanoseconds wait = backoff.Next(kStart);
    ASSERT_GE(wait, last);
    last = wait;
  }
  EXPECT_EQ(last, nanoseconds::max());
}

}  // namespace
}  // namespace herald
