#include "herald/api/codec.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/fields.h"
#include "api/list_growth.h"
#include "api/protobuf/reader.h"
#include "api/protobuf/writer.h"
#include "api/reuse.h"
#include "api/type_meta.h"
#include "api/watch_type.h"
#include "base/bytes/copy_bytes.h"

namespace herald {
namespace {

// Every Kubernetes object in protobuf begins with these four bytes. What follows is
// a runtime.Unknown: the type, the object itself, and two fields nobody uses.
constexpr std::string_view kMagic("k8s\0", 4);

// metav1.Timestamp, the message behind Time and MicroTime.
constexpr int kSecondsField = 1;
constexpr int kNanosField = 2;

// A map travels as a list of such entries, metav1.FieldsV1 as such a message.
constexpr int kMapKeyField = 1;
constexpr int kMapValueField = 2;
constexpr int kRawField = 1;

// The positions in T's table from the lowest field number to the highest.
template <typename T, EventApi kApi, std::size_t... kIndex>
constexpr auto FieldOrder(std::index_sequence<kIndex...>) {
  const std::array<int, sizeof...(kIndex)> numbers = {
      std::get<kIndex>(Schema<T, kApi>::kFields).number...};
  std::array<std::size_t, sizeof...(kIndex)> order = {kIndex...};
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return numbers[a] < numbers[b]; });
  return order;
}

template <EventApi kApi>
class ProtobufEncoder {
 public:
  explicit ProtobufEncoder(ProtobufWriter* writer) : w_(*writer) {}

  // The fields of a message, by number; the last one is written first.
  template <typename T>
  void Message(const T& object) {
    MessageOf(object, std::make_index_sequence<kFieldCount<T, kApi>>());
  }

 private:
  template <typename T, std::size_t... kIndex>
  void MessageOf(const T& object, std::index_sequence<kIndex...> indexes) {
    static constexpr auto kOrder = FieldOrder<T, kApi>(indexes);
    (FieldOf<kOrder[kOrder.size() - 1 - kIndex]>(object), ...);
  }

  template <std::size_t kIndex, typename T>
  void FieldOf(const T& object) {
    constexpr auto& kField = std::get<kIndex>(Schema<T, kApi>::kFields);
    Value(kField.number, object.*kField.member);
  }

  void Value(int number, const std::string& text) { w_.BytesField(number, text); }
  // Negative numbers take ten bytes: protobuf extends their sign.
  void Value(int number, std::int32_t value) {
    w_.VarintField(number, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
  }
  void Value(int number, std::int64_t value) {
    w_.VarintField(number, static_cast<std::uint64_t>(value));
  }
  void Value(int number, bool value) { w_.VarintField(number, value ? 1 : 0); }

  void Value(int number, const Time& time) { Moment(number, time, 0); }
  void Value(int number, const MicroTime& time) {
    Moment(number, time, time.nanos() / 1000 * 1000);
  }
  void Moment(int number, const Timestamp& time, std::int32_t nanos) {
    const std::size_t before = w_.size();
    if (!time.is_zero()) {
      Value(kNanosField, nanos);
      Value(kSecondsField, time.seconds());
    }
    w_.EndMessage(number, before);
  }

  template <typename T>
    requires requires { Schema<T, kApi>::kGoName; }
  void Value(int number, const T& object) {
    const std::size_t before = w_.size();
    Message(object);
    w_.EndMessage(number, before);
  }

  template <typename T>
    requires kMayBeAbsent<T>
  void Value(int number, const T& value) {
    if (value) Value(number, *value);
  }
  // The one optional string of the tables: raw JSON in a message of its own.
  void Value(int number, const std::optional<std::string>& raw) {
    if (!raw) return;
    const std::size_t before = w_.size();
    if (!raw->empty()) w_.BytesField(kRawField, *raw);
    w_.EndMessage(number, before);
  }

  void Value(int number, const StringMap& map) {
    for (auto entry = map.rbegin(); entry != map.rend(); ++entry) {
      const std::size_t before = w_.size();
      w_.BytesField(kMapValueField, entry->second);
      w_.BytesField(kMapKeyField, entry->first);
      w_.EndMessage(number, before);
    }
  }

  template <typename T>
  void Value(int number, const std::vector<T>& list) {
    for (auto element = list.rbegin(); element != list.rend(); ++element) Value(number, *element);
  }

  ProtobufWriter& w_;
};

// Reads one message over our types. A message given twice is merged, as protobuf
// demands, by reading it into what is there already.
template <EventApi kApi>
class ProtobufDecoder {
 public:
  // False, with *error set, where the bytes are no such message.
  template <typename T>
  static bool Message(std::string_view bytes, T* object, std::string* error) {
    return MessageOf<Before::kPart>(bytes, object, error,
                                    std::make_index_sequence<kFieldCount<T, kApi>>());
  }

  // The same over an object that another message has left there. It is as if that had been
  // empty, but its texts lend their memory.
  template <typename T>
  static bool MessageOver(std::string_view bytes, T* object, std::string* error) {
    return MessageOf<Before::kOther>(bytes, object, error,
                                     std::make_index_sequence<kFieldCount<T, kApi>>());
  }

