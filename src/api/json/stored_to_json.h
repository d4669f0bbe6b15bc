#pragma once

#include <string_view>

#include "api/json/writer.h"
#include "herald/api/event.h"

namespace herald {

// Writes an event that is stored as the protobuf of core/v1, envelope included, as JSON in the
// spelling of `api` and with that resourceVersion: what decoding and encoding it would make,
// straight from the one text to the other. A list of ten thousand events is mostly this.
//
// It knows the members that nearly all events have. False for any other (labels, owners,
// what is not an event at all), and then the writer holds nothing of use: the caller goes the long
// way, which also says what is wrong.
bool WriteStoredEventJson(std::string_view stored, EventApi api, std::string_view resource_version,
                          JsonWriter* writer);

}  // namespace herald
