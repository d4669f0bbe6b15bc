#pragma once

#include <string_view>

#include "herald/api/event.h"
#include "herald/base/export.h"

namespace herald {

// The fields by which the server looks up stored events. Views into the event or its protobuf.
struct IndexedFields {
  std::string_view kind{};  // this and the next three are of the involved object
  std::string_view namespace_{};
  std::string_view name{};
  std::string_view uid{};
  std::string_view reason{};
  std::string_view type{};
  Timestamp last_occurrence{};  // see LastOccurrence()
  Timestamp creation{};
};

// When the event last occurred: the first of series.lastObservedTime, lastTimestamp, eventTime and
// firstTimestamp that is set. Zero if none is.
HERALD_EXPORT Timestamp LastOccurrence(const Event& event);

HERALD_EXPORT IndexedFields IndexedFieldsOf(const Event& event);

// Reads the fields from the protobuf of a core/v1 event with its envelope. Does not decode the
// other fields, because the server calls it for every event that is written. False if `protobuf` is
// not an event.
HERALD_EXPORT bool ReadIndexedFields(std::string_view protobuf, IndexedFields* fields);

}  // namespace herald
