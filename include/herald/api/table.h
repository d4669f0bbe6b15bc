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

// What a server answers with instead of the events themselves, where the client asked
// for less: a table for people, or the metadata alone.

// The version of meta.k8s.io that the client named. Only the name differs.
enum class MetaVersion : std::uint8_t { kV1, kV1Beta1 };

// The rows and columns that `kubectl get` prints, made on the server.
struct Table {
  struct Column {
    std::string_view name{};
    std::string_view type{};
    std::string_view format{};
    std::string_view description{};
    std::int32_t priority = 0;  // kubectl shows those above 0 only with -o wide
  };
  using Cell = std::variant<std::string, std::int64_t>;
  struct Row {
    std::vector<Cell> cells{};
    std::string object{};  // JSON that goes with the row, without a newline; "null" for none
  };

  MetaVersion version = MetaVersion::kV1;
  ListMeta metadata{};
  std::span<const Column> columns;
  std::vector<Row> rows{};
};

// What a row carries besides its cells (the parameter includeObject).
enum class TableObject : std::uint8_t { kNone, kMetadata, kObject };

// Reads that parameter: "None", "Object", "Metadata", or nothing for the last. A
// refusal is kBadRequest in Kubernetes' words.
HERALD_EXPORT Result<TableObject> ParseTableObject(std::string_view include_object);

// The ten columns that Kubernetes prints an event in.
HERALD_EXPORT std::span<const Table::Column> EventColumns();

// One row per event, ages as seen at `now`.
HERALD_EXPORT Table MakeEventTable(const ListMeta& metadata, std::span<const Event> events,
                                   EventApi api, TableObject object, Timestamp now,
                                   MetaVersion version = MetaVersion::kV1);

// Appends the JSON of a table as a document, which ends with a newline. Frames of a
// watch after the first one say "columnDefinitions":null, for which `with_columns`
// is false.
HERALD_EXPORT void AppendTableJson(const Table& table, bool with_columns, std::string* out);

// Appends the JSON of a PartialObjectMetadata, without a newline: it is a row's or a
// watch frame's object.
HERALD_EXPORT void AppendPartialMetadataJson(const ObjectMeta& metadata, MetaVersion version,
                                             std::string* out);

// Appends the JSON of a PartialObjectMetadataList as a document.
HERALD_EXPORT void AppendPartialMetadataListJson(const ListMeta& metadata,
                                                 std::span<const Event> events, MetaVersion version,
                                                 std::string* out);

// An age as kubectl writes it: "45s", "3m20s", "5d2h". Two seconds or more in the
// future are "<invalid>", less is "0s".
HERALD_EXPORT std::string HumanDuration(std::chrono::nanoseconds age);

}  // namespace herald
