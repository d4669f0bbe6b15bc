#include "herald/api/table.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "herald/api/codec.h"
#include "test/golden.h"

namespace herald {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::int64_t kNowSeconds = 1'700'000'000;
constexpr Timestamp kNow(kNowSeconds, 500'000'000);

enum Column {
  kLastSeen,
  kType,
  kReason,
  kObject,
  kSubobject,
  kSource,
  kMessage,
  kFirstSeen,
  kCount,
  kName
};

std::vector<Table::Cell> CellsOf(const Event& event) {
  const std::vector<Event> events{event};
  Table table = MakeEventTable({}, events, EventApi::kCoreV1, TableObject::kNone, kNow);
  EXPECT_EQ(table.rows.size(), 1U);
  EXPECT_EQ(table.rows[0].cells.size(), EventColumns().size());
  EXPECT_EQ(table.rows[0].object, "null");
  return table.rows[0].cells;
}

std::string TextOf(const Event& event, Column column) {
  return std::get<std::string>(CellsOf(event)[column]);
}

TEST(HumanDurationTest, ChangesItsUnitsWhereKubectlDoes) {
  constexpr auto kDay = hours(24);
  constexpr auto kYear = 365 * kDay;
  const struct {
    nanoseconds age;
    std::string_view text;
  } kRows[] = {
      {nanoseconds::min(), "<invalid>"},
      {seconds(-2), "<invalid>"},
      {seconds(-2) + nanoseconds(1), "0s"},
      {nanoseconds(-1), "0s"},
      {seconds(0), "0s"},
      {seconds(1) - nanoseconds(1), "0s"},
      {seconds(1), "1s"},
      {minutes(2) - nanoseconds(1), "119s"},
      {minutes(2), "2m"},
      {seconds(121), "2m1s"},
      {minutes(10) - seconds(1), "9m59s"},
      {minutes(10), "10m"},
      {hours(3) - seconds(1), "179m"},
      {hours(3), "3h"},
      {hours(3) + minutes(1), "3h1m"},
      {hours(8) - seconds(1), "7h59m"},
      {hours(8), "8h"},
      {hours(48) - seconds(1), "47h"},
      {hours(48), "2d"},
      {hours(49), "2d1h"},
      {8 * kDay - seconds(1), "7d23h"},
      {8 * kDay, "8d"},
      {2 * kYear - seconds(1), "729d"},
      {2 * kYear, "2y"},
      {2 * kYear + kDay, "2y1d"},
      {8 * kYear - seconds(1), "7y364d"},
      {8 * kYear, "8y"},
      {nanoseconds::max(), "292y"},
  };
  for (const auto& row : kRows) EXPECT_EQ(HumanDuration(row.age), row.text) << row.age.count();
}

TEST(TableTest, AnEmptyEventHasTenCells) {
  const std::vector<Table::Cell> expected = {"<unknown>",     "", "", "", "", "", "", "<unknown>",
                                             std::int64_t{1}, ""};
  EXPECT_EQ(CellsOf(Event()), expected);
}

TEST(TableTest, PrintsTheTimesOfBothStyles) {
  Event event;
  event.event_time = MicroTime(kNowSeconds - 30, 0);
  EXPECT_EQ(TextOf(event, kFirstSeen), "30s");
  EXPECT_EQ(TextOf(event, kLastSeen), "30s");
  event.first_timestamp = Time(kNowSeconds - 20, 0);
  EXPECT_EQ(TextOf(event, kFirstSeen), "20s");
  EXPECT_EQ(TextOf(event, kLastSeen), "20s");
  event.last_timestamp = Time(kNowSeconds - 10, 0);
  EXPECT_EQ(TextOf(event, kFirstSeen), "20s");
  EXPECT_EQ(TextOf(event, kLastSeen), "10s");
  event.series = EventSeries{.count = 3, .last_observed_time = MicroTime(kNowSeconds - 5, 0)};
  EXPECT_EQ(TextOf(event, kLastSeen), "5s");
  event.series->last_observed_time = MicroTime();
  EXPECT_EQ(TextOf(event, kLastSeen), "<unknown>");
}

TEST(TableTest, PrintsAgesOfTimesOutsideTheRangeOfWallTime) {
  Event event;
  event.first_timestamp = Time(std::numeric_limits<std::int64_t>::min(), 0);
  event.last_timestamp = Time(std::numeric_limits<std::int64_t>::max(), 999'999'999);
  EXPECT_EQ(TextOf(event, kFirstSeen), "292y");
  EXPECT_EQ(TextOf(event, kLastSeen), "<invalid>");
}

TEST(TableTest, PrefersTheCountOfASeries) {
  Event event;
  event.count = 7;
  EXPECT_EQ(std::get<std::int64_t>(CellsOf(event)[kCount]), 7);
  event.series = EventSeries{};
  EXPECT_EQ(std::get<std::int64_t>(CellsOf(event)[kCount]), 0);
  event.series->count = -3;
  EXPECT_EQ(std::get<std::int64_t>(CellsOf(event)[kCount]), -3);
}

TEST(TableTest, NamesTheObjectInLowerCase) {
  Event event;
  event.involved_object.kind = "ReplicaSet";
  EXPECT_EQ(TextOf(event, kObject), "replicaset");
  event.involved_object.name = "Web-0";
  EXPECT_EQ(TextOf(event, kObject), "replicaset/Web-0");
  // Beyond ASCII: \u00c4, \u0130 (I with a dot), \u0100, \u0101, the Kelvin sign, an invalid byte.
  event.involved_object.name.clear();
  event.involved_object.kind = "\u00c4\u0130\u0100\u0101\u212aZ\xff";
  EXPECT_EQ(TextOf(event, kObject), "\u00e4i\u0101\u0101kz\ufffd");
  event.involved_object.kind = "\U00010400\U0001e921\U00010428";
  EXPECT_EQ(TextOf(event, kObject), "\U00010428\U0001e943\U00010428");
}

TEST(TableTest, PrintsTheSourceFromTheFieldsThatAreSet) {
  Event event;
  event.reporting_controller = "k8s.io/c";
  EXPECT_EQ(TextOf(event, kSource), "k8s.io/c");
  event.reporting_instance = "c-0";
  EXPECT_EQ(TextOf(event, kSource), "k8s.io/c, c-0");
  event.source = {.component = "kubelet", .host = "node-1"};
  EXPECT_EQ(TextOf(event, kSource), "kubelet, node-1");
  event = Event();
  event.source.host = "node-1";
  EXPECT_EQ(TextOf(event, kSource), ", node-1");
}

TEST(TableTest, TrimsUnicodeWhiteSpaceFromTheMessage) {
  const struct {
    std::string_view message;
    std::string_view cell;
  } kRows[] = {
      {" \t\r\n\v\f", ""},
      {"  two words \n", "two words"},
      {"\u00a0\u3000x\u2003\u2028\u0085", "x"},
      {"\u200bx\u200b", "\u200bx\u200b"},  // zero width, not white space in Unicode
      {"x\xa0", "x\xa0"},
      {"\xe2\xc2\xa0", "\xe2"},
  };
  for (const auto& row : kRows) {
    Event event;
    event.message = row.message;
    EXPECT_EQ(TextOf(event, kMessage), row.cell);
  }
}

TEST(TableTest, WritesWhatTheServerWrites) {
  Event event;
  event.metadata.name = "n1.17";
  event.metadata.namespace_ = "default";
  event.involved_object.kind = "Node";
  event.involved_object.name = "n1";
  event.reason = "R<>";
  event.count = 2;
  const std::vector<Event> events{event, event};
  ListMeta metadata;
  metadata.resource_version = "42";
  metadata.continue_ = "next";
  metadata.remaining_item_count = 7;
  const Table table =
      MakeEventTable(metadata, events, EventApi::kCoreV1, TableObject::kMetadata, kNow);
  std::string json = "before";
  AppendTableJson(table, false, &json);
  const std::string row =
      R"({"cells":["\u003cunknown\u003e","","R\u003c\u003e","node/n1","","","",)"
      R"("\u003cunknown\u003e",2,"n1.17"],"object":{"kind":"PartialObjectMetadata",)"
      R"("apiVersion":"meta.k8s.io/v1","metadata":{"name":"n1.17","namespace":"default"}}})";
  EXPECT_EQ(json, R"(before{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":)"
                  R"({"resourceVersion":"42","continue":"next","remainingItemCount":7},)"
                  R"("columnDefinitions":null,"rows":[)" +
                      row + "," + row + "]}\n");
}

