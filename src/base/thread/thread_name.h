#pragma once

#include <pthread.h>

namespace herald {

// What top -H, perf and a debugger call the thread that calls this, so that whoever looks at a busy
// process sees which part of it is busy. REQUIRES: name has at most 15 characters
inline void NameThisThread(const char* name) {
#if defined(__linux__)
  ::pthread_setname_np(::pthread_self(), name);
#endif
}

}  // namespace herald
