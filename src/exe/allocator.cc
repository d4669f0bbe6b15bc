#include <jemalloc/jemalloc.h>

// heraldd allocates with jemalloc. A request's memory is allocated by one thread and freed by
// another (the connection's thread, the committer, the watch hub). With the C library's malloc,
// such threads contend for the locks of each other's arenas: that took a quarter of the time of a
// create, and nearly half of the time of a patch.
//
// jemalloc reads these options before main(). There is one arena per core. Memory that was unused
// for a second is returned to the system by jemalloc's background thread, so that a server shrinks
// again after a burst of requests.
const char* malloc_conf =
    "narenas_ratio:1,background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0";
