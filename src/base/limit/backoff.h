#pragma once

#include <chrono>
#include <cstdint>

#include "base/bytes/random.h"
#include "herald/base/clock.h"
#include "herald/base/export.h"

namespace herald {

// How long to wait between tries. The defaults are those of client-go's
// reflectors (tools/cache/reflector.go): 0.8 s to 1.6 s at first, in the end 30 s
// to 60 s, so that thousands of clients of an ailing server ask it about once
// in 45 s each, and not at the same moment.
struct BackoffOptions {
  std::chrono::nanoseconds initial = std::chrono::milliseconds(800);
  double factor = 2.0;                                             // 1 or less: always `initial`
  std::chrono::nanoseconds cap = std::chrono::seconds(30);         // before jitter; 0: none
  double jitter = 1.0;                                             // see Jitter(); 0 or less: none
  std::chrono::nanoseconds reset_after = std::chrono::minutes(2);  // quiet; 0: never
};

// base * (1 + factor * unit), cut to whole nanoseconds: wait.Jitter() of
// apimachinery with `unit` in the place of its random number. Only ever longer
// than base, so a server's own Retry-After may be jittered, too.
//
// (Upstream's Jitter() reads a factor of 0 as 1; its callers ask first. Here 0
// is none.)
// REQUIRES: base >= 0, 0 <= unit < 1
HERALD_EXPORT std::chrono::nanoseconds Jitter(std::chrono::nanoseconds base, double factor,
                                              double unit);

// A Backoff says how long to wait before the next try: each time `factor` times
// as long, up to a cap, with jitter on top. Jitter does not add up: it is taken
// from the plain sequence 0.8, 1.6, 3.2, ... s anew each time.
//
// When the last wait was asked for more than `reset_after` ago, what was tried
// has worked for a while, and the sequence starts again. (Upstream's later
// wait.Backoff.DelayWithReset() starts again every `reset_after` even in the
// middle of an outage; this is the older manager's rule, and the one that its
// comments promise.)
//
// Thread-confined.
class HERALD_EXPORT Backoff {
 public:
  // Pass RandomSeed(), or a constant in tests: the waits are then the same in
  // every run. A jitter of 0 makes them plain.
  // REQUIRES: options.initial >= 0, options.cap >= 0
  Backoff(const BackoffOptions& options, std::uint64_t seed);

  // How long to wait from `now`, when a try has just failed.
  std::chrono::nanoseconds Next(SteadyTime now);

  // Starts the sequence again: the caller knows that it worked.
  void Reset();

 private:
  const BackoffOptions options_;
  Random random_;
  std::chrono::nanoseconds base_;  // of the next wait
  SteadyTime last_;                // when a wait was last asked for, if ever
  bool asked_ = false;
};

}  // namespace herald
