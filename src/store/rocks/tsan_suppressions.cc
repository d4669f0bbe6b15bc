#include "store/rocks/tsan_suppressions.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)

namespace herald::store {

bool LinkTsanSuppressions() { return true; }

}  // namespace herald::store

// RocksDB, gRPC and its dependencies are not instrumented: ThreadSanitizer sees the memory that
// their threads share, through memcpy and the like, but not their locks. So races within them, and
// within gRPC's headers in our code, are not reported. Races of our own code are.
extern "C" const char* __tsan_default_suppressions();
extern "C" [[gnu::visibility("default")]] const char* __tsan_default_suppressions() {
  return "race:librocksdb.so\n"
         "called_from_lib:libgrpc.so\n"
         "called_from_lib:libgrpc++.so\n"
         "called_from_lib:libgpr.so\n"
         "called_from_lib:libupb.so\n"
         "called_from_lib:libcrypto.so\n"
         "called_from_lib:libssl.so\n"
         "called_from_lib:libabsl_base.so\n"
         "called_from_lib:libabsl_cord.so\n"
         "called_from_lib:libabsl_cord_internal.so\n"
         "called_from_lib:libabsl_graphcycles_internal.so\n"
         "called_from_lib:libabsl_status.so\n"
         "called_from_lib:libabsl_strings.so\n"
         "called_from_lib:libabsl_synchronization.so\n"
         "called_from_lib:libabsl_time_zone.so\n"
         "called_from_lib:libabsl_random_internal_pool_urbg.so\n"
         "race:/include/grpcpp/\n";
}

#endif
#endif
