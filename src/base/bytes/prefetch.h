#pragma once

namespace herald {

// Fetches the cache line at `address`, which is going to be written soon, while other things
// are done. Of a line that another processor has written last, this takes the longest part off
// the write. The address is not looked at, so anything will do.
inline void PrefetchForWrite(const void* address) {
#if defined(__x86_64__)
  // What the builtin becomes leaves the line with the other processor as well, and so the write
  // has to ask for it once more; this instruction does not. Every 64-bit processor takes it, the
  // oldest as one that does nothing.
  asm("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, /*to be written*/ 1);
#endif
}

}  // namespace herald
