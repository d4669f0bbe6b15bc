#include "herald/api/codec.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/protobuf/writer.h"
#include "api/reuse.h"
#include "api/testing/full_event.h"
#include "test/golden.h"

namespace herald {
namespace {

using testing::Bytes;
using testing::BytesMatch;
using testing::FullEvent;
using testing::HasBytes;
using testing::LoadGolden;
using testing::Vector;

EventApi ApiOf(const Vector& vector) {
  return vector.at("api") == "v1" ? EventApi::kCoreV1 : EventApi::kEventsV1;
}

std::string Encoded(const Codec& codec, const Event& event, EventApi api) {
  std::string out;
  codec.AppendEvent(event, api, &out);
  return out;
}

std::string Encoded(const Codec& codec, const Status& status) {
  std::string out;
  codec.AppendStatus(status, &out);
  return out;
}

// Shows where a mismatch of long strings begins.
::testing::AssertionResult Same(const Vector& vector, const std::string& key,
                                const std::string& actual) {
  if (BytesMatch(vector, key, actual)) return ::testing::AssertionSuccess();
  if (vector.contains(key + "_digest")) {
    return ::testing::AssertionFailure() << key << " has another digest";
  }
  return ::testing::AssertionFailure() << key << " should be\n"
                                       << Bytes(vector, key) << "\nand is\n"
                                       << actual;
}

TEST(Codec, WritesEachEventAsKubernetesDoes) {
  for (const Vector& vector : LoadGolden("encode.json")) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const auto event = JsonCodec().DecodeEvent(Bytes(vector, "input"), ApiOf(vector));
    ASSERT_TRUE(event) << event.error().ToString();
    EXPECT_TRUE(Same(vector, "core_json", Encoded(JsonCodec(), *event, EventApi::kCoreV1)));
    EXPECT_TRUE(Same(vector, "events_json", Encoded(JsonCodec(), *event, EventApi::kEventsV1)));
    EXPECT_TRUE(BytesMatch(vector, "core_pb", Encoded(ProtobufCodec(), *event, EventApi::kCoreV1)));
    EXPECT_TRUE(
        BytesMatch(vector, "events_pb", Encoded(ProtobufCodec(), *event, EventApi::kEventsV1)));
  }
}

TEST(Codec, DecodesWhatItEncodesInEachFormatAndSpelling) {
  for (const Vector& vector : LoadGolden("encode.json")) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const auto event = JsonCodec().DecodeEvent(Bytes(vector, "input"), ApiOf(vector));
    ASSERT_TRUE(event);
    for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
      const std::string bytes = Encoded(ProtobufCodec(), *event, api);
      const auto again = ProtobufCodec().DecodeEvent(bytes, api);
      ASSERT_TRUE(again) << again.error().ToString();
      EXPECT_EQ(Encoded(ProtobufCodec(), *again, api), bytes);
      EXPECT_EQ(Encoded(JsonCodec(), *again, api), Encoded(JsonCodec(), *event, api));
    }
  }
}

// For a body of another kind, a server with all types of Kubernetes names Go types and source lines
// in its message. We only have events.
bool NamesTypesWeDoNotHave(std::string_view error) {
  return error.find("unknown conversion") != std::string_view::npos ||
         error.find("in scheme ") != std::string_view::npos;
}

void ExpectVerdict(const Vector& expected, const Status& actual) {
  if (expected.at("ok").get<bool>()) {
    EXPECT_TRUE(actual.ok()) << actual.ToString();
    return;
  }
  EXPECT_FALSE(actual.ok());
  EXPECT_EQ(actual.code(), expected.at("http_code").get<int>());
  if (HasBytes(expected, "error_digest") || !expected.contains("error")) {
    EXPECT_TRUE(BytesMatch(expected, "error", actual.message()));
  } else if (!NamesTypesWeDoNotHave(Bytes(expected, "error"))) {
    EXPECT_EQ(actual.message(), Bytes(expected, "error"));
  }
}

// Two apiVersions, of which the second is wrong: upstream reports the duplicate, we report the
// second.
constexpr std::string_view kRepeatedVersion = "duplicate-api-version-differs";

// The error of a server with fieldValidation=Strict.
std::string StrictError(const std::vector<std::string>& field_errors) {
  std::string error =
      "Event in version \"v1\" cannot be handled as a Event: strict decoding error: ";
  for (std::size_t i = 0; i < field_errors.size(); ++i) {
    if (i > 0) error += ", ";
    error += field_errors[i];
  }
  return error;
}

