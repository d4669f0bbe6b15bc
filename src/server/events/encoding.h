#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "api/json/event_list_writer.h"
#include "herald/api/codec.h"
#include "herald/api/event.h"
#include "herald/api/table.h"
#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "server/request/negotiation.h"
#include "store/store.h"

namespace herald::server {

// How events are encoded for one client. An ordinary value. Equal forms produce equal bytes, so
// watchers of the same form share them.
struct Form {
  EventApi api = EventApi::kCoreV1;
  MediaType media = MediaType::kJson;
  Shape shape = Shape::kPlain;
  MetaVersion meta_version = MetaVersion::kV1;
  TableObject table_object = TableObject::kMetadata;
  bool websocket = false;  // of a watch: each frame is a WebSocket message

  bool operator==(const Form&) const = default;
};

// For YAML, all of these return JSON, which Exchange converts.

// One event as a complete response. Ages in tables are relative to `now`.
std::string EncodeEvent(const Event& event, const Form& form, WallTime now);

using ListWriter = std::variant<JsonEventListWriter, JsonTableWriter, JsonPartialMetadataListWriter,
                                ProtobufEventListWriter, ProtobufPartialMetadataListWriter>;

// A ListEncoder writes a list in three parts: the head, the items and the tail. The items may be
// written in any number of calls, and before the head.
//
// Thread-confined.
class ListEncoder {
 public:
  // Ages in tables are relative to `now`.
  ListEncoder(const Form& form, WallTime now);

  // Whether the head contains the length of the items, so that they must be encoded first.
  bool needs_length() const { return form_.media == MediaType::kProtobuf; }

  // `items_bytes` is used only if needs_length().
  void AppendHead(const ListMeta& metadata, std::size_t items_bytes, std::string* out) const;
  // An error if an entry cannot be decoded as an event.
  Status AppendItems(std::span<const store::Entry> entries, std::string* out);
  void AppendTail(const ListMeta& metadata, std::string* out) const;
  // The next item is the first one again.
  void Rewind();

 private:
  const Form form_;
  const WallTime now_;
  ListWriter writer_;
};

// One frame of a watch. Only the first frame of a table has its columns.
// REQUIRES: type != kError; form.media is not YAML
std::string EncodeFrame(WatchType type, const Event& event, const Form& form, bool with_columns,
                        WallTime now);
std::string EncodeErrorFrame(const Status& status, const Form& form);

// The frame as it is sent: unchanged, or as a WebSocket message. That is a text message for JSON,
// and has no length prefix.
std::string Framed(std::string frame, const Form& form);

}  // namespace herald::server
