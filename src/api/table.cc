#include "herald/api/table.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/json/codec.h"
#include "api/json/encoder.h"
#include "api/json/event_list_writer.h"
#include "api/json/writer.h"
#include "api/quote.h"
#include "fmt/format.h"

namespace herald {
namespace {

// The descriptions are Kubernetes' own documentation of the fields. Tests compare tables byte for
// byte (table.json).
constexpr auto kEventColumns = std::to_array<Table::Column>({
    {"Last Seen", "string", "",
     "The time at which the most recent occurrence of this event was recorded.", 0},
    {"Type", "string", "",
     "Type of this event (Normal, Warning), new types could be added in the future", 0},
    {"Reason", "string", "",
     "This should be a short, machine understandable string that gives the reason for the "
     "transition into the object's current status.",
     0},
    {"Object", "string", "", "The object that this event is about.", 0},
    {"Subobject", "string", "",
     "If referring to a piece of an object instead of an entire object, this string should contain "
     "a valid JSON/Go field access statement, such as desiredState.manifest.containers[2]. For "
     "example, if the object reference is to a container within a pod, this would take on a value "
     "like: \"spec.containers{name}\" (where \"name\" refers to the name of the container that "
     "triggered the event) or if no container name is specified \"spec.containers[2]\" (container "
     "with index 2 in this pod). This syntax is chosen only to have some well-defined way of "
     "referencing a part of an object.",
     1},
    {"Source", "string", "",
     "The component reporting this event. Should be a short machine understandable string.", 1},
    {"Message", "string", "", "A human-readable description of the status of this operation.", 0},
    {"First Seen", "string", "",
     "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)", 1},
    {"Count", "string", "", "The number of times this event has occurred.", 1},
    {"Name", "string", "name",
     "Name must be unique within a namespace. Is required when creating resources, although some "
     "resources may allow a client to request the generation of an appropriate name automatically. "
     "Name is primarily intended for creation idempotence and configuration definition. Cannot be "
     "updated. More info: "
     "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
     1},
});

constexpr std::int64_t kMinute = 60;
constexpr std::int64_t kHour = 60 * kMinute;
constexpr std::int64_t kDay = 24 * kHour;
constexpr std::int64_t kYear = 365 * kDay;

struct Unit {
  std::int64_t seconds;
  char letter;
};

// How ages below a limit are printed: in whole units and, in some ranges, the remainder in the next
// smaller unit.
struct AgeRule {
  std::int64_t below;  // seconds
  Unit unit;
  Unit rest;  // 0 seconds: the remainder is not printed
};
constexpr auto kAgeRules = std::to_array<AgeRule>({
    {2 * kMinute, {1, 's'}, {}},
    {10 * kMinute, {kMinute, 'm'}, {1, 's'}},
    {3 * kHour, {kMinute, 'm'}, {}},
    {8 * kHour, {kHour, 'h'}, {kMinute, 'm'}},
    {2 * kDay, {kHour, 'h'}, {}},
    {8 * kDay, {kDay, 'd'}, {kHour, 'h'}},
    {2 * kYear, {kDay, 'd'}, {}},
    {8 * kYear, {kYear, 'y'}, {kDay, 'd'}},
    {std::numeric_limits<std::int64_t>::max(), {kYear, 'y'}, {}},
});

// The time from `from` to `to`, clamped to the range of nanoseconds (292 years), because a
// Timestamp has a larger range.
std::chrono::nanoseconds Between(Timestamp from, Timestamp to) {
  using std::chrono::nanoseconds;
  constexpr std::int64_t kNanos = 1'000'000'000;
  std::int64_t age = 0;
  if (__builtin_sub_overflow(to.seconds(), from.seconds(), &age) ||
      __builtin_mul_overflow(age, kNanos, &age) ||
      __builtin_add_overflow(age, std::int64_t{to.nanos()} - from.nanos(), &age)) {
    return from < to ? nanoseconds::max() : nanoseconds::min();
  }
  return nanoseconds(age);
}

std::string Age(Timestamp time, Timestamp now) {
  return time.is_zero() ? "<unknown>" : HumanDuration(Between(time, now));
}

// Ranges of upper case letters beyond ASCII, from `first` to `last` in steps of `step`, and the
// distance to the lower case letter. Unicode 15, as on Kubernetes' servers.
struct LowerCaseRun {
  char32_t first;
  char32_t last;
  std::uint32_t step;
  std::int32_t distance;
};
constexpr LowerCaseRun kLowerCaseRuns[] = {
#include "api/lower_case.inc"
};

char32_t LowerCase(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
  const auto* run = std::ranges::lower_bound(kLowerCaseRuns, c, {}, &LowerCaseRun::last);
  if (run == std::end(kLowerCaseRuns) || c < run->first || (c - run->first) % run->step != 0) {
    return c;
  }
  return static_cast<char32_t>(static_cast<std::int32_t>(c) + run->distance);
}

std::string LowerCase(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  while (!text.empty()) AppendUtf8(LowerCase(TakeCodePoint(&text)), &lower);
  return lower;
}

// White space in Unicode.
bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

std::string_view TrimSpace(std::string_view text) {
  const char* begin = text.data();
  const char* end = begin;  // after the last character that is not white space
  for (std::string_view rest = text; !rest.empty();) {
    const char* at = rest.data();
    if (IsSpace(TakeCodePoint(&rest))) continue;
    if (begin == end) begin = at;
    end = rest.data();
  }
  return {begin, static_cast<std::size_t>(end - begin)};
}

std::string ObjectCell(const ObjectReference& object) {
  std::string kind = LowerCase(object.kind);
  return object.name.empty() ? kind : kind + "/" + object.name;
}

std::string SourceCell(const Event& event) {
  const std::string& component =
      event.source.component.empty() ? event.reporting_controller : event.source.component;
  const std::string& instance =
      event.source.host.empty() ? event.reporting_instance : event.source.host;
  return instance.empty() ? component : component + ", " + instance;
}

std::vector<Table::Cell> EventCells(const Event& event, Timestamp now) {
  // The fields of the other style are empty. A series has the latest values.
  Timestamp first = event.first_timestamp;
  if (first.is_zero()) first = event.event_time;
  Timestamp last = event.last_timestamp;
  if (last.is_zero()) last = first;
  std::int32_t count = event.count == 0 ? 1 : event.count;
  if (event.series) {
    last = event.series->last_observed_time;
    count = event.series->count;
  }
  return {Age(last, now),
          event.type,
          event.reason,
          ObjectCell(event.involved_object),
          event.involved_object.field_path,
          SourceCell(event),
          std::string(TrimSpace(event.message)),
          Age(first, now),
          std::int64_t{count},
          event.metadata.name};
}

std::string RowObject(const Event& event, EventApi api, TableObject object, MetaVersion version) {
  std::string json;
  switch (object) {
    case TableObject::kNone:
      json = "null";
      break;
    case TableObject::kMetadata:
      AppendPartialMetadataJson(event.metadata, version, &json);
      break;
    case TableObject::kObject:
      AppendEventJson(event, api, &json);
      break;
  }
  return json;
}

// Begins an object of meta.k8s.io, up to its metadata.
void AppendTypeMeta(std::string_view kind, MetaVersion version, std::string* out) {
  out->append(fmt::format(R"({{"kind":"{}","apiVersion":"meta.k8s.io/{}","metadata":)", kind,
                          version == MetaVersion::kV1 ? "v1" : "v1beta1"));
}

void AppendListMeta(const ListMeta& metadata, std::string* out) {
  JsonWriter writer;
  JsonEncoder<EventApi::kCoreV1>(&writer).Value(metadata);  // the same in both spellings
  out->append(writer.text());
}

void AppendColumn(const Table::Column& column, std::string* out) {
  const auto member = [out](std::string_view key, std::string_view value) {
    out->append(key);
    AppendJsonString(value, out);
  };
  member(R"({"name":)", column.name);
  member(R"(,"type":)", column.type);
  member(R"(,"format":)", column.format);
  member(R"(,"description":)", column.description);
  out->append(fmt::format(R"(,"priority":{}}})", column.priority));
}

void AppendCell(const Table::Cell& cell, std::string* out) {
  if (const auto* text = std::get_if<std::string>(&cell)) {
    AppendJsonString(*text, out);
  } else {
    out->append(fmt::format_int(std::get<std::int64_t>(cell)).c_str());
  }
}

// Appends a JSON array.
template <typename Items, typename AppendItem>
void AppendArray(const Items& items, AppendItem append_item, std::string* out) {
  out->push_back('[');
  bool first = true;
  for (const auto& item : items) {
    if (!std::exchange(first, false)) out->push_back(',');
    append_item(item, out);
  }
  out->push_back(']');
}

void AppendRow(const Table::Row& row, std::string* out) {
  out->append(R"({"cells":)");
  AppendArray(row.cells, AppendCell, out);
  out->append(R"(,"object":)").append(row.object).push_back('}');
}

}  // namespace

std::span<const Table::Column> EventColumns() { return kEventColumns; }

Result<TableObject> ParseTableObject(std::string_view include_object) {
  if (include_object.empty() || include_object == "Metadata") return TableObject::kMetadata;
  if (include_object == "Object") return TableObject::kObject;
  if (include_object == "None") return TableObject::kNone;
  return Status(
      StatusReason::kBadRequest,
      fmt::format("Unable to convert to Table as requested: includeObject: Invalid value: "
                  "{}: must be 'Metadata', 'Object', 'None', or empty",
                  Quoted(include_object)));
}

Table MakeEventTable(const ListMeta& metadata, std::span<const Event> events, EventApi api,
                     TableObject object, Timestamp now, MetaVersion version) {
  Table table{.version = version, .metadata = metadata, .columns = EventColumns(), .rows = {}};
  table.rows.reserve(events.size());
  for (const Event& event : events) {
    table.rows.push_back({EventCells(event, now), RowObject(event, api, object, version)});
  }
  return table;
}

void AppendPartialMetadataJson(const ObjectMeta& metadata, MetaVersion version, std::string* out) {
  AppendTypeMeta("PartialObjectMetadata", version, out);
  AppendObjectMetaJson(metadata, out);
  out->push_back('}');
}

void AppendPartialMetadataListJson(const ListMeta& metadata, std::span<const Event> events,
                                   MetaVersion version, std::string* out) {
  JsonPartialMetadataListWriter writer(version);
  writer.AppendHead(metadata, out);
  for (const Event& event : events) writer.Append(event, out);
  JsonPartialMetadataListWriter::AppendTail(out);
}

void JsonPartialMetadataListWriter::AppendHead(const ListMeta& metadata, std::string* out) const {
  AppendTypeMeta("PartialObjectMetadataList", version_, out);
  AppendListMeta(metadata, out);
  out->append(R"(,"items":[)");
}

void JsonPartialMetadataListWriter::Append(const Event& event, std::string* out) {
  if (!std::exchange(first_, false)) out->push_back(',');
  AppendPartialMetadataJson(event.metadata, version_, out);
}

void JsonPartialMetadataListWriter::AppendTail(std::string* out) { out->append("]}\n"); }

void JsonTableWriter::AppendHead(const ListMeta& metadata, std::string* out) const {
  AppendTypeMeta("Table", version_, out);
  AppendListMeta(metadata, out);
  out->append(R"(,"columnDefinitions":)");
  AppendArray(EventColumns(), AppendColumn, out);
  out->append(R"(,"rows":[)");
}

void JsonTableWriter::Append(const Event& event, std::string* out) {
  if (!std::exchange(first_, false)) out->push_back(',');
  AppendRow({EventCells(event, now_), RowObject(event, api_, object_, version_)}, out);
}

void JsonTableWriter::AppendTail(std::string* out) { out->append("]}\n"); }

void AppendTableJson(const Table& table, bool with_columns, std::string* out) {
  AppendTypeMeta("Table", table.version, out);
  AppendListMeta(table.metadata, out);
  out->append(R"(,"columnDefinitions":)");
  if (with_columns) {
    AppendArray(table.columns, AppendColumn, out);
  } else {
    out->append("null");
  }
  out->append(R"(,"rows":)");
  AppendArray(table.rows, AppendRow, out);
  out->append("}\n");
}

std::string HumanDuration(std::chrono::nanoseconds age) {
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(age).count();
  // Clocks differ, so times less than two seconds in the future count as now.
  if (seconds < -1) return "<invalid>";
  if (seconds < 0) return "0s";
  const AgeRule& rule = *std::ranges::upper_bound(kAgeRules, seconds, {}, &AgeRule::below);
  std::string text = fmt::format("{}{}", seconds / rule.unit.seconds, rule.unit.letter);
  if (rule.rest.seconds == 0) return text;
  const std::int64_t rest = seconds % rule.unit.seconds / rule.rest.seconds;
  if (rest != 0) text.append(fmt::format("{}{}", rest, rule.rest.letter));
  return text;
}

}  // namespace herald
