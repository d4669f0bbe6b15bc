// Runs every operation on the bytes of a request with inputs of three sizes, each four times the
// previous one, so that `run` can compare the number of instructions. Clients choose these bytes,
// and a single request with quadratic cost can block the server.
//
//   complexity count         one dump of callgrind's counters per case and size
//   complexity time [BYTES]  CPU time of each case on one input of BYTES (3 MiB, the largest body)
//   complexity list          the names of the cases
//
// A case is one operation on one structure. To add one, add a row to a table below: a structure
// to kBodies or kRejectedBodies, on which all operations on bodies run, or a pair to kOthers.

#include <valgrind/callgrind.h>

#include <cstddef>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/delete_options.h"
#include "api/json/event_list_writer.h"
#include "api/json/indent.h"
#include "api/patch/patch_text.h"
#include "api/yaml/yaml.h"
#include "herald/api/codec.h"
#include "herald/api/patch.h"
#include "herald/api/selector.h"
#include "herald/api/table.h"
#include "herald/api/validation.h"
#include "http/message.h"
#include "http/url.h"

namespace herald {
namespace {

// ---------------------------------------------------------------- inputs

// About `bytes` bytes: `element(i)` for i = 0, 1, ... between the two ends, with commas.
template <typename Element>
std::string List(std::size_t bytes, std::string_view begin, std::string_view end, Element element) {
  std::string text(begin);
  for (std::size_t i = 0; text.size() + end.size() < bytes; ++i) {
    if (i > 0) text += ',';
    text += element(i);
  }
  return text.append(end);
}

// Six digits, so that all elements are equally long and their order is that of the numbers.
std::string Digits(std::size_t i) { return std::to_string(1'000'000 + i).substr(1); }
std::string DigitsDown(std::size_t i) { return Digits(999'999 - i); }
// The same digits in reverse: consecutive numbers are far apart in the order of the strings.
std::string DigitsMixed(std::size_t i) {
  const std::string digits = Digits(i);
  return {digits.rbegin(), digits.rend()};
}

std::string Repeated(std::string_view text, std::size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += text;
  return out;
}

// `depth` nested containers; half of the bytes open them.
std::string Nested(std::size_t bytes, std::string_view open, std::string_view inner,
                   std::string_view close, std::size_t max_depth = 9'000) {
  const std::size_t depth = std::min(bytes / (open.size() + close.size()), max_depth);
  return Repeated(open, depth * open.size()).append(inner) + Repeated(close, depth * close.size());
}

constexpr std::string_view kEventStart =
    R"({"kind":"Event","apiVersion":"v1","metadata":{"name":"web.1","namespace":"default")";
constexpr std::string_view kEventEnd =
    R"(},"involvedObject":{"kind":"Pod","namespace":"default","name":"web"},"reason":"BackOff",)"
    R"("message":"m","source":{"component":"kubelet"},"type":"Warning","count":1})";

// An event with more members in its metadata.
std::string WithMetadata(const std::string& members) {
  return std::string(kEventStart) + "," + members + std::string(kEventEnd);
}
// An event with more members at its end.
std::string WithMembers(const std::string& members) {
  std::string text = std::string(kEventStart) + std::string(kEventEnd);
  text.pop_back();
  return text + "," + members + "}";
}

template <typename Element>
std::string MetadataMap(std::string_view name, std::size_t bytes, Element element) {
  return WithMetadata(List(bytes, "\"" + std::string(name) + "\":{", "}", element));
}
template <typename Element>
std::string MetadataList(std::string_view name, std::size_t bytes, Element element) {
  return WithMetadata(List(bytes, "\"" + std::string(name) + "\":[", "]", element));
}

std::string Owner(const std::string& uid, std::string_view more = "") {
  return R"({"apiVersion":"v1","kind":"Pod","name":"a","uid":")" + uid + "\"" + std::string(more) +
         "}";
}
std::string Pair(const std::string& key, std::string_view value = "\"v\"") {
  return "\"" + key + "\":" + std::string(value);
}

// ---------------------------------------------------------------- operations

using Work = std::function<void()>;

constexpr EventApi kApi = EventApi::kCoreV1;

std::shared_ptr<const Event> Decoded(const std::string& json) {
  Result<Event> event = JsonCodec().DecodeEvent(json, kApi);
  return std::make_shared<const Event>(event ? *std::move(event) : Event());
}

Event SmallEvent() { return *Decoded(std::string(kEventStart) + std::string(kEventEnd)); }

Work DecodeJson(std::string json) {
  return [json = std::move(json)] {
    std::vector<std::string> field_errors;
    (void)JsonCodec().DecodeEvent(json, kApi, &field_errors);
  };
}

Work DecodeProtobuf(std::string json) {
  std::string bytes;
  ProtobufCodec().AppendEvent(*Decoded(json), kApi, &bytes);
  return [bytes = std::move(bytes)] { (void)ProtobufCodec().DecodeEvent(bytes, kApi); };
}

Work DecodeRawProtobuf(std::string bytes) {
  return [bytes = std::move(bytes)] { (void)ProtobufCodec().DecodeEvent(bytes, kApi); };
}

Work DecodeYaml(std::string yaml) {
  return [yaml = std::move(yaml)] {
    std::string duplicates;
    (void)YamlToJson(yaml, &duplicates);
  };
}

Work EncodeJson(std::string json) {
  return [event = Decoded(json)] {
    std::string out;
    JsonCodec().AppendEvent(*event, kApi, &out);
  };
}

Work EncodeProtobuf(std::string json) {
  return [event = Decoded(json)] {
    std::string out;
    ProtobufCodec().AppendEvent(*event, kApi, &out);
  };
}

Work EncodeYaml(std::string json) {
  std::string encoded;
  JsonCodec().AppendEvent(*Decoded(json), kApi, &encoded);
  return [encoded = std::move(encoded)] { (void)JsonToYaml(encoded); };
}

Work EncodePretty(std::string json) {
  std::string encoded;
  JsonCodec().AppendEvent(*Decoded(json), kApi, &encoded);
  return [encoded = std::move(encoded)] { (void)IndentJson(encoded); };
}

Work DecodeList(std::string json) {
  const Result<EventList> list = JsonCodec().DecodeEventList(json, kApi);
  std::string bytes;
  ProtobufCodec().AppendEventList(list.value_or(EventList()), kApi, &bytes);
  return [json = std::move(json), bytes = std::move(bytes)] {
    (void)JsonCodec().DecodeEventList(json, kApi);
    (void)ProtobufCodec().DecodeEventList(bytes, kApi);
  };
}

Work EncodeList(std::string json) {
  auto list = std::make_shared<const EventList>(
      JsonCodec().DecodeEventList(json, kApi).value_or(EventList()));
  return [list] {
    std::string out;
    JsonCodec().AppendEventList(*list, kApi, &out);
    ProtobufCodec().AppendEventList(*list, kApi, &out);
    AppendTableJson(MakeEventTable({}, list->items, kApi, TableObject::kObject, {}), true, &out);
    AppendPartialMetadataListJson({}, list->items, MetaVersion::kV1, &out);
  };
}

Work EncodeStored(std::string json) {
  std::string stored;
  ProtobufCodec().AppendEvent(*Decoded(json), kApi, &stored);
  return [stored = std::move(stored)] {
    std::string out;
    JsonEventListWriter writer(kApi);
    (void)writer.AppendStored(stored, "1", &out);
  };
}

Work ValidateCreate(std::string json) {
  return [event = Decoded(json)] {
    (void)ValidateEventCreate(*event, EventApi::kCoreV1);
    (void)ValidateEventCreate(*event, EventApi::kEventsV1);
  };
}

Work ValidateUpdate(std::string json) {
  auto old = std::make_shared<Event>(SmallEvent());
  old->metadata.deletion_timestamp = Time(1, 0);
  return [event = Decoded(json), old] {
    (void)ValidateEventUpdate(*event, *old, EventApi::kEventsV1);
    (void)ValidateEventUpdate(*old, *event, EventApi::kEventsV1);
  };
}

// Applies the patch and formats its warnings and errors.
void Patch(const Event& event, PatchType type, const std::string& patch) {
  std::vector<std::string> field_errors;
  (void)ApplyPatch(event, kApi, type, patch, &field_errors);
  (void)ShownPatch(event, kApi, type, patch);
}

template <PatchType kType>
Work PatchSmallEvent(std::string patch) {
  return [event = SmallEvent(), patch = std::move(patch)] { Patch(event, kType, patch); };
}

// Uses the input both as the event and as the patch.
template <PatchType kType>
Work PatchWithItself(std::string json) {
  return [event = Decoded(json), json] { Patch(*event, kType, json); };
}

Work JsonPatchValue(std::string json) {
  return PatchSmallEvent<PatchType::kJson>(
      R"([{"op":"add","path":"/metadata/annotations","value":)" + json +
      R"(},{"op":"replace","path":"","value":)" + json + "}]");
}

Work DecodeOptions(std::string json) {
  return [json = std::move(json)] { (void)DecodeDeleteOptionsJson(json); };
}

Work ParseLabels(std::string selector) {
  return [selector = std::move(selector)] {
    const Result<LabelSelector> parsed = LabelSelector::Parse(selector);
    if (parsed) (void)parsed->ToString();
  };
}

Work MatchLabels(std::string selector) {
  auto event = Decoded(
      MetadataMap("labels", selector.size(), [](std::size_t i) { return Pair("k" + Digits(i)); }));
  return [event, parsed = LabelSelector::Parse(selector).value_or(LabelSelector())] {
    (void)parsed.Matches(event->metadata.labels);
  };
}

Work ParseFields(std::string selector) {
  return [selector = std::move(selector)] {
    const Result<FieldSelector> parsed = FieldSelector::Parse(selector, kApi);
    if (parsed) (void)parsed->ToString();
  };
}

Work MatchFields(std::string selector) {
  return [event = SmallEvent(),
          parsed = FieldSelector::Parse(selector, kApi).value_or(FieldSelector())] {
    (void)parsed.Matches(event);
    (void)parsed.RequiredValue(EventField::kReason);
  };
}

Work ParseQueryString(std::string query) {
  return [query = std::move(query)] { (void)http::ParseQuery(query); };
}

Work PercentBothWays(std::string text) {
  return [text = std::move(text)] {
    (void)http::PercentDecode(text, true);
    (void)http::PercentEncode(text);
  };
}

// Looks up a few names among many fields, as a server does.
Work FindHeaders(std::string names) {
  http::Headers headers;
  for (std::size_t i = 0; i < names.size(); i += 7) headers.Add(names.substr(i, 6), "v");
  return [headers = std::move(headers)] {
    for (const char* name : {"accept", "content-type", "user-agent", "authorization"}) {
      (void)headers.Find(name);
    }
  };
}

// ---------------------------------------------------------------- cases

struct Structure {
  std::string_view name;
  std::string (*make)(std::size_t bytes);
};

struct Operation {
  std::string_view name;
  Work (*prepare)(std::string input);
  std::size_t bytes;  // the smallest of the three inputs
};

struct Case {
  Structure structure;
  Operation operation;
  std::size_t max_bytes = kMaxRequestBytes;  // the largest such input that a server accepts
};

// Bodies of a POST: events, valid or not, with the structure that the name describes.
constexpr Structure kBodies[] = {
    {"labels, ascending",
     [](std::size_t n) {
       return MetadataMap("labels", n, [](std::size_t i) { return Pair("k" + Digits(i)); });
     }},
    {"labels, descending",
     [](std::size_t n) {
       return MetadataMap("labels", n, [](std::size_t i) { return Pair("k" + DigitsDown(i)); });
     }},
    {"labels, mixed",
     [](std::size_t n) {
       return MetadataMap("labels", n, [](std::size_t i) { return Pair("k" + DigitsMixed(i)); });
     }},
    {"labels, invalid",
     [](std::size_t n) {
       return MetadataMap("labels", n,
                          [](std::size_t i) { return Pair("-" + Digits(i), "\"-\""); });
     }},
    {"labels, one key",
     [](std::size_t n) {
       return MetadataMap("labels", n, [](std::size_t) { return Pair("key"); });
     }},
    {"labels, each key twice",
     [](std::size_t n) {
       return MetadataMap("labels", n, [](std::size_t i) { return Pair("k" + DigitsDown(i / 2)); });
     }},
    {"labels, null",
     [](std::size_t n) {
       return MetadataMap("labels", n,
                          [](std::size_t i) { return Pair("k" + DigitsDown(i), "null"); });
     }},
    {"labels, given twice",
     [](std::size_t n) {
       return WithMetadata(
           R"("labels":{"a":"b"},)" +
           List(n, "\"labels\":{", "}", [](std::size_t i) { return Pair("k" + DigitsDown(i)); }));
     }},
    {"labels, given many times",
     [](std::size_t n) {
       return WithMetadata(List(
           n, "", "", [](std::size_t i) { return R"("labels":{"k)" + Digits(i) + R"(":""})"; }));
     }},
    {"labels, long keys",
     [](std::size_t n) {
       return MetadataMap("labels", n,
                          [](std::size_t i) { return Pair(std::string(50, 'k') + DigitsDown(i)); });
     }},
    {"annotations, mixed",
     [](std::size_t n) {
       return MetadataMap("annotations", n, [](std::size_t i) {
         return Pair("K" + DigitsMixed(i), R"("a \"value\" with <escapes>\n")");
       });
     }},
    {"annotations, one long value",
     [](std::size_t n) {
       return WithMetadata(R"("annotations":{"a":")" + Repeated("\\u00e4\\ud83d\\ude00 \\n", n) +
                           "\"}");
     }},
    {"ownerReferences",
     [](std::size_t n) {
       return MetadataList("ownerReferences", n, [](std::size_t i) { return Owner(Digits(i)); });
     }},
    {"ownerReferences, equal",
     [](std::size_t n) {
       return MetadataList("ownerReferences", n, [](std::size_t) { return Owner("u"); });
     }},
    {"ownerReferences, one uid",
     [](std::size_t n) {
       return MetadataList("ownerReferences", n, [](std::size_t i) {
         return Owner("u", R"(,"x)" + Digits(i) + R"(":[1])");
       });
     }},
    {"ownerReferences, empty",
     [](std::size_t n) {
       return MetadataList("ownerReferences", n, [](std::size_t) { return "{}"; });
     }},
    {"finalizers",
     [](std::size_t n) {
       return MetadataList("finalizers", n,
                           [](std::size_t i) { return "\"a.b/" + DigitsMixed(i) + "\""; });
     }},
    {"finalizers, equal",
     [](std::size_t n) {
       return MetadataList("finalizers", n, [](std::size_t) { return "\"a.b/c\""; });
     }},
    {"finalizers, a long one first",
     [](std::size_t n) {
       return MetadataList("finalizers", n, [n](std::size_t i) {
         return i == 0 ? "\"" + std::string(n / 2, 'f') + "\"" : "\"f\"";
       });
     }},
    {"finalizers, a long number first",
     [](std::size_t n) {
       return MetadataList("finalizers", n, [n](std::size_t i) {
         return i == 0 ? "1." + std::string(n / 2, '3') : "1.5";
       });
     }},
    {"managedFields",
     [](std::size_t n) {
       return MetadataList("managedFields", n, [](std::size_t i) {
         return R"({"manager":"m)" + Digits(i) + R"(","operation":"Update","fieldsV1":{"f:a":{}}})";
       });
     }},
    {"managedFields, control characters",
     [](std::size_t n) {
       return MetadataList("managedFields", n,
                           [](std::size_t) { return R"({"manager":"\u0001\u0002"})"; });
     }},
    {"managedFields, a manager of control characters",
     [](std::size_t n) {
       return WithMetadata(R"("managedFields":[{"manager":")" + Repeated("\\u0001", n) + "\"}]");
     }},
    {"managedFields, wide",
     [](std::size_t n) {
       return WithMetadata(List(n, R"("managedFields":[{"fieldsV1":{)", "}}]",
                                [](std::size_t i) { return Pair("f:" + DigitsMixed(i), "{}"); }));
     }},
    {"managedFields, deep",
     [](std::size_t n) {
       return WithMetadata(R"("managedFields":[{"fieldsV1":)" + Nested(n, R"({"a":)", "1", "}") +
                           "}]");
     }},
    {"managedFields, deep and then wide",
     [](std::size_t n) {
       return WithMetadata(
           R"("managedFields":[{"fieldsV1":)" +
           Nested(n / 2, "[", List(n / 2, "[", "]", [](std::size_t) { return "1"; }), "]") + "}]");
     }},
    {"managedFields, deep and then lines",
     [](std::size_t n) {
       return WithMetadata(R"("managedFields":[{"fieldsV1":)" +
                           Nested(n / 2, "[", "\"" + Repeated("a\\n", n / 2) + "\"", "]") + "}]");
     }},
    {"metadata, repeated",
     [](std::size_t n) {
       return WithMembers(
           List(n, "", "", [](std::size_t) { return R"("metadata":{"name":"a"})"; }));
     }},
    {"message, repeated after a long one",
     [](std::size_t n) {
       return WithMembers(List(n, "", "", [n](std::size_t i) {
         return Pair("message", "\"" + std::string(i == 0 ? n / 2 : 1, 'm') + "\"");
       }));
     }},
    {"message, long",
     [](std::size_t n) { return WithMembers(Pair("message", "\"" + std::string(n, 'm') + "\"")); }},
    {"message, bytes that are not UTF-8",
     [](std::size_t n) {
       return WithMembers(Pair("message", "\"" + Repeated("\xff\xe2\x80", n) + "\""));
     }},
    {"count, a long number",
     [](std::size_t n) { return WithMembers(Pair("count", std::string(n, '7'))); }},
    {"eventTime, long",
     [](std::size_t n) {
       return WithMembers(Pair("eventTime", "\"" + std::string(n, '7') + "\""));
     }},
};

// The same with members that are not part of an event.
constexpr Structure kRejectedBodies[] = {
    {"unknown fields",
     [](std::size_t n) {
       return WithMembers(List(n, "", "", [](std::size_t i) { return Pair("x" + Digits(i)); }));
     }},
    {"unknown fields in metadata",
     [](std::size_t n) {
       return WithMetadata(
           List(n, "", "", [](std::size_t i) { return Pair("x" + DigitsDown(i)); }));
     }},
    {"unknown field, repeated",
     [](std::size_t n) {
       return WithMembers(List(n, "", "", [](std::size_t) { return Pair("x"); }));
     }},
    {"unknown fields, few, repeated",
     [](std::size_t n) {
       return WithMembers(
           List(n, "", "", [](std::size_t i) { return Pair("x" + Digits(i % 99)); }));
     }},
    {"unknown field, deep",
     [](std::size_t n) { return WithMembers("\"x\":" + Nested(n, "[", "", "]")); }},
    {"unknown field, deep with duplicates",
     [](std::size_t n) {
       return WithMembers(
           "\"x\":" + Nested(n / 2, R"({"a":)",
                             List(n / 2, "{", "}", [](std::size_t) { return R"("d":1)"; }), "}"));
     }},
    {"unknown field, deep with objects of duplicates",
     [](std::size_t n) {
       return WithMembers(
           "\"x\":" +
           Nested(n / 2, R"({"a":)",
                  List(n / 2, "{", "}", [](std::size_t) { return R"("d":{"e":1,"e":1})"; }), "}"));
     }},
    {"unknown field, empty lists",
     [](std::size_t n) {
       return WithMembers(List(n, "\"x\":[", "]", [](std::size_t) { return "[]"; }));
     }},
    {"unknown field, a long key",
     [](std::size_t n) { return WithMembers(Pair(std::string(n, 'k'))); }},
    {"unknown field, a long number",
     [](std::size_t n) { return WithMembers(Pair("x", std::string(n, '7'))); }},
    {"white space", [](std::size_t n) { return WithMembers(std::string(n, ' ') + Pair("x")); }},
};

constexpr std::size_t kKiB = 1024;

// The operations on the body of a request.
constexpr Operation kBodyOperations[] = {
    {"decode JSON", DecodeJson, 4 * kKiB},
    {"merge patch", PatchSmallEvent<PatchType::kMerge>, kKiB},
    {"strategic patch", PatchSmallEvent<PatchType::kStrategicMerge>, kKiB},
};

// The operations on any value.
constexpr Operation kValueOperation = {"JSON patch value", JsonPatchValue, kKiB / 2};

// The operations on the decoded event.
constexpr Operation kEventOperations[] = {
    {"merge patch of itself", PatchWithItself<PatchType::kMerge>, kKiB / 2},
    {"strategic patch of itself", PatchWithItself<PatchType::kStrategicMerge>, kKiB / 2},
    {"decode protobuf", DecodeProtobuf, 4 * kKiB},
    {"encode JSON", EncodeJson, 4 * kKiB},
    {"encode pretty JSON", EncodePretty, 4 * kKiB},
    {"encode protobuf", EncodeProtobuf, 4 * kKiB},
    {"encode YAML", EncodeYaml, kKiB / 2},
    {"encode stored", EncodeStored, 4 * kKiB},
    {"validate create", ValidateCreate, kKiB},
    {"validate update", ValidateUpdate, kKiB},
};

// If a limit makes the work constant below some size, the smallest input is larger than that size.
constexpr Operation kValidateManyErrors = {"validate create", ValidateCreate, 48 * kKiB};
constexpr Operation kJsonPatchOfLists = {"JSON patch", PatchSmallEvent<PatchType::kJson>, 8 * kKiB};

constexpr Operation kStrategic = {"strategic patch", PatchSmallEvent<PatchType::kStrategicMerge>,
                                  kKiB};
constexpr Operation kStrategicOfItself = {"strategic patch of itself",
                                          PatchWithItself<PatchType::kStrategicMerge>, kKiB};
constexpr Operation kMergePatch = {"merge patch", PatchSmallEvent<PatchType::kMerge>, kKiB};
constexpr Operation kJsonPatch = {"JSON patch", PatchSmallEvent<PatchType::kJson>, 2 * kKiB};
constexpr Operation kYaml = {"decode YAML", DecodeYaml, kKiB / 2};
constexpr Operation kDecodeOptions = {"decode DeleteOptions", DecodeOptions, 4 * kKiB};
constexpr Operation kDecodeList = {"decode list", DecodeList, kKiB};
constexpr Operation kEncodeList = {"encode list", EncodeList, kKiB};
constexpr Operation kProtobuf = {"decode raw protobuf", DecodeRawProtobuf, 4 * kKiB};
constexpr Operation kParseLabels = {"parse label selector", ParseLabels, kKiB};
constexpr Operation kMatchLabels = {"match label selector", MatchLabels, kKiB};
constexpr Operation kParseFields = {"parse field selector", ParseFields, kKiB};
constexpr Operation kMatchFields = {"match field selector", MatchFields, kKiB};
constexpr Operation kParseQuery = {"parse query", ParseQueryString, 2 * kKiB};
constexpr Operation kPercent = {"percent-encode", PercentBothWays, 2 * kKiB};
constexpr Operation kHeaders = {"find header", FindHeaders, 4 * kKiB};

// A request line and its headers have at most this many bytes.
constexpr std::size_t kMaxHeadBytes = 64 * kKiB;

std::string Metadata(const std::string& members) { return R"({"metadata":{)" + members + "}}"; }

// A first JSON Patch operation followed by equal ones.
template <typename Element>
std::string Operations(std::size_t bytes, const std::string& first, Element element) {
  return List(bytes, "[", "]",
              [&](std::size_t i) { return i == 0 ? first : std::string(element(i)); });
}
std::string Add(std::string_view path, const std::string& value) {
  return R"({"op":"add","path":")" + std::string(path) + R"(","value":)" + value + "}";
}
std::string Numbers(std::size_t bytes) {
  return List(bytes, "[", "]", [](std::size_t) { return "1"; });
}

// A protobuf field of bytes, and an event of core/v1 with such fields in its metadata.
std::string Field(int number, const std::string& bytes) {
  std::string out;
  const auto varint = [&out](std::size_t value) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
  };
  varint(static_cast<std::size_t>(number) << 3 | 2);
  varint(bytes.size());
  return out + bytes;
}
std::string ProtobufEvent(const std::string& metadata) {
  return std::string("k8s\0", 4) + Field(1, Field(1, "v1") + Field(2, "Event")) +
         Field(2, Field(1, metadata));
}

