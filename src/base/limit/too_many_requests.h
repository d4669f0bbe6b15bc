#pragma once

#include <chrono>

#include "herald/base/status.h"

namespace herald {

// The error for a request over a limit, with the message of kube-apiserver's max-in-flight filter
// (apiserver/pkg/server/filters/maxinflight.go). A retry after a second will probably succeed.
inline Status TooManyRequests() {
  Status::Parts parts;
  parts.reason = StatusReason::kTooManyRequests;
  parts.message = "Too many requests, please try again later.";
  parts.retry_after = std::chrono::seconds(1);
  return Status(parts);
}

}  // namespace herald
