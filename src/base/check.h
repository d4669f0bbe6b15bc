#pragma once

#include <string_view>

#include "herald/base/export.h"

// HERALD_CHECK(condition) or HERALD_CHECK(condition, message) ends the process
// when the condition is false, after it has said where and why on stderr. It
// stays on in release builds.
//
// For broken invariants only: what this program alone could have got wrong, and
// after which no later line can be trusted. What a peer, a disk, the network or
// a user's input can cause is a Status. The message is evaluated on failure
// only. A condition with a comma outside of parentheses needs its own.
#define HERALD_CHECK(condition, ...)                               \
  (static_cast<bool>(condition) ? static_cast<void>(0)             \
                                : ::herald::internal::CheckFailed( \
                                      __FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__))

namespace herald::internal {

// Prints and aborts. Thread-safe.
[[noreturn]] HERALD_EXPORT void CheckFailed(const char* file, int line, const char* expression,
                                            std::string_view message = {});

}  // namespace herald::internal