TEST(Codec, AcceptsAndRejectsEachJsonBodyAsKubernetesDoes) {
  for (const Vector& vector : LoadGolden("decode_json.json")) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const std::string input = Bytes(vector, "input");
    const EventApi api = ApiOf(vector);

    const Vector& lenient = vector.at("lenient");
    const auto event = JsonCodec().DecodeEvent(input, api);
    ExpectVerdict(lenient, event ? Status() : event.error());
    if (event && lenient.at("ok").get<bool>()) {
      EXPECT_TRUE(Same(lenient, "core_json", Encoded(JsonCodec(), *event, EventApi::kCoreV1)));
    }

    const Vector& strict = vector.at("strict");
    std::vector<std::string> field_errors;
    const auto strictly = JsonCodec().DecodeEvent(input, api, &field_errors);
    if (!field_errors.empty()) {
      EXPECT_TRUE(strictly);
      EXPECT_EQ(strict.at("http_code").get<int>(), 400);
      EXPECT_TRUE(Same(strict, "error", StrictError(field_errors)));
    } else if (vector.at("name") != kRepeatedVersion) {
      ExpectVerdict(strict, strictly ? Status() : strictly.error());
    }
  }
}

// A key is a duplicate only within one JSON object, even if the map has it from an earlier object.
TEST(Codec, ReportsDuplicateLabelsOfEachObject) {
  std::vector<std::string> errors;
  const Result<Event> event =
      JsonCodec().DecodeEvent(R"({"metadata":{"labels":{"c":"1","b":"1","a":"1","b":"2","b":null},)"
                              R"("labels":{"a":"2","d":"1","d":"2"},"annotations":{"a":"1"}}})",
                              EventApi::kCoreV1, &errors);
  ASSERT_TRUE(event);
  EXPECT_EQ(errors, (std::vector<std::string>{R"(duplicate field "metadata.labels.b")",
                                              R"(duplicate field "metadata.labels")",
                                              R"(duplicate field "metadata.labels.d")"}));
  EXPECT_EQ(event->metadata.labels, (StringMap{{"a", "2"}, {"b", ""}, {"c", "1"}, {"d", "2"}}));
}

TEST(Codec, AcceptsAndRejectsEachProtobufBodyAsKubernetesDoes) {
  for (const Vector& vector : LoadGolden("decode_protobuf.json")) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const auto event = ProtobufCodec().DecodeEvent(Bytes(vector, "input"), ApiOf(vector));
    ExpectVerdict(vector, event ? Status() : event.error());
    if (event && vector.at("ok").get<bool>()) {
      EXPECT_TRUE(Same(vector, "core_json", Encoded(JsonCodec(), *event, EventApi::kCoreV1)));
    }
  }
}

// Go keeps the kind and apiVersion of each item of a list. No server sends them, and our Event has
// no fields for them.
const std::set<std::string> kListsWithItemKinds = {"read-v1-items-with-kinds",
                                                   "read-v1-items-of-another-kind"};

TEST(Codec, WritesAndReadsListsAsKubernetesDoes) {
  for (const Vector& vector : LoadGolden("lists.json")) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const EventApi api = ApiOf(vector);
    if (vector.at("direction") == "write") {
      const auto list = JsonCodec().DecodeEventList(Bytes(vector, "json"), api);
      ASSERT_TRUE(list) << list.error().ToString();
      std::string json;
      JsonCodec().AppendEventList(*list, api, &json);
      EXPECT_TRUE(Same(vector, "json", json));
      std::string bytes;
      ProtobufCodec().AppendEventList(*list, api, &bytes);
      EXPECT_TRUE(BytesMatch(vector, "pb", bytes));
      continue;
    }
    const Codec& codec = vector.at("format") == "json" ? JsonCodec() : ProtobufCodec();
    const auto list = codec.DecodeEventList(Bytes(vector, "input"), api);
    ASSERT_EQ(list.has_value(), vector.at("ok").get<bool>())
        << (list ? "accepted" : list.error().ToString());
    if (!list) {
      const std::string error = Bytes(vector, "error");
      if (NamesTypesWeDoNotHave(error) || error.find("arrived instead") != std::string::npos)
        continue;
      EXPECT_NE(list.error().message().find(error), std::string::npos)
          << list.error().message() << "\nshould contain\n"
          << error;
      continue;
    }
    std::string json;
    JsonCodec().AppendEventList(*list, api, &json);
    // Go distinguishes a missing list from an empty one. Servers write [] for both, and so do we.
    std::string expected = Bytes(vector, "json");
    if (const auto null = expected.find("\"items\":null"); null != std::string::npos) {
      expected.replace(null, std::string_view("\"items\":null").size(), "\"items\":[]");
    }
    if (!kListsWithItemKinds.contains(vector.at("name"))) {
      EXPECT_EQ(json, expected);
    }
  }
}

