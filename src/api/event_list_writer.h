#pragma once

#include <string>
#include <string_view>

#include "herald/api/event.h"
#include "herald/api/table.h"
#include "herald/base/export.h"

namespace herald {

// The documents that a server answers lists with, written event by event: ten thousand
// decoded events at once would take more memory than the answer itself.
//
//   JsonEventListWriter writer(metadata, api, &out);
//   for (...) writer.Add(event);
//   writer.Finish();
//
// What comes out is what Codec::AppendEventList() writes. Thread-confined.
class HERALD_EXPORT JsonEventListWriter {
 public:
  JsonEventListWriter(const ListMeta& metadata, EventApi api, std::string* out);
  void Add(const Event& event);
  // The same of one that is stored as the protobuf of core/v1, without decoding it. False, and
  // nothing was added, for those that need it: any may, most do not.
  bool AddStored(std::string_view stored, std::string_view resource_version);
  void Finish();

 private:
  const EventApi api_;
  std::string* const out_;
  bool first_ = true;
};

// The same in protobuf, where the length stands first: *out gets all of it at the end.
class HERALD_EXPORT ProtobufEventListWriter {
 public:
  ProtobufEventListWriter(const ListMeta& metadata, EventApi api, std::string* out);
  void Add(const Event& event);
  void Finish();

 private:
  const EventApi api_;
  std::string* const out_;
  std::string list_;     // the list without its envelope
  std::string scratch_;  // one event
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

// A PartialObjectMetadataList. v1beta1 has the numbers of its two fields the other way
// round, in protobuf and for ever.
class HERALD_EXPORT PartialMetadataListProtobufWriter {
 public:
  PartialMetadataListProtobufWriter(const ListMeta& metadata, MetaVersion version,
                                    std::string* out);
  void Add(const ObjectMeta& metadata);
  void Finish();

 private:
  const MetaVersion version_;
  std::string* const out_;
  std::string metadata_;  // the list's own
  std::string items_;
};

}  // namespace herald