template <typename Element>
std::string Lines(std::size_t bytes, std::string_view begin, Element element) {
  std::string text(begin);
  for (std::size_t i = 0; text.size() < bytes; ++i) text.append(element(i)).append("\n");
  return text;
}

std::string ListOfEvents(std::size_t bytes) {
  const std::string event = std::string(kEventStart) + std::string(kEventEnd);
  return List(bytes, R"({"kind":"EventList","apiVersion":"v1","items":[)", "]}",
              [&](std::size_t) { return event; });
}
std::string ListOfNothing(std::size_t bytes) {
  return List(bytes, R"({"kind":"EventList","apiVersion":"v1","items":[)", "]}",
              [](std::size_t) { return "{}"; });
}

constexpr Case kOthers[] = {
    {{"events", ListOfEvents}, kDecodeList},
    {{"empty events", ListOfNothing}, kDecodeList},
    {{"events", ListOfEvents}, kEncodeList},
    {{"empty events", ListOfNothing}, kEncodeList},
    // Each error message contains all owners.
    {{"ownerReferences, controllers",
      [](std::size_t n) {
        return MetadataList("ownerReferences", n, [](std::size_t i) {
          return Owner(Digits(i), R"(,"controller":true)");
        });
      }},
     kValidateManyErrors},
    {{"members",
      [](std::size_t n) {
        return List(n, "{", "}", [](std::size_t i) { return Pair("x" + DigitsMixed(i)); });
      }},
     kDecodeOptions},
    {{"dryRun",
      [](std::size_t n) {
        return List(n, R"({"dryRun":[)", "]}", [](std::size_t) { return R"("All")"; });
      }},
     kDecodeOptions},
    // Strategic merge patches with directives.
    {{"$patch: delete, many",
      [](std::size_t n) {
        return Metadata(List(n, R"("ownerReferences":[)", "]", [](std::size_t i) {
          return R"({"$patch":"delete","uid":")" + DigitsMixed(i) + "\"}";
        }));
      }},
     kStrategic},
    {{"$patch: replace, among many",
      [](std::size_t n) {
        return Metadata(List(n, R"("ownerReferences":[{"$patch":"replace"},)", "]",
                             [](std::size_t i) { return Owner(DigitsMixed(i)); }));
      }},
     kStrategicOfItself},
    {{"$patch: replace, nested",
      [](std::size_t n) {
        return Metadata("\"x\":" + Nested(n, R"({"$patch":"replace","a":)", "1", "}"));
      }},
     kStrategic},
    {{"$setElementOrder of finalizers",
      [](std::size_t n) {
        const auto element = [](std::size_t i) { return "\"a.b/" + DigitsMixed(i) + "\""; };
        return Metadata(List(n / 2, R"("$setElementOrder/finalizers":[)", "],", element) +
                        List(n / 2, R"("finalizers":[)", "]", element));
      }},
     kStrategicOfItself},
    {{"$setElementOrder of ownerReferences",
      [](std::size_t n) {
        return Metadata(
            List(n / 2, R"("$setElementOrder/ownerReferences":[)", "],",
                 [](std::size_t i) { return R"({"uid":")" + DigitsMixed(i) + "\"}"; }) +
            List(n / 2, R"("ownerReferences":[)", "]",
                 [](std::size_t i) { return Owner(DigitsMixed(i)); }));
      }},
     kStrategicOfItself},
    {{"$setElementOrder, reversed",
      [](std::size_t n) {
        return Metadata(List(n / 2, R"("$setElementOrder/finalizers":[)", "],",
                             [](std::size_t i) { return "\"f" + DigitsDown(i) + "\""; }) +
                        List(n / 2, R"("finalizers":[)", "]",
                             [](std::size_t i) { return "\"f" + Digits(i) + "\""; }));
      }},
     kStrategic},
    {{"$setElementOrder without a long string of the list",
      [](std::size_t n) {
        return Metadata(
            List(n / 2, R"("$setElementOrder/finalizers":[)", "],",
                 [](std::size_t) { return R"("\u0061")"; }) +
            R"("finalizers":["\u0061)" + std::string(n / 2, 'f') + "\"]");
      }},
     kStrategic},
    {{"$setElementOrder without a long number of the list",
      [](std::size_t n) {
        return Metadata(List(n / 2, R"("$setElementOrder/finalizers":[)", "],",
                             [](std::size_t) { return "1.5"; }) +
                        R"("finalizers":[1.)" + std::string(n / 2, '3') + "]");
      }},
     kStrategic},
    {{"$setElementOrder of numbers, a long one first",
      [](std::size_t n) {
        const auto element = [n](std::size_t i) {
          return i == 0 ? "1." + std::string(n / 4, '3') : "1.5";
        };
        return Metadata(List(n / 2, R"("$setElementOrder/finalizers":[)", "],", element) +
                        List(n / 2, R"("finalizers":[)", "]", element));
      }},
     kStrategic},
    {{"$setElementOrder, empty",
      [](std::size_t n) {
        return Metadata(R"("$setElementOrder/finalizers":[],)" +
                        List(n, R"("finalizers":[)", "]",
                             [](std::size_t i) { return "\"f" + DigitsDown(i) + "\""; }));
      }},
     kStrategic},
    {{"$setElementOrder, many lists",
      [](std::size_t n) {
        return Metadata(List(n, "", "", [](std::size_t i) {
          return R"("$setElementOrder/x)" + Digits(i) + R"(":[1])";
        }));
      }},
     kStrategic},
    {{"$deleteFromPrimitiveList",
      [](std::size_t n) {
        return Metadata(
            List(n / 2, R"("$deleteFromPrimitiveList/finalizers":[)", "],",
                 [](std::size_t i) { return "\"a.b/" + DigitsMixed(i) + "\""; }) +
            List(n / 2, R"("finalizers":[)", "]",
                 [](std::size_t i) { return "\"a.b/" + DigitsDown(i) + "\""; }));
      }},
     kStrategicOfItself},
    {{"$retainKeys",
      [](std::size_t n) {
        const auto key = [](std::size_t i) { return "x" + DigitsMixed(i); };
        return Metadata(List(n / 2, R"("$retainKeys":[)", "],",
                             [&](std::size_t i) { return "\"" + key(i) + "\""; }) +
                        List(n / 2, "", "", [&](std::size_t i) { return Pair(key(i), "[]"); }));
      }},
     kStrategic},
    {{"$retainKeys of one owner, many times",
      [](std::size_t n) {
        return Metadata(List(n, R"("ownerReferences":[)", "]", [](std::size_t i) {
          return R"({"uid":"u","$retainKeys":["uid","x"],"x":")" + Digits(i) + "\"}";
        }));
      }},
     kStrategic},
    // Merge patches.
    {{"nulls of what is missing",
      [](std::size_t n) {
        return Metadata(List(n, "", "", [](std::size_t i) {
          return Pair("x" + DigitsMixed(i), R"({"a":null,"b":[{"c":null}]})");
        }));
      }},
     kMergePatch},
    {{"objects in objects",
      [](std::size_t n) { return Nested(n, R"({"metadata":)", "null", "}"); }},
     kMergePatch},
    // JSON Patches: operations whose cost does not depend on their size.
    {{"add at the end of a list",
      [](std::size_t n) {
        return Operations(n, Add("/x", "[]"), [](std::size_t) { return Add("/x/-", "1"); });
      }},
     kJsonPatch},
    {{"add at the beginning of a list",
      [](std::size_t n) {
        return Operations(n, Add("/x", "[]"), [](std::size_t) { return Add("/x/0", "1"); });
      }},
     kJsonPatchOfLists},
    {{"add at the beginning of a long list",
      [](std::size_t n) {
        return Operations(n, Add("/x", Numbers(n / 2)),
                          [](std::size_t) { return Add("/x/0", "1"); });
      }},
     kJsonPatch},
    {{"remove at the beginning of a long list",
      [](std::size_t n) {
        return Operations(n, Add("/x", Numbers(n / 2)),
                          [](std::size_t) { return R"({"op":"remove","path":"/x/0"})"; });
      }},
     kJsonPatch},
    {{"move inside a long list",
      [](std::size_t n) {
        return Operations(n, Add("/x", Numbers(n / 2)), [](std::size_t) {
          return R"({"op":"move","from":"/x/-1","path":"/x/0"})";
        });
      }},
     kJsonPatch},
    {{"move of a long list",
      [](std::size_t n) {
        return Operations(n, Add("/x", Numbers(n / 2)), [](std::size_t i) {
          return i % 2 == 1 ? R"({"op":"move","from":"/x","path":"/y"})"
                            : R"({"op":"move","from":"/y","path":"/x"})";
        });
      }},
     kJsonPatch},
    {{"test of a long list with a short one",
      [](std::size_t n) {
        return Operations(n, Add("/x", Numbers(n / 2)), [](std::size_t) {
          return R"({"op":"test","path":"/x/0","value":1})";
        });
      }},
     kJsonPatch},
    {{"copy of a small value",
      [](std::size_t n) {
        return Operations(n, Add("/x", "[1]"), [](std::size_t i) {
          return R"({"op":"copy","from":"/x","path":"/metadata/y)" + Digits(i) + "\"}";
        });
      }},
     kJsonPatch},
    // Few of these: each copy doubles the list, up to kMaxJsonPatchCopyBytes.
    {{"copy of a list into itself",
      [](std::size_t n) {
        return Operations(n, Add("/x", Numbers(n / 2)), [](std::size_t i) {
          return i < 4 ? R"({"op":"copy","from":"/x","path":"/x/-"})"
                       : R"({"op":"test","path":"/x/0","value":1})";
        });
      }},
     kJsonPatch},
    {{"copy of white space",
      [](std::size_t n) {
        return Operations(n, Add("/x", "[" + std::string(n / 2, ' ') + "1]"), [](std::size_t) {
          return R"({"op":"copy","from":"/x","path":"/y"})";
        });
      }},
     kJsonPatch},
    {{"replace of a long list",
      [](std::size_t n) {
        return Operations(n, Add("/x", Numbers(n / 2)), [](std::size_t) {
          return R"({"op":"replace","path":"/x/0","value":"\u0001"})";
        });
      }},
     kJsonPatch},
    {{"long paths",
      [](std::size_t n) {
        return Operations(n, Add("/x", Nested(n / 4, R"({"a":)", "{}", "}")), [n](std::size_t) {
          return Add("/x" + Repeated("/a", std::min(n / 4, 4 * kKiB)), "1");
        });
      }},
     kJsonPatch},
    {{"paths of tildes",
      [](std::size_t n) {
        return Operations(n, Add("/x", "{}"),
                          [n](std::size_t) { return Add("/x/" + Repeated("~0", n), "1"); });
      }},
     kJsonPatch},
    {{"unknown members",
      [](std::size_t n) {
        return List(n, R"([{"op":"test","path":"/kind","value":"Event",)", "}]",
                    [](std::size_t i) { return Pair("x" + Digits(i)); });
      }},
     kJsonPatch},
    {{"values with duplicates",
      [](std::size_t n) {
        return List(n, "[", "]", [](std::size_t) { return Add("/x", R"({"a":1,"a":1})"); });
      }},
     kJsonPatch},
    // YAML that is not JSON.
    {{"block map",
      [](std::size_t n) {
        return Lines(n, "metadata:\n  labels:\n",
                     [](std::size_t i) { return "    k" + DigitsDown(i) + ": v"; });
      }},
     kYaml},
    {{"block map, one key",
      [](std::size_t n) { return Lines(n, "", [](std::size_t) { return "k: v"; }); }},
     kYaml},
    {{"block map, each key twice",
      [](std::size_t n) {
        return Lines(n, "a:\n", [](std::size_t i) { return "  k" + DigitsMixed(i / 2) + ": v"; });
      }},
     kYaml},
    {{"block list",
      [](std::size_t n) { return Lines(n, "a:\n", [](std::size_t) { return "- b"; }); }},
     kYaml},
    {{"block list of maps",
      [](std::size_t n) { return Lines(n, "a:\n", [](std::size_t) { return "- b: 1\n  c: 2"; }); }},
     kYaml},
    {{"flow map",
      [](std::size_t n) {
        return List(n, "{", "}", [](std::size_t i) { return "k" + DigitsMixed(i) + ": v"; });
      }},
     kYaml},
    {{"flow map of keys alone",
      [](std::size_t n) { return List(n, "{", "}", [](std::size_t i) { return Digits(i); }); }},
     kYaml},
    {{"flow list", [](std::size_t n) { return Numbers(n); }}, kYaml},
    {{"flow list of pairs",
      [](std::size_t n) { return List(n, "[", "]", [](std::size_t) { return "a: b"; }); }},
     kYaml},
    {{"flow list over lines",
      [](std::size_t n) { return List(n, "[", "]", [](std::size_t) { return "a\n"; }); }},
     kYaml},
    {{"flow, deep", [](std::size_t n) { return Nested(n, "[", "", "]", 450); }}, kYaml},
    {{"flow, too deep", [](std::size_t n) { return std::string(n, '['); }}, kYaml},
    {{"block, deep",
      [](std::size_t n) { return Repeated("- ", std::min<std::size_t>(n, 900)) + "a\n"; }},
     kYaml},
    {{"anchors",
      [](std::size_t n) {
        return Lines(n, "", [](std::size_t i) { return "- &a" + DigitsMixed(i) + " x"; });
      }},
     kYaml},
    {{"aliases of a scalar",
      [](std::size_t n) { return Lines(n, "- &a x\n", [](std::size_t) { return "- *a"; }); }},
     kYaml},
    {{"aliases of a long list",
      [](std::size_t n) {
        return Lines(n, "- &a " + Numbers(n / 2) + "\n", [](std::size_t) { return "- *a"; });
      }},
     kYaml},
    {{"aliases as keys",
      [](std::size_t n) {
        return Lines(n, "- &a " + std::string(n / 2, 'k') + "\n",
                     [](std::size_t) { return "- *a : 1"; });
      }},
     kYaml},
    {{"one anchor, defined many times",
      [](std::size_t n) {
        return Lines(n, "", [](std::size_t) { return "- &a x\n- *a"; });
      }},
     kYaml},
    {{"merge keys",
      [](std::size_t n) {
        return Lines(n, "- &a {b: 1}\n", [](std::size_t) { return "- {<<: *a, c: 2}"; });
      }},
     kYaml},
    {{"merge keys of a long map",
      [](std::size_t n) {
        return Lines(n,
                     List(n / 2, "- &a {", "}\n",
                          [](std::size_t i) { return "k" + DigitsMixed(i) + ": 1"; }),
                     [](std::size_t) { return "- {<<: *a}"; });
      }},
     kYaml},
    {{"merge list of a long map",
      [](std::size_t n) {
        return List(n,
                    List(n / 2, "- &a {", "}\n",
                         [](std::size_t i) { return "k" + DigitsMixed(i) + ": 1"; }) +
                        "- {<<: [",
                    "]}\n", [](std::size_t) { return "*a"; });
      }},
     kYaml},
    {{"plain scalar over lines",
      [](std::size_t n) { return Lines(n, "a: b\n", [](std::size_t) { return " c d"; }); }},
     kYaml},
    {{"plain scalar of words", [](std::size_t n) { return "a: " + Repeated("b ", n) + "\n"; }},
     kYaml},
    {{"plain scalar of blank lines",
      [](std::size_t n) { return "a: b\n" + std::string(n, '\n') + " c\n"; }},
     kYaml},
    {{"plain scalar with colons",
      [](std::size_t n) { return "a: " + Repeated("b:", n) + "\n"; }},
     kYaml},
    {{"literal scalar",
      [](std::size_t n) { return Lines(n, "a: |\n", [](std::size_t) { return "  b"; }); }},
     kYaml},
    {{"literal scalar of blank lines",
      [](std::size_t n) { return "a: |\n  b\n" + std::string(n, '\n'); }},
     kYaml},
    {{"literal scalar of spaces",
      [](std::size_t n) { return Lines(n, "a: |\n", [](std::size_t) { return "        "; }); }},
     kYaml},
    {{"folded scalar",
      [](std::size_t n) { return Lines(n, "a: >\n", [](std::size_t) { return "  b c"; }); }},
     kYaml},
    {{"double-quoted scalar",
      [](std::size_t n) { return "a: \"" + Repeated("\\u00e4\\n", n) + "\"\n"; }},
     kYaml},
    {{"double-quoted scalar over lines",
      [](std::size_t n) { return "a: \"" + Repeated("b \\\n ", n) + "\"\n"; }},
     kYaml},
    {{"single-quoted scalar",
      [](std::size_t n) { return "a: '" + Repeated("''", n) + "'\n"; }},
     kYaml},
    {{"quoted keys",
      [](std::size_t n) {
        return Lines(n, "", [](std::size_t i) { return "\"k" + DigitsDown(i) + "\": 'v'"; });
      }},
     kYaml},
    {{"one long line of quotes",
      [](std::size_t n) { return List(n, "[", "]", [](std::size_t) { return "\"a\""; }); }},
     kYaml},
    {{"comments",
      [](std::size_t n) { return Lines(n, "a: b\n", [](std::size_t) { return "# c"; }) + "d: e\n"; }},
     kYaml},
    {{"one long comment",
      [](std::size_t n) { return "a: b # " + std::string(n, 'c') + "\nd: e\n"; }},
     kYaml},
    {{"spaces", [](std::size_t n) { return "a: " + std::string(n, ' ') + "b\n"; }}, kYaml},
    {{"tabs", [](std::size_t n) { return "a: " + std::string(n, '\t') + "b\n"; }}, kYaml},
    {{"blank lines", [](std::size_t n) { return std::string(n, '\n') + "a: b\n"; }}, kYaml},
    {{"carriage returns",
      [](std::size_t n) { return Repeated("a: b\r\n", n); }},
     kYaml},
    {{"tags", [](std::size_t n) { return Lines(n, "", [](std::size_t) { return "- !!str a"; }); }},
     kYaml},
    {{"one long tag", [](std::size_t n) { return "a: !" + std::string(n, 't') + " b\n"; }}, kYaml},
    {{"tag directives",
      [](std::size_t n) {
        return Lines(n, "",
                     [](std::size_t i) {
                       return "%TAG !t" + Digits(i) + "! tag:a,2000:";
                     }) +
               "---\na: b\n";
      }},
     kYaml},
    {{"one long anchor",
      [](std::size_t n) {
        const std::string name(n / 2, 'a');
        return "- &" + name + " x\n- *" + name + "\n";
      }},
     kYaml},
    {{"question marks",
      [](std::size_t n) {
        return Lines(n, "", [](std::size_t i) { return "? k" + Digits(i) + "\n: v"; });
      }},
     kYaml},
    {{"documents",
      [](std::size_t n) { return Lines(n, "a: b\n", [](std::size_t) { return "---\nc: d"; }); }},
     kYaml},
    {{"numbers",
      [](std::size_t n) {
        return List(n, "[", "]", [](std::size_t) { return "0x1F, 1_000, 1.5e3, 12:30:45"; });
      }},
     kYaml},
    {{"one long number", [](std::size_t n) { return "a: 1." + std::string(n, '3') + "\n"; }},
     kYaml},
    {{"one long number with underscores",
      [](std::size_t n) { return "a: 1" + Repeated("_3", n) + "\n"; }},
     kYaml},
    {{"UTF-16",
      [](std::size_t n) {
        std::string text("\xff\xfe");
        for (const char c : Lines(n / 2, "", [](std::size_t) { return "- a"; })) {
          text += c;
          text += '\0';
        }
        return text;
      }},
     kYaml},
    // Protobuf that Kubernetes does not write.
    {{"ownerReferences, empty",
      [](std::size_t n) { return ProtobufEvent(Repeated(Field(13, ""), n)); }},
     kProtobuf},
    {{"ownerReferences and finalizers in turn",
      [](std::size_t n) { return ProtobufEvent(Repeated(Field(13, "") + Field(14, ""), n)); }},
     kProtobuf},
    {{"managedFields, empty",
      [](std::size_t n) { return ProtobufEvent(Repeated(Field(17, ""), n)); }},
     kProtobuf},
    {{"finalizers, empty",
      [](std::size_t n) { return ProtobufEvent(Repeated(Field(14, ""), n)); }},
     kProtobuf},
    {{"labels, one key",
      [](std::size_t n) { return ProtobufEvent(Repeated(Field(11, Field(1, "k")), n)); }},
     kProtobuf},
    {{"labels, descending",
      [](std::size_t n) {
        std::string metadata;
        for (std::size_t i = 0; metadata.size() < n; ++i) {
          metadata += Field(11, Field(1, DigitsDown(i)) + Field(2, "v"));
        }
        return ProtobufEvent(metadata);
      }},
     kProtobuf},
    {{"name, repeated after a long one",
      [](std::size_t n) {
        return ProtobufEvent(Field(1, std::string(n / 2, 'a')) + Repeated(Field(1, "a"), n / 2));
      }},
     kProtobuf},
    {{"unknown groups",
      [](std::size_t n) { return ProtobufEvent(std::string(n / 2, '\xfb') + Repeated("\x01", 1)); }},
     kProtobuf},
    {{"unknown groups, nested",
      [](std::size_t n) { return ProtobufEvent(std::string(n, '\x7b')); }},
     kProtobuf},
    // Selectors, queries and headers.
    {{"keys, descending",
      [](std::size_t n) {
        return List(n, "", "", [](std::size_t i) { return "k" + DigitsDown(i) + "=v"; });
      }},
     kParseLabels,
     kMaxHeadBytes},
    {{"one key",
      [](std::size_t n) { return List(n, "", "", [](std::size_t) { return "k!=v"; }); }},
     kParseLabels,
     kMaxHeadBytes},
    {{"values, mixed",
      [](std::size_t n) {
        return List(n, "k in (", ")", [](std::size_t i) { return DigitsMixed(i); });
      }},
     kParseLabels,
     kMaxHeadBytes},
    {{"values, invalid",
      [](std::size_t n) {
        return List(n, "k in (", ")", [](std::size_t i) { return "-" + DigitsMixed(i); });
      }},
     kParseLabels,
     kMaxHeadBytes},
    {{"empty values",
      [](std::size_t n) { return "k in (" + std::string(n, ',') + ")"; }},
     kParseLabels,
     kMaxHeadBytes},
    {{"spaces", [](std::size_t n) { return "k" + std::string(n, ' ') + "=v"; }},
     kParseLabels,
     kMaxHeadBytes},
    {{"one long key", [](std::size_t n) { return std::string(n, '-') + "=v"; }},
     kParseLabels,
     kMaxHeadBytes},
    {{"many keys",
      [](std::size_t n) {
        return List(n, "", "", [](std::size_t i) { return "k" + DigitsMixed(i) + "!=v"; });
      }},
     kMatchLabels,
     kMaxHeadBytes},
    {{"many values",
      [](std::size_t n) {
        return List(n, "k000001 notin (", ")", [](std::size_t i) { return Digits(i); });
      }},
     kMatchLabels,
     kMaxHeadBytes},
    {{"many terms",
      [](std::size_t n) {
        return List(n, "", "", [](std::size_t i) { return "reason!=r" + DigitsDown(i); });
      }},
     kParseFields,
     kMaxHeadBytes},
    {{"escapes", [](std::size_t n) { return "reason=" + Repeated("\\,\\=\\\\", n); }},
     kParseFields,
     kMaxHeadBytes},
    {{"commas", [](std::size_t n) { return std::string(n, ',') + "x"; }},
     kParseFields,
     kMaxHeadBytes},
    {{"many terms",
      [](std::size_t n) {
        return List(n, "", "", [](std::size_t i) { return "reason!=r" + DigitsDown(i); });
      }},
     kMatchFields,
     kMaxHeadBytes},
    {{"many parameters", [](std::size_t n) { return Repeated("a=b&", n); }},
     kParseQuery,
     kMaxHeadBytes},
    {{"ampersands", [](std::size_t n) { return std::string(n, '&'); }}, kParseQuery, kMaxHeadBytes},
    {{"one long value", [](std::size_t n) { return "a=" + Repeated("%C3%A4+", n); }},
     kParseQuery,
     kMaxHeadBytes},
    {{"equals signs", [](std::size_t n) { return std::string(n, '='); }},
     kParseQuery,
     kMaxHeadBytes},
    {{"escapes", [](std::size_t n) { return Repeated("%2F", n); }}, kPercent, kMaxHeadBytes},
    {{"plain", [](std::size_t n) { return Repeated("a", n); }}, kPercent, kMaxHeadBytes},
    {{"many fields", [](std::size_t n) { return Repeated("abcdef ", n); }},
     kHeaders,
     kMaxHeadBytes},
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const Operation& operation : kBodyOperations) {
    for (const Structure& body : kBodies) cases.push_back({body, operation});
    for (const Structure& body : kRejectedBodies) cases.push_back({body, operation});
  }
  for (const Structure& body : kRejectedBodies) cases.push_back({body, kValueOperation});
  for (const Operation& operation : kEventOperations) {
    for (const Structure& body : kBodies) cases.push_back({body, operation});
  }
  cases.insert(cases.end(), std::begin(kOthers), std::end(kOthers));
  return cases;
}

