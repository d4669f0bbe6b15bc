#pragma once

#include <chrono>
#include <cstddef>
#include <utility>

#include "herald/base/clock.h"

namespace herald::http {

// Measures how fast a client reads waiting output, period by period. The average since the
// beginning is not enough: a client that has read much could then stop for a long time.
//
// Thread-confined.
class ReadRate {
 public:
  // Nothing has waited until now, so a period begins now.
  void Restart(SteadyTime now) {
    since_ = now;
    bytes_ = 0;
  }
  // The client has read this many bytes.
  void Add(std::size_t bytes) { bytes_ += bytes; }

  // Whether a period has ended in which the client read less than `bytes_per_second`. At the end of
  // a period the next one begins. REQUIRES: something has waited since Restart()
  bool IsTooSlow(SteadyTime now, std::chrono::milliseconds period, std::size_t bytes_per_second) {
    if (now - since_ < period) return false;
    since_ = now;
    return std::exchange(bytes_, 0) <
           bytes_per_second * static_cast<std::size_t>(period.count()) / 1'000;
  }

 private:
  SteadyTime since_{};
  std::size_t bytes_ = 0;
};

}  // namespace herald::http
