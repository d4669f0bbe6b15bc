#pragma once

#include <cstddef>
#include <cstdint>

#include "herald/base/export.h"

namespace herald {

// A Random makes numbers that look random and are the same for the same seed,
// for jitter and for tests that must repeat. SplitMix64: 8 bytes of state, no
// bad seeds, period 2^64. Not for secrets; those are what FillRandom() is for.
//
// Thread-confined.
class HERALD_EXPORT Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // Any of the 2^64 values, equally likely.
  std::uint64_t Next();

  // Evenly in [0, 1), as Go's rand.Float64() is: 0 may come, 1 never does.
  double Unit();

 private:
  std::uint64_t state_;
};

// Fills memory with random bytes from the kernel, good enough for secrets. No
// state is kept in the process, so a forked child never repeats its parent.
// Thread-safe. Throws only where the kernel has no random source at all.
HERALD_EXPORT void FillRandom(void* bytes, std::size_t size);

// A seed that no other process has: for a Random whose numbers nobody needs to
// repeat, so that a thousand clients do not all come back at the same moment.
// Thread-safe.
HERALD_EXPORT std::uint64_t RandomSeed();

}  // namespace herald