 private:
  // What an object holds before a message is read into it.
  enum class Before : std::uint8_t {
    kPart,   // nothing, or what the message itself has said before
    kOther,  // what is of no concern: each field is read or emptied when its turn has come
  };

  template <Before kBefore, typename T, std::size_t... kIndex>
  static bool MessageOf(std::string_view bytes, T* object, std::string* error,
                        std::index_sequence<kIndex...> indexes) {
    using Reader = void (*)(ProtobufReader*, T*);
    // By field number; null where there is none.
    static constexpr auto kReaders = [] {
      constexpr int kLast = std::max({std::get<kIndex>(Schema<T, kApi>::kFields).number...});
      std::array<Reader, kLast + 1> readers{};
      ((readers[std::get<kIndex>(Schema<T, kApi>::kFields).number] = &FieldOf<kIndex, T>), ...);
      return readers;
    }();
    static constexpr auto kOrder = FieldOrder<T, kApi>(indexes);
    ProtobufReader reader(bytes);
    // Kubernetes writes fields in the order of their numbers, so most messages end here.
    (ReadIfNext<kBefore, kOrder[kIndex]>(&reader, object), ...);
    while (reader.NextField(Schema<T, kApi>::kGoName)) {
      const auto number = static_cast<std::size_t>(reader.field());
      if (number < kReaders.size() && kReaders[number] != nullptr) {
        kReaders[number](&reader, object);
      } else {
        reader.SkipField();
      }
    }
    if (!reader.ok()) *error = reader.error();
    return reader.ok();
  }

  template <Before kBefore, std::size_t kIndex, typename T>
  static void ReadIfNext(ProtobufReader* reader, T* object) {
    constexpr auto& kField = std::get<kIndex>(Schema<T, kApi>::kFields);
    auto* const member = &(object->*kField.member);
    const bool is_next = reader->SkipExpectedTag(kField.number, kWireType<kIndex, T>);
    if constexpr (kBefore == Before::kPart) {
      if (is_next) Value(reader, member);
    } else if (is_next) {
      ValueOver(reader, member);
    } else {
      EmptyForReuse(member);
    }
  }

  template <std::size_t kIndex, typename T>
  static void FieldOf(ProtobufReader* reader, T* object) {
    constexpr auto& kField = std::get<kIndex>(Schema<T, kApi>::kFields);
    if (reader->Expect(kWireType<kIndex, T>, kField.go)) Value(reader, &(object->*kField.member));
  }

  template <typename T>
  static constexpr bool IsNumber(const T*) {
    return std::is_integral_v<T>;
  }
  template <typename T>
    requires kMayBeAbsent<T>
  static constexpr bool IsNumber(const T*) {
    return std::is_integral_v<typename T::value_type>;
  }
  template <std::size_t kIndex, typename T>
  static constexpr WireType kWireType = [] {
    using Field =
        std::tuple_element_t<kIndex, std::remove_cvref_t<decltype(Schema<T, kApi>::kFields)>>;
    const bool is_number = IsNumber(static_cast<const typename Field::MemberType*>(nullptr));
    return is_number ? WireType::kVarint : WireType::kBytes;
  }();

  static void Value(ProtobufReader* reader, std::string* out) {
    const std::string_view text = reader->Bytes();
    // Kubernetes writes empty texts as well: a third of those in an event.
    if (text.empty()) {
      out->clear();
    } else {
      KeepText(text, out);
    }
  }

  // ValueOver() is to Value() what MessageOver() is to Message().
  template <typename T>
  static void ValueOver(ProtobufReader* reader, T* out) {
    EmptyForReuse(out);
    Value(reader, out);
  }
  static void ValueOver(ProtobufReader* reader, std::string* out) {
    if (out->capacity() > kMaxKeptText) EmptyForReuse(out);
    OverwriteText(reader->Bytes(), out);
  }
  template <typename T>
    requires requires { Schema<T, kApi>::kGoName; }
  static void ValueOver(ProtobufReader* reader, T* out) {
    const std::string_view bytes = reader->Bytes();
    std::string error;
    if (reader->ok() && !MessageOver(bytes, out, &error)) reader->Fail(std::move(error));
  }

  template <typename T>
    requires std::is_integral_v<T>
  static void Value(ProtobufReader* reader, T* out) {
    *out = static_cast<T>(reader->Varint());
  }

  template <typename T>
    requires std::is_base_of_v<Timestamp, T>
  static void Value(ProtobufReader* reader, T* out) {
    ProtobufReader moment(reader->Bytes());
    if (!reader->ok()) return;
    *out = T();
    bool any = false;
    std::int64_t seconds = 0;
    std::int32_t nanos = 0;
    while (moment.NextField("Timestamp")) {
      any = true;
      if (moment.field() == kSecondsField) {
        if (moment.Expect(WireType::kVarint, "Seconds")) Value(&moment, &seconds);
      } else if (moment.field() == kNanosField) {
        if (moment.Expect(WireType::kVarint, "Nanos")) Value(&moment, &nanos);
      } else {
        moment.SkipField();
      }
    }
    if (!moment.ok()) {
      reader->Fail(moment.error());
    } else if (any) {
      *out = Normalized<T>(seconds, std::is_same_v<T, MicroTime> ? nanos / 1000 * 1000 : 0);
    }
  }

