#include "record/correlate/key_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/bytes/random.h"
#include "base/lru_map.h"

namespace herald {
namespace {

EventKey Key(std::uint64_t n) { return {n, n}; }

TEST(KeyCacheTest, EvictsTheLeastRecentlyUsedEntry) {
  KeyCache<int> cache(2);
  cache.Obtain(Key(1)).value = 1;
  cache.Obtain(Key(2)).value = 2;
  ASSERT_NE(cache.Get(Key(1)), nullptr);
  cache.Obtain(Key(3)).value = 3;
  EXPECT_EQ(cache.Get(Key(2)), nullptr);
  EXPECT_EQ(*cache.Get(Key(1)), 1);
  EXPECT_EQ(*cache.Get(Key(3)), 3);
  EXPECT_EQ(cache.size(), 2U);
}

TEST(KeyCacheTest, ANewEntryHasTheValueOfTheEvictedOne) {
  KeyCache<std::string> cache(1);
  const auto first = cache.Obtain(Key(1));
  EXPECT_TRUE(first.is_new);
  EXPECT_EQ(first.value, "");
  first.value = "old";
  EXPECT_FALSE(cache.Obtain(Key(1)).is_new);
  const auto second = cache.Obtain(Key(2));
  EXPECT_TRUE(second.is_new);
  EXPECT_EQ(second.value, "old");
}

TEST(KeyCacheTest, KeysThatDifferInOneHalfAreDifferent) {
  KeyCache<int> cache(4);
  cache.Obtain({1, 1}).value = 1;
  EXPECT_EQ(cache.Get({1, 2}), nullptr);
  EXPECT_EQ(cache.Get({2, 1}), nullptr);
  EXPECT_EQ(cache.Get({0x100000001, 1}), nullptr) << "the same home";
  EXPECT_NE(cache.Get({1, 1}), nullptr);
}

TEST(KeyCacheTest, BehavesAsAnLruMap) {
  struct Case {
    std::size_t capacity;
    std::uint64_t keys;
    std::uint64_t homes;  // few of them: most keys collide
  };
  for (const Case& c : {Case{1, 3, 1}, Case{5, 9, 2}, Case{7, 30, 3}, Case{8, 12, 1000},
                        Case{100, 150, 7}, Case{1000, 1500, 100000}}) {
    SCOPED_TRACE(c.capacity);
    KeyCache<std::uint64_t> cache(c.capacity);
    LruMap<EventKey, std::uint64_t, EventKeyHash> model(c.capacity);
    Random random(c.capacity);
    for (std::uint64_t i = 0; i < 20000; ++i) {
      const std::uint64_t n = random.Next() % c.keys;
      const EventKey key{0xfffffffffffffff0 + n % c.homes, n};
      const std::uint64_t* const expected = model.Get(key);
      if (random.Next() % 2 == 0) {
        const std::uint64_t* const value = cache.Get(key);
        ASSERT_EQ(value == nullptr, expected == nullptr);
        if (value != nullptr) {
          ASSERT_EQ(*value, *expected);
        }
      } else {
        const auto obtained = cache.Obtain(key);
        ASSERT_EQ(obtained.is_new, expected == nullptr);
        if (!obtained.is_new) {
          ASSERT_EQ(obtained.value, *expected);
        }
        obtained.value = i;
        model.Put(key, i);
      }
      ASSERT_EQ(cache.size(), model.size());
    }
  }
}

}  // namespace
}  // namespace herald
