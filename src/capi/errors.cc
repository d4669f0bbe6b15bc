#include "capi/errors.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace herald {
namespace {

// Plain arrays and numbers, which need no destructor: a call may fail on a thread that is ending
// together with the process.
thread_local char last_error[256] = "";
thread_local int callbacks_here = 0;

}  // namespace

herald_status Fail(herald_status status, std::string_view message) noexcept {
  const std::size_t length = std::min(message.size(), sizeof(last_error) - 1);
  std::memcpy(last_error, message.data(), length);
  last_error[length] = '\0';
  return status;
}

herald_status FailNull(const char* name) noexcept {
  char message[64];
  std::snprintf(message, sizeof(message), "%s is NULL", name);
  return Fail(HERALD_INVALID_ARGUMENT, message);
}

herald_status FromStatus(const Status& status) {
  switch (status.reason()) {
    case StatusReason::kOk:
      return HERALD_OK;
    case StatusReason::kGone:
      return Fail(HERALD_STOPPED, status.message());
    case StatusReason::kInvalid:
      return Fail(HERALD_INVALID_ARGUMENT, status.message());
    case StatusReason::kConflict:
      return Fail(HERALD_IN_USE, status.message());
    default:
      return Fail(HERALD_INTERNAL, status.message());
  }
}

std::string_view LastError() noexcept { return last_error; }

InCallback::InCallback() { ++callbacks_here; }
InCallback::~InCallback() { --callbacks_here; }

bool RejectInCallback() noexcept {
  if (callbacks_here == 0) return false;
  Fail(HERALD_IN_CALLBACK, "a callback must not wait for the library");
  return true;
}

}  // namespace herald
