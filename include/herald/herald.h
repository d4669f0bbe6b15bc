// The C interface to Herald. A program records events about objects, and Herald merges
// them and writes them to a Kubernetes API server. For C99 and for all languages that
// can call C; C++ programs use herald/record/broadcaster.h. Link libherald-capi: it
// contains all of Herald and exports only the functions below.
//
//   #include <herald/herald.h>
//   #include <stdio.h>
//
//   // Writes one event. A real program sends the request to an API server with an HTTP
//   // library and stores the answer; this one prints the request.
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
//     // The calls above need no check: a failed call returns NULL, which shutdown rejects.
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
// Strings are UTF-8 and end with NUL. NULL means the empty string wherever a string is
// optional. Arguments are copied before the call returns. Arguments of a callback are
// valid until the callback returns.
//
// Errors. Functions return a herald_status, or NULL instead of a new object.
// herald_last_error() returns the message. NULL for a required argument is an error and
// never a crash. No C++ exception leaves the library, and exceptions that a callback
// throws are caught.
//
// Structs that may grow begin with their size. Set it to sizeof the struct and the rest
// to zero ({.size = sizeof(x)} does both); zero means the default. A program that was
// compiled against an older header runs with a newer library. A program that was
// compiled against a newer header runs with an older library if it leaves the members
// zero that the library does not have.
//
// Ownership. Each *_new and *_from_* function returns an object that the caller frees
// with its *_free function; free(NULL) does nothing. Objects may be freed in any order.
// To lose no event, free the recorders first, then the broadcaster, then the sink.
//
// Threads. All functions are thread-safe, with two exceptions: an object must not be in
// use while it is freed, and an answer may be used only by the call of the function that
// it was passed to. Callbacks run on threads of the library. They may record but must
// not wait: flush, shutdown, and freeing a sink or a broadcaster are rejected in a
// callback (HERALD_IN_CALLBACK).
//
// fork. A broadcaster and a sink have one thread each, and threads do not exist in a
// forked child, so fork before you create them. A child of a process that had already
// created one must not call any function of the library until it execs, not even to free
// what it inherited. A library that is only loaded has neither threads nor locks, so
// forking is safe.
//
// Signals. The library writes to sockets in a way that never causes a SIGPIPE (your
// sink's function may). It installs no signal handlers. Its threads have the signal mask
// of the thread that created the object.
//
// End of the process. Call herald_broadcaster_shutdown() before main() returns, or
// queued events are lost: nothing does it automatically. All functions may be called
// until the process ends, also in atexit() handlers and static destructors, because the
// library itself has no static destructors. Do not dlclose() it while a broadcaster or a
// sink exists.
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

// The result of a call.
typedef enum herald_status {
  HERALD_OK = 0,
  HERALD_INVALID_ARGUMENT = 1,  // a required argument is NULL, or a value is not allowed
  HERALD_STOPPED = 2,           // the broadcaster was shut down
  HERALD_TIMED_OUT = 3,         // patience_ms passed before the work was done
  HERALD_NOT_FOUND = 4,         // what was asked for does not exist
  HERALD_IN_CALLBACK = 5,       // called in a callback that it would wait for
  HERALD_NO_MEMORY = 6,
  HERALD_INTERNAL = 7,  // any other error, for example a thread cannot be created
  HERALD_IN_USE = 8     // another process or sink uses it
} herald_status;

// "ok", "invalid argument", ...; "unknown" for any other number. Never freed.
HERALD_C_API const char* herald_status_name(int status) HERALD_C_NOEXCEPT;

// The message of the last call that failed on this thread. Like snprintf: copies as much
// as fits, ends it with NUL, and returns the length of the whole message (at most 255);
// 0 if no call has failed yet. `buffer` may be NULL if `capacity` is 0.
HERALD_C_API size_t herald_last_error(char* buffer, size_t capacity) HERALD_C_NOEXCEPT;

// The version of the loaded library: "0.1.0". Never freed.
HERALD_C_API const char* herald_version(void) HERALD_C_NOEXCEPT;

// ---- The two APIs for events

