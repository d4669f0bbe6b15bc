#pragma once

#include <string_view>

#include "api/json/writer.h"
#include "herald/api/event.h"

namespace herald {

// Converts an event that is stored as core/v1's protobuf with its envelope to JSON in the spelling
// of `api` and with this resourceVersion. The result is the same as after decoding and encoding,
// but without an Event in between. Most of the time of a list of ten thousand events is spent here.
//
// It supports the fields that nearly all events have. Returns false for events with other fields
// (labels, owners) and for invalid ones; the content of the writer is then unspecified, and the
// caller must decode the event, which also reports errors.
bool WriteStoredEventJson(std::string_view stored, EventApi api, std::string_view resource_version,
                          JsonWriter* writer);

}  // namespace herald
