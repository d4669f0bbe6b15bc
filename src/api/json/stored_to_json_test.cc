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

// By decoding and encoding; empty where it cannot be decoded.
std::string TheLongWay(const std::string& stored, EventApi api) {
  Result<Event> event = ProtobufCodec().DecodeEvent(stored, EventApi::kCoreV1);
  if (!event) return {};
  event->metadata.resource_version = kVersion;
  std::string json;
  JsonCodec().AppendEvent(*event, api, &json);
  // An event by itself says what it is; one in a list does not.
  const std::string type =
      R"({"kind":"Event","apiVersion":")" + std::string(ApiVersionName(api)) + "\",";
  EXPECT_TRUE(json.starts_with(type)) << json;
  json.replace(0, type.size(), "{");
  json.pop_back();
  return json;
}

// Empty where it does not know the way.
std::string TheShortWay(const std::string& stored, EventApi api) {
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

TEST(StoredToJsonTest, WritesWhatTheLongWayWrites) {
  const std::vector<Change> changes = {
      {"as it is", [](Event&) {}},
      {"nothing in it", [](Event& e) { e = Event(); }},
      {"a version of its own", [](Event& e) { e.metadata.resource_version = "1"; }},
      {"no creation", [](Event& e) { e.metadata.creation_timestamp = Time(); }},
      {"made-up name", [](Event& e) { e.metadata.generate_name = "web-"; }},
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
      EXPECT_EQ(TheShortWay(stored, api), TheLongWay(stored, api));
    }
  }
}

TEST(StoredToJsonTest, LeavesWhatItDoesNotKnowToTheLongWay) {
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
    EXPECT_EQ(TheShortWay(Stored(event), EventApi::kCoreV1), "");
  }
  std::string json;
  JsonCodec().AppendEvent(Usual(), EventApi::kCoreV1, &json);
  std::string other_api;
  ProtobufCodec().AppendEvent(Usual(), EventApi::kEventsV1, &other_api);
  const std::string stored = Stored(Usual());
  for (const std::string& text : {std::string(), json, other_api, stored + '\0',
                                  stored.substr(0, stored.size() - 1), stored.substr(0, 18)}) {
    EXPECT_EQ(TheShortWay(text, EventApi::kCoreV1), "");
  }
}

// Whatever the bytes are: where both ways lead somewhere they lead to the same place, and where
// the long one does not, neither does the short one.
TEST(StoredToJsonTest, AgreesWithTheLongWayAboutDamagedEvents) {
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
      // Small numbers are tags and lengths.
      damaged[at] = static_cast<char>(random.Next() % (n == 1 ? 256 : 32));
    }
    for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
      const std::string short_way = TheShortWay(damaged, api);
      if (short_way.empty()) continue;
      ++both;
      ASSERT_EQ(short_way, TheLongWay(damaged, api)) << testing::PrintToString(damaged);
    }
  }
  EXPECT_GT(both, 1'000) << "most damage is to texts";
}

}  // namespace
}  // namespace herald
