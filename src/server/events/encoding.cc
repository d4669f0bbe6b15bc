#include "server/events/encoding.h"

#include <utility>

#include "http/server/websocket.h"
#include "server/events/stored_event.h"

namespace herald::server {
namespace {

// The usual size of an event, so that the buffer of a list is rarely reallocated.
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

// Prefetches the values after the entry at `index`. They are scattered over memory, and waiting for
// them took a third of the time to encode a long list.
void PrefetchValues(std::span<const store::Entry> entries, std::size_t index) {
  constexpr std::size_t kAhead = 4;
  const std::size_t text = index + kAhead;
  const std::size_t header =
      index + 2 * kAhead;  // of the string object, which has the address of its bytes
  if (header >= entries.size()) return;
  __builtin_prefetch(entries[header].value.get());
  __builtin_prefetch(entries[text].value->data());
}

ListWriter MakeListWriter(const Form& form, WallTime now) {
  const bool protobuf = form.media == MediaType::kProtobuf;
  switch (form.shape) {
    case Shape::kTable:
      return JsonTableWriter(form.api, form.table_object, form.meta_version, Timestamp(now));
    case Shape::kPartialMetadata:
      if (protobuf) return ProtobufPartialMetadataListWriter(form.meta_version);
      return JsonPartialMetadataListWriter(form.meta_version);
    case Shape::kPlain:
      break;
  }
  if (protobuf) return ProtobufEventListWriter(form.api);
  return JsonEventListWriter(form.api);
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

ListEncoder::ListEncoder(const Form& form, WallTime now)
    : form_(form), now_(now), writer_(MakeListWriter(form, now)) {}

void ListEncoder::Rewind() { writer_ = MakeListWriter(form_, now_); }

void ListEncoder::AppendHead(const ListMeta& metadata, std::size_t items_bytes,
                             std::string* out) const {
  std::visit(
      [&](const auto& writer) {
        if constexpr (requires { writer.AppendHead(metadata, items_bytes, out); }) {
          writer.AppendHead(metadata, items_bytes, out);
        } else {
          writer.AppendHead(metadata, out);
        }
      },
      writer_);
}

Status ListEncoder::AppendItems(std::span<const store::Entry> entries, std::string* out) {
  out->reserve(out->size() + entries.size() * kUsualEventBytes);
  auto* const json = std::get_if<JsonEventListWriter>(&writer_);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const store::Entry& entry = entries[i];
    PrefetchValues(entries, i);
    if (json != nullptr &&
        json->AppendStored(*entry.value, ToResourceVersion(entry.revision), out)) {
      continue;
    }
    const Result<Event> event = DecodeStored(entry);
    if (!event) return event.error();
    std::visit([&](auto& writer) { writer.Append(*event, out); }, writer_);
  }
  return Status();
}

void ListEncoder::AppendTail(const ListMeta& metadata, std::string* out) const {
  std::visit(
      [&](const auto& writer) {
        if constexpr (requires { writer.AppendTail(metadata, out); }) {
          writer.AppendTail(metadata, out);
        } else {
          writer.AppendTail(out);
        }
      },
      writer_);
}

std::string EncodeFrame(WatchType type, const Event& event, const Form& form, bool with_columns,
                        WallTime now) {
  std::string out;
  if (form.shape == Shape::kPlain) {
    CodecOf(form.media).AppendWatchFrame(type, event, form.api, &out);
    return Framed(std::move(out), form);
  }
  Form shown = form;
  // A bookmark has only metadata, so the metadata is always included.
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
