#include <jemalloc/jemalloc.h>

// heraldd allocates with jemalloc. A request's memory is taken by one thread and given back by
// another (the connection's, the committer, the watch hub), for which the C library's threads
// wait in each other's arenas: a quarter of a create's time went there, and nearly half of a
// patch's.
//
// Read by jemalloc before main(). One arena for each core, and what nobody has used for a second
// goes back to the system, by a thread of jemalloc's own: so a server that was flooded at noon is
// small again in the evening.
const char* malloc_conf =
    "narenas_ratio:1,background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0";
