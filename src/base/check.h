#pragma once

#include <string_view>

#include "herald/base/export.h"

// HERALD_CHECK(condition) or HERALD_CHECK(condition, message) prints the location, the condition
// and the message to stderr and aborts the process if the condition is false. It is active in
// release builds, too.
//
// Only for broken invariants, that is for errors in this program. Errors that a peer, a disk, the
// network or a user's input can cause are a Status. The message is evaluated only on failure. A
// condition with a comma outside of parentheses must be put in parentheses.
#define HERALD_CHECK(condition, ...)                               \
  (static_cast<bool>(condition) ? static_cast<void>(0)             \
                                : ::herald::internal::CheckFailed( \
                                      __FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__))

namespace herald::internal {

// Prints and aborts. Thread-safe.
[[noreturn]] HERALD_EXPORT void CheckFailed(const char* file, int line, const char* expression,
                                            std::string_view message = {});

}  // namespace herald::internal