// The API that events are recorded for. The calls are the same for both.
typedef enum herald_api {
  HERALD_API_CORE_V1 = 0,   // events are counted, and written to v1
  HERALD_API_EVENTS_V1 = 1  // events form series, and are written to events.k8s.io/v1
} herald_api;

// A choice between the two APIs that is made later, when it is known what the server has.
// Pass it to recorders and to the sink that asks the server (herald_sink_from_cluster), or
// set it yourself. Events that are recorded before the choice is made wait in memory and
// are then written through the chosen API.
typedef struct herald_api_choice herald_api_choice;

HERALD_C_API herald_api_choice* herald_api_choice_new(void) HERALD_C_NOEXCEPT;

// May be called before or after the objects that use it are freed, also in a callback.
HERALD_C_API void herald_api_choice_free(herald_api_choice* choice) HERALD_C_NOEXCEPT;

// Makes or changes the choice. After a change, events that the server rejected through
// the first API are written through the other one. `api` is a herald_api.
HERALD_C_API herald_status herald_api_choice_set(herald_api_choice* choice,
                                                 int api) HERALD_C_NOEXCEPT;

// Stores the herald_api in *api; HERALD_NOT_FOUND if no choice has been made.
HERALD_C_API herald_status herald_api_choice_get(const herald_api_choice* choice,
                                                 int* api) HERALD_C_NOEXCEPT;

// ---- Sinks: where events are written

typedef struct herald_sink herald_sink;
typedef struct herald_answer herald_answer;

// One write as an HTTP request. Only the library creates these; later versions may add
// members at the end.
typedef struct herald_request {
  const char* method;        // "POST" to create, "PUT" to replace, "PATCH"
  const char* path;          // "/api/v1/namespaces/default/events", escaped as in a URL
  const char* content_type;  // "application/json", or with PATCH
                             // "application/strategic-merge-patch+json"
  const char* body;          // JSON
  size_t body_size;          // in bytes, without the NUL
  // The same in Kubernetes' terms.
  const char* api_version;  // "v1" or "events.k8s.io/v1"
  const char* namespace_;
  const char* name;  // of the event
} herald_request;

// Makes one attempt at a write and blocks until it ends; the library decides about
// retries. Returns 0 if the server answered, with the answer stored in `answer` (200 if
// nothing was stored). Returns another value if there was no answer, for example because
// the server cannot be reached; the library then retries.
//
// Called on the sink's own thread, one call at a time.
typedef int (*herald_write_function)(void* user_data, const herald_request* request,
                                     herald_answer* answer);

// A sink that calls a function. Several broadcasters may use one sink. `user_data` is
// passed to each call and must be valid until herald_sink_free() has returned.
HERALD_C_API herald_sink* herald_sink_from_function(herald_write_function write,
                                                    void* user_data) HERALD_C_NOEXCEPT;

// The API server that a sink writes to, and the account that it uses.
typedef struct herald_cluster_options {
  size_t size;             // sizeof(herald_cluster_options)
  const char* kubeconfig;  // a file; NULL: the files of the environment variable KUBECONFIG, the
                           // service account of the pod this runs in, or ~/.kube/config,
                           // whichever is found first
  const char* context;     // of the kubeconfig; NULL: its current one
  const char* user_agent;  // NULL: the program's name
  int in_cluster;          // 1: only the pod's service account
  int protobuf;            // 1: Kubernetes' protobuf instead of JSON
  // The sink asks the server which API it has, retries until the server answers, and makes
  // this choice. In a namespace where events.k8s.io/v1 is forbidden, it writes through v1 for
  // ten minutes at a time. NULL: the sink does not ask.
  herald_api_choice* api_choice;
} herald_cluster_options;

// A sink that writes to an API server, several events at the same time over one
// connection. Certificates and tokens may change while it runs. `options` may be NULL.
// This call does not connect: if the server cannot be reached, each write fails and is
// retried. Returns NULL if there is no configuration (HERALD_NOT_FOUND), if it is invalid
// (HERALD_INVALID_ARGUMENT), or if the library was built without the client
// (HERALD_INTERNAL).
HERALD_C_API herald_sink* herald_sink_from_cluster(const herald_cluster_options* options)
    HERALD_C_NOEXCEPT;

