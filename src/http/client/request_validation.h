#pragma once

#include "herald/base/status.h"
#include "http/message.h"

namespace herald::http {

// Rejects (kBadRequest) a request that cannot be sent: one whose parts would change the framing of
// HTTP/1.1, such as a line break in a field, or a field that belongs to the connection.
Status ValidateRequest(const Request& request);

}  // namespace herald::http
