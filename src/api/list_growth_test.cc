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

TEST(ListGrowth, LeavesLittleRoomUnused) {
  for (const std::size_t count : {0U, 1U, 15U, 16U, 17U, 64U, 65U, 500U, 2049U, 5000U}) {
    const EventList list = ListOf(count);
    for (const Codec* codec : {&JsonCodec(), &ProtobufCodec()}) {
      SCOPED_TRACE(std::to_string(count) + " as " + std::string(codec->media_type()));
      std::string text;
      codec->AppendEventList(list, EventApi::kCoreV1, &text);
      const auto read = codec->DecodeEventList(text, EventApi::kCoreV1);
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

TEST(ListGrowth, BelievesNoPromises) {
  // Sixteen elements in 32 bytes, and a megabyte to come: half a million, one should think.
  std::vector<int> list(16);
  list.shrink_to_fit();
  GrowFor(32, 1 << 20, &list);
  EXPECT_EQ(list.capacity(), kMaxGrowth * 16);
  // And the other way round: the rest looks like one more, over and over.
  list.assign(1000, 0);
  list.shrink_to_fit();
  GrowFor(1 << 20, 1, &list);
  EXPECT_EQ(list.capacity(), 1500U);
  // There is room.
  list.resize(1001);
  GrowFor(1 << 20, 1 << 20, &list);
  EXPECT_EQ(list.capacity(), 1500U);
}

}  // namespace
}  // namespace herald
