#pragma once

#include <cstddef>
#include <cstring>

namespace herald {

// memcpy() for what is mostly short: most texts of an event are shorter than a call takes. They
// go in two pieces of a fixed size, which may overlap. `from` may be null where size is 0.
// REQUIRES: the ranges do not overlap
inline void CopyBytes(const char* from, std::size_t size, char* to) {
  const auto copy_ends = [&](auto piece) {
    std::memcpy(to, from, piece());
    std::memcpy(to + size - piece(), from + size - piece(), piece());
  };
  if (size > 32) {
    std::memcpy(to, from, size);
  } else if (size >= 16) {
    copy_ends([] { return std::size_t{16}; });
  } else if (size >= 8) {
    copy_ends([] { return std::size_t{8}; });
  } else if (size >= 4) {
    copy_ends([] { return std::size_t{4}; });
  } else if (size > 0) {
    to[0] = from[0];
    to[size / 2] = from[size / 2];
    to[size - 1] = from[size - 1];
  }
}

}  // namespace herald
