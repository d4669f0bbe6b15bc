#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace herald {

// The hash of an unordered map or set with string keys. It is transparent: with std::equal_to<> as
// the comparison, a lookup by string_view builds no string. The hash is not keyed, so a client that
// chooses the keys can make them collide.
struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view string) const {
    return std::hash<std::string_view>()(string);
  }
};

}  // namespace herald
