#include "record/correlate/event_key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace herald {
namespace {

// The key of the published vectors: the bytes 0 to 15.
constexpr SipSecret kVectorSecret = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

EventKey KeyOf(std::initializer_list<std::string_view> parts, EventKeyBuilder* builder) {
  builder->Start('k');
  for (const std::string_view part : parts) builder->Add(part);
  return builder->Finish();
}

TEST(EventKeyTest, MatchesTheTestVectorsOfSipHash) {
  // Of the messages "", 00, 00 01, and so on.
  struct Case {
    std::size_t length;
    std::uint64_t low, high;
  };
  const Case cases[] = {
      {0, 0xe6a825ba047f81a3, 0x930255c71472f66d},
      {1, 0x44af996bd8c187da, 0x45fc229b11597634},
      {2, 0xc75da4a48d227781, 0xe4ff0af6de8ba3fc},
  };
  for (const Case& c : cases) {
    std::string message;
    for (std::size_t i = 0; i < c.length; ++i) message.push_back(static_cast<char>(i));
    EXPECT_EQ(SipHash24(message, kVectorSecret), (EventKey{c.low, c.high})) << c.length;
  }
}

EventKey KeyOf(std::string text, const KeyHash& hash) {
  const std::size_t size = text.size();
  // The bytes after a string must not matter.
  text.append(KeyHash::kPadding, '?');
  return hash.Of(text.data(), size);
}

TEST(EventKeyTest, EveryByteMatters) {
  const KeyHash hash;
  std::vector<std::size_t> lengths(40);
  std::iota(lengths.begin(), lengths.end(), std::size_t{0});
  for (const std::size_t more : {0, 1, 7, 8, 17}) lengths.push_back(KeyHash::kMaxShortBytes - more);
  for (const std::size_t more : {1, 8, 5000}) lengths.push_back(KeyHash::kMaxShortBytes + more);
  for (const std::size_t length : lengths) {
    const std::string text(length, 'a');
    const EventKey key = KeyOf(text, hash);
    EXPECT_EQ(key, KeyOf(text, hash));
    EXPECT_NE(key, KeyOf(text + 'a', hash));
    EXPECT_NE(key, KeyOf(text + '\0', hash));
    for (std::size_t i = 0; i < length; ++i) {
      std::string other = text;
      other[i] = 'b';
      EXPECT_NE(key, KeyOf(other, hash)) << length << " " << i;
    }
  }
}

// A cache finds the home of a key by its lowest bits.
TEST(EventKeyTest, LowBitsOfSimilarStringsDiffer) {
  constexpr std::size_t kHomes = 1024;
  constexpr std::size_t kTexts = 16 * kHomes;
  const KeyHash hash;
  std::vector<std::size_t> homes(kHomes);
  for (std::size_t i = 0; i < kTexts; ++i) {
    ++homes[KeyOf("pod-" + std::to_string(i), hash).low % kHomes];
  }
  // By chance a home gets more than four times its share once in 10^14 runs.
  EXPECT_LT(*std::max_element(homes.begin(), homes.end()), 4 * kTexts / kHomes);
}

TEST(EventKeyTest, PartsAreSeparated) {
  EventKeyBuilder builder(/*join_like_upstream=*/false);
  const EventKey key = KeyOf({"ab", "c"}, &builder);
  EXPECT_EQ(key, KeyOf({"ab", "c"}, &builder));
  EXPECT_NE(key, KeyOf({"a", "bc"}, &builder));
  EXPECT_NE(key, KeyOf({"abc"}, &builder));
  EXPECT_NE(key, KeyOf({"ab", "c", ""}, &builder));
  // Lengths on both sides of what one byte can say.
  for (const std::size_t length : {254U, 255U, 256U, 70000U}) {
    const std::string text(length, 'x');
    EXPECT_NE(KeyOf({text, "y"}, &builder), KeyOf({text + "y", ""}, &builder)) << length;
  }
}

TEST(EventKeyTest, PartsAreConcatenatedAsInClientGo) {
  EventKeyBuilder builder(/*join_like_upstream=*/true);
  EXPECT_EQ(KeyOf({"ab", "c"}, &builder), KeyOf({"a", "bc"}, &builder));
  EXPECT_EQ(KeyOf({"ab", "c"}, &builder), builder.Of("abc"));
}

TEST(EventKeyTest, KeysOfDifferentKindsAreDifferent) {
  EventKeyBuilder builder(/*join_like_upstream=*/false);
  EXPECT_NE(builder.Start('a').Add("x").Finish(), builder.Start('b').Add("x").Finish());
}

TEST(EventKeyTest, EachBuilderHasItsOwnSecret) {
  EventKeyBuilder a(/*join_like_upstream=*/false);
  EventKeyBuilder b(/*join_like_upstream=*/false);
  EXPECT_NE(a.Of("x"), b.Of("x"));
}

TEST(EventKeyTest, ConvertsToBytesAndBack) {
  const EventKey key{1, 0xffffffffffffffff};
  EXPECT_EQ(EventKey::FromBytes(key.ToBytes()), key);
  EXPECT_EQ(EventKey::FromBytes(""), std::nullopt);
  EXPECT_EQ(EventKey::FromBytes(key.ToBytes() + "x"), std::nullopt);
}

}  // namespace
}  // namespace herald
