#pragma once

#include <chrono>
#include <cstdint>

#include "base/bytes/random.h"
#include "herald/base/clock.h"
#include "herald/base/export.h"

namespace herald {

// The delays between retries. The defaults are those of client-go's reflectors
// (tools/cache/reflector.go): 0.8 s to 1.6 s at first and at most 30 s to 60 s, so that each of
// thousands of clients of an overloaded server retries about every 45 s, at different times.
struct BackoffOptions {
  std::chrono::nanoseconds initial = std::chrono::milliseconds(800);
  double factor = 2.0;                                             // 1 or less: always `initial`
  std::chrono::nanoseconds cap = std::chrono::seconds(30);         // before jitter; 0: none
  double jitter = 1.0;                                             // see Jitter(); 0 or less: none
  std::chrono::nanoseconds reset_after = std::chrono::minutes(2);  // without a failure; 0: never
};

// Returns base * (1 + factor * unit), truncated to whole nanoseconds: apimachinery's wait.Jitter()
// with `unit` as its random number. The result is not shorter than base, so it may be applied to a
// server's Retry-After.
//
// (Upstream's Jitter() treats a factor of 0 as 1, and its callers check for 0. Here 0 means no
// jitter.) REQUIRES: base >= 0, 0 <= unit < 1
HERALD_EXPORT std::chrono::nanoseconds Jitter(std::chrono::nanoseconds base, double factor,
                                              double unit);

// A Backoff computes the delay before the next retry: each one is `factor` times the one before, up
// to a cap, plus jitter. Jitter does not accumulate: it is always added to the sequence
// 0.8, 1.6, 3.2, ... s.
//
// If the last call of Next() was more than `reset_after` ago, the operation has worked for a while,
// and the sequence starts again. (Upstream's newer wait.Backoff.DelayWithReset() starts again every
// `reset_after`, even during an outage. This is the rule of its older backoff manager, which
// upstream's comments describe, too.)
//
// Thread-confined.
class HERALD_EXPORT Backoff {
 public:
  // `seed` is RandomSeed(), or a constant in tests, so that the delays are the same in every run.
  // REQUIRES: options.initial >= 0, options.cap >= 0
  Backoff(const BackoffOptions& options, std::uint64_t seed);

  // The delay from `now`. Called after a failure.
  std::chrono::nanoseconds Next(SteadyTime now);

  // Starts the sequence again. Called after a success.
  void Reset();

 private:
  const BackoffOptions options_;
  Random random_;
  std::chrono::nanoseconds base_;  // of the next delay
  SteadyTime last_;                // of the last call of Next()
  bool asked_ = false;
};

}  // namespace herald
