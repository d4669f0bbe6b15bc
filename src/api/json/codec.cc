#include "api/json/codec.h"

#include <utility>

#include "api/fields.h"
#include "api/json/decoder.h"
#include "api/json/encoder.h"
#include "api/json/reader.h"
#include "api/json/writer.h"
#include "api/reuse.h"
#include "api/type_meta.h"
#include "api/watch_type.h"
#include "herald/api/codec.h"

namespace herald {
namespace {

template <typename T>
void WriteObject(const T& object, std::string_view kind, std::string_view api_version, EventApi api,
                 JsonWriter* writer) {
  WithApi(api, [&](auto constant) {
    const std::size_t opened = writer->OpenObject();
    writer->Ensure(64);
    writer->Put(",\"kind\":\"");
    writer->Put(kind);
    writer->Put("\",\"apiVersion\":\"");
    writer->Put(api_version);
    writer->Put('"');
    JsonEncoder<constant()>(writer).Members(object);
    writer->CloseObject(opened);
  });
}

void WriteEvent(const Event& event, EventApi api, JsonWriter* writer) {
  WriteObject(event, "Event", ApiVersionName(api), api, writer);
}

void WriteStatus(const Status& status, JsonWriter* writer) {
  WriteObject(ToWire(status), "Status", "v1", EventApi::kCoreV1, writer);
}

// The result of decoding a document, apart from its content.
struct DecodeResult {
  TypeMeta type;
  std::string unreadable;  // the error if it is not JSON or its kind is invalid
  std::string wrong;       // the error if its content does not fit the type
};

// Decodes a whole document over the values of *object.
template <typename T>
DecodeResult ReadDocument(std::string_view json, EventApi api,
                          std::vector<std::string>* field_errors, T* object) {
  JsonReader reader(json);
  JsonDecodeErrors errors(field_errors);
  DecodeResult result;
  WithApi(api, [&](auto constant) {
    JsonDecoder<constant()>(&reader, &errors).Document(object, &result.type);
  });
  const std::string& unreadable = reader.ok() ? errors.type_meta_error() : reader.error();
  if (!unreadable.empty()) {
    result.unreadable = "couldn't get version/kind; json parse error: " + unreadable;
  } else {
    result.wrong = errors.error();
  }
  return result;
}

// The error of a server if the document is not a valid `kind` of `api`.
Status CheckDocument(const DecodeResult& result, std::string_view kind, std::string_view json,
                     EventApi api) {
  if (!result.unreadable.empty()) return Unrecognized(result.unreadable, kind, json);
  if (Status type = CheckType(result.type, kind, api, json); !type.ok()) return type;
  return result.wrong.empty() ? Status() : CannotBeHandled(kind, result.wrong);
}

// Decodes as a server decodes the body of a request for `kind`.
template <typename T>
Status ReadObject(std::string_view kind, std::string_view json, EventApi api,
                  std::vector<std::string>* field_errors, T* object) {
  if (std::is_same_v<T, Event> && json.size() > kMaxRequestBytes) return TooLarge();
  const DecodeResult result = ReadDocument(json, api, field_errors, object);
  Status status = CheckDocument(result, kind, json, api);
  if (!status.ok() && field_errors != nullptr) field_errors->clear();
  return status;
}

template <typename T>
Result<T> DecodeAs(std::string_view kind, std::string_view json, EventApi api,
                   std::vector<std::string>* field_errors) {
  Result<T> object(std::in_place);
  Status status = ReadObject(kind, json, api, field_errors, &*object);
  if (!status.ok()) object = std::move(status);
  return object;  // the only return, so that the event is not moved
}

class JsonCodecImpl final : public Codec {
 public:
  std::string_view media_type() const override { return "application/json"; }

  void AppendEvent(const Event& event, EventApi api, std::string* out) const override {
    JsonWriter writer;
    WriteEvent(event, api, &writer);
    writer.Raw("\n");
    out->append(writer.text());
  }

  void AppendEventList(const EventList& list, EventApi api, std::string* out) const override {
    JsonWriter writer;
    WriteObject(list, "EventList", ApiVersionName(api), api, &writer);
    writer.Raw("\n");
    out->append(writer.text());
  }

  void AppendStatus(const Status& status, std::string* out) const override {
    JsonWriter writer;
    WriteStatus(status, &writer);
    writer.Raw("\n");
    out->append(writer.text());
  }

  void AppendWatchFrame(WatchType type, const Event& object, EventApi api,
                        std::string* out) const override {
    AppendFrame(type, out, [&](JsonWriter* writer) { WriteEvent(object, api, writer); });
  }