  // Whoever wrote the nanoseconds may have put anything there; Go carries what does
  // not fit over to the seconds, and lets those wrap around.
  template <typename T>
  static T Normalized(std::int64_t seconds, std::int32_t nanos) {
    constexpr std::int32_t kSecond = 1'000'000'000;
    std::int32_t carry = nanos / kSecond;
    nanos %= kSecond;
    if (nanos < 0) {
      nanos += kSecond;
      --carry;
    }
    const auto sum = static_cast<std::uint64_t>(seconds) +
                     static_cast<std::uint64_t>(static_cast<std::int64_t>(carry));
    return T(static_cast<std::int64_t>(sum), nanos);
  }

  template <typename T>
    requires requires { Schema<T, kApi>::kGoName; }
  static void Value(ProtobufReader* reader, T* out) {
    const std::string_view bytes = reader->Bytes();
    std::string error;
    if (reader->ok() && !Message(bytes, out, &error)) reader->Fail(std::move(error));
  }

  template <typename T>
    requires kMayBeAbsent<T>
  static void Value(ProtobufReader* reader, T* out) {
    if (!out->has_value()) out->emplace();
    Value(reader, &**out);
  }
  static void Value(ProtobufReader* reader, std::optional<std::string>* out) {
    ProtobufReader raw(reader->Bytes());
    if (!out->has_value()) out->emplace();
    while (raw.NextField("FieldsV1")) {
      if (raw.field() == kRawField) {
        if (raw.Expect(WireType::kBytes, "Raw")) Value(&raw, &**out);
      } else {
        raw.SkipField();
      }
    }
    if (!raw.ok()) reader->Fail(raw.error());
  }

  static void Value(ProtobufReader* reader, StringMap* out) {
    ProtobufReader entry(reader->Bytes());
    std::string key;
    std::string value;
    // Upstream takes the wire types of the two for granted.
    while (entry.NextEntryField()) {
      if (entry.field() == kMapKeyField) {
        Value(&entry, &key);
      } else if (entry.field() == kMapValueField) {
        Value(&entry, &value);
      } else {
        entry.SkipField();
      }
    }
    if (!entry.ok()) reader->Fail(entry.error());
    if (reader->ok()) out->insert_or_assign(std::move(key), std::move(value));
  }

  template <typename T>
  static void Value(ProtobufReader* reader, std::vector<T>* out) {
    if (NeedsRoom(*out)) {
      // Counted once: a list of empty messages may grow a hundred times, and each count reads it
      // to its end.
      const std::size_t counted = out->size() > kFirstGuess ? 0 : CountInRow(*reader);
      GrowFor(reader->read(), reader->left(), counted, out);
    }
    Value(reader, &out->emplace_back());
  }

  // How many fields follow each other that are as the one whose tag NextField() has just read.
  static std::size_t CountInRow(ProtobufReader reader) {
    const int number = reader.field();
    std::size_t count = 0;
    do {
      reader.SkipField();
      ++count;
    } while (reader.NextField("") && reader.field() == number);
    return count;
  }
};

// Wraps an object as runtime.Unknown; `write_object` puts the object itself.
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
  writer->Raw(kMagic);
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

// What an envelope holds; the object is still encoded.
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

// An error tells why in upstream's words.
Result<Envelope> OpenEnvelope(std::string_view data) {
  const auto refuse = [](std::string why) {
    return Status(StatusReason::kBadRequest, std::move(why));
  };
  if (data.empty()) return refuse("empty data");
  if (!data.starts_with(kMagic)) {
    return refuse(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]");
  }
  if (data.size() == kMagic.size()) return refuse("empty body");

  Envelope envelope;
  ProtobufReader reader(data.substr(kMagic.size()));
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
  if (!reader.ok()) return refuse(reader.error());
  // A version that cannot be read counts as none here, though not in JSON.
  std::string& version = envelope.type.api_version;
  if (std::count(version.begin(), version.end(), '/') > 1) version.clear();
  return envelope;
}

// What is in an envelope if that is a `kind` of `api`, decoded by `decode`: bool(decoder of `api`,
// std::string_view object, std::string* error).
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
  Status refusal =
      ReadObject(kind, data, api, [&](auto decoder, std::string_view bytes, std::string* error) {
        return decoder.Message(bytes, &*object, error);
      });
  if (!refusal.ok()) object = std::move(refusal);
  return object;  // the only return, so that the event is never moved
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

  // Protobuf has no strict reading: unknown fields are how it grows.
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
  // A frame's length stands before it, highest byte first.
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
  // Never destroyed, so it is safe in static destruction.
  static const Codec& codec = *new ProtobufCodecImpl();
  return codec;
}

}  // namespace herald
