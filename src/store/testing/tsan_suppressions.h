#pragma once

// Included by each file that calls a library which is not compiled with ThreadSanitizer, so
// that every program that links such a library links tsan_suppressions.cc as well: the linker
// takes a file out of an archive only for a symbol that is asked for. Without ThreadSanitizer
// it is nothing.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
namespace herald::store {

bool LinkTsanSuppressions();
[[maybe_unused]] static const bool kTsanSuppressionsAreLinked = LinkTsanSuppressions();

}  // namespace herald::store
#endif
#endif