// Waits for the running call of the sink's function. After this returns, the function is
// not running and is never called again. Requests that broadcasters still have for the
// sink count as rejected.
HERALD_C_API void herald_sink_free(herald_sink* sink) HERALD_C_NOEXCEPT;

// Stores the server's answer: the HTTP code, and the body (NULL and 0 if there is none).
// From an Event in the body the library takes the name and resource version that the
// server assigned, from a Status the reason of a rejection. Any other body is ignored.
// REQUIRES: 100 <= code <= 599
HERALD_C_API herald_status herald_answer_set(herald_answer* answer, int code, const char* body,
                                             size_t body_size) HERALD_C_NOEXCEPT;

// For answers without a Status in the body: Kubernetes' reason ("AlreadyExists"; NULL:
// the reason that belongs to the code) and a message for the log (may be NULL). If there
// was no answer, the message may give the cause.
HERALD_C_API herald_status herald_answer_set_error(herald_answer* answer, const char* reason,
                                                   const char* message) HERALD_C_NOEXCEPT;

// The delay before the next attempt that the server asked for (Retry-After header of a
// 429 or 503).
HERALD_C_API herald_status herald_answer_set_retry_after(herald_answer* answer,
                                                         uint32_t seconds) HERALD_C_NOEXCEPT;

// ---- Broadcasters: they distribute a program's events to sinks and logs

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

// Called with errors and warnings of the library. `message` is a constant sentence; the
// variable parts are in `fields`. Called on threads of the library and on threads that
// record, possibly several at the same time.
typedef void (*herald_log_function)(void* user_data, herald_log_level level, const char* message,
                                    const herald_pair* fields, size_t field_count);

typedef struct herald_broadcaster_options {
  size_t size;              // sizeof(herald_broadcaster_options)
  size_t incoming_events;   // queue limit before distribution, in events; 0: 1000
  size_t watcher_events;    // queue limit of each sink and log, in events; 0: 1000
  size_t queue_bytes;       // limit of each of these queues in bytes; 0: 16 MiB
  int wait_when_full;       // queue of a sink is full: 0: drop events; 1: all sinks wait for it
  int upstream_exact;       // 1: exactly as client-go behaves, including its bugs
  uint32_t drain_ms;        // how long herald_broadcaster_free() waits; 0: 5000
  uint32_t reserved;        // 0
  herald_log_function log;  // NULL: nothing is logged
  void* log_user_data;      // must be valid until herald_broadcaster_free() has returned
} herald_broadcaster_options;

// Starts a thread. `options` may be NULL: all defaults.
HERALD_C_API herald_broadcaster* herald_broadcaster_new(const herald_broadcaster_options* options)
    HERALD_C_NOEXCEPT;

// Shuts down: waits for queued events, at most drain_ms, and for running callbacks. After
// this returns, none of its callbacks is running or is called again. Its recorders may
// still be used, but what they record is lost.
HERALD_C_API void herald_broadcaster_free(herald_broadcaster* broadcaster) HERALD_C_NOEXCEPT;

// Called with each event as one line, without a newline at its end.
typedef void (*herald_line_function)(void* user_data, const char* line);

// Calls `print` with each event that is recorded after this call, one at a time and in
// order, in client-go's format. `user_data` must be valid until herald_broadcaster_free()
// has returned. HERALD_STOPPED after a shutdown.
HERALD_C_API herald_status herald_broadcaster_start_logging(herald_broadcaster* broadcaster,
                                                            herald_line_function print,
                                                            void* user_data) HERALD_C_NOEXCEPT;

// Refers to an object or, with field_path, to a part of one. Kind and name are required.
// This is Kubernetes' own type, so it does not grow.
typedef struct herald_reference {
  const char* kind;
  const char* namespace_;  // NULL for cluster-scoped objects
  const char* name;
  const char* uid;
  const char* api_version;
  const char* resource_version;
  const char* field_path;  // "spec.containers{web}"
} herald_reference;

