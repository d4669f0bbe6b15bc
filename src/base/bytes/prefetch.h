#pragma once

namespace herald {

// Starts to fetch the cache line at `address`, which will be written soon. If another processor has
// written it last, fetching takes most of the time of the write. The address is not dereferenced,
// so it may be invalid.
inline void PrefetchForWrite(const void* address) {
#if defined(__x86_64__)
  // The builtin compiles to an instruction that leaves the line shared with the other processor, so
  // that the write has to request it again. This instruction requests it exclusively. All 64-bit
  // processors accept it; the oldest ignore it.
  asm("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, /*to be written*/ 1);
#endif
}

}  // namespace herald
