#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "herald/api/event.h"
#include "herald/api/table.h"
#include "herald/base/export.h"

namespace herald {

// The documents that a server answers lists with, written item by item: ten thousand decoded
// events at once would take more memory than the answer itself, and the answer more than a slow
// reader should cost.
//
//   JsonEventListWriter writer(api);
//   writer.AppendHead(metadata, &out);
//   for (...) writer.Append(event, &out);
//   writer.AppendTail(&out);
//
// The parts may go to different strings, and the head may be made after the items. What comes out
// is what Codec::AppendEventList() writes. All are thread-confined.
class HERALD_EXPORT JsonEventListWriter {
 public:
  explicit JsonEventListWriter(EventApi api) : api_(api) {}
  void AppendHead(const ListMeta& metadata, std::string* out) const;
  void Append(const Event& event, std::string* out);
  // The same for an event that is stored as the protobuf of core/v1, without decoding it. False,
  // and nothing was added, for those that have to be decoded; most have not.
  bool AppendStored(std::string_view stored, std::string_view resource_version, std::string* out);
  static void AppendTail(std::string* out);

 private:
  EventApi api_;
  bool first_ = true;
};

// The same for a table with one row per event, as AppendTableJson() writes it.
class HERALD_EXPORT JsonTableWriter {
 public:
  // Ages are as seen at `now`.
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

// The same in protobuf, where the length of the whole stands first: the head must be told how
// many bytes all calls of Append() together add.
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

// A PartialObjectMetadataList in protobuf. v1beta1 has the numbers of its two fields the other
// way round, in protobuf and for ever.
class HERALD_EXPORT ProtobufPartialMetadataListWriter {
 public:
  explicit ProtobufPartialMetadataListWriter(MetaVersion version) : version_(version) {}
  void AppendHead(const ListMeta& metadata, std::size_t items_bytes, std::string* out) const;
  void Append(const Event& event, std::string* out) const;
  void AppendTail(const ListMeta& metadata, std::string* out) const;

 private:
  MetaVersion version_;
};

// PartialObjectMetadata in protobuf, in its envelope.
HERALD_EXPORT void AppendPartialMetadataProtobuf(const ObjectMeta& metadata, MetaVersion version,
                                                 std::string* out);

// A frame of a watch around an object that is encoded already: JSON without a newline,
// or protobuf in its envelope.
HERALD_EXPORT void AppendJsonFrame(std::string_view type, std::string_view object,
                                   std::string* out);
HERALD_EXPORT void AppendProtobufFrame(std::string_view type, std::string_view object,
                                       std::string* out);

}  // namespace herald
