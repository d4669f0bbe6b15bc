#pragma once

#include <pthread.h>

namespace herald {

// Names the calling thread for top -H, perf and debuggers. REQUIRES: name has at most 15 characters
inline void NameThisThread(const char* name) {
#if defined(__linux__)
  ::pthread_setname_np(::pthread_self(), name);
#endif
}

}  // namespace herald
