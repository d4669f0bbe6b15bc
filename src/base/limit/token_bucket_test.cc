#include "base/limit/token_bucket.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace herald {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr SteadyTime kStart{hours(1)};
// The limits of client-go's spam filter (tools/record/events_cache.go).
constexpr TokenBucket::Limits kSpam{.qps = 1.0F / 300.0F, .burst = 25};

static_assert(sizeof(TokenBucket) == 16);

// Takes tokens until TryTake() fails, and returns their number.
int TakeAll(TokenBucket& bucket, const TokenBucket::Limits& limits, SteadyTime now) {
  int taken = 0;
  while (taken < 1000 && bucket.TryTake(limits, now)) ++taken;
  return taken;
}

TEST(TokenBucketTest, IsFullAtTheFirstCall) {
  TokenBucket bucket;
  EXPECT_EQ(TakeAll(bucket, kSpam, kStart), 25);
  TokenBucket at_boot;
  EXPECT_EQ(TakeAll(at_boot, kSpam, SteadyTime()), 25);
}

TEST(TokenBucketTest, AddsOneTokenInFiveMinutes) {
  TokenBucket bucket;
  TakeAll(bucket, kSpam, kStart);
  EXPECT_EQ(TakeAll(bucket, kSpam, kStart + seconds(300)), 1);
  EXPECT_EQ(TakeAll(bucket, kSpam, kStart + seconds(599)), 0);
  EXPECT_EQ(TakeAll(bucket, kSpam, kStart + seconds(600)), 1);
}

TEST(TokenBucketTest, NeverHasMoreThanItsBurst) {
  TokenBucket bucket;
  EXPECT_EQ(TakeAll(bucket, kSpam, kStart), 25);
  EXPECT_EQ(TakeAll(bucket, kSpam, kStart + hours(24 * 365 * 100)), 25);
}

// The first nanosecond at which an empty bucket has `tokens` again, found by bisection with
// golang.org/x/time/rate v0.14.0.
TEST(TokenBucketTest, RoundsLikeUpstream) {
  const struct {
    float qps;
    int burst;
    int tokens;
    std::int64_t back_after_ns;
  } kRows[] = {
      {1.0F / 300.0F, 25, 1, 299'999'992'735},
      {1.0F / 300.0F, 25, 2, 599'999'985'471},
      {1.0F / 300.0F, 25, 25, 7'499'999'818'392},
      {1, 1, 1, 999'999'999},
      {3, 5, 1, 333'333'333},
      {3, 5, 2, 666'666'666},
      {0.1F, 1, 1, 9'999'999'850},
      {5, 10, 1, 199'999'999},
      {50, 100, 1, 19'999'999},
      {7, 3, 1, 142'857'142},
      {7, 3, 3, 428'571'428},
  };
  for (const auto& row : kRows) {
    const TokenBucket::Limits limits{.qps = row.qps, .burst = row.burst};
    const nanoseconds border(row.back_after_ns);
    TokenBucket before;
    TokenBucket at;
    TakeAll(before, limits, kStart);
    TakeAll(at, limits, kStart);
    EXPECT_EQ(TakeAll(before, limits, kStart + border - nanoseconds(1)), row.tokens - 1)
        << row.qps << " " << row.tokens;
    EXPECT_EQ(TakeAll(at, limits, kStart + border), row.tokens) << row.qps << " " << row.tokens;
  }
}

TEST(TokenBucketTest, AFailureDoesNotLoseAPartOfAToken) {
  TokenBucket bucket;
  TakeAll(bucket, kSpam, kStart);
  for (int s = 1; s < 300; ++s) EXPECT_FALSE(bucket.TryTake(kSpam, kStart + seconds(s)));
  EXPECT_TRUE(bucket.TryTake(kSpam, kStart + seconds(300)));
}

TEST(TokenBucketTest, ATimeThatGoesBackwardsAddsNothing) {
  TokenBucket bucket;
  TakeAll(bucket, kSpam, kStart);
  EXPECT_FALSE(bucket.TryTake(kSpam, kStart - seconds(1000)));
  EXPECT_FALSE(bucket.TryTake(kSpam, kStart));
}

TEST(TokenBucketTest, ASuccessInThePastBecomesTheLastOne) {
  constexpr TokenBucket::Limits kTwo{.qps = 1, .burst = 2};
  TokenBucket bucket;
  EXPECT_TRUE(bucket.TryTake(kTwo, kStart));
  EXPECT_TRUE(bucket.TryTake(kTwo, kStart - seconds(10)));
  EXPECT_TRUE(bucket.TryTake(kTwo, kStart - seconds(9)));
}

TEST(TokenBucketTest, WithoutARateNoTokensAreAdded) {
  for (float qps : {0.0F, -1.0F}) {
    TokenBucket bucket;
    const TokenBucket::Limits limits{.qps = qps, .burst = 3};
    EXPECT_EQ(TakeAll(bucket, limits, kStart), 3);
    EXPECT_EQ(TakeAll(bucket, limits, kStart + hours(1000)), 0);
  }
}

TEST(TokenBucketTest, WithoutABurstItAlwaysFails) {
  for (int burst : {0, -1}) {
    TokenBucket bucket;
    const TokenBucket::Limits limits{.qps = 1e9F, .burst = burst};
    EXPECT_FALSE(bucket.TryTake(limits, kStart));
    EXPECT_FALSE(bucket.TryTake(limits, kStart + hours(1)));
  }
}

}  // namespace
}  // namespace herald
