#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "herald/api/event.h"
#include "herald/api/table.h"
#include "herald/base/export.h"

namespace herald {

// Writers of list responses, item by item: ten thousand decoded events would take more memory than
// the encoded list, and the whole list more than a slow reader should cost.
//
//   JsonEventListWriter writer(api);
//   writer.AppendHead(metadata, &out);
//   for (...) writer.Append(event, &out);
//   writer.AppendTail(&out);
//
// The parts may be appended to different strings, and the head may be written after the items. The
// result is that of Codec::AppendEventList(). All writers are thread-confined.
class HERALD_EXPORT JsonEventListWriter {
 public:
  explicit JsonEventListWriter(EventApi api) : api_(api) {}
  void AppendHead(const ListMeta& metadata, std::string* out) const;
  void Append(const Event& event, std::string* out);
  // Appends an event that is stored as core/v1's protobuf, without decoding it. Returns false, and
  // appends nothing, for the few events that must be decoded.
  bool AppendStored(std::string_view stored, std::string_view resource_version, std::string* out);
  static void AppendTail(std::string* out);

 private:
  EventApi api_;
  bool first_ = true;
};

// The same for a table with one row per event, as AppendTableJson() writes it.
class HERALD_EXPORT JsonTableWriter {
 public:
  // Ages are relative to `now`.
  JsonTableWriter(EventApi api, TableObject object, MetaVersion version, Timestamp now)
      : api_(api), object_(object), version_(version), now_(now) {}
  void AppendHead(const ListMeta& metadata, std::string* out) const;
  void Append(const Event& event, std::string* out);
  static void AppendTail(std::string* out);

 private:
  EventApi api_;
  TableObject object_;
  MetaVersion version_;
  Timestamp now_;
  bool first_ = true;
};

// The same for a PartialObjectMetadataList.
class HERALD_EXPORT JsonPartialMetadataListWriter {
 public:
  explicit JsonPartialMetadataListWriter(MetaVersion version) : version_(version) {}
  void AppendHead(const ListMeta& metadata, std::string* out) const;
  void Append(const Event& event, std::string* out);
  static void AppendTail(std::string* out);

 private:
  MetaVersion version_;
  bool first_ = true;
};

// The same in protobuf, which begins with the length of the whole: AppendHead() needs the number of
// bytes that all calls of Append() together append.
class HERALD_EXPORT ProtobufEventListWriter {
 public:
  explicit ProtobufEventListWriter(EventApi api) : api_(api) {}
  void AppendHead(const ListMeta& metadata, std::size_t items_bytes, std::string* out) const;
  void Append(const Event& event, std::string* out);
  static void AppendTail(const ListMeta& metadata, std::string* out);

 private:
  EventApi api_;
  std::string scratch_;  // one event
};

// A PartialObjectMetadataList in protobuf. In v1beta1 the numbers of its two fields are swapped.
class HERALD_EXPORT ProtobufPartialMetadataListWriter {
 public:
  explicit ProtobufPartialMetadataListWriter(MetaVersion version) : version_(version) {}
  void AppendHead(const ListMeta& metadata, std::size_t items_bytes, std::string* out) const;
  void Append(const Event& event, std::string* out) const;
  void AppendTail(const ListMeta& metadata, std::string* out) const;

 private:
  MetaVersion version_;
};

// Appends a PartialObjectMetadata in protobuf with its envelope.
HERALD_EXPORT void AppendPartialMetadataProtobuf(const ObjectMeta& metadata, MetaVersion version,
                                                 std::string* out);

// Append a watch frame with an encoded object: JSON without a newline, or protobuf with its
// envelope.
HERALD_EXPORT void AppendJsonFrame(std::string_view type, std::string_view object,
                                   std::string* out);
HERALD_EXPORT void AppendProtobufFrame(std::string_view type, std::string_view object,
                                       std::string* out);

}  // namespace herald