TEST(TableTest, AnEmptyListHasColumnsAndNoRows) {
  const Table table = MakeEventTable({}, {}, EventApi::kEventsV1, TableObject::kObject, kNow);
  std::string json;
  AppendTableJson(table, true, &json);
  EXPECT_TRUE(json.starts_with(
      R"({"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":[)"
      R"({"name":"Last Seen","type":"string","format":"","description":"The time at )"))
      << json;
  EXPECT_TRUE(json.ends_with(R"(,"priority":1}],"rows":[]})"
                             "\n"))
      << json;
}

TEST(TableTest, ARowHasTheWholeEventInTheRequestedSpelling) {
  Event event;
  event.message = "m";
  const std::vector<Event> events{event};
  const auto object = [&](EventApi api) {
    return MakeEventTable({}, events, api, TableObject::kObject, kNow).rows[0].object;
  };
  EXPECT_NE(object(EventApi::kCoreV1).find(R"("message":"m")"), std::string::npos);
  EXPECT_NE(object(EventApi::kEventsV1).find(R"("note":"m")"), std::string::npos);
  EXPECT_TRUE(object(EventApi::kCoreV1).ends_with('}'));
}

Event Decoded(const std::string& text) {
  const auto event = JsonCodec().DecodeEvent(text, EventApi::kCoreV1);
  EXPECT_TRUE(event.has_value()) << text;
  return event ? *event : Event();
}

// The list from which the vectors of whole responses were made (test/interop).
std::vector<Event> GoldenEvents() {
  return {
      Decoded(
          R"({"metadata":{"name":"a.17","namespace":"default","uid":"u1","resourceVersion":"41",)"
          R"("creationTimestamp":"2024-01-01T00:00:00Z","labels":{"k":"v"}},"involvedObject":)"
          R"({"kind":"Pod","name":"a","fieldPath":"spec.containers{web}"},"reason":"R",)"
          R"("message":" m <&> ","source":{"component":"c","host":"h"},)"
          R"("firstTimestamp":"1500-01-01T00:00:00Z","lastTimestamp":"1600-01-01T00:00:00Z",)"
          R"("count":3,"type":"Normal"})"),
      Decoded(R"({"metadata":{"name":"b.18","namespace":"default"}})"),
  };
}

// A whole response of a server.
void CheckResponse(const testing::Vector& vector) {
  const std::string name = vector.at("name").get<std::string>();
  const std::string expected = vector.at("json").get<std::string>();
  const auto object = ParseTableObject(vector.value("include_object", ""));
  ASSERT_EQ(object.has_value(), vector.at("http_code") == 200);
  if (!object) {
    EXPECT_EQ(object.error().code(), vector.at("http_code").get<int>());
    EXPECT_EQ(object.error().message(),
              testing::Vector::parse(expected).at("message").get<std::string>());
    return;
  }
  ListMeta metadata;
  metadata.resource_version = "42";
  std::vector<Event> events;
  if (!name.ends_with("-no-rows")) {
    metadata.continue_ = "next";
    events = GoldenEvents();
  }
  const MetaVersion version = name.ends_with("-beta") ? MetaVersion::kV1Beta1 : MetaVersion::kV1;
  std::string json;
  if (vector.at("kind") == "partial") {
    AppendPartialMetadataListJson(metadata, events, version, &json);
  } else {
    const EventApi api = vector.at("api") == "v1" ? EventApi::kCoreV1 : EventApi::kEventsV1;
    AppendTableJson(MakeEventTable(metadata, events, api, *object, kNow, version), true, &json);
  }
  EXPECT_EQ(json, expected);
}

void CheckRow(const testing::Vector& vector) {
  const std::vector<Table::Cell> cells = CellsOf(Decoded(vector.at("event").get<std::string>()));
  const testing::Vector& expected = vector.at("cells");
  ASSERT_EQ(cells.size(), expected.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    SCOPED_TRACE(EventColumns()[i].name);
    if (expected[i].is_string()) {
      EXPECT_EQ(cells[i], Table::Cell(expected[i].get<std::string>()));
    } else {
      EXPECT_EQ(cells[i], Table::Cell(expected[i].get<std::int64_t>()));
    }
  }
}

TEST(TableTest, AgreesWithEveryGoldenVector) {
  for (const testing::Vector& vector : testing::LoadGolden("table.json")) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const std::string kind = vector.at("kind").get<std::string>();
    if (kind == "table" || kind == "partial") {
      CheckResponse(vector);
    } else if (kind == "row") {
      CheckRow(vector);
    } else if (kind == "age") {
      EXPECT_EQ(HumanDuration(nanoseconds(vector.at("duration_ns").get<std::int64_t>())),
                vector.at("text").get<std::string>());
    } else {
      ADD_FAILURE() << "no check for this kind of vector";
    }
  }
}