  void AppendWatchError(const Status& status, std::string* out) const override {
    AppendFrame(WatchType::kError, out, [&](JsonWriter* writer) { WriteStatus(status, writer); });
  }

  Result<Event> DecodeEvent(std::string_view data, EventApi api,
                            std::vector<std::string>* field_errors) const override {
    return DecodeAs<Event>("Event", data, api, field_errors);
  }

  Result<EventList> DecodeEventList(std::string_view data, EventApi api) const override {
    return DecodeAs<EventList>("EventList", data, api, nullptr);
  }

  std::optional<Status> DecodeStatus(std::string_view data) const override {
    WireStatus wire;
    const DecodeResult result = ReadDocument(data, EventApi::kCoreV1, nullptr, &wire);
    if (!result.unreadable.empty() || !result.wrong.empty()) return std::nullopt;
    if (!IsStatus(result.type)) return std::nullopt;
    return FromWire(std::move(wire));
  }

  Result<std::optional<Frame>> NextFrame(std::string_view buffer) const override {
    // Each frame of Kubernetes ends with a newline and has none inside. Finding it is much cheaper
    // than finding the end of the object.
    const std::size_t end = buffer.find('\n');
    if (std::min(end, buffer.size()) > kMaxFrameBytes) return FrameTooLarge();
    if (end == std::string_view::npos) return std::optional<Frame>();
    return std::optional<Frame>({.payload = buffer.substr(0, end), .consumed = end + 1});
  }

  Status DecodeWatchFrame(std::string_view payload, EventApi api, WatchEvent* out) const override {
    JsonReader reader(payload);
    std::string type_name;
    std::string_view object;
    if (reader.Peek() == JsonReader::Type::kObject) {
      for (bool more = reader.BeginObject(); more; more = reader.NextMember()) {
        const std::string_view key = reader.ReadKey();
        if (key == "type" && reader.Peek() == JsonReader::Type::kString) {
          reader.ReadString(&type_name);
        } else if (key == "object") {
          object = reader.SkipValue();
        } else {
          reader.SkipValue();
        }
      }
    } else {
      reader.SkipValue();
    }
    if (!reader.Finish()) {
      return Status(StatusReason::kBadRequest, "unable to decode watch event: " + reader.error());
    }
    return ReadWatchEvent(
        *this, type_name, object,
        [&](Event* event) {
          EmptyForReuse(event);
          return ReadObject("Event", object, api, nullptr, event);
        },
        out);
  }

 private:
  template <typename WriteObject>
  static void AppendFrame(WatchType type, std::string* out, WriteObject&& write_object) {
    JsonWriter writer;
    writer.Raw("{\"type\":\"");
    writer.Raw(WatchTypeName(type));
    writer.Raw("\",\"object\":");
    write_object(&writer);
    writer.Raw("}\n");
    out->append(writer.text());
  }
};

}  // namespace

const Codec& JsonCodec() {
  // Never destroyed, so it can be used during static destruction.
  static const Codec& codec = *new JsonCodecImpl();
  return codec;
}

void AppendEventJson(const Event& event, EventApi api, std::string* out) {
  JsonWriter writer;
  WriteEvent(event, api, &writer);
  out->append(writer.text());
}

void AppendObjectMetaJson(const ObjectMeta& metadata, std::string* out) {
  JsonWriter writer;
  JsonEncoder<EventApi::kCoreV1>(&writer).Value(metadata);
  out->append(writer.text());
}

void AppendObjectReferenceJson(const ObjectReference& reference, std::string* out) {
  JsonWriter writer;
  JsonEncoder<EventApi::kCoreV1>(&writer).Value(reference);
  out->append(writer.text());
}

Status ReadEventJson(std::string_view json, EventApi api, Event* event,
                     std::vector<std::string>* field_errors) {
  DecodeResult result = ReadDocument(json, api, field_errors, event);
  std::string& why = result.unreadable.empty() ? result.wrong : result.unreadable;
  return why.empty() ? Status() : Status(StatusReason::kBadRequest, std::move(why));
}

bool MergeEventJson(std::string_view patch, EventApi api, Event* event) {
  JsonReader reader(patch);
  if (reader.Peek() != JsonReader::Type::kObject) return false;
  std::vector<std::string> field_errors;
  JsonDecodeErrors errors(&field_errors);
  WithApi(api, [&](auto constant) {
    // With a null type_meta, kind and apiVersion count as unknown members.
    JsonDecoder<constant(), JsonMode::kMerge>(&reader, &errors).Document(event, nullptr);
  });
  return reader.ok() && errors.error().empty() && field_errors.empty();
}

}  // namespace herald
