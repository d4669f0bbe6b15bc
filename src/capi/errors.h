#pragma once

#include <exception>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "herald/base/status.h"
#include "herald/herald.h"

// How the functions of herald/herald.h report errors: as a herald_status and a message that
// herald_last_error() returns. All functions here are thread-safe.
namespace herald {

// Stores the message for herald_last_error() on this thread and returns `status`.
herald_status Fail(herald_status status, std::string_view message) noexcept;
// "<name> is NULL".
herald_status FailNull(const char* name) noexcept;
herald_status FromStatus(const Status& status);

// The message of the last call that failed on this thread; empty if none has.
std::string_view LastError() noexcept;

// Calls a function that returns a herald_status. An exception becomes a herald_status.
template <typename Function>
herald_status Guarded(Function&& function) noexcept {
  try {
    return std::forward<Function>(function)();
  } catch (const std::bad_alloc&) {
    return Fail(HERALD_NO_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return Fail(HERALD_INTERNAL, e.what());
  } catch (...) {
    return Fail(HERALD_INTERNAL, "unknown exception");
  }
}

// The same for a function that makes an object and stores it in its argument. Returns NULL on
// any error.
template <typename T, typename Function>
T* GuardedNew(Function&& function) noexcept {
  std::unique_ptr<T> object;
  const herald_status status = Guarded([&] { return function(object); });
  return status == HERALD_OK ? object.release() : nullptr;
}

// Marks that one of the user's callbacks runs on this thread.
class InCallback {
 public:
  InCallback();
  ~InCallback();
  InCallback(const InCallback&) = delete;
  InCallback& operator=(const InCallback&) = delete;
};

// Rejects a call that would wait for a callback while a callback runs on this thread: returns
// true and stores the error. A callback of another broadcaster counts as well, because two
// callbacks that wait for each other never return.
bool RejectInCallback() noexcept;

}  // namespace herald