// Frames of a watch are tables with one row; only the first has the columns. The vectors with whole
// events also provide the events for the others.
TEST(TableTest, OnlyTheFirstFrameOfAWatchHasColumns) {
  std::map<std::string, std::vector<Event>> watched;
  std::vector<testing::Vector> vectors;
  for (const testing::Vector& vector : testing::LoadGolden("watch.json")) {
    if (!vector.contains("frames")) continue;
    vectors.push_back(vector);
    if (vector.at("include_object") != "Object") continue;
    for (const std::string frame : vector.at("frames")) {
      const auto object = testing::Vector::parse(frame).at("object").at("rows").at(0).at("object");
      const EventApi api = vector.at("api") == "v1" ? EventApi::kCoreV1 : EventApi::kEventsV1;
      watched[vector.at("api")].push_back(JsonCodec().DecodeEvent(object.dump(), api).value());
    }
  }
  ASSERT_EQ(watched.size(), 2);
  for (const testing::Vector& vector : vectors) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const std::vector<std::string> frames = vector.at("frames");
    const auto object = ParseTableObject(vector.at("include_object").get<std::string>());
    ASSERT_TRUE(object);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const std::string type = testing::Vector::parse(frames[i]).at("type").dump();
      const EventApi api = vector.at("api") == "v1" ? EventApi::kCoreV1 : EventApi::kEventsV1;
      const Event events[] = {watched.at(vector.at("api")).at(i)};
      ListMeta metadata;
      metadata.resource_version = events[0].metadata.resource_version;
      std::string json;
      // A bookmark has only metadata, so the row has it with includeObject=None, too.
      const bool needs_metadata = type == "\"BOOKMARK\"" && *object == TableObject::kNone;
      const TableObject shown = needs_metadata ? TableObject::kMetadata : *object;
      AppendTableJson(MakeEventTable(metadata, events, api, shown, kNow), i == 0, &json);
      json.pop_back();  // the newline ends the frame
      EXPECT_EQ("{\"type\":" + type + ",\"object\":" + json + "}",
                frames[i].substr(0, frames[i].find('\n')));
    }
  }
}

}  // namespace
}  // namespace herald
