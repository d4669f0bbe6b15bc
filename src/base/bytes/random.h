#pragma once

#include <cstddef>
#include <cstdint>

#include "herald/base/export.h"

namespace herald {

// A Random generates pseudorandom numbers for jitter and for repeatable tests: the same seed gives
// the same numbers. SplitMix64: 8 bytes of state, no bad seeds, period 2^64. Not for secrets; use
// FillRandom() for these.
//
// Thread-confined.
class HERALD_EXPORT Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // Uniform over all 2^64 values.
  std::uint64_t Next();

  // Uniform in [0, 1), like Go's rand.Float64().
  double Unit();

 private:
  std::uint64_t state_;
};

// Fills memory with random bytes from the kernel, suitable for secrets. It has no state in the
// process, so a forked child does not repeat its parent's bytes. Thread-safe. Throws only if the
// kernel has no random source.
HERALD_EXPORT void FillRandom(void* bytes, std::size_t size);

// A random seed, for a Random that need not be repeatable: for example, so that a thousand clients
// do not reconnect at the same moment. Thread-safe.
HERALD_EXPORT std::uint64_t RandomSeed();

}  // namespace herald
