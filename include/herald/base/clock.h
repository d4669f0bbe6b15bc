#pragma once

#include <chrono>
#include <mutex>

#include "herald/base/export.h"

namespace herald {

// Wall time in nanoseconds since the Unix epoch: the timestamps of events.
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::nanoseconds>;
// Time that never jumps: for intervals, token buckets and backoffs.
using SteadyTime = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

// A Clock returns the current time. All code in Herald that depends on time uses one, so that tests
// control the time and do not sleep.
//
// Implementations are thread-safe.
class HERALD_EXPORT Clock {
 public:
  virtual ~Clock() = default;
  virtual WallTime Now() const = 0;
  virtual SteadyTime Steady() const = 0;
  // Like Steady(), but includes the time during which the machine was suspended. The wall clock
  // advances at the same rate unless it is set, so a comparison of both detects that. A clock that
  // is never suspended need not override it.
  virtual SteadyTime SinceBoot() const { return Steady(); }
};

// The machine's clock. Never destroyed, so it can be used during static destruction.
HERALD_EXPORT const Clock& SystemClock();

// A clock for tests that advances only in the functions below. All of its times advance together,
// except in JumpWallClock() and Suspend(). Thread-safe.
class HERALD_EXPORT FakeClock final : public Clock {
 public:
  explicit FakeClock(WallTime start);

  WallTime Now() const override;
  SteadyTime Steady() const override;
  SteadyTime SinceBoot() const override;

  // REQUIRES: by >= 0
  void Advance(std::chrono::nanoseconds by);
  // Moves only the wall clock, forward or backward, as when an administrator sets it.
  void JumpWallClock(std::chrono::nanoseconds by);
  // Advances all times except Steady(), as when the machine is suspended. REQUIRES: by >= 0
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
