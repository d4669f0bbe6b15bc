#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace herald::internal {

void CheckFailed(const char* file, int line, const char* expression, std::string_view message) {
  // One call, so that the lines of two threads do not mix. Nothing here allocates, because the heap
  // may be corrupt.
  std::fprintf(stderr, "%s:%d: HERALD_CHECK(%s) failed%s%.*s\n", file, line, expression,
               message.empty() ? "" : ": ", static_cast<int>(message.size()), message.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace herald::internal