// Keeps events on disk that could not be written: events whose retries all failed because
// the server was unreachable or broken, and events that are not written at shutdown. They
// keep their names and times. They are retried every minute, also by the next process
// that uses the directory. One sink per directory.
typedef struct herald_spool_options {
  size_t size;             // sizeof(herald_spool_options)
  const char* directory;   // required; on a local disk. Created if its parent exists
  uint64_t max_bytes;      // when full, the oldest events are dropped; 0: 64 MiB
  uint64_t segment_bytes;  // how much is written, read and deleted at a time; 0: 1 MiB
  int sync;                // 1: spooled events also survive a crash of the machine
  uint32_t reserved;       // 0
} herald_spool_options;

typedef struct herald_recording_options {
  size_t size;              // sizeof(herald_recording_options)
  const char* name;         // of the sink, in metrics; NULL: "default"
  size_t max_in_flight;     // number of requests that the sink gets at the same time; 0: 32
  uint32_t max_tries;       // attempts per event; 0: 12
  uint32_t retry_after_ms;  // delay between attempts; 0: 10000
  int prefer_warnings;      // 1: if the queue is full, a Warning replaces a Normal
  uint32_t reserved;        // 0
  // The program's own Pod or Node. If events are lost, an event about this object reports
  // how many and why, at most once a minute. NULL: no such event is written.
  const herald_reference* self;
  // NULL: events that cannot be delivered are lost and counted. Not with upstream_exact.
  const herald_spool_options* spool;
  // How the spam filter limits the rate. 0: as in client-go, one budget for all events of a
  // component about an object, so that one frequent reason can suppress the others. 1: one
  // budget per reason, which only repeated events use. Not with upstream_exact.
  int fair_filter;
  uint32_t reserved2;  // 0
} herald_recording_options;

// Writes each event that is recorded after this call to the sink. Repeated events are
// merged, and the spam filter limits their rate. `options` may be NULL: all defaults. A
// broadcaster may have several sinks. Each has its own statistics, numbered in the order
// of these calls. The broadcaster does not own the sink, but either may be freed first.
// HERALD_STOPPED after a shutdown, HERALD_IN_USE if another process or sink uses the
// spool's directory, HERALD_INTERNAL if the directory cannot be opened.
HERALD_C_API herald_status herald_broadcaster_start_recording_to_sink(
    herald_broadcaster* broadcaster, herald_sink* sink,
    const herald_recording_options* options) HERALD_C_NOEXCEPT;

// Waits until all events that were recorded before this call have their outcome, at most
// `patience_ms`: HERALD_OK or HERALD_TIMED_OUT. Unless `in_flight` is NULL, stores the
// number of events without an outcome in it.
HERALD_C_API herald_status herald_broadcaster_flush(herald_broadcaster* broadcaster,
                                                    uint64_t patience_ms,
                                                    uint64_t* in_flight) HERALD_C_NOEXCEPT;

// Flushes, then stops permanently: events that are not written by then, and events that
// are recorded later, are lost. The results are those of herald_broadcaster_flush(), with
// the number of lost events in `in_flight`. May be called again. The statistics stay
// available.
HERALD_C_API herald_status herald_broadcaster_shutdown(herald_broadcaster* broadcaster,
                                                       uint64_t patience_ms,
                                                       uint64_t* in_flight) HERALD_C_NOEXCEPT;

// How a recorded event ended. Each event has exactly one outcome per sink.
typedef enum herald_outcome {
  HERALD_OUTCOME_WRITTEN = 0,   // written as a new object
  HERALD_OUTCOME_MERGED = 1,    // written as one more occurrence of an earlier event
  HERALD_OUTCOME_FILTERED = 2,  // suppressed by the spam filter
  HERALD_OUTCOME_DROPPED = 3,   // a queue was full
  HERALD_OUTCOME_REJECTED = 4,  // the server rejected it permanently
  HERALD_OUTCOME_GAVE_UP = 5,   // all attempts failed
  HERALD_OUTCOME_LOST = 6,      // not written when the broadcaster was shut down
  HERALD_OUTCOME_INVALID = 7,   // invalid event: no reference, or an unknown type
  HERALD_OUTCOME_NO_SINK = 8,   // there was no sink to write it
  HERALD_OUTCOME_SPOOLED = 9    // kept on disk; counted as recorded again when it is retried
} herald_outcome;

