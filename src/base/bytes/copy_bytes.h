#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace herald {

// A memcpy() for short sizes: for most strings of an event, copying takes less time than a call.
// They are copied in two parts of a fixed size, which may overlap. `from` may be null if size is 0.
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

// Sets *out to `text` and allocates no more memory than necessary.
inline void KeepText(std::string_view text, std::string* out) {
  if (text.size() <= out->capacity()) {
    out->assign(text);
  } else {
    *out = std::string(text);  // assign() could allocate up to twice as much
  }
}

// The same for a string that is reused and mostly has the same length as before. Unlike assign()
// this is inlined and takes a fraction of its time.
inline void OverwriteText(std::string_view text, std::string* out) {
  if (text.size() > out->size()) {
    KeepText(text, out);
    return;
  }
  out->erase(text.size());
  CopyBytes(text.data(), text.size(), out->data());
}

}  // namespace herald
