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
  // As Steady(), but counts the time during which the machine was suspended, too: the wall clock
  // moves with it unless somebody sets the wall clock. For noticing that. A clock that is never
  // suspended need not override it.
  virtual SteadyTime SinceBoot() const { return Steady(); }
};

// The machine's clock. Never destroyed, so it is safe in static destruction.
HERALD_EXPORT const Clock& SystemClock();

// A clock that stands still until a test moves it. All of its times move together, except in
// JumpWallClock() and Suspend(). Thread-safe.
class HERALD_EXPORT FakeClock final : public Clock {
 public:
  explicit FakeClock(WallTime start);

  WallTime Now() const override;
  SteadyTime Steady() const override;
  SteadyTime SinceBoot() const override;

  // REQUIRES: by >= 0
  void Advance(std::chrono::nanoseconds by);
  // Moves the wall clock alone, forward or backward, as somebody who sets it does.
  void JumpWallClock(std::chrono::nanoseconds by);
  // Moves everything but Steady(), as a machine does that was suspended. REQUIRES: by >= 0
  void Suspend(std::chrono::nanoseconds by);

 private:
  const WallTime start_;
  mutable std::mutex mu_;
  // Guarded by mu_.
  std::chrono::nanoseconds elapsed_{0};
  std::chrono::nanoseconds suspended_{0};
  std::chrono::nanoseconds jumped_{0};
};

}  // namespace herald
