#include "base/lru_map.h"

#include <gtest/gtest.h>

#include <iterator>
#include <list>
#include <memory>
#include <vector>

#include "base/bytes/random.h"

namespace herald {
namespace {

using Strings = LruMap<std::string, int>;

template <typename Map>
auto KeysOf(Map& map) {
  std::vector<std::string> keys;
  for (auto entry : map) keys.push_back(entry.key);
  return keys;
}

static_assert(std::input_iterator<Strings::Iterator>);

TEST(LruMapTest, FindsEntries) {
  Strings map(4);
  EXPECT_EQ(map.Get("a"), nullptr);
  EXPECT_EQ(map.Put("a", 1), std::nullopt);
  EXPECT_EQ(map.Put(std::string("b"), 2), std::nullopt);
  ASSERT_NE(map.Get("a"), nullptr);
  EXPECT_EQ(*map.Get("a"), 1);
  EXPECT_EQ(*map.Get(std::string_view("b")), 2);
  EXPECT_EQ(map.size(), 2u);
  EXPECT_EQ(map.capacity(), 4u);
}

TEST(LruMapTest, EvictsTheLeastRecentlyUsedEntry) {
  Strings map(2);
  map.Put("a", 1);
  map.Put("b", 2);
  EXPECT_EQ(map.Put("c", 3), std::make_pair(std::string("a"), 1));
  EXPECT_EQ(map.Peek("a"), nullptr);
  EXPECT_EQ(map.size(), 2u);
}

TEST(LruMapTest, GetCountsAsAUseAndPeekDoesNot) {
  Strings map(2);
  map.Put("a", 1);
  map.Put("b", 2);
  EXPECT_EQ(*map.Get("a"), 1);
  EXPECT_EQ(map.Put("c", 3)->first, "b");

  EXPECT_EQ(*map.Peek("a"), 1);
  EXPECT_EQ(map.Put("d", 4)->first, "a");
}

TEST(LruMapTest, PutOfAnExistingKeyReplacesTheValueAndEvictsNothing) {
  Strings map(2);
  map.Put("a", 1);
  map.Put("b", 2);
  EXPECT_EQ(map.Put("a", 10), std::nullopt);
  EXPECT_EQ(*map.Peek("a"), 10);
  EXPECT_EQ(map.Put("c", 3)->first, "b") << "replacing counts as a use";
}

TEST(LruMapTest, IteratesFromTheMostToTheLeastRecentlyUsed) {
  Strings map(3);
  EXPECT_EQ(map.begin(), map.end());
  map.Put("a", 1);
  map.Put("b", 2);
  map.Put("c", 3);
  (void)map.Get("a");
  EXPECT_EQ(KeysOf(map), (std::vector<std::string>{"a", "c", "b"}));
  for (auto entry : map) entry.value *= 10;
  EXPECT_EQ(*map.Peek("b"), 20);
  EXPECT_EQ(KeysOf(map), (std::vector<std::string>{"a", "c", "b"})) << "iterating is not a use";
}

TEST(LruMapTest, ErasesAtBothEndsAndInTheMiddle) {
  Strings map(5);
  for (const char* key : {"a", "b", "c", "d", "e"}) map.Put(key, 0);
  EXPECT_TRUE(map.Erase("a"));
  EXPECT_TRUE(map.Erase("c"));
  EXPECT_TRUE(map.Erase("e"));
  EXPECT_FALSE(map.Erase("c"));
  EXPECT_EQ(KeysOf(map), (std::vector<std::string>{"d", "b"}));
  EXPECT_TRUE(map.Erase("b"));
  EXPECT_TRUE(map.Erase("d"));
  EXPECT_EQ(map.size(), 0u);
  map.Put("f", 1);
  EXPECT_EQ(KeysOf(map), std::vector<std::string>{"f"});
  map.Clear();
  EXPECT_EQ(map.begin(), map.end());
  EXPECT_EQ(map.Put("g", 1), std::nullopt);
}

TEST(LruMapTest, HoldsOneEntryWhenItsCapacityIsOne) {
  Strings map(1);
  map.Put("a", 1);
  EXPECT_EQ(map.Put("b", 2)->first, "a");
  EXPECT_EQ(map.Put("b", 3), std::nullopt);
  EXPECT_EQ(KeysOf(map), std::vector<std::string>{"b"});
}

TEST(LruMapTest, AcceptsAKeyThatRefersToTheEvictedEntry) {
  Strings map(1);
  map.Put(std::string(100, 'x'), 1);
  const std::string_view inside = std::string_view((*map.begin()).key).substr(1);
  EXPECT_EQ(map.Put(inside, 2)->first, std::string(100, 'x'));
  EXPECT_EQ(KeysOf(map), std::vector<std::string>{std::string(99, 'x')});
}

TEST(LruMapTest, SupportsMoveOnlyValuesAndOtherKeys) {
  LruMap<int, std::unique_ptr<int>> map(1);
  map.Put(1, std::make_unique<int>(10));
  EXPECT_EQ(**map.Get(1), 10);
  const auto evicted = map.Put(2, std::make_unique<int>(20));
  ASSERT_TRUE(evicted);
  EXPECT_EQ(evicted->first, 1);
  EXPECT_EQ(*evicted->second, 10);
  EXPECT_TRUE(map.Erase(2));
}

TEST(LruMapTest, AValueKeepsItsAddress) {
  LruMap<int, int> map(1000);
  map.Put(0, 7);
  int* const value = map.Get(0);
  for (int i = 1; i < 1000; ++i) map.Put(i, i);
  EXPECT_EQ(map.Get(0), value);
  EXPECT_EQ(*value, 7);
}

TEST(LruMapTest, AFullMapReusesTheNodeOfTheEvictedEntry) {
  LruMap<int, int> map(3);
  for (int i = 0; i < 3; ++i) map.Put(i, i);
  for (int i = 3; i < 100; ++i) {
    const int* const goes = map.Peek(i - 3);
    ASSERT_TRUE(map.Put(i, i));
    ASSERT_EQ(map.Peek(i), goes);
  }
}

// A key that counts its constructions.
struct CountedKey {
  explicit CountedKey(std::string_view t) : text(t) { ++made; }
  std::string text;
  static inline int made = 0;
};
struct CountedHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
  std::size_t operator()(const CountedKey& key) const { return (*this)(key.text); }
};
struct CountedEqual {
  using is_transparent = void;
  bool operator()(const CountedKey& a, const CountedKey& b) const { return a.text == b.text; }
  bool operator()(std::string_view a, const CountedKey& b) const { return a == b.text; }
  bool operator()(const CountedKey& a, std::string_view b) const { return a.text == b; }
};

TEST(LruMapTest, ConstructsAKeyOnlyForANewEntry) {
  LruMap<CountedKey, int, CountedHash, CountedEqual> map(1);
  const std::string_view a = "a";
  const std::string_view b = "b";
  CountedKey::made = 0;
  map.Put(a, 1);
  EXPECT_EQ(CountedKey::made, 1);
  EXPECT_EQ(*map.Get(a), 1);
  EXPECT_EQ(*map.Peek(a), 1);
  EXPECT_EQ(map.Get(b), nullptr);
  EXPECT_FALSE(map.Erase(b));
  map.Put(a, 2);
  EXPECT_EQ(CountedKey::made, 1) << "lookups and replacements construct none";
  map.Put(b, 3);
  EXPECT_EQ(CountedKey::made, 2);
  EXPECT_TRUE(map.Erase(b));
  EXPECT_EQ(CountedKey::made, 2);
}

// A simple and slow implementation to compare with.
class SlowLru {
 public:
  explicit SlowLru(std::size_t capacity) : capacity_(capacity) {}

