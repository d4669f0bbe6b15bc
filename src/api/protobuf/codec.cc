#include "herald/api/codec.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/fields.h"
#include "api/list_growth.h"
#include "api/protobuf/decoder.h"
#include "api/protobuf/encoder.h"
#include "api/protobuf/layout.h"
#include "api/protobuf/reader.h"
#include "api/protobuf/writer.h"
#include "api/type_meta.h"
#include "api/watch_type.h"

namespace herald {
namespace {

// Writes an object as runtime.Unknown; `write_object` writes the object itself.
template <typename WriteObject>
void PutEnvelope(std::string_view kind, std::string_view api_version, ProtobufWriter* writer,
                 WriteObject&& write_object) {
  writer->BytesField(4, "");  // contentType
  writer->BytesField(3, "");  // contentEncoding
  const std::size_t before_object = writer->size();
  write_object();
  writer->EndMessage(2, before_object);
  const std::size_t before_type = writer->size();
  writer->BytesField(2, kind);
  writer->BytesField(1, api_version);
  writer->EndMessage(1, before_type);
  writer->Raw(kProtobufMagic);
}

template <typename T>
void PutObject(const T& object, std::string_view kind, std::string_view api_version, EventApi api,
               ProtobufWriter* writer) {
  PutEnvelope(kind, api_version, writer, [&] {
    WithApi(api, [&](auto constant) { ProtobufEncoder<constant()>(writer).Message(object); });
  });
}

void PutEvent(const Event& event, EventApi api, ProtobufWriter* writer) {
  PutObject(event, "Event", ApiVersionName(api), api, writer);
}

void PutStatus(const Status& status, ProtobufWriter* writer) {
  PutObject(ToWire(status), "Status", "v1", EventApi::kCoreV1, writer);
}

// The content of an envelope. The object is still encoded.
struct Envelope {
  TypeMeta type;
  std::string_view object;
};

void ReadType(std::string_view bytes, TypeMeta* type, ProtobufReader* outer) {
  ProtobufReader reader(bytes);
  while (reader.NextField("TypeMeta")) {
    if (reader.field() == 1) {
      if (reader.Expect(WireType::kBytes, "APIVersion")) type->api_version = reader.Bytes();
    } else if (reader.field() == 2) {
      if (reader.Expect(WireType::kBytes, "Kind")) type->kind = reader.Bytes();
    } else {
      reader.SkipField();
    }
  }
  if (!reader.ok()) outer->Fail(reader.error());
}

// Errors have upstream's messages.
Result<Envelope> OpenEnvelope(std::string_view data) {
  const auto invalid = [](std::string why) {
    return Status(StatusReason::kBadRequest, std::move(why));
  };
  if (data.empty()) return invalid("empty data");
  if (!data.starts_with(kProtobufMagic)) {
    return invalid(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]");
  }
  if (data.size() == kProtobufMagic.size()) return invalid("empty body");

  Envelope envelope;
  ProtobufReader reader(data.substr(kProtobufMagic.size()));
  while (reader.NextField("Unknown")) {
    switch (reader.field()) {
      case 1:
        if (reader.Expect(WireType::kBytes, "TypeMeta")) {
          ReadType(reader.Bytes(), &envelope.type, &reader);
        }
        break;
      case 2:
        if (reader.Expect(WireType::kBytes, "Raw")) envelope.object = reader.Bytes();
        break;
      case 3:
        if (reader.Expect(WireType::kBytes, "ContentEncoding")) reader.Bytes();
        break;
      case 4:
        if (reader.Expect(WireType::kBytes, "ContentType")) reader.Bytes();
        break;
      default:
        reader.SkipField();
    }
  }
  if (!reader.ok()) return invalid(reader.error());
  // An invalid version counts as missing here, unlike in JSON.
  std::string& version = envelope.type.api_version;
  if (std::count(version.begin(), version.end(), '/') > 1) version.clear();
  return envelope;
}

// Checks that an envelope has a `kind` of `api` and decodes the object with `decode`: bool(decoder
// of `api`, std::string_view object, std::string* error).
template <typename Decode>
Status ReadObject(std::string_view kind, std::string_view data, EventApi api, Decode&& decode) {
  const Result<Envelope> envelope = OpenEnvelope(data);
  if (!envelope) return Unrecognized(envelope.error().message(), kind, data);
  if (Status type = CheckType(envelope->type, kind, api, data); !type.ok()) return type;
  std::string error;
  const bool ok = WithApi(api, [&](auto constant) {
    return decode(ProtobufDecoder<constant()>(), envelope->object, &error);
  });
  return ok ? Status() : CannotBeHandled(kind, error);
}

template <typename T>
Result<T> DecodeAs(std::string_view kind, std::string_view data, EventApi api) {
  Result<T> object(std::in_place);
  Status status =
      ReadObject(kind, data, api, [&](auto decoder, std::string_view bytes, std::string* error) {
        return decoder.Message(bytes, &*object, error);
      });
  if (!status.ok()) object = std::move(status);
  return object;  // the only return, so that the event is not moved
}

class ProtobufCodecImpl final : public Codec {
 public:
  std::string_view media_type() const override { return "application/vnd.kubernetes.protobuf"; }

