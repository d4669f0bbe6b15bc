#include "base/bytes/random.h"

#include <sys/random.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

namespace herald {

std::uint64_t Random::Next() {
  // Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014.
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double Random::Unit() {
  // A double has 53 bits; more could round up to 1.
  return static_cast<double>(Next() >> 11) * 0x1.0p-53;
}

void FillRandom(void* bytes, std::size_t size) {
  auto* out = static_cast<unsigned char*>(bytes);
  while (size > 0) {
    const ssize_t got = getrandom(out, size, 0);
    if (got > 0) {
      out += got;
      size -= static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      break;
    }
  }
  if (size == 0) return;

  // A sandbox may forbid the call (seccomp). std::random_device uses the processor or /dev/urandom,
  // or throws.
  std::random_device device;
  while (size > 0) {
    const auto word = device();
    const std::size_t part = std::min(size, sizeof(word));
    std::memcpy(out, &word, part);
    out += part;
    size -= part;
  }
}

std::uint64_t RandomSeed() {
  std::uint64_t seed = 0;
  FillRandom(&seed, sizeof(seed));
  return seed;
}

}  // namespace herald
