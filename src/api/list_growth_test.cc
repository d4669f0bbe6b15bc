#include "api/list_growth.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "herald/api/codec.h"

namespace herald {
namespace {

EventList ListOf(std::size_t count) {
  EventList list;
  list.items.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    list.items[i].metadata.name = "web-" + std::to_string(i);
    list.items[i].message = std::string(i % 50, 'x');
  }
  return list;
}

// Encodes the list as a server does and decodes it.
Result<EventList> Reread(const EventList& list, const Codec& codec) {
  std::string text;
  codec.AppendEventList(list, EventApi::kCoreV1, &text);
  return codec.DecodeEventList(text, EventApi::kCoreV1);
}

TEST(ListGrowth, LeavesLittleCapacityUnused) {
  for (const std::size_t count : {0U, 1U, 15U, 16U, 17U, 64U, 65U, 500U, 2049U, 5000U}) {
    const EventList list = ListOf(count);
    for (const Codec* codec : {&JsonCodec(), &ProtobufCodec()}) {
      SCOPED_TRACE(std::to_string(count) + " as " + std::string(codec->media_type()));
      const auto read = Reread(list, *codec);
      ASSERT_TRUE(read) << read.error().ToString();
      EXPECT_EQ(read->items, list.items);
      if (count > kFirstGuess) {
        EXPECT_LE(read->items.capacity(), count + count / 8);
      } else {
        EXPECT_LE(read->items.capacity(), kFirstGuess);
      }
    }
  }
}

TEST(ListGrowth, CountsTheElementsOfAListThatAServerWrote) {
  // It does not rely on the size of the first events: the following ones are longer, or shorter.
  for (const bool longer : {true, false}) {
    EventList list = ListOf(3000);
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      list.items[i].message = std::string((i > 100) == longer ? 900 : 300, '{');
      list.items[i].metadata.managed_fields.resize(2);
    }
    for (const Codec* codec : {&JsonCodec(), &ProtobufCodec()}) {
      const auto read = Reread(list, *codec);
      ASSERT_TRUE(read);
      EXPECT_EQ(read->items.size(), 3000U);
      EXPECT_EQ(read->items.capacity(), 3000U) << codec->media_type();
    }
  }
}

TEST(ListGrowth, DecodesListsWithWhiteSpaceAndAnotherOrder) {
  std::string text = R"({"items":[)";
  for (int i = 0; i < 3000; ++i) {
    text += i == 0 ? "" : ", ";
    text += R"({ "kind": "Event", "message": "x", "metadata": { "name": ")" + std::to_string(i) +
            R"(" } })";
  }
  text += "]}";
  const auto read = JsonCodec().DecodeEventList(text, EventApi::kCoreV1);
  ASSERT_TRUE(read) << read.error().ToString();
  ASSERT_EQ(read->items.size(), 3000U);
  EXPECT_EQ(read->items.back().metadata.name, "2999");
  EXPECT_LE(read->items.capacity(), 3000U + 3000U / 8);
}

TEST(ListGrowth, CountsObjectsByTheirFirstField) {
  EXPECT_EQ(CountObjects(""), 0U);
  EXPECT_EQ(CountObjects("{"), 0U);
  EXPECT_EQ(CountObjects(R"({"metadata":{}}]})"), 0U) << "nothing follows, so the count is unknown";
  EXPECT_EQ(CountObjects(R"({"metadata":{}},{"metadata":{}}]})"), 2U);
  EXPECT_EQ(CountObjects(R"({"a":[{},{}],"b":{"metadata":{}}},{"metadata":{}},{"metadata")"), 2U);
  EXPECT_EQ(CountObjects(R"({"x":1},{"x":1}]})"), 0U);
}

TEST(ListGrowth, LimitsGrowthWhenEstimatesAndCountsAreWrong) {
  // Sixteen elements in 32 bytes, and a megabyte left: an estimate of half a million.
  std::vector<int> list(16);
  list.shrink_to_fit();
  ASSERT_TRUE(NeedsRoom(list));
  GrowFor(32, 1 << 20, 0, &list);
  EXPECT_EQ(list.capacity(), kMaxGrowth * 16);
  EXPECT_FALSE(NeedsRoom(list));
  // The opposite: each estimate is one more element.
  list.assign(1000, 0);
  list.shrink_to_fit();
  GrowFor(1 << 20, 1, 0, &list);
  EXPECT_EQ(list.capacity(), 1500U);
  // A count that is too high for the input's size is limited, and so is one that is too low.
  list.shrink_to_fit();
  GrowFor(1 << 20, 1000, 1 << 30, &list);
  EXPECT_EQ(list.capacity(), 1000U + kMaxRoomPerByte * 1000 / sizeof(int));
  list.shrink_to_fit();
  GrowFor(1 << 20, 1 << 20, 1, &list);
  EXPECT_EQ(list.capacity(), 1125U);
}

}  // namespace
}  // namespace herald