// "written", "merged", ... as in the metrics; "unknown" for any other number. Never freed.
HERALD_C_API const char* herald_outcome_name(int outcome) HERALD_C_NOEXCEPT;

// The statistics of one sink. recorded == sum of all outcomes + in_flight.
typedef struct herald_stats {
  size_t size;            // sizeof(herald_stats)
  uint64_t recorded;      // since the sink was started
  uint64_t in_flight;     // no outcome yet
  uint64_t requests;      // attempts
  uint64_t retries;       // attempts that were repeats
  uint64_t outcomes[16];  // by herald_outcome; unused ones are 0
  // About spooled events, of this process or an earlier one.
  uint64_t spool_bytes;      // on disk now
  uint64_t spool_dropped;    // events that were deleted because the spool was full
  uint64_t spool_corrupted;  // damaged places on disk that were skipped
} herald_stats;

// Stores the statistics of sink number `sink`, counted from 0; HERALD_NOT_FOUND if there
// are not so many. Set stats->size before the call.
HERALD_C_API herald_status herald_broadcaster_stats(const herald_broadcaster* broadcaster,
                                                    size_t sink,
                                                    herald_stats* stats) HERALD_C_NOEXCEPT;

// The number of events that were recorded while there was no sink; 0 for NULL.
HERALD_C_API uint64_t herald_broadcaster_without_sink(const herald_broadcaster* broadcaster)
    HERALD_C_NOEXCEPT;

// The statistics of all sinks in Prometheus' text format. Like snprintf: copies as much
// as fits, ends it with NUL, and returns the length of the whole, which may be larger at
// the next call; 0 on an error. `buffer` may be NULL if `capacity` is 0.
HERALD_C_API size_t herald_broadcaster_prometheus(const herald_broadcaster* broadcaster,
                                                  char* buffer, size_t capacity) HERALD_C_NOEXCEPT;

// ---- Recorders: they record events about objects

typedef struct herald_recorder herald_recorder;

// The two types of event.
#define HERALD_NORMAL "Normal"
#define HERALD_WARNING "Warning"

typedef struct herald_recorder_options {
  size_t size;                    // sizeof(herald_recorder_options)
  const char* component;          // the source of the events: "node-agent". Required
  const char* host;               // the node it runs on
  int api;                        // herald_api
  uint32_t reserved;              // 0
  herald_api_choice* api_choice;  // decides instead of `api`; may be NULL
} herald_recorder_options;

// Recorders are cheap and have no thread, so a program may have many.
HERALD_C_API herald_recorder* herald_recorder_new(
    herald_broadcaster* broadcaster, const herald_recorder_options* options) HERALD_C_NOEXCEPT;

// May be called before or after the broadcaster is freed, also in a callback.
HERALD_C_API void herald_recorder_free(herald_recorder* recorder) HERALD_C_NOEXCEPT;

// Records an event about an object. Never blocks. HERALD_OK means that the arguments are
// valid; the statistics count the outcome of the event, also of one with an unknown type.
// All strings are required; the message may be "".
HERALD_C_API herald_status herald_recorder_event(herald_recorder* recorder,
                                                 const herald_reference* object, const char* type,
                                                 const char* reason,
                                                 const char* message) HERALD_C_NOEXCEPT;

// One occurrence with all its details. Type and reason are required.
typedef struct herald_occurrence {
  size_t size;         // sizeof(herald_occurrence)
  const char* type;    // HERALD_NORMAL or HERALD_WARNING
  const char* reason;  // short, for programs: "BackOff"; at most 128 bytes
  const char* message;
  const char* action;               // what was attempted: "Binding"; at most 128 bytes
  const herald_reference* related;  // a second object that is involved; may be NULL
  const herald_pair* annotations;   // NULL if there are none; the last of equal keys wins
  size_t annotation_count;
  int64_t unix_nanos;  // when it happened, in nanoseconds since 1970; 0: now
} herald_occurrence;

// Like herald_recorder_event(), with all details.
HERALD_C_API herald_status
herald_recorder_record(herald_recorder* recorder, const herald_reference* object,
                       const herald_occurrence* occurrence) HERALD_C_NOEXCEPT;

#if defined(__cplusplus)
}  // extern "C"
#endif
