#include "api/indexed_fields.h"

#include <cstdint>

#include "api/protobuf/layout.h"
#include "api/protobuf/reader.h"

namespace herald {
namespace {

// Field numbers of core/v1's Event and of its parts (fields.h).
constexpr int kMetadata = 1;
constexpr int kCreationTimestamp = 8;
constexpr int kInvolvedObject = 2;
constexpr int kReason = 3;
constexpr int kFirstTimestamp = 6;
constexpr int kLastTimestamp = 7;
constexpr int kType = 9;
constexpr int kEventTime = 10;
constexpr int kSeries = 11;
constexpr int kLastObservedTime = 2;

struct Times {
  Timestamp first;
  Timestamp last;
  Timestamp event;
  Timestamp observed;
};

Timestamp Latest(const Times& times) {
  for (const Timestamp& time : {times.observed, times.last, times.event, times.first}) {
    if (!time.is_zero()) return time;
  }
  return {};
}

// Decodes a metav1.Timestamp. Nanoseconds that are out of range become 0.
Timestamp ReadTime(std::string_view bytes) {
  if (bytes.empty()) return {};
  ProtobufReader reader(bytes);
  std::int64_t seconds = 0;
  std::int64_t nanos = 0;
  while (reader.NextField("Timestamp")) {
    if (reader.wire_type() != WireType::kVarint) {
      reader.SkipField();
    } else {
      (reader.field() == 1 ? seconds : nanos) = static_cast<std::int64_t>(reader.Varint());
    }
  }
  if (!reader.ok() || nanos < 0 || nanos >= 1'000'000'000) nanos = 0;
  return {seconds, static_cast<std::int32_t>(nanos)};
}

void ReadReference(std::string_view bytes, IndexedFields* fields) {
  ProtobufReader reader(bytes);
  while (reader.NextField("ObjectReference")) {
    if (reader.wire_type() != WireType::kBytes) {
      reader.SkipField();
      continue;
    }
    const std::string_view text = reader.Bytes();
    switch (reader.field()) {
      case 1:
        fields->kind = text;
        break;
      case 2:
        fields->namespace_ = text;
        break;
      case 3:
        fields->name = text;
        break;
      case 4:
        fields->uid = text;
        break;
      default:
        break;
    }
  }
}

// Decodes the field `field` of a message, which is a time.
Timestamp ReadTimeOf(std::string_view bytes, std::string_view message, int field) {
  Timestamp time;
  ProtobufReader reader(bytes);
  while (reader.NextField(message)) {
    if (reader.field() == field && reader.wire_type() == WireType::kBytes) {
      time = ReadTime(reader.Bytes());
    } else {
      reader.SkipField();
    }
  }
  return time;
}

bool ReadEvent(std::string_view bytes, IndexedFields* fields) {
  Times times;
  ProtobufReader reader(bytes);
  while (reader.NextField("Event")) {
    if (reader.wire_type() != WireType::kBytes) {
      reader.SkipField();
      continue;
    }
    const std::string_view value = reader.Bytes();
    switch (reader.field()) {
      case kMetadata:
        fields->creation = ReadTimeOf(value, "ObjectMeta", kCreationTimestamp);
        break;
      case kInvolvedObject:
        ReadReference(value, fields);
        break;
      case kReason:
        fields->reason = value;
        break;
      case kFirstTimestamp:
        times.first = ReadTime(value);
        break;
      case kLastTimestamp:
        times.last = ReadTime(value);
        break;
      case kType:
        fields->type = value;
        break;
      case kEventTime:
        times.event = ReadTime(value);
        break;
      case kSeries:
        times.observed = ReadTimeOf(value, "EventSeries", kLastObservedTime);
        break;
      default:
        break;
    }
  }
  fields->last_occurrence = Latest(times);
  return reader.ok();
}

}  // namespace

Timestamp LastOccurrence(const Event& event) {
  return Latest({event.first_timestamp, event.last_timestamp, event.event_time,
                 event.series ? Timestamp(event.series->last_observed_time) : Timestamp()});
}

IndexedFields IndexedFieldsOf(const Event& event) {
  return {.kind = event.involved_object.kind,
          .namespace_ = event.involved_object.namespace_,
          .name = event.involved_object.name,
          .uid = event.involved_object.uid,
          .reason = event.reason,
          .type = event.type,
          .last_occurrence = LastOccurrence(event),
          .creation = event.metadata.creation_timestamp};
}

bool ReadIndexedFields(std::string_view protobuf, IndexedFields* fields) {
  if (!protobuf.starts_with(kProtobufMagic)) return false;
  ProtobufReader reader(protobuf.substr(kProtobufMagic.size()));
  while (reader.NextField("Unknown")) {
    if (reader.field() == 2 && reader.wire_type() == WireType::kBytes) {
      return ReadEvent(reader.Bytes(), fields);
    }
    reader.SkipField();
  }
  return false;
}

}  // namespace herald
