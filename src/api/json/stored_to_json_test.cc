#include "api/json/stored_to_json.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes/random.h"
#include "herald/api/codec.h"

namespace herald {
namespace {

constexpr std::string_view kVersion = "4711";

std::string Stored(const Event& event) {
  std::string stored;
  ProtobufCodec().AppendEvent(event, EventApi::kCoreV1, &stored);
  return stored;
}

// Converts by decoding and encoding; empty if it cannot be decoded.
std::string DecodedAndEncoded(const std::string& stored, EventApi api) {
  Result<Event> event = ProtobufCodec().DecodeEvent(stored, EventApi::kCoreV1);
  if (!event) return {};
  event->metadata.resource_version = kVersion;
  std::string json;
  JsonCodec().AppendEvent(*event, api, &json);
  // A single event has kind and apiVersion; an item of a list does not.
  const std::string type =
      R"({"kind":"Event","apiVersion":")" + std::string(ApiVersionName(api)) + "\",";
  EXPECT_TRUE(json.starts_with(type)) << json;
  json.replace(0, type.size(), "{");
  json.pop_back();
  return json;
}

// Empty if WriteStoredEventJson() does not support the event.
std::string Converted(const std::string& stored, EventApi api) {
  JsonWriter writer;
  if (!WriteStoredEventJson(stored, api, kVersion, &writer)) return {};
  return std::string(writer.text());
}

Event Usual() {
  Event event;
  event.metadata.name = "web-1.17a";
  event.metadata.namespace_ = "default";
  event.metadata.uid = "ce611c62";
  event.metadata.creation_timestamp = Time(1'700'000'000, 0);
  event.involved_object = {.kind = "Pod", .namespace_ = "default", .name = "web-1"};
  event.reason = "Started";
  event.message = "Started <container> \"web\" \xff\n";
  event.source = {.component = "kubelet", .host = "node-1"};
  event.first_timestamp = Time(1'700'000'000, 0);
  event.last_timestamp = Time(1'700'000'060, 0);
  event.count = 3;
  event.type = "Normal";
  event.reporting_controller = "kubelet";
  event.reporting_instance = "node-1";
  return event;
}

struct Change {
  const char* name;
  std::function<void(Event&)> apply;
};

TEST(StoredToJsonTest, WritesTheSameAsDecodingAndEncoding) {
  const std::vector<Change> changes = {
      {"unchanged", [](Event&) {}},
      {"empty", [](Event& e) { e = Event(); }},
      {"with a resource version", [](Event& e) { e.metadata.resource_version = "1"; }},
      {"no creation", [](Event& e) { e.metadata.creation_timestamp = Time(); }},
      {"generated name", [](Event& e) { e.metadata.generate_name = "web-"; }},
      {"generation", [](Event& e) { e.metadata.generation = -1; }},
      {"going",
       [](Event& e) {
         e.metadata.deletion_timestamp = Time(1'700'000'100, 0);
         e.metadata.deletion_grace_period_seconds = 0;
       }},
      {"series",
       [](Event& e) {
         e.series = EventSeries{.count = 7, .last_observed_time = MicroTime(1'700'000'000, 5'000)};
       }},
      {"empty series", [](Event& e) { e.series = EventSeries(); }},
      {"event time", [](Event& e) { e.event_time = MicroTime(1'700'000'000, 999'999'000); }},
      {"1970", [](Event& e) { e.event_time = MicroTime(0, 0); }},
      {"long ago", [](Event& e) { e.last_timestamp = Time(-1'000'000'000, 0); }},
      {"related", [](Event& e) { e.related = ObjectReference{.name = "other"}; }},
      {"empty related", [](Event& e) { e.related = ObjectReference(); }},
      {"action", [](Event& e) { e.action = "Starting"; }},
      {"negative count", [](Event& e) { e.count = -5; }},
      {"long message", [](Event& e) { e.message = std::string(100'000, '<'); }},
  };
  for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
    for (const Change& change : changes) {
      SCOPED_TRACE(change.name);
      Event event = Usual();
      change.apply(event);
      const std::string stored = Stored(event);
      EXPECT_EQ(Converted(stored, api), DecodedAndEncoded(stored, api));
    }
  }
}

TEST(StoredToJsonTest, RejectsEventsWithUnsupportedFields) {
  const std::vector<Change> changes = {
      {"labels", [](Event& e) { e.metadata.labels["a"] = "b"; }},
      {"annotations", [](Event& e) { e.metadata.annotations["a"] = "b"; }},
      {"owners", [](Event& e) { e.metadata.owner_references.emplace_back(); }},
      {"finalizers", [](Event& e) { e.metadata.finalizers.emplace_back("f"); }},
      {"managed fields", [](Event& e) { e.metadata.managed_fields.emplace_back(); }},
  };
  for (const Change& change : changes) {
    SCOPED_TRACE(change.name);
    Event event = Usual();
    change.apply(event);
    EXPECT_EQ(Converted(Stored(event), EventApi::kCoreV1), "");
  }
  std::string json;
  JsonCodec().AppendEvent(Usual(), EventApi::kCoreV1, &json);
  std::string other_api;
  ProtobufCodec().AppendEvent(Usual(), EventApi::kEventsV1, &other_api);
  const std::string stored = Stored(Usual());
  for (const std::string& text : {std::string(), json, other_api, stored + '\0',
                                  stored.substr(0, stored.size() - 1), stored.substr(0, 18)}) {
    EXPECT_EQ(Converted(text, EventApi::kCoreV1), "");
  }
}

// For any bytes: if both conversions succeed, the results are equal, and if decoding fails, the
// conversion fails, too.
TEST(StoredToJsonTest, AgreesWithDecodingForDamagedEvents) {
  Random random(7);
  Event event = Usual();
  event.series = EventSeries{.count = 7, .last_observed_time = MicroTime(1'700'000'000, 5'000)};
  event.related = ObjectReference{.name = "other"};
  const std::string whole = Stored(event);
  int both = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = whole;
    for (std::uint64_t n = random.Next() % 3 + 1; n > 0; --n) {
      const std::size_t at = random.Next() % damaged.size();
      // Small numbers are tags and lengths, so they are used more often.
      damaged[at] = static_cast<char>(random.Next() % (n == 1 ? 256 : 32));
    }
    for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
      const std::string converted = Converted(damaged, api);
      if (converted.empty()) continue;
      ++both;
      ASSERT_EQ(converted, DecodedAndEncoded(damaged, api)) << testing::PrintToString(damaged);
    }
  }
  EXPECT_GT(both, 1'000) << "most damage is in strings";
}

}  // namespace
}  // namespace herald