  int* Get(int key) {
    for (auto it = items_.begin(); it != items_.end(); ++it) {
      if (it->first != key) continue;
      items_.splice(items_.begin(), items_, it);
      return &items_.front().second;
    }
    return nullptr;
  }
  std::optional<std::pair<int, int>> Put(int key, int value) {
    if (int* known = Get(key)) {
      *known = value;
      return std::nullopt;
    }
    items_.emplace_front(key, value);
    if (items_.size() <= capacity_) return std::nullopt;
    std::pair<int, int> evicted = items_.back();
    items_.pop_back();
    return evicted;
  }
  bool Erase(int key) {
    return items_.remove_if([key](const auto& item) { return item.first == key; }) > 0;
  }
  const std::list<std::pair<int, int>>& items() const { return items_; }

 private:
  const std::size_t capacity_;
  std::list<std::pair<int, int>> items_;
};

TEST(LruMapTest, BehavesLikeASimpleImplementation) {
  Random random(20231114);
  for (std::size_t capacity : {1u, 2u, 7u, 30u}) {
    LruMap<int, int> map(capacity);
    SlowLru slow(capacity);
    for (int step = 0; step < 3000; ++step) {
      const int key = static_cast<int>(random.Next() % 40);
      switch (random.Next() % 4) {
        case 0:
        case 1:
          ASSERT_EQ(map.Put(key, step), slow.Put(key, step));
          break;
        case 2: {
          const int* value = map.Get(key);
          const int* expected = slow.Get(key);
          ASSERT_EQ(value != nullptr, expected != nullptr);
          if (value != nullptr) {
            ASSERT_EQ(*value, *expected);
          }
          break;
        }
        default:
          ASSERT_EQ(map.Erase(key), slow.Erase(key));
      }
      std::list<std::pair<int, int>> items;
      for (auto entry : map) items.emplace_back(entry.key, entry.value);
      ASSERT_EQ(items, slow.items());
      ASSERT_EQ(map.size(), items.size());
    }
  }
}

TEST(LruMapDeathTest, RequiresACapacity) { EXPECT_DEATH(Strings map(0), "capacity > 0"); }

}  // namespace
}  // namespace herald
