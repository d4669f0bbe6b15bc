#pragma once

#include <string_view>

#include "herald/api/event.h"
#include "herald/base/export.h"

namespace herald {

// What a stored event is looked up by. Views into whatever it was read from.
struct IndexedFields {
  std::string_view kind{};  // these four are of the involved object
  std::string_view namespace_{};
  std::string_view name{};
  std::string_view uid{};
  std::string_view reason{};
  std::string_view type{};
  Timestamp last_occurrence{};  // see LastOccurrence()
  Timestamp creation{};
};

// When the event happened last, by the member that knows best: series.lastObservedTime,
// lastTimestamp, eventTime, firstTimestamp. Zero where none is set.
HERALD_EXPORT Timestamp LastOccurrence(const Event& event);

HERALD_EXPORT IndexedFields IndexedFieldsOf(const Event& event);

// Reads them off the protobuf of a core/v1 event, envelope included, without decoding
// the rest: a store asks this of every event that is written. False where it is none.
HERALD_EXPORT bool ReadIndexedFields(std::string_view protobuf, IndexedFields* keys);

}  // namespace herald
