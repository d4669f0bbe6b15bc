#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "herald/base/status.h"

namespace herald::store {

// When a client should retry. A full or read-only disk stays so until an operator acts: the same
// delay as for a full etcd. A queue of writes is shorter a moment later.
inline constexpr std::chrono::seconds kRetryAfterFault{30};
inline constexpr std::chrono::seconds kRetryAfterOverload{1};

inline Status ServiceUnavailable(std::string message, std::chrono::seconds retry_after) {
  Status::Parts parts;
  parts.reason = StatusReason::kServiceUnavailable;
  parts.message = std::move(message);
  parts.retry_after = retry_after;
  return Status(std::move(parts));
}

}  // namespace herald::store
