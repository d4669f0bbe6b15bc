#include "record/correlate/similar_events.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

namespace herald {
namespace {

using std::chrono::seconds;

constexpr EventKey kGroup{1, 1};
constexpr EventKey kOther{2, 2};

SteadyTime At(int second) { return SteadyTime(seconds(second)); }

TEST(SimilarEvents, CombinesFromTheNthStringOn) {
  SimilarEvents similar(/*cache_entries=*/10, /*combine_from=*/3, /*within=*/seconds(600));
  EXPECT_FALSE(similar.Join(kGroup, 7, At(0)));
  EXPECT_FALSE(similar.Join(kGroup, 5, At(1)));
  EXPECT_TRUE(similar.Join(kGroup, 6, At(2)));
  EXPECT_TRUE(similar.Join(kGroup, 8, At(3)));
  EXPECT_FALSE(similar.Join(kGroup, 5, At(4))) << "the first ones go on as themselves";
  EXPECT_FALSE(similar.Join(kGroup, 7, At(5)));
  EXPECT_FALSE(similar.Join(kOther, 6, At(6))) << "another group";
}

TEST(SimilarEvents, StartsAgainAfterTheInterval) {
  SimilarEvents similar(10, 2, seconds(600));
  EXPECT_FALSE(similar.Join(kGroup, 1, At(0)));
  EXPECT_TRUE(similar.Join(kGroup, 2, At(600)));
  EXPECT_TRUE(similar.Join(kGroup, 3, At(1200))) << "each within the time of the one before";
  EXPECT_FALSE(similar.Join(kGroup, 4, At(1801)));
  EXPECT_TRUE(similar.Join(kGroup, 1, At(1802))) << "forgotten";
}

TEST(SimilarEvents, ForgetsTheGroupThatWasUsedLeastRecently) {
  SimilarEvents similar(1, 2, seconds(600));
  EXPECT_FALSE(similar.Join(kGroup, 1, At(0)));
  EXPECT_FALSE(similar.Join(kOther, 1, At(1)));
  EXPECT_FALSE(similar.Join(kGroup, 2, At(2))) << "as new, and without what the other left";
}

}  // namespace
}  // namespace herald
