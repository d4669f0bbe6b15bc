#pragma once

#include <string>
#include <vector>

#include "api/json/document.h"
#include "herald/api/event.h"
#include "herald/base/status.h"

namespace herald {

// Converts a document to an event, as Kubernetes converts the result of a strategic merge patch.
// This is not its JSON decoder: a number that does not fit is truncated to the size of its field
// (count 4294967297 is 1), 1e3 is accepted for 1000, and errors have other messages.
//
// kind and apiVersion must be strings. Unknown members are ignored and, if `field_errors` is not
// null, reported there, sorted and up to StrictErrors::kMaxBytes.
//
// REQUIRES: document.is_object()
Result<Event> EventFromJson(const Json& document, EventApi api,
                            std::vector<std::string>* field_errors);

}  // namespace herald
