#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "herald/api/event.h"
#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// Responses for clients that do not want whole events: a table, as kubectl requests it, or only the
// metadata.

// The version of meta.k8s.io that the client requests. The two differ only in the name.
enum class MetaVersion : std::uint8_t { kV1, kV1Beta1 };

// The rows and columns that `kubectl get events` prints.
struct Table {
  struct Column {
    std::string_view name{};
    std::string_view type{};
    std::string_view format{};
    std::string_view description{};
    std::int32_t priority = 0;  // kubectl prints columns above 0 only with -o wide
  };
  using Cell = std::variant<std::string, std::int64_t>;
  struct Row {
    std::vector<Cell> cells{};
    std::string object{};  // the row's object as JSON, without a newline; "null" for none
  };

  MetaVersion version = MetaVersion::kV1;
  ListMeta metadata{};
  std::span<const Column> columns;
  std::vector<Row> rows{};
};

// The object in a row (the parameter includeObject).
enum class TableObject : std::uint8_t { kNone, kMetadata, kObject };

// Parses that parameter: "None", "Object" or "Metadata"; empty means "Metadata". Other values are
// kBadRequest, with Kubernetes' message.
HERALD_EXPORT Result<TableObject> ParseTableObject(std::string_view include_object);

// Kubernetes' ten columns for events: LAST SEEN, TYPE, REASON, OBJECT, SUBOBJECT, SOURCE, MESSAGE,
// FIRST SEEN, COUNT, NAME.
HERALD_EXPORT std::span<const Table::Column> EventColumns();

// A table with one row per event. Ages are relative to `now`.
HERALD_EXPORT Table MakeEventTable(const ListMeta& metadata, std::span<const Event> events,
                                   EventApi api, TableObject object, Timestamp now,
                                   MetaVersion version = MetaVersion::kV1);

// Appends the table as JSON with a newline at the end. `with_columns` is false for all frames of a
// watch except the first: they have "columnDefinitions":null.
HERALD_EXPORT void AppendTableJson(const Table& table, bool with_columns, std::string* out);

// Appends a PartialObjectMetadata as JSON, without a newline: the object of a row or of a watch
// frame.
HERALD_EXPORT void AppendPartialMetadataJson(const ObjectMeta& metadata, MetaVersion version,
                                             std::string* out);

// Appends a PartialObjectMetadataList as JSON with a newline at the end.
HERALD_EXPORT void AppendPartialMetadataListJson(const ListMeta& metadata,
                                                 std::span<const Event> events, MetaVersion version,
                                                 std::string* out);

// An age as kubectl prints it: "45s", "3m20s", "5d2h". A time two seconds or more in the future is
// "<invalid>", less than two seconds is "0s".
HERALD_EXPORT std::string HumanDuration(std::chrono::nanoseconds age);

}  // namespace herald
