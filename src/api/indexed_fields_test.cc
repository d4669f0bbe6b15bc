#include "api/indexed_fields.h"

#include <gtest/gtest.h>

#include <string>

#include "herald/api/codec.h"

namespace herald {
namespace {

Event FullEvent() {
  Event event;
  event.metadata.name = "a.1";
  event.metadata.annotations["long"] = std::string(300, 'x');
  event.involved_object = {.kind = "Pod",
                           .namespace_ = "shop",
                           .name = "web",
                           .uid = "u1",
                           .api_version = "v1",
                           .resource_version = "5",
                           .field_path = "spec"};
  event.reason = "Started";
  event.type = "Warning";
  event.related = ObjectReference{.kind = "Node", .name = "n"};
  return event;
}

void ExpectSameFields(const Event& event) {
  std::string bytes;
  ProtobufCodec().AppendEvent(event, EventApi::kCoreV1, &bytes);
  IndexedFields read;
  ASSERT_TRUE(ReadIndexedFields(bytes, &read));
  // The encoded times have a lower resolution.
  const auto decoded = ProtobufCodec().DecodeEvent(bytes, EventApi::kCoreV1);
  ASSERT_TRUE(decoded);
  const IndexedFields expected = IndexedFieldsOf(*decoded);
  EXPECT_EQ(read.kind, expected.kind);
  EXPECT_EQ(read.namespace_, expected.namespace_);
  EXPECT_EQ(read.name, expected.name);
  EXPECT_EQ(read.uid, expected.uid);
  EXPECT_EQ(read.reason, expected.reason);
  EXPECT_EQ(read.type, expected.type);
  EXPECT_EQ(read.last_occurrence, expected.last_occurrence);
}

TEST(IndexedFieldsTest, ReadsTheSameFieldsFromProtobufAsFromTheEvent) {
  Event event = FullEvent();
  ExpectSameFields(event);
  ExpectSameFields(Event());
  event.first_timestamp = Time(1'700'000'000, 5);
  ExpectSameFields(event);
  event.event_time = MicroTime(1'700'000'001, 123'456'789);
  ExpectSameFields(event);
  event.last_timestamp = Time(-5, 0);
  ExpectSameFields(event);
  event.series = EventSeries{.count = 3, .last_observed_time = MicroTime(1'700'000'009, 1000)};
  ExpectSameFields(event);
  event.series->last_observed_time = MicroTime();
  ExpectSameFields(event);
}

TEST(IndexedFieldsTest, LastOccurrenceUsesTheMostSpecificTime) {
  Event event;
  EXPECT_TRUE(LastOccurrence(event).is_zero());
  event.first_timestamp = Time(1, 0);
  EXPECT_EQ(LastOccurrence(event), Timestamp(1, 0));
  event.event_time = MicroTime(2, 0);
  EXPECT_EQ(LastOccurrence(event), Timestamp(2, 0));
  event.last_timestamp = Time(3, 0);
  EXPECT_EQ(LastOccurrence(event), Timestamp(3, 0));
  event.series = EventSeries{.count = 2, .last_observed_time = MicroTime(4, 0)};
  EXPECT_EQ(LastOccurrence(event), Timestamp(4, 0));
}

TEST(IndexedFieldsTest, RejectsInvalidProtobuf) {
  IndexedFields fields;
  EXPECT_FALSE(ReadIndexedFields("", &fields));
  EXPECT_FALSE(ReadIndexedFields("{}", &fields));
  EXPECT_FALSE(ReadIndexedFields(std::string("k8s\0", 4), &fields));
  std::string bytes;
  ProtobufCodec().AppendEvent(FullEvent(), EventApi::kCoreV1, &bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    IndexedFields some;
    ReadIndexedFields(bytes.substr(0, size), &some);  // must not read beyond its end
  }
}

}  // namespace
}  // namespace herald