  void AppendEvent(const Event& event, EventApi api, std::string* out) const override {
    ProtobufWriter writer;
    PutEvent(event, api, &writer);
    out->append(writer.bytes());
  }

  void AppendEventList(const EventList& list, EventApi api, std::string* out) const override {
    ProtobufWriter writer;
    PutObject(list, "EventList", ApiVersionName(api), api, &writer);
    out->append(writer.bytes());
  }

  void AppendStatus(const Status& status, std::string* out) const override {
    ProtobufWriter writer;
    PutStatus(status, &writer);
    out->append(writer.bytes());
  }

  void AppendWatchFrame(WatchType type, const Event& object, EventApi api,
                        std::string* out) const override {
    ProtobufWriter writer;
    AppendFrame(type, &writer, out, [&] { PutEvent(object, api, &writer); });
  }

  void AppendWatchError(const Status& status, std::string* out) const override {
    ProtobufWriter writer;
    AppendFrame(WatchType::kError, &writer, out, [&] { PutStatus(status, &writer); });
  }

  // Protobuf has no strict decoding: new versions add fields, which old decoders ignore.
  Result<Event> DecodeEvent(std::string_view data, EventApi api,
                            std::vector<std::string>*) const override {
    if (data.size() > kMaxRequestBytes) return TooLarge();
    return DecodeAs<Event>("Event", data, api);
  }

  Result<EventList> DecodeEventList(std::string_view data, EventApi api) const override {
    Result<EventList> list = DecodeAs<EventList>("EventList", data, api);
    if (list) DropSpareRoom(&list->items);
    return list;
  }

  std::optional<Status> DecodeStatus(std::string_view data) const override {
    const Result<Envelope> envelope = OpenEnvelope(data);
    if (!envelope || !IsStatus(envelope->type)) return std::nullopt;
    WireStatus wire;
    std::string error;
    if (!ProtobufDecoder<EventApi::kCoreV1>::Message(envelope->object, &wire, &error)) {
      return std::nullopt;
    }
    return FromWire(std::move(wire));
  }

  Result<std::optional<Frame>> NextFrame(std::string_view buffer) const override {
    if (buffer.size() < kLengthBytes) return std::optional<Frame>();
    std::size_t length = 0;
    for (std::size_t i = 0; i < kLengthBytes; ++i) {
      length = length << 8 | static_cast<unsigned char>(buffer[i]);
    }
    if (length > kMaxFrameBytes) return FrameTooLarge();
    if (buffer.size() - kLengthBytes < length) return std::optional<Frame>();
    return std::optional<Frame>(
        {.payload = buffer.substr(kLengthBytes, length), .consumed = kLengthBytes + length});
  }

  Status DecodeWatchFrame(std::string_view payload, EventApi api, WatchEvent* out) const override {
    std::string_view type_name;
    std::string_view object;
    ProtobufReader reader(payload);
    while (reader.NextField("WatchEvent")) {
      if (reader.field() == 1) {
        if (reader.Expect(WireType::kBytes, "Type")) type_name = reader.Bytes();
      } else if (reader.field() == 2) {
        if (reader.Expect(WireType::kBytes, "Object")) object = RawExtension(&reader);
      } else {
        reader.SkipField();
      }
    }
    if (!reader.ok()) {
      return Status(StatusReason::kBadRequest, "unable to decode watch event: " + reader.error());
    }
    return ReadWatchEvent(
        *this, type_name, object,
        [&](Event* event) {
          if (object.size() > kMaxRequestBytes) return TooLarge();
          return ReadObject("Event", object, api,
                            [&](auto decoder, std::string_view bytes, std::string* error) {
                              return decoder.MessageOver(bytes, event, error);
                            });
        },
        out);
  }

 private:
  // A frame begins with its length, highest byte first.
  static constexpr std::size_t kLengthBytes = 4;

  template <typename PutObject>
  static void AppendFrame(WatchType type, ProtobufWriter* writer, std::string* out,
                          PutObject&& put_object) {
    put_object();
    writer->EndMessage(kRawField, 0);  // a runtime.RawExtension around the object
    writer->EndMessage(2, 0);
    writer->BytesField(1, WatchTypeName(type));
    const std::size_t length = writer->size();
    for (std::size_t shift = 8 * kLengthBytes; shift > 0; shift -= 8) {
      out->push_back(static_cast<char>(length >> (shift - 8)));
    }
    out->append(writer->bytes());
  }

  static std::string_view RawExtension(ProtobufReader* outer) {
    std::string_view raw;
    ProtobufReader reader(outer->Bytes());
    while (reader.NextField("RawExtension")) {
      if (reader.field() == kRawField) {
        if (reader.Expect(WireType::kBytes, "Raw")) raw = reader.Bytes();
      } else {
        reader.SkipField();
      }
    }
    if (!reader.ok()) outer->Fail(reader.error());
    return raw;
  }
};

}  // namespace

const Codec& ProtobufCodec() {
  // Never destroyed, so it can be used during static destruction.
  static const Codec& codec = *new ProtobufCodecImpl();
  return codec;
}

}  // namespace herald
