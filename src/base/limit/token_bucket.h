#pragma once

#include "herald/base/clock.h"
#include "herald/base/export.h"

namespace herald {

// A TokenBucket limits how often something may happen: it holds `burst` tokens
// when new, each success takes one, and they come back continuously at `qps` a
// second, never above `burst`.
//
// It is golang.org/x/time/rate's Limiter.Allow() as client-go's flowcontrol uses
// it (util/flowcontrol/throttle.go), to the nanosecond, because which event is
// filtered must not differ from upstream:
//
//   - the rate is a float, widened to double: client-go's 1/300 is really
//     0.00333333341..., so a token is back after 299.999992735 s, and after
//     300 s there is a little more than one;
//   - a fraction of a token that would be earned in less than a nanosecond
//     counts as there, because upstream cuts the waiting time to whole
//     nanoseconds. At one per second, 999,999,999 ns earn a token; the bucket
//     then owes that last fraction;
//   - a refusal changes nothing, it does not even remember the time;
//   - a time before the last success earns nothing, but a success then makes it
//     the last one.
//
// 16 bytes, because the spam filter keeps 4096 of them: what all of them share
// is in Limits, outside. Thread-confined.
class HERALD_EXPORT TokenBucket {
 public:
  struct Limits {
    float qps = 0;  // tokens per second; 0 or less: none comes back
    int burst = 0;  // tokens of a full bucket; 0 or less: nothing ever passes
  };

  // Takes a token if there is one. A new bucket is full, whenever it is asked.
  // REQUIRES: the same limits in every call, now >= 0
  bool TryTake(const Limits& limits, SteadyTime now);

 private:
  double tokens_ = 0;  // at last_; meaningless while last_ is kNever
  SteadyTime last_ = kNever;

  static constexpr SteadyTime kNever = SteadyTime::min();
};

}  // namespace herald
