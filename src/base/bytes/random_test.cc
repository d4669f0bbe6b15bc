#include "base/bytes/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace herald {
namespace {

TEST(RandomTest, IsSplitMix64) {
  // The published first values for these seeds.
  Random zero(0);
  EXPECT_EQ(zero.Next(), 0xe220a8397b1dcdafu);
  EXPECT_EQ(zero.Next(), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(zero.Next(), 0x06c45d188009454fu);
  Random other(1234567);
  EXPECT_EQ(other.Next(), 6457827717110365317u);
  EXPECT_EQ(other.Next(), 3203168211198807973u);
}

TEST(RandomTest, UnitIsBelowOneAndUniform) {
  Random random(1);
  std::array<int, 10> tenths{};
  for (int i = 0; i < 10000; ++i) {
    const double unit = random.Unit();
    ASSERT_GE(unit, 0.0);
    ASSERT_LT(unit, 1.0);
    ++tenths[static_cast<std::size_t>(unit * 10)];
  }
  // The seed is fixed, so this cannot fail at random.
  for (int count : tenths) EXPECT_NEAR(count, 1000, 120);
}

TEST(RandomTest, SeedsDifferFromCallToCall) { EXPECT_NE(RandomSeed(), RandomSeed()); }

TEST(FillRandomTest, FillsExactlyTheGivenBytes) {
  // More than the 256 bytes that the kernel returns in one call at least. After 64 rounds, a byte
  // that is never written is zero; one that is written is zero with a probability of 2^-512.
  constexpr std::size_t kSize = 5001;
  std::vector<unsigned char> seen(kSize, 0);
  for (int round = 0; round < 64; ++round) {
    std::vector<unsigned char> bytes(kSize + 1, 0);
    FillRandom(bytes.data(), kSize);
    EXPECT_EQ(bytes[kSize], 0);
    for (std::size_t i = 0; i < kSize; ++i) seen[i] |= bytes[i];
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), 0);
  FillRandom(nullptr, 0);
}

}  // namespace
}  // namespace herald
