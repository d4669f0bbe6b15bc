#pragma once

// Each file that calls a library without ThreadSanitizer's instrumentation includes this, so that
// every program that links such a library also links tsan_suppressions.cc: the linker takes a file
// from an archive only if one of its symbols is needed. Without ThreadSanitizer it has no effect.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
namespace herald::store {

bool LinkTsanSuppressions();
[[maybe_unused]] static const bool kTsanSuppressionsAreLinked = LinkTsanSuppressions();

}  // namespace herald::store
#endif
#endif
