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

// What events are to be made into for one client. An ordinary value; equal ones get equal
// bytes, which is why watchers can share them.
struct Form {
  EventApi api = EventApi::kCoreV1;
  MediaType media = MediaType::kJson;
  Shape shape = Shape::kPlain;
  MetaVersion meta_version = MetaVersion::kV1;
  TableObject table_object = TableObject::kMetadata;
  bool websocket = false;  // of frames of a watch: each is a message of a WebSocket

  bool operator==(const Form&) const = default;
};

// All of these yield JSON for YAML as well: whoever sends it turns the one into the other.

// One event as a whole answer; `now` is what ages in tables are counted from.
std::string EncodeEvent(const Event& event, const Form& form, WallTime now);

using ListWriter = std::variant<JsonEventListWriter, JsonTableWriter, JsonPartialMetadataListWriter,
                                ProtobufEventListWriter, ProtobufPartialMetadataListWriter>;

// A ListEncoder makes the document of a list out of three parts: the head, the items, which may
// come in any number of calls and before the head, and the tail.
//
// Thread-confined.
class ListEncoder {
 public:
  // `now` is what ages in tables are counted from.
  ListEncoder(const Form& form, WallTime now);

  // Whether the head tells how long the items are, so that these must be measured before.
  bool needs_length() const { return form_.media == MediaType::kProtobuf; }

  // `items_bytes` matters only where needs_length().
  void AppendHead(const ListMeta& metadata, std::size_t items_bytes, std::string* out) const;
  // An error where one of the entries is no event.
  Status AppendItems(std::span<const store::Entry> entries, std::string* out);
  void AppendTail(const ListMeta& metadata, std::string* out) const;
  // The next item is the first one again.
  void Rewind();

 private:
  const Form form_;
  const WallTime now_;
  ListWriter writer_;
};

// One frame of a watch. Only the first frame with a table tells its columns.
// REQUIRES: type != kError; form.media is not YAML
std::string EncodeFrame(WatchType type, const Event& event, const Form& form, bool with_columns,
                        WallTime now);
std::string EncodeErrorFrame(const Status& status, const Form& form);

// A frame as it travels: as it is, or as a message of a WebSocket, which is text where the
// media type is and needs nobody to say how long it is.
std::string Framed(std::string frame, const Form& form);

}  // namespace herald::server