TEST(Codec, FramesWatchEventsAsKubernetesDoes) {
  int frames = 0;
  for (const Vector& vector : LoadGolden("watch.json")) {
    if (!HasBytes(vector, "json_frame")) continue;  // tables: see table_test.cc
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const EventApi api = ApiOf(vector);
    const std::string stream = Bytes(vector, "json_frame");
    for (const Codec* codec : {&JsonCodec(), &ProtobufCodec()}) {
      const bool is_json = codec == &JsonCodec();
      const std::string bytes = is_json ? stream : Bytes(vector, "pb_frame");
      const std::string buffer = bytes + "more";
      const auto frame = codec->NextFrame(buffer);
      ASSERT_TRUE(frame);
      ASSERT_TRUE(*frame);
      EXPECT_EQ((*frame)->consumed, bytes.size());
      WatchEvent event;
      const Status read = codec->DecodeWatchFrame((*frame)->payload, api, &event);
      ASSERT_TRUE(read.ok()) << read.ToString();
      EXPECT_EQ(WatchTypeName(event.type), vector.at("type").get<std::string>());
      std::string again;
      if (const auto* status = std::get_if<Status>(&event.object)) {
        EXPECT_EQ(Encoded(JsonCodec(), *status), Bytes(vector, "status_json"));
        EXPECT_EQ(status->origin(), Status::Origin::kServer);
        codec->AppendWatchError(*status, &again);
      } else {
        const Event& object = std::get<Event>(event.object);
        EXPECT_EQ(Encoded(JsonCodec(), object, EventApi::kCoreV1), Bytes(vector, "core_json"));
        codec->AppendWatchFrame(event.type, object, api, &again);
      }
      EXPECT_EQ(again, bytes);
      ++frames;
    }
  }
  EXPECT_GE(frames, 40);
}

TEST(Codec, WaitsForTheRestOfAFrame) {
  for (const Codec* codec : {&JsonCodec(), &ProtobufCodec()}) {
    std::string stream;
    codec->AppendWatchFrame(WatchType::kAdded, Event(), EventApi::kCoreV1, &stream);
    for (std::size_t size = 0; size < stream.size(); ++size) {
      const auto frame = codec->NextFrame(std::string_view(stream).substr(0, size));
      ASSERT_TRUE(frame);
      EXPECT_FALSE(frame->has_value());
    }
  }
}

TEST(Codec, RejectsAFrameOverTheLimitBeforeItIsComplete) {
  EXPECT_FALSE(JsonCodec().NextFrame(std::string(Codec::kMaxFrameBytes + 1, ' ')));
  EXPECT_FALSE(ProtobufCodec().NextFrame(std::string_view("\x01\x00\x00\x01", 4)));
  EXPECT_TRUE(ProtobufCodec().NextFrame(std::string_view("\x01\x00\x00\x00", 4)));
}

TEST(Codec, RejectsInvalidWatchFrames) {
  for (const std::string_view frame :
       {"", "[]", "{}", R"({"type":"NEW","object":{}})", R"({"type":"ERROR","object":{}})",
        R"({"type":"ADDED","object":{"count":"x"}})", R"({"type":"ADDED","object":{})"}) {
    SCOPED_TRACE(frame);
    WatchEvent event;
    EXPECT_FALSE(JsonCodec().DecodeWatchFrame(frame, EventApi::kCoreV1, &event).ok());
  }
}

// Decodes a frame into a new object, over an event, over an error and over the same frame.
void ExpectNoValueOfAnotherFrame(const Codec& codec, std::string_view payload, EventApi api) {
  WatchEvent fresh;
  const Status expected = codec.DecodeWatchFrame(payload, api, &fresh);
  WatchEvent after_event{WatchType::kDeleted, FullEvent()};
  WatchEvent after_error{WatchType::kError, Status(StatusReason::kGone, "gone")};
  WatchEvent after_same = fresh;
  for (WatchEvent* const used : {&after_event, &after_error, &after_same}) {
    const Status actual = codec.DecodeWatchFrame(payload, api, used);
    EXPECT_TRUE(actual == expected) << actual.ToString() << ", not " << expected.ToString();
    if (expected.ok()) {
      EXPECT_TRUE(*used == fresh) << "something was left over";
    }
  }
}

std::string JsonFrame(std::string_view object) {
  return std::string(R"({"type":"ADDED","object":)").append(object).append("}");
}

std::string ProtobufFrame(std::string_view object) {
  ProtobufWriter writer;  // writes from the end to the beginning
  writer.BytesField(1, object);
  writer.EndMessage(2, 0);
  writer.BytesField(1, "ADDED");
  return std::string(writer.bytes());
}

