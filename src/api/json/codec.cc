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

// What a document turned out to be, apart from its content.
struct Verdict {
  TypeMeta type;
  std::string unreadable;  // why it is no JSON, or why its kind could not be told
  std::string wrong;       // why its content is not what the type asks for
};

// Reads a whole document over what *object holds already.
template <typename T>
Verdict ReadDocument(std::string_view json, EventApi api, std::vector<std::string>* field_errors,
                     T* object) {
  JsonReader reader(json);
  JsonComplaints complaints(field_errors);
  Verdict verdict;
  WithApi(api, [&](auto constant) {
    JsonDecoder<constant()>(&reader, &complaints).Document(object, &verdict.type);
  });
  const std::string& unreadable = reader.ok() ? complaints.type_meta_error() : reader.error();
  if (!unreadable.empty()) {
    verdict.unreadable = "couldn't get version/kind; json parse error: " + unreadable;
  } else {
    verdict.wrong = complaints.error();
  }
  return verdict;
}

// Why a server would not take the document for a `kind` of `api`, if so.
Status Refusal(const Verdict& verdict, std::string_view kind, std::string_view json, EventApi api) {
  if (!verdict.unreadable.empty()) return Unrecognized(verdict.unreadable, kind, json);
  if (Status type = CheckType(verdict.type, kind, api, json); !type.ok()) return type;
  return verdict.wrong.empty() ? Status() : CannotBeHandled(kind, verdict.wrong);
}

// Reads as a server reads the body of a request for `kind`.
template <typename T>
Status ReadObject(std::string_view kind, std::string_view json, EventApi api,
                  std::vector<std::string>* field_errors, T* object) {
  if (std::is_same_v<T, Event> && json.size() > kMaxRequestBytes) return TooLarge();
  const Verdict verdict = ReadDocument(json, api, field_errors, object);
  Status refusal = Refusal(verdict, kind, json, api);
  if (!refusal.ok() && field_errors != nullptr) field_errors->clear();
  return refusal;
}

template <typename T>
Result<T> DecodeAs(std::string_view kind, std::string_view json, EventApi api,
                   std::vector<std::string>* field_errors) {
  Result<T> object(std::in_place);
  Status refusal = ReadObject(kind, json, api, field_errors, &*object);
  if (!refusal.ok()) object = std::move(refusal);
  return object;  // the only return, so that the event is never moved
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
    const Verdict verdict = ReadDocument(data, EventApi::kCoreV1, nullptr, &wire);
    if (!verdict.unreadable.empty() || !verdict.wrong.empty()) return std::nullopt;
    if (!IsStatus(verdict.type)) return std::nullopt;
    return FromWire(std::move(wire));
  }

  Result<std::optional<Frame>> NextFrame(std::string_view buffer) const override {
    // Kubernetes ends each frame with a newline and has none inside: that is enough,
    // and far cheaper than finding the end of the object.
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
  // Never destroyed, so it is safe in static destruction.
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
  Verdict verdict = ReadDocument(json, api, field_errors, event);
  std::string& why = verdict.unreadable.empty() ? verdict.wrong : verdict.unreadable;
  return why.empty() ? Status() : Status(StatusReason::kBadRequest, std::move(why));
}

bool MergeEventJson(std::string_view patch, EventApi api, Event* event) {
  JsonReader reader(patch);
  if (reader.Peek() != JsonReader::Type::kObject) return false;
  std::vector<std::string> field_errors;
  JsonComplaints complaints(&field_errors);
  WithApi(api, [&](auto constant) {
    // Without a place for kind and apiVersion they count as unknown.
    JsonDecoder<constant(), JsonMode::kMerge>(&reader, &complaints).Document(event, nullptr);
  });
  return reader.ok() && complaints.error().empty() && field_errors.empty();
}

}  // namespace herald
