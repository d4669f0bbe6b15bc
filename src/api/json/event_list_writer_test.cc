#include "api/json/event_list_writer.h"

#include <gtest/gtest.h>

#include <string>

#include "herald/api/codec.h"

namespace herald {
namespace {

EventList SomeEvents(int count) {
  EventList list;
  list.metadata.resource_version = "42";
  list.metadata.continue_ = "next";
  list.metadata.remaining_item_count = 7;
  for (int i = 0; i < count; ++i) {
    Event event;
    event.metadata.name = "e" + std::to_string(i);
    event.metadata.labels["k"] = "<v>";
    event.message = std::string(static_cast<std::size_t>(i) * 100, 'x');
    event.event_time = MicroTime(1'700'000'000, 5000);
    if (i % 2 == 0) event.series = EventSeries{.count = i, .last_observed_time = {}};
    list.items.push_back(event);
  }
  return list;
}

TEST(EventListWriterTest, WritesTheSameAsTheCodecs) {
  for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
    for (const int count : {0, 1, 2, 50}) {
      SCOPED_TRACE(count);
      const EventList list = SomeEvents(count);
      std::string expected;
      std::string written;
      JsonCodec().AppendEventList(list, api, &expected);
      JsonEventListWriter json(api);
      json.AppendHead(list.metadata, &written);
      for (const Event& event : list.items) json.Append(event, &written);
      JsonEventListWriter::AppendTail(&written);
      EXPECT_EQ(written, expected);

      expected.clear();
      written.clear();
      ProtobufCodec().AppendEventList(list, api, &expected);
      ProtobufEventListWriter protobuf(api);
      std::string items;
      for (const Event& event : list.items) protobuf.Append(event, &items);
      protobuf.AppendHead(list.metadata, items.size(), &written);
      written += items;
      ProtobufEventListWriter::AppendTail(list.metadata, &written);
      EXPECT_EQ(written, expected);
    }
  }
}

TEST(EventListWriterTest, WritesTheSameTableAsAppendTableJson) {
  const Timestamp now(1'700'000'100, 0);
  for (const MetaVersion version : {MetaVersion::kV1, MetaVersion::kV1Beta1}) {
    for (const TableObject object :
         {TableObject::kNone, TableObject::kMetadata, TableObject::kObject}) {
      for (const int count : {0, 1, 3}) {
        const EventList list = SomeEvents(count);
        std::string expected;
        AppendTableJson(
            MakeEventTable(list.metadata, list.items, EventApi::kEventsV1, object, now, version),
            true, &expected);
        std::string written;
        JsonTableWriter writer(EventApi::kEventsV1, object, version, now);
        writer.AppendHead(list.metadata, &written);
        for (const Event& event : list.items) writer.Append(event, &written);
        JsonTableWriter::AppendTail(&written);
        EXPECT_EQ(written, expected);
      }
    }
  }
}

TEST(EventListWriterTest, AppendsStoredEventsLikeDecodedOnes) {
  for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
    EventList list = SomeEvents(6);
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      list.items[i].metadata.resource_version = "9";
      if (i % 3 != 0) list.items[i].metadata.labels.clear();
    }
    std::string expected;
    std::string written;
    JsonCodec().AppendEventList(list, api, &expected);
    JsonEventListWriter json(api);
    json.AppendHead(list.metadata, &written);
    int stored_ones = 0;
    for (const Event& event : list.items) {
      std::string stored;
      ProtobufCodec().AppendEvent(event, EventApi::kCoreV1, &stored);
      if (json.AppendStored(stored, "9", &written)) {
        ++stored_ones;
      } else {
        json.Append(event, &written);
      }
    }
    JsonEventListWriter::AppendTail(&written);
    EXPECT_EQ(written, expected);
    EXPECT_EQ(stored_ones, 4);
  }
}

TEST(EventListWriterTest, WritesTheSameFramesAsTheCodecs) {
  const Event event = SomeEvents(1).items[0];
  for (const Codec* codec : {&JsonCodec(), &ProtobufCodec()}) {
    std::string expected;
    codec->AppendWatchFrame(WatchType::kModified, event, EventApi::kCoreV1, &expected);
    std::string object;
    codec->AppendEvent(event, EventApi::kCoreV1, &object);
    std::string frame;
    if (codec == &JsonCodec()) {
      object.pop_back();
      AppendJsonFrame("MODIFIED", object, &frame);
    } else {
      AppendProtobufFrame("MODIFIED", object, &frame);
    }
    EXPECT_EQ(frame, expected);
  }
}

// Expected bytes: k8s\0, the type, and field 1 with the metadata.
TEST(EventListWriterTest, EncodesPartialMetadataInProtobuf) {
  ObjectMeta metadata;
  metadata.name = "a";
  std::string event;
  ProtobufCodec().AppendEvent({.metadata = metadata}, EventApi::kCoreV1, &event);
  std::string partial;
  AppendPartialMetadataProtobuf(metadata, MetaVersion::kV1, &partial);
  const std::string type = "meta.k8s.io/v1";
  ASSERT_TRUE(partial.starts_with(std::string("k8s\0\x0a", 5)));
  EXPECT_NE(partial.find(type), std::string::npos);
  EXPECT_NE(partial.find("PartialObjectMetadata"), std::string::npos);
  // An event begins with the tag, length and message of its metadata.
  const std::size_t in_event = event.find(std::string("\x0a\x01") + "a");
  const std::size_t in_partial = partial.find(std::string("\x0a\x01") + "a");
  ASSERT_NE(in_event, std::string::npos);
  ASSERT_NE(in_partial, std::string::npos);
  const auto length = static_cast<std::size_t>(event[in_event - 1]);
  EXPECT_EQ(static_cast<std::size_t>(partial[in_partial - 1]), length);
  EXPECT_EQ(partial.substr(in_partial, length), event.substr(in_event, length));
}

TEST(EventListWriterTest, TheBetaListHasSwappedFieldNumbers) {
  ObjectMeta metadata;
  metadata.name = "a";
  ListMeta list;
  list.resource_version = "7";
  const auto written = [&](MetaVersion version) {
    std::string out;
    const ProtobufPartialMetadataListWriter writer(version);
    std::string items;
    writer.Append({.metadata = metadata}, &items);
    writer.AppendHead(list, items.size(), &out);
    out += items;
    writer.AppendTail(list, &out);
    return out;
  };
  // The list's metadata is a message with the resource version.
  const std::string own = std::string("\x0a\x00\x12\x01", 4) + "7";
  const std::string v1 = written(MetaVersion::kV1);
  const std::string beta = written(MetaVersion::kV1Beta1);
  const std::size_t in_v1 = v1.find(own);
  const std::size_t in_beta = beta.find(own);
  ASSERT_NE(in_v1, std::string::npos);
  ASSERT_NE(in_beta, std::string::npos);
  EXPECT_EQ(v1[in_v1 - 2], 0x0a);      // field 1
  EXPECT_EQ(beta[in_beta - 2], 0x12);  // field 2
}

}  // namespace
}  // namespace herald
