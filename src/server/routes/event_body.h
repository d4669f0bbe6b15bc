#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/delete_options.h"
#include "herald/api/event.h"
#include "herald/base/status.h"
#include "server/request/exchange.h"
#include "server/request/request_options.h"

namespace herald::server {

// Bodies of requests for events. Errors have the messages of kube-apiserver.

// The options and the event of a POST or PUT.
struct EventWrite {
  WriteOptions options{};
  Event event{};
};
// `options_kind` is "CreateOptions" or "UpdateOptions".
Result<EventWrite> ReadEventWrite(Exchange* exchange, EventApi api, std::string_view options_kind);

// The options of a DELETE, from the body or, if that is empty, from the query.
Result<DeleteOptions> ReadDeleteOptions(Exchange* exchange);

// Handles unknown and duplicate members of a body as fieldValidation says: adds warnings to the
// exchange, or returns an error.
Status CheckFieldErrors(FieldValidation validation, const std::vector<std::string>& errors,
                        Exchange* exchange);
// The form that this error has for a patch. `shown` is the part of the patch that the message
// quotes.
Status StrictPatchError(const Status& error, std::string_view shown);

// The name of the object must be that of the path. (The registry checks the namespace.)
Status CheckName(const ObjectMeta& metadata, std::string_view name_in_path);

}  // namespace herald::server
