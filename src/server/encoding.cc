#include "server/encoding.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "api/event_list_writer.h"
#include "http/websocket.h"
#include "server/stored_event.h"

namespace herald::server {
namespace {

// How long an event usually is, so that the text of a list need not be moved often.
constexpr std::size_t kUsualEventBytes = 1024;

const Codec& CodecOf(MediaType media) {
  return media == MediaType::kProtobuf ? ProtobufCodec() : JsonCodec();
}

ListMeta MetaOf(const Event& event) {
  ListMeta metadata;
  metadata.resource_version = event.metadata.resource_version;
  return metadata;
}

// One event as a table or as metadata alone, without a newline. REQUIRES: not kPlain
std::string EncodeShaped(const Event& event, const Form& form, bool with_columns, WallTime now) {
  std::string out;
  if (form.shape == Shape::kPartialMetadata) {
    if (form.media == MediaType::kProtobuf) {
      AppendPartialMetadataProtobuf(event.metadata, form.meta_version, &out);
    } else {
      AppendPartialMetadataJson(event.metadata, form.meta_version, &out);
    }
    return out;
  }
  AppendTableJson(MakeEventTable(MetaOf(event), {&event, 1}, form.api, form.table_object,
                                 Timestamp(now), form.meta_version),
                  with_columns, &out);
  out.pop_back();
  return out;
}

// Values are all over the memory, and waiting for them was a third of what a long list took to
// encode: so those that follow the entry at `index` are on their way when it is its turn.
void PrefetchValues(const EventPage& page, std::size_t index) {
  constexpr std::size_t kAhead = 4;
  const std::size_t text = index + kAhead;
  const std::size_t header = index + 2 * kAhead;  // of the string, which says where its text is
  if (header >= page.entries.size()) return;
  __builtin_prefetch(page.entries[header].value.get());
  __builtin_prefetch(page.entries[text].value->data());
}

// Calls `add` with each event of the page.
template <typename Add>
Status ForEach(const EventPage& page, Add add) {
  for (const store::Entry& entry : page.entries) {
    Result<Event> event = DecodeStored(entry);
    if (!event) return event.error();
    add(*event);
  }
  return Status();
}

Result<std::string> EncodeTable(const EventPage& page, const Form& form, WallTime now) {
  std::vector<Event> events;
  events.reserve(page.entries.size());
  const Status status =
      ForEach(page, [&events](Event& event) { events.push_back(std::move(event)); });
  if (!status.ok()) return status;
  std::string out;
  if (form.shape == Shape::kTable) {
    AppendTableJson(MakeEventTable(page.metadata, events, form.api, form.table_object,
                                   Timestamp(now), form.meta_version),
                    true, &out);
  } else {
    AppendPartialMetadataListJson(page.metadata, events, form.meta_version, &out);
  }
  return out;
}

}  // namespace

std::string EncodeEvent(const Event& event, const Form& form, WallTime now) {
  std::string out;
  if (form.shape == Shape::kPlain) {
    CodecOf(form.media).AppendEvent(event, form.api, &out);
    return out;
  }
  out = EncodeShaped(event, form, true, now);
  if (form.media != MediaType::kProtobuf) out += '\n';
  return out;
}

Result<std::string> EncodeEventPage(const EventPage& page, const Form& form, WallTime now) {
  std::string out;
  const bool protobuf = form.media == MediaType::kProtobuf;
  if (form.shape != Shape::kPlain) {
    if (!protobuf) return EncodeTable(page, form, now);
    PartialMetadataListProtobufWriter writer(page.metadata, form.meta_version, &out);
    const Status status = ForEach(page, [&](Event& event) { writer.Add(event.metadata); });
    if (!status.ok()) return status;
    writer.Finish();
    return out;
  }
  if (protobuf) {
    out.reserve(page.entries.size() * kUsualEventBytes);
    ProtobufEventListWriter writer(page.metadata, form.api, &out);
    const Status status = ForEach(page, [&](Event& event) { writer.Add(event); });
    if (!status.ok()) return status;
    writer.Finish();
    return out;
  }
  const Status status = EncodeEventPage(page, form, SIZE_MAX,
                                        [&out](std::string all, bool) { out = std::move(all); });
  if (!status.ok()) return status;
  return out;
}

Status EncodeEventPage(const EventPage& page, const Form& form, std::size_t piece_bytes,
                       const TakePiece& take) {
  const std::size_t usual =
      std::min(page.entries.size() * kUsualEventBytes, piece_bytes) + kUsualEventBytes;
  std::string piece;
  piece.reserve(usual);
  JsonEventListWriter writer(page.metadata, form.api, &piece);
  for (std::size_t i = 0; i < page.entries.size(); ++i) {
    const store::Entry& entry = page.entries[i];
    PrefetchValues(page, i);
    if (!writer.AddStored(*entry.value, ToResourceVersion(entry.revision))) {
      const Result<Event> event = DecodeStored(entry);
      if (!event) return event.error();
      writer.Add(*event);
    }
    if (piece.size() < piece_bytes) continue;
    take(std::exchange(piece, {}), false);
    piece.reserve(usual);
  }
  writer.Finish();
  take(std::move(piece), true);
  return Status();
}

std::string EncodeFrame(WatchType type, const Event& event, const Form& form, bool with_columns,
                        WallTime now) {
  std::string out;
  if (form.shape == Shape::kPlain) {
    CodecOf(form.media).AppendWatchFrame(type, event, form.api, &out);
    return Framed(std::move(out), form);
  }
  Form shown = form;
  // A bookmark is nothing but its metadata, so that comes along in any case.
  if (type == WatchType::kBookmark && form.table_object == TableObject::kNone) {
    shown.table_object = TableObject::kMetadata;
  }
  const std::string object = EncodeShaped(event, shown, with_columns, now);
  if (form.media == MediaType::kProtobuf) {
    AppendProtobufFrame(WatchTypeName(type), object, &out);
  } else {
    AppendJsonFrame(WatchTypeName(type), object, &out);
  }
  return Framed(std::move(out), form);
}

std::string EncodeErrorFrame(const Status& status, const Form& form) {
  std::string out;
  CodecOf(form.media).AppendWatchError(status, &out);
  return Framed(std::move(out), form);
}

std::string Framed(std::string frame, const Form& form) {
  if (!form.websocket) return frame;
  constexpr std::size_t kLengthBytes = 4;  // before each frame of protobuf
  const bool binary = form.media == MediaType::kProtobuf;
  std::string message;
  http::AppendWebSocketFrame(binary ? http::WebSocketOpcode::kBinary : http::WebSocketOpcode::kText,
                             std::string_view(frame).substr(binary ? kLengthBytes : 0), &message);
  return message;
}

}  // namespace herald::server