std::string NameOf(const Case& c) {
  return std::string(c.operation.name) + ": " + std::string(c.structure.name);
}

void Count(std::string_view filter) {
  for (const Case& c : AllCases()) {
    const std::string name = NameOf(c);
    if (name.find(filter) == name.npos) continue;
    for (const std::size_t factor : {1, 4, 16}) {
      const Work work = c.operation.prepare(c.structure.make(factor * c.operation.bytes));
      const std::string label = name + " x" + std::to_string(factor);
      CALLGRIND_ZERO_STATS;
      work();
      CALLGRIND_DUMP_STATS_AT(label.c_str());
    }
  }
}

double CpuMilliseconds() {
  std::timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

void PrintTimes(std::size_t bytes, std::string_view filter) {
  for (const Case& c : AllCases()) {
    const std::string name = NameOf(c);
    if (name.find(filter) == name.npos) continue;
    const Work work = c.operation.prepare(c.structure.make(std::min(bytes, c.max_bytes)));
    const double start = CpuMilliseconds();
    work();
    std::printf("%10.1f ms  %s\n", CpuMilliseconds() - start, name.c_str());
    std::fflush(stdout);
  }
}

int Main(const std::vector<std::string>& words) {
  const std::string command = words.size() > 1 ? words[1] : "";
  if (command == "count") {
    Count(words.size() > 2 ? words[2] : "");
  } else if (command == "time") {
    const std::size_t bytes = words.size() > 2 ? std::stoul(words[2]) : kMaxRequestBytes - kKiB;
    PrintTimes(bytes, words.size() > 3 ? words[3] : "");
  } else if (command == "list") {
    for (const Case& c : AllCases()) std::puts(NameOf(c).c_str());
  } else {
    std::fputs(
        "usage: complexity count [PART OF A NAME]\n"
        "       complexity time [BYTES [PART OF A NAME]]\n"
        "       complexity list\n",
        stderr);
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace herald

int main(int argc, char** argv) { return herald::Main({argv, argv + argc}); }
