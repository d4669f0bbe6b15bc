// The C interface to Herald: a program records what happens to objects, and what is
// worth keeping reaches a Kubernetes API server. For C99 and everything that can call
// C; C++ programs have herald/record/broadcaster.h. Link libherald-capi: it brings all
// of Herald with it and exports only what is declared here.
//
//   #include <herald/herald.h>
//   #include <stdio.h>
//
//   // Writes one event. A real one sends the request to an API server, with the HTTP
//   // library of its choice, and hands on the answer; this one prints the request.
//   static int write_event(void* user_data, const herald_request* request, herald_answer* answer) {
//     (void)user_data;
//     printf("%s %s\n%s\n", request->method, request->path, request->body);
//     herald_answer_set(answer, 201, NULL, 0);
//     return 0;
//   }
//
//   int main(void) {
//     herald_sink* sink = herald_sink_from_function(write_event, NULL);
//     herald_broadcaster* broadcaster = herald_broadcaster_new(NULL);
//     herald_recorder_options options = {.size = sizeof(options), .component = "node-agent"};
//     herald_recorder* recorder = herald_recorder_new(broadcaster, &options);
//     herald_broadcaster_start_recording_to_sink(broadcaster, sink, NULL);
//
//     herald_reference pod = {.kind = "Pod", .namespace_ = "default", .name = "web-0"};
//     herald_recorder_event(recorder, &pod, HERALD_NORMAL, "Started", "Started container web");
//
//     // Nothing above needed a check: what failed gave NULL, and NULL is refused here.
//     herald_stats stats = {.size = sizeof(stats)};
//     herald_status status = herald_broadcaster_shutdown(broadcaster, 5000, NULL);
//     if (status == HERALD_OK) status = herald_broadcaster_stats(broadcaster, 0, &stats);
//     if (status != HERALD_OK) {
//       char why[256];
//       herald_last_error(why, sizeof(why));
//       fprintf(stderr, "%s: %s\n", herald_status_name(status), why);
//     }
//     herald_recorder_free(recorder);
//     herald_broadcaster_free(broadcaster);
//     herald_sink_free(sink);
//     return stats.outcomes[HERALD_OUTCOME_WRITTEN] == 1 ? 0 : 1;
//   }
//
// (This is test/capi/example.c, which the tests compile and run.)
//
// Texts are UTF-8 and end with NUL. NULL stands for the empty text wherever a text may
// be left out. What is passed in is copied before the call returns; what a callback is
// passed lives as long as that call.
//
// Errors. A herald_status, or NULL in place of a new object. herald_last_error() has
// the words. NULL where something is needed is such an error and never a crash. No C++
// exception leaves the library, and one that a callback throws is caught.
//
// Structs begin with their size where they may grow: set it to sizeof the struct, the
// rest to zero ({.size = sizeof(x)} does both), and zero means the default. A program
// that was compiled against an older header then runs with a newer library, and the
// other way round as long as it asks for nothing that the library does not know.
//
// Ownership. Each *_new and *_from_* function makes an object that its *_free function
// takes back; free(NULL) does nothing. Objects may be freed in any order. The order
// that loses nothing is: recorders, broadcaster, sink.
//
// Threads. All functions may be called from any thread and at the same time, except
// that an object must not be in use when it is freed, and that an answer belongs to the
// call of the function it was passed to. Callbacks run on threads of the library. They
// may record, but not wait: flush, shutdown, and freeing a sink or a broadcaster are
// refused there (HERALD_IN_CALLBACK).
//
// fork. A broadcaster and a sink have one thread each, which a forked child does not
// have: fork first and make them then. A child of a process that had made one already
// must call nothing here, not even to free what it inherited, until it execs. A library
// that is merely loaded has neither threads nor locks, so forking is safe.
//
// Signals. The library writes to sockets in a way that never causes a SIGPIPE (your
// sink's function may). It sets no handlers; its threads have the signal mask of
// the thread that made the object.
//
// The end of the process. Nothing happens by itself: call herald_broadcaster_shutdown()
// before main() returns, or what is queued is gone. Until the very end, in atexit()
// handlers and static destructors too, everything here may be called; the library has no
// destructors of its own to come too late for. Do not dlclose() it while a broadcaster
// or a sink exists.
//
// The names and layouts here are Herald's only stable ABI (SONAME libherald-capi.so.0).
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HERALD_C_API __attribute__((visibility("default")))
#else
#define HERALD_C_API
#endif

