#pragma once

#include <chrono>

#include "herald/base/status.h"

namespace herald {

// The rejection of a request for which there is no room now, in the words of kube-apiserver's
// max-in-flight filter (apiserver/pkg/server/filters/maxinflight.go). A client that comes back
// after a second probably finds room.
inline Status TooManyRequests() {
  Status::Parts parts;
  parts.reason = StatusReason::kTooManyRequests;
  parts.message = "Too many requests, please try again later.";
  parts.retry_after = std::chrono::seconds(1);
  return Status(parts);
}

}  // namespace herald
