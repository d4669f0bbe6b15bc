#pragma once

#include "herald/base/clock.h"
#include "herald/base/export.h"

namespace herald {

// A TokenBucket is a rate limiter: a new bucket has `burst` tokens, each success takes one, and
// `qps` tokens per second are added continuously, up to `burst`.
//
// It equals golang.org/x/time/rate's Limiter.Allow() as client-go's flowcontrol uses it
// (util/flowcontrol/throttle.go), to the nanosecond, because the same events must be filtered as
// upstream:
//
//   - the rate is a float, converted to double: client-go's 1/300 is 0.00333333341..., so that a
//   token is added after
//     299.999992735 s, and after 300 s there is a little more than one;
//   - a fraction of a token that is missing for less than a nanosecond counts as present, because
//   upstream truncates
//     the waiting time to whole nanoseconds. At one per second, a token is available after
//     999,999,999 ns; the bucket then has a small negative amount;
//   - a failure changes nothing, not even the time;
//   - a time before the last success adds nothing, but a success at that time becomes the last one.
//
// It has 16 bytes, because the spam filter has 4096 of them; the common values are in Limits.
// Thread-confined.
class HERALD_EXPORT TokenBucket {
 public:
  struct Limits {
    float qps = 0;  // tokens per second; 0 or less: none are added
    int burst = 0;  // tokens of a full bucket; 0 or less: TryTake() always fails
  };

  // Takes a token if there is one. A new bucket is full at the first call.
  // REQUIRES: the same limits in every call, now >= 0
  bool TryTake(const Limits& limits, SteadyTime now);

 private:
  double tokens_ = 0;  // at last_; unused while last_ is kNever
  SteadyTime last_ = kNever;

  static constexpr SteadyTime kNever = SteadyTime::min();
};

}  // namespace herald