#if defined(__cplusplus)
#define HERALD_C_NOEXCEPT noexcept
extern "C" {
#else
#define HERALD_C_NOEXCEPT
#endif

// How a call went.
typedef enum herald_status {
  HERALD_OK = 0,
  HERALD_INVALID_ARGUMENT = 1,  // NULL, or a value that is none of those allowed
  HERALD_STOPPED = 2,           // the broadcaster was shut down
  HERALD_TIMED_OUT = 3,         // patience ended before the work did
  HERALD_NOT_FOUND = 4,         // there is nothing of the kind that was asked for
  HERALD_IN_CALLBACK = 5,       // would wait for the callback that calls it
  HERALD_NO_MEMORY = 6,
  HERALD_INTERNAL = 7,  // none of these, for example no thread could be made
  HERALD_IN_USE = 8     // another process or sink has it
} herald_status;

// "ok", "invalid argument", ...; "unknown" for any other number. Never freed.
HERALD_C_API const char* herald_status_name(int status) HERALD_C_NOEXCEPT;

// What the last call that failed on this thread had to say. As with snprintf: copies
// what fits with its NUL, and returns the length of the whole (at most 255); 0 if no
// call has failed yet. `buffer` may be NULL if `capacity` is 0.
HERALD_C_API size_t herald_last_error(char* buffer, size_t capacity) HERALD_C_NOEXCEPT;

// The version of the library that runs: "0.1.0". Never freed.
HERALD_C_API const char* herald_version(void) HERALD_C_NOEXCEPT;

// ---- The two APIs for events

// In which style to record; the calls are the same.
typedef enum herald_api {
  HERALD_API_CORE_V1 = 0,   // events are counted, and written to v1
  HERALD_API_EVENTS_V1 = 1  // events form series, and are written to events.k8s.io/v1
} herald_api;

// Says which of them the server wants, once somebody has found out. Give it to recorders
// and to the sink that asks the server (herald_sink_from_cluster), or set it yourself. What
// is recorded before is held in memory until the choice is made, and then written in its
// style.
typedef struct herald_api_choice herald_api_choice;

HERALD_C_API herald_api_choice* herald_api_choice_new(void) HERALD_C_NOEXCEPT;

// Before or after those who were given it, also in a callback.
HERALD_C_API void herald_api_choice_free(herald_api_choice* choice) HERALD_C_NOEXCEPT;

// Makes the choice, or another one than before: what a sink has been refused through the
// one API is then written through the other. `api` is a herald_api.
HERALD_C_API herald_status herald_api_choice_set(herald_api_choice* choice,
                                                 int api) HERALD_C_NOEXCEPT;

// Stores the herald_api in *api; HERALD_NOT_FOUND while there is none.
HERALD_C_API herald_status herald_api_choice_get(const herald_api_choice* choice,
                                                 int* api) HERALD_C_NOEXCEPT;

// ---- Sinks: where events are written

typedef struct herald_sink herald_sink;
typedef struct herald_answer herald_answer;

// One write, in the terms of HTTP. May grow at its end; only the library makes them.
typedef struct herald_request {
  const char* method;        // "POST" to create, "PUT" to replace, "PATCH"
  const char* path;          // "/api/v1/namespaces/default/events", escaped as in a URL
  const char* content_type;  // "application/json", or with PATCH
                             // "application/strategic-merge-patch+json"
  const char* body;          // JSON
  size_t body_size;          // its length, for whoever does not want to count
  // The same in Kubernetes' terms.
  const char* api_version;  // "v1" or "events.k8s.io/v1"
  const char* namespace_;
  const char* name;  // of the event
} herald_request;

// Makes one attempt at a write and waits for its end; when to try again is not its
// business. Returns 0 if there is an answer, which it has put into `answer` (none
// means: 200), or anything else if there is none, as when the server cannot be
// reached; that is tried again.
//
// Called on a thread of the sink's own, one call at a time.
typedef int (*herald_write_function)(void* user_data, const herald_request* request,
                                     herald_answer* answer);

// A sink that calls a function. One sink may serve several broadcasters. `user_data` is
// handed to each call and must live until herald_sink_free() has returned.
HERALD_C_API herald_sink* herald_sink_from_function(herald_write_function write,
                                                    void* user_data) HERALD_C_NOEXCEPT;

// Which API server a sink writes to, and as whom.
typedef struct herald_cluster_options {
  size_t size;             // sizeof(herald_cluster_options)
  const char* kubeconfig;  // a file; NULL: the files of the environment variable KUBECONFIG, the
                           // service account of the pod this runs in, or ~/.kube/config,
                           // whichever is found first
  const char* context;     // of the kubeconfig; NULL: its current one
  const char* user_agent;  // NULL: the program's name
  int in_cluster;          // 1: only the pod's service account
  int protobuf;            // 1: Kubernetes' protobuf instead of JSON
  // The sink asks the server which API it has, until it answers, and makes this choice;
  // and makes it anew where events.k8s.io/v1 is forbidden. NULL: it asks for nothing.
  herald_api_choice* api_choice;
} herald_cluster_options;

// A sink that writes to an API server, several events at once over one connection.
// Certificates and tokens may change under way. `options` may be NULL. Does not connect
// yet: a server that cannot be reached is an error of each write, which is tried again.
// NULL if there is no configuration (HERALD_NOT_FOUND) or it makes no sense
// (HERALD_INVALID_ARGUMENT); HERALD_INTERNAL in a library that was built without the client.
HERALD_C_API herald_sink* herald_sink_from_cluster(const herald_cluster_options* options)
    HERALD_C_NOEXCEPT;

// Waits for the call under way, if there is one; when this returns, the function is not
// running and never will. Requests that broadcasters still have for it count as
// rejected.
HERALD_C_API void herald_sink_free(herald_sink* sink) HERALD_C_NOEXCEPT;

// What the server answered: the HTTP code, and the body if there is one (NULL, 0 if
// not). A body that is an Event tells which name and version the server gave it; one
// that is a Status tells why it refused. Any other is passed over. REQUIRES: 100 <=
// code <= 599
HERALD_C_API herald_status herald_answer_set(herald_answer* answer, int code, const char* body,
                                             size_t body_size) HERALD_C_NOEXCEPT;

// For answers without a Status: Kubernetes' reason ("AlreadyExists"; NULL: what the code
// suggests) and a message for the log (may be NULL). Also says why there is no answer.
HERALD_C_API herald_status herald_answer_set_error(herald_answer* answer, const char* reason,
                                                   const char* message) HERALD_C_NOEXCEPT;

// The server asked for patience (the header Retry-After, 429 and 503).
HERALD_C_API herald_status herald_answer_set_retry_after(herald_answer* answer,
                                                         uint32_t seconds) HERALD_C_NOEXCEPT;

// ---- Broadcasters: where a program's events come together

typedef struct herald_broadcaster herald_broadcaster;

typedef enum herald_log_level {
  HERALD_LOG_DEBUG = 0,
  HERALD_LOG_INFO = 1,
  HERALD_LOG_WARN = 2,
  HERALD_LOG_ERROR = 3
} herald_log_level;

// A name and its value: a field of a log line, an annotation.
typedef struct herald_pair {
  const char* key;
  const char* value;
} herald_pair;

// Told what goes wrong inside: a constant sentence, and what varies as fields. Called
// from any thread of the library and from those that record, several at once.
typedef void (*herald_log_function)(void* user_data, herald_log_level level, const char* message,
                                    const herald_pair* fields, size_t field_count);

typedef struct herald_broadcaster_options {
  size_t size;              // sizeof(herald_broadcaster_options)
  size_t incoming_events;   // how many may wait to be handed out; 0: 1000
  size_t watcher_events;    // and how many for each sink and log; 0: 1000
  size_t queue_bytes;       // both in bytes; 0: 16 MiB
  int wait_when_full;       // 0: a sink that does not keep up misses events; 1: all wait for it
  int upstream_exact;       // 1: exactly as client-go does it, faults included
  uint32_t drain_ms;        // how long herald_broadcaster_free() waits; 0: 5000
  uint32_t reserved;        // 0
  herald_log_function log;  // NULL: nothing is told
  void* log_user_data;      // must live until herald_broadcaster_free() has returned
} herald_broadcaster_options;

// `options` may be NULL: all defaults. Makes a thread.
HERALD_C_API herald_broadcaster* herald_broadcaster_new(const herald_broadcaster_options* options)
    HERALD_C_NOEXCEPT;

// Shuts down, waiting as long as drain_ms says, and for the log callback under way.
// When this returns, none of its callbacks is running or ever will. Its recorders stay
// safe to use; what they record is lost.
HERALD_C_API void herald_broadcaster_free(herald_broadcaster* broadcaster) HERALD_C_NOEXCEPT;

// Receives each event as a line of text, without a newline at its end.
typedef void (*herald_line_function)(void* user_data, const char* line);

// Calls `print` with each event recorded from now on, one at a time, in order, worded
// as client-go words them. `user_data` must live until herald_broadcaster_free() has
// returned. HERALD_STOPPED after a shutdown.
HERALD_C_API herald_status herald_broadcaster_start_logging(herald_broadcaster* broadcaster,
                                                            herald_line_function print,
                                                            void* user_data) HERALD_C_NOEXCEPT;

// Points at an object, or with field_path at a part of one. Kind and name are needed.
// This one is Kubernetes' own and does not grow.
typedef struct herald_reference {
  const char* kind;
  const char* namespace_;  // NULL for objects that are in none
  const char* name;
  const char* uid;
  const char* api_version;
  const char* resource_version;
  const char* field_path;  // "spec.containers{web}"
} herald_reference;

// Where events wait on disk that the sink does not take: those that were tried in vain
// because it could not be reached or was broken, and those that are left at the shutdown.
// They keep their names and times, are tried again every minute, and by the next process
// that is given the directory. One sink per directory.
typedef struct herald_spool_options {
  size_t size;             // sizeof(herald_spool_options)
  const char* directory;   // made if only its last part is missing; on a local disk. Needed
  uint64_t max_bytes;      // 0: 64 MiB. The oldest events go first
  uint64_t segment_bytes;  // how much is written, read and removed at a time; 0: 1 MiB
  int sync;                // 1: what was spooled survives the death of the machine as well
  uint32_t reserved;       // 0
} herald_spool_options;

typedef struct herald_recording_options {
  size_t size;              // sizeof(herald_recording_options)
  const char* name;         // of the sink, in metrics; NULL: "default"
  size_t max_in_flight;     // how many requests the sink is given at once; 0: 32
  uint32_t max_tries;       // 0: 12
  uint32_t retry_after_ms;  // between tries; 0: 10000
  int prefer_warnings;      // 1: when the queue is full, a Warning displaces a Normal
  uint32_t reserved;        // 0
  // The program's own Pod or Node. After a loss an event about it says how many events
  // were lost and why, at most once a minute. NULL: none is written.
  const herald_reference* self;
  // NULL: what cannot be delivered is lost, and counted. Not with upstream_exact.
  const herald_spool_options* spool;
  // 0: as client-go, one budget for all that a component says about an object, so that a
  // chatty reason silences the others. 1: a budget for each reason, and what is new always
  // passes; only repeats are held back. Not with upstream_exact.
  int fair_filter;
  uint32_t reserved2;  // 0
} herald_recording_options;

// Writes each event recorded from now on to the sink, repeats merged and floods held
// back. `options` may be NULL: all defaults. There may be several sinks; each has its
// own statistics, which are numbered in the order of these calls. The broadcaster does
// not own the sink, but either may be freed first. HERALD_STOPPED after a shutdown;
// HERALD_IN_USE where another process or sink has the spool's directory, HERALD_INTERNAL
// where it cannot be opened.
HERALD_C_API herald_status herald_broadcaster_start_recording_to_sink(
    herald_broadcaster* broadcaster, herald_sink* sink,
    const herald_recording_options* options) HERALD_C_NOEXCEPT;

// Waits until all that was recorded before this call has its outcome, at most
// `patience_ms`: HERALD_OK, or HERALD_TIMED_OUT. `in_flight` may be NULL; else it is
// set to the number of events without an outcome.
HERALD_C_API herald_status herald_broadcaster_flush(herald_broadcaster* broadcaster,
                                                    uint64_t patience_ms,
                                                    uint64_t* in_flight) HERALD_C_NOEXCEPT;

// Flushes, then stops for good: what is not written by then, and what is recorded
// later, is lost. The same results as herald_broadcaster_flush(), with the lost ones in
// `in_flight`. May be called again. The broadcaster is still there for its statistics.
HERALD_C_API herald_status herald_broadcaster_shutdown(herald_broadcaster* broadcaster,
                                                       uint64_t patience_ms,
                                                       uint64_t* in_flight) HERALD_C_NOEXCEPT;

// What became of a recorded event; each ends in exactly one of these per sink.
typedef enum herald_outcome {
  HERALD_OUTCOME_WRITTEN = 0,   // the server has it as an object of its own
  HERALD_OUTCOME_MERGED = 1,    // the server has it as one more occurrence of another
  HERALD_OUTCOME_FILTERED = 2,  // the spam filter held it back
  HERALD_OUTCOME_DROPPED = 3,   // a queue was full
  HERALD_OUTCOME_REJECTED = 4,  // the server refused it for good
  HERALD_OUTCOME_GAVE_UP = 5,   // every try failed
  HERALD_OUTCOME_LOST = 6,      // not written when the broadcaster was shut down
  HERALD_OUTCOME_INVALID = 7,   // no such event can exist: no reference, no such type
  HERALD_OUTCOME_NO_SINK = 8,   // nobody was there to write it
  HERALD_OUTCOME_SPOOLED = 9    // kept on disk; recorded again when it comes back
} herald_outcome;

// "written", "merged", ... as in the metrics; "unknown" for a number that this library
// does not have. Never freed.
HERALD_C_API const char* herald_outcome_name(int outcome) HERALD_C_NOEXCEPT;

// Where the events of one sink have gone. recorded == the sum of outcomes + in_flight.
typedef struct herald_stats {
  size_t size;            // sizeof(herald_stats)
  uint64_t recorded;      // since the sink was started
  uint64_t in_flight;     // no outcome yet
  uint64_t requests;      // attempts made
  uint64_t retries;       // of which repeats
  uint64_t outcomes[16];  // by herald_outcome; those that do not exist yet are 0
  // About events that have ended as spooled, in this process or an earlier one.
  uint64_t spool_bytes;      // on disk now
  uint64_t spool_dropped;    // events that made room for later ones
  uint64_t spool_corrupted;  // damaged places on disk that were passed over
} herald_stats;

// The statistics of the sink that was started as number `sink`, from 0;
// HERALD_NOT_FOUND beyond the last. Set stats->size before the call.
HERALD_C_API herald_status herald_broadcaster_stats(const herald_broadcaster* broadcaster,
                                                    size_t sink,
                                                    herald_stats* stats) HERALD_C_NOEXCEPT;

// How many events were recorded while there was no sink at all; 0 for NULL.
HERALD_C_API uint64_t herald_broadcaster_without_sink(const herald_broadcaster* broadcaster)
    HERALD_C_NOEXCEPT;

// The statistics of all sinks in Prometheus' text format. As with snprintf: copies what
// fits with its NUL, and returns the length of the whole, which may have grown by the
// next call; 0 on an error. `buffer` may be NULL if `capacity` is 0.
HERALD_C_API size_t herald_broadcaster_prometheus(const herald_broadcaster* broadcaster,
                                                  char* buffer, size_t capacity) HERALD_C_NOEXCEPT;

// ---- Recorders: they say what happens to objects

typedef struct herald_recorder herald_recorder;

// The two types of event.
#define HERALD_NORMAL "Normal"
#define HERALD_WARNING "Warning"

typedef struct herald_recorder_options {
  size_t size;                    // sizeof(herald_recorder_options)
  const char* component;          // who speaks: "node-agent". Needed
  const char* host;               // the node it runs on
  int api;                        // herald_api
  uint32_t reserved;              // 0
  herald_api_choice* api_choice;  // decides instead of `api`; may be NULL
} herald_recorder_options;

// A program may have as many as it likes: they are cheap and have no thread.
HERALD_C_API herald_recorder* herald_recorder_new(
    herald_broadcaster* broadcaster, const herald_recorder_options* options) HERALD_C_NOEXCEPT;

// Before or after its broadcaster, also in a callback.
HERALD_C_API void herald_recorder_free(herald_recorder* recorder) HERALD_C_NOEXCEPT;

// Says that something happened to an object. Never blocks. HERALD_OK says that the call
// was in order; what becomes of the event, also one of a type that does not exist, is
// counted in the statistics. All texts are needed; the message may be "".
HERALD_C_API herald_status herald_recorder_event(herald_recorder* recorder,
                                                 const herald_reference* object, const char* type,
                                                 const char* reason,
                                                 const char* message) HERALD_C_NOEXCEPT;

// All that one event can say. Type and reason are needed, the rest is not.
typedef struct herald_occurrence {
  size_t size;         // sizeof(herald_occurrence)
  const char* type;    // HERALD_NORMAL or HERALD_WARNING
  const char* reason;  // short, for machines: "BackOff"; at most 128 bytes
  const char* message;
  const char* action;               // what was attempted: "Binding"; at most 128 bytes
  const herald_reference* related;  // another object that has to do with it
  const herald_pair* annotations;   // may be NULL if there are none; of equal keys the last wins
  size_t annotation_count;
  int64_t unix_nanos;  // when it happened, in nanoseconds since 1970; 0: now
} herald_occurrence;

// The same with everything that an event can have.
HERALD_C_API herald_status
herald_recorder_record(herald_recorder* recorder, const herald_reference* object,
                       const herald_occurrence* occurrence) HERALD_C_NOEXCEPT;

#if defined(__cplusplus)
}  // extern "C"
#endif
