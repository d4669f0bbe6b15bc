#pragma once

#include <chrono>
#include <mutex>

#include "herald/base/export.h"

namespace herald {

// Wall time in nanoseconds since the Unix epoch: what events are stamped with.
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::nanoseconds>;
// Time that never jumps: what intervals, buckets and backoffs are measured with.
using SteadyTime = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

// A Clock tells the time. Everything in Herald that depends on time takes one,
// so that tests decide what time it is and none of them sleeps.
//
// Implementations are thread-safe.
class HERALD_EXPORT Clock {
 public:
  virtual ~Clock() = default;
  virtual WallTime Now() const = 0;
  virtual SteadyTime Steady() const = 0;
};

// The machine's clock. Never destroyed, so it is safe in static destruction.
HERALD_EXPORT const Clock& SystemClock();

// A clock that stands still until it is told to move. Both of its times move
// together. Thread-safe.
class HERALD_EXPORT FakeClock final : public Clock {
 public:
  explicit FakeClock(WallTime start);

  WallTime Now() const override;
  SteadyTime Steady() const override;

  // REQUIRES: by >= 0
  void Advance(std::chrono::nanoseconds by);

 private:
  const WallTime start_;
  mutable std::mutex mu_;
  std::chrono::nanoseconds elapsed_{0};  // guarded by mu_
};

}  // namespace herald