TEST(Codec, KeepsNoValueOfThePreviousFrame) {
  int frames = 0;
  for (const Vector& vector : LoadGolden("encode.json")) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const auto event = JsonCodec().DecodeEvent(Bytes(vector, "input"), ApiOf(vector));
    ASSERT_TRUE(event);
    for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
      const std::string json = JsonFrame(Encoded(JsonCodec(), *event, api));
      const std::string protobuf = ProtobufFrame(Encoded(ProtobufCodec(), *event, api));
      ExpectNoValueOfAnotherFrame(JsonCodec(), json, api);
      ExpectNoValueOfAnotherFrame(ProtobufCodec(), protobuf, api);
      WatchEvent read;
      ASSERT_TRUE(ProtobufCodec().DecodeWatchFrame(protobuf, api, &read).ok());
      EXPECT_EQ(Encoded(JsonCodec(), std::get<Event>(read.object), api),
                Encoded(JsonCodec(), *event, api));
      ++frames;
    }
  }
  // Incomplete, unordered, repeated and invalid fields.
  for (const Vector& vector : LoadGolden("decode_json.json")) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    ExpectNoValueOfAnotherFrame(JsonCodec(), JsonFrame(Bytes(vector, "input")), ApiOf(vector));
    ++frames;
  }
  for (const Vector& vector : LoadGolden("decode_protobuf.json")) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    ExpectNoValueOfAnotherFrame(ProtobufCodec(), ProtobufFrame(Bytes(vector, "input")),
                                ApiOf(vector));
    ++frames;
  }
  EXPECT_GE(frames, 100);
}

TEST(Codec, ReusesTheMemoryOfThePreviousFrame) {
  for (const Codec* codec : {&JsonCodec(), &ProtobufCodec()}) {
    SCOPED_TRACE(codec->media_type());
    WatchEvent out;
    const auto read = [&](std::size_t message_bytes) -> const Event& {
      Event event = FullEvent();
      event.message = std::string(message_bytes, 'm');
      std::string stream;
      codec->AppendWatchFrame(WatchType::kAdded, event, EventApi::kCoreV1, &stream);
      const auto frame = codec->NextFrame(stream).value_or(std::nullopt);
      const Status status =
          codec->DecodeWatchFrame(frame.value_or(Codec::Frame()).payload, EventApi::kCoreV1, &out);
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_EQ(std::get<Event>(out.object).message, event.message);
      return std::get<Event>(out.object);
    };
    const char* const message = read(1000).message.data();
    const char* const name = read(1000).metadata.name.data();
    EXPECT_EQ(read(900).message.data(), message);
    EXPECT_EQ(read(900).metadata.name.data(), name);
    // The memory of one huge event is not kept.
    EXPECT_GE(read(1 << 20).message.capacity(), 1U << 20);
    EXPECT_LE(read(900).message.capacity(), kMaxKeptText);
  }
}

// Statuses that are neither Success nor Failure, or whose reason or delay is unusable. They are
// decoded as failures with an unknown reason and encoded as such.
const std::set<std::string> kUnusableStatuses = {"write-empty", "write-empty-details",
                                                 "write-every-field", "write-negative-code"};

TEST(Codec, WritesAndReadsEachStatusAsKubernetesDoes) {
  for (const Vector& vector : LoadGolden("status.json")) {
    if (vector.at("kind") != "write") continue;  // see response_status_test.cc
    SCOPED_TRACE(vector.at("name").get<std::string>());
    for (const Codec* codec : {&JsonCodec(), &ProtobufCodec()}) {
      const std::string bytes = Bytes(vector, codec == &JsonCodec() ? "json" : "pb");
      const auto status = codec->DecodeStatus(bytes);
      ASSERT_TRUE(status);
      EXPECT_EQ(status->origin(), Status::Origin::kServer);
      if (kUnusableStatuses.contains(vector.at("name"))) {
        EXPECT_EQ(status->reason(), StatusReason::kUnknown);
        continue;
      }
      EXPECT_EQ(ReasonName(status->reason()), vector.at("reason").get<std::string>());
      EXPECT_EQ(Encoded(*codec, *status), bytes);
    }
  }
}

TEST(Codec, DecodeStatusRejectsOtherBodies) {
  for (const std::string_view body :
       {"", "<html>502 Bad Gateway</html>", "{}", R"({"kind":"Status","apiVersion":"v2"})",
        R"({"kind":"Event","apiVersion":"v1"})",
        R"({"kind":"Status","apiVersion":"v1","code":"x"})"}) {
    SCOPED_TRACE(body);
    EXPECT_FALSE(JsonCodec().DecodeStatus(body));
    EXPECT_FALSE(ProtobufCodec().DecodeStatus(body));
  }
}

TEST(Codec, AppendsToTheExistingBytes) {
  for (const Codec* codec : {&JsonCodec(), &ProtobufCodec()}) {
    std::string out = "before";
    codec->AppendEvent(Event(), EventApi::kCoreV1, &out);
    EXPECT_EQ(out, "before" + Encoded(*codec, Event(), EventApi::kCoreV1));
  }
}

}  // namespace
}  // namespace herald
