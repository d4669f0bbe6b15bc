#include "herald/api/rare.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "herald/api/event.h"
#include "herald/api/string_map.h"

namespace herald {
namespace {

// A growing vector moves its elements only if their move constructor is noexcept.
static_assert(std::is_nothrow_move_constructible_v<Event>);
static_assert(sizeof(Rare<ObjectReference>) == sizeof(void*));
static_assert(sizeof(StringMap) == sizeof(void*));

TEST(Rare, HasAValueOrNone) {
  Rare<std::string> rare;
  EXPECT_FALSE(rare);
  EXPECT_FALSE(rare.has_value());
  EXPECT_EQ(rare.value_or("none"), "none");
  rare = std::string("some");
  ASSERT_TRUE(rare);
  EXPECT_EQ(*rare, "some");
  EXPECT_EQ(rare->size(), 4U);
  EXPECT_EQ(rare.value_or("none"), "some");
  EXPECT_EQ(rare.emplace(3, 'x'), "xxx");
  rare.reset();
  EXPECT_FALSE(rare);
}

TEST(Rare, ConvertsFromAnOptional) {
  Rare<std::string> rare = std::optional<std::string>("some");
  EXPECT_EQ(rare, Rare<std::string>("some"));
  rare = std::optional<std::string>();
  EXPECT_FALSE(rare);
  rare = std::string("again");
  rare = std::nullopt;
  EXPECT_FALSE(rare);
}

TEST(Rare, CopiesTheValueAndComparesIt) {
  const Rare<std::string> none;
  const Rare<std::string> first("some");
  Rare<std::string> second = first;
  EXPECT_EQ(first, second);
  EXPECT_NE(first, none);
  EXPECT_NE(none, first);
  EXPECT_EQ(none, Rare<std::string>());
  second->push_back('!');
  EXPECT_EQ(*first, "some") << "a copy has its own value";
  EXPECT_NE(first, second);
  second = first;
  EXPECT_EQ(first, second);
  second = *&second;  // NOLINT: to itself
  EXPECT_EQ(first, second);
  second = none;
  EXPECT_FALSE(second);
  Rare<std::string> third("moved");
  second = std::move(third);
  EXPECT_EQ(*second, "moved");
}

TEST(StringMap, BehavesAsAnEmptyMapWithoutOne) {
  StringMap map;
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(map.size(), 0U);
  EXPECT_EQ(map.begin(), map.end());
  EXPECT_EQ(map.rbegin(), map.rend());
  EXPECT_EQ(map.find("k"), map.end());
  EXPECT_FALSE(map.contains("k"));
  EXPECT_EQ(map.erase("k"), 0U);
  EXPECT_EQ(map, StringMap({}));

  map["b"] = "2";
  EXPECT_TRUE(map.emplace("a", "1").second);
  EXPECT_FALSE(map.emplace("a", "7").second);
  EXPECT_FALSE(map.insert_or_assign("b", "3").second);
  EXPECT_EQ(map, (StringMap{{"a", "1"}, {"b", "3"}}));
  EXPECT_EQ(map.size(), 2U);
  EXPECT_EQ(map.count("a"), 1U);
  ASSERT_NE(map.find("b"), map.end());
  map.find("b")->second = "4";
  std::string forth, back;
  for (const auto& [key, value] : map) forth += key + value;
  for (auto entry = map.rbegin(); entry != map.rend(); ++entry) back += entry->first;
  EXPECT_EQ(forth, "a1b4");
  EXPECT_EQ(back, "ba");

  const StringMap copy = map;
  EXPECT_EQ(map.erase("a"), 1U);
  EXPECT_NE(map, copy);
  EXPECT_EQ(map.erase("b"), 1U);
  EXPECT_EQ(map, StringMap()) << "a map that became empty equals a new one";
  EXPECT_EQ(StringMap(), map);
  EXPECT_NE(map, copy);
  EXPECT_EQ(copy.size(), 2U);
  map = copy;
  map.clear();
  EXPECT_TRUE(map.empty());
}

}  // namespace
}  // namespace herald
