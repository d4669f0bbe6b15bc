#pragma once

#include <chrono>
#include <cstddef>
#include <utility>

#include "herald/base/clock.h"

namespace herald::http {

// Measures how fast a peer takes what waits for it, window by window. The average since the
// beginning would not do: a peer that has read much could then stop for as long.
//
// Thread-confined.
class ReadRate {
 public:
  // Nothing has waited until now, so a window begins here.
  void Restart(SteadyTime now) {
    since_ = now;
    bytes_ = 0;
  }
  // The peer has taken so much.
  void Add(std::size_t bytes) { bytes_ += bytes; }

  // Whether a window has ended in which the peer took less than `bytes_per_second`; the next one
  // then begins. REQUIRES: something has waited since Restart()
  bool IsTooSlow(SteadyTime now, std::chrono::milliseconds window, std::size_t bytes_per_second) {
    if (now - since_ < window) return false;
    since_ = now;
    return std::exchange(bytes_, 0) <
           bytes_per_second * static_cast<std::size_t>(window.count()) / 1'000;
  }

 private:
  SteadyTime since_{};
  std::size_t bytes_ = 0;
};

}  // namespace herald::http
