#include "api/json/event_list_writer.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "api/fields.h"
#include "api/json/encoder.h"
#include "api/json/stored_to_json.h"
#include "api/json/writer.h"
#include "api/protobuf/layout.h"
#include "api/protobuf/reader.h"
#include "herald/api/codec.h"

namespace herald {
namespace {

void AppendVarint(std::uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

// The tag and length of a field that is a string or a message.
void AppendFieldHead(int number, std::size_t bytes, std::string* out) {
  AppendVarint(
      static_cast<std::uint64_t>(number) << 3 | static_cast<std::uint64_t>(WireType::kBytes), out);
  AppendVarint(bytes, out);
}

void AppendField(int number, std::string_view bytes, std::string* out) {
  AppendFieldHead(number, bytes.size(), out);
  out->append(bytes);
}

// The parts of an envelope before and after the object.
void AppendEnvelopeHead(std::string_view api_version, std::string_view kind, std::size_t bytes,
                        std::string* out) {
  std::string type;
  AppendField(1, api_version, &type);
  AppendField(2, kind, &type);
  out->append(kProtobufMagic);
  AppendField(1, type, out);
  AppendFieldHead(2, bytes, out);
}
void AppendEnvelopeTail(std::string* out) {
  AppendField(3, {}, out);  // contentEncoding
  AppendField(4, {}, out);  // contentType
}

// Appends an object as runtime.Unknown, the envelope of every Kubernetes object in protobuf.
void AppendEnvelope(std::string_view api_version, std::string_view kind, std::string_view object,
                    std::string* out) {
  out->reserve(out->size() + object.size() + api_version.size() + kind.size() + 40);
  AppendEnvelopeHead(api_version, kind, object.size(), out);
  out->append(object);
  AppendEnvelopeTail(out);
}

// The first field with this number in a message that we encoded.
std::string_view FieldOf(std::string_view message, int number) {
  ProtobufReader reader(message);
  while (reader.NextField("message")) {
    if (reader.field() == number) return reader.Bytes();
    reader.SkipField();
  }
  return {};
}
std::string_view ObjectOf(std::string_view envelope) {
  return FieldOf(envelope.substr(kProtobufMagic.size()), 2);
}

// The encoded metadata of an event and of a list.
std::string EncodedMeta(const ObjectMeta& metadata) {
  std::string event;
  ProtobufCodec().AppendEvent({.metadata = metadata}, EventApi::kCoreV1, &event);
  return std::string(FieldOf(ObjectOf(event), 1));
}
std::string EncodedMeta(const ListMeta& metadata) {
  std::string list;
  ProtobufCodec().AppendEventList({.metadata = metadata}, EventApi::kCoreV1, &list);
  return std::string(FieldOf(ObjectOf(list), 1));
}

std::string_view MetaApiVersion(MetaVersion version) {
  return version == MetaVersion::kV1 ? "meta.k8s.io/v1" : "meta.k8s.io/v1beta1";
}

}  // namespace

void JsonEventListWriter::AppendHead(const ListMeta& metadata, std::string* out) const {
  JsonWriter writer;
  writer.Raw(R"({"kind":"EventList","apiVersion":")");
  writer.Raw(ApiVersionName(api_));
  writer.Raw(R"(","metadata":)");
  JsonEncoder<EventApi::kCoreV1>(&writer).Value(metadata);  // the same in both spellings
  writer.Raw(R"(,"items":[)");
  out->append(writer.text());
}

void JsonEventListWriter::Append(const Event& event, std::string* out) {
  JsonWriter writer;
  if (!std::exchange(first_, false)) writer.Raw(",");
  WithApi(api_, [&](auto constant) { JsonEncoder<constant()>(&writer).Value(event); });
  out->append(writer.text());
}

bool JsonEventListWriter::AppendStored(std::string_view stored, std::string_view resource_version,
                                       std::string* out) {
  JsonWriter writer;
  if (!first_) writer.Raw(",");
  if (!WriteStoredEventJson(stored, api_, resource_version, &writer)) return false;
  first_ = false;
  out->append(writer.text());
  return true;
}

void JsonEventListWriter::AppendTail(std::string* out) { out->append("]}\n"); }

void ProtobufEventListWriter::AppendHead(const ListMeta& metadata, std::size_t items_bytes,
                                         std::string* out) const {
  std::string own;
  AppendField(1, EncodedMeta(metadata), &own);
  AppendEnvelopeHead(ApiVersionName(api_), "EventList", own.size() + items_bytes, out);
  out->append(own);
}

void ProtobufEventListWriter::Append(const Event& event, std::string* out) {
  scratch_.clear();
  ProtobufCodec().AppendEvent(event, api_, &scratch_);
  AppendField(2, ObjectOf(scratch_), out);
}

void ProtobufEventListWriter::AppendTail(const ListMeta& /*metadata*/, std::string* out) {
  AppendEnvelopeTail(out);
}

void AppendPartialMetadataProtobuf(const ObjectMeta& metadata, MetaVersion version,
                                   std::string* out) {
  std::string object;
  AppendField(1, EncodedMeta(metadata), &object);
  AppendEnvelope(MetaApiVersion(version), "PartialObjectMetadata", object, out);
}

void ProtobufPartialMetadataListWriter::AppendHead(const ListMeta& metadata,
                                                   std::size_t items_bytes,
                                                   std::string* out) const {
  const bool first = version_ == MetaVersion::kV1;
  std::string own;
  AppendField(first ? 1 : 2, EncodedMeta(metadata), &own);
  AppendEnvelopeHead(MetaApiVersion(version_), "PartialObjectMetadataList",
                     own.size() + items_bytes, out);
  if (first) out->append(own);
}

void ProtobufPartialMetadataListWriter::Append(const Event& event, std::string* out) const {
  std::string item;
  AppendField(1, EncodedMeta(event.metadata), &item);
  AppendField(version_ == MetaVersion::kV1 ? 2 : 1, item, out);
}

void ProtobufPartialMetadataListWriter::AppendTail(const ListMeta& metadata,
                                                   std::string* out) const {
  if (version_ != MetaVersion::kV1) AppendField(2, EncodedMeta(metadata), out);
  AppendEnvelopeTail(out);
}

void AppendJsonFrame(std::string_view type, std::string_view object, std::string* out) {
  out->reserve(out->size() + object.size() + 40);
  out->append(R"({"type":")").append(type).append(R"(","object":)").append(object).append("}\n");
}

void AppendProtobufFrame(std::string_view type, std::string_view object, std::string* out) {
  std::string frame;
  AppendField(1, type, &frame);
  std::string raw;  // a runtime.RawExtension around the object
  AppendField(1, object, &raw);
  AppendField(2, raw, &frame);
  for (std::size_t shift = 32; shift > 0; shift -= 8) {
    out->push_back(static_cast<char>(frame.size() >> (shift - 8)));
  }
  out->append(frame);
}

}  // namespace herald
