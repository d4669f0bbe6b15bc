#pragma once

#include <string>
#include <vector>

#include "api/json/document.h"
#include "herald/api/event.h"
#include "herald/base/status.h"

namespace herald {

// Makes an event of a document, as Kubernetes does with the result of a strategic
// merge patch. That is not its JSON decoder, and it is laxer in one way: a number
// that does not fit is cut down to the size of its member (count 4294967297 is 1),
// and 1e3 is as good as 1000. Complaints have words of their own.
//
// kind and apiVersion need only be strings. Unknown members are ignored; with
// `field_errors` they are reported there, sorted, up to StrictErrors::kMaxBytes.
//
// REQUIRES: document.is_object()
Result<Event> EventFromJson(const Json& document, EventApi api,
                            std::vector<std::string>* field_errors);

}  // namespace herald
