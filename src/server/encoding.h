#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "herald/api/codec.h"
#include "herald/api/event.h"
#include "herald/api/table.h"
#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "server/event_list.h"
#include "server/negotiation.h"

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
// An error where one of the entries is no event.
Result<std::string> EncodeEventPage(const EventPage& page, const Form& form, WallTime now);
// The same in pieces of at least `piece_bytes`, but for the last. REQUIRES: form is of plain JSON
using TakePiece = std::function<void(std::string piece, bool last)>;
Status EncodeEventPage(const EventPage& page, const Form& form, std::size_t piece_bytes,
                       const TakePiece& take);

// One frame of a watch. Only the first frame with a table tells its columns.
// REQUIRES: type != kError; form.media is not YAML
std::string EncodeFrame(WatchType type, const Event& event, const Form& form, bool with_columns,
                        WallTime now);
std::string EncodeErrorFrame(const Status& status, const Form& form);

// A frame as it travels: as it is, or as a message of a WebSocket, which is text where the
// media type is and needs nobody to say how long it is.
std::string Framed(std::string frame, const Form& form);

}  // namespace herald::server
