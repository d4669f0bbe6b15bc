#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "herald/api/codec.h"
#include "herald/api/event.h"
#include "herald/base/clock.h"
#include "herald/base/executor.h"
#include "herald/base/export.h"
#include "herald/base/log.h"
#include "herald/base/status.h"
#include "herald/record/correlation.h"
#include "herald/record/outcome.h"
#include "herald/record/recorder.h"
#include "herald/record/sink.h"

namespace herald {

// What happens when the queue of a watcher is full.
enum class WhenFull : std::uint8_t {
  kDrop,  // this watcher misses the event (client-go's DropIfChannelFull)
  kWait,  // all watchers wait for this one (WaitIfChannelFull)
};

struct BroadcasterOptions {
  // The capacity of the queue of recorded events, and of the queue of each listener. The
  // values are those of client-go's tools/record; its watch.Broadcaster has 25 for the first.
  std::size_t incoming_events = 1000;
  std::size_t watcher_events = 1000;
  // The limit of each of these queues in bytes, because messages may be large.
  std::size_t queue_bytes = 16 << 20;
  WhenFull when_full = WhenFull::kDrop;
  // Where the work is done. Null: a thread of the broadcaster's own. Must outlive the
  // broadcaster; recorders, watchers and sinks that outlive it do not use it.
  Executor* executor = nullptr;
  // For the broadcaster's own thread. Null: the system's. With an executor the time is
  // the executor's, by which its timers run; this must then be null or the same. Must outlive
  // the broadcaster and the calls of its recorders that began before its end.
  const Clock* clock = nullptr;
  // Errors of the pipeline are logged here. Null: nothing is logged. The function lives as
  // long as the broadcaster and every recorder, so it must not own a recorder of this
  // broadcaster: neither would ever be destroyed.
  LogFunction log{};
  // Behaves exactly as client-go, including its faults, which doc/compatibility.md lists.
  bool upstream_exact = false;
  // How long the destructor waits for events that are not written yet.
  std::chrono::milliseconds drain{5000};
};

// A spool is a directory that keeps events which could not be delivered: those whose retries
// failed because the server was not reachable or had an error, and those that are left at
// Shutdown(). They keep their names and times. They are retried every minute, and by the next
// process that uses the directory. Each sink needs a directory of its own.
struct SpoolOptions {
  // On a local disk. It is created if its parent exists.
  std::string directory{};
  // The oldest events are dropped, and counted, when the spool is full.
  std::uint64_t max_bytes = 64 << 20;
  // The size of a segment. Segments are read and removed as a whole.
  std::uint64_t segment_bytes = 1 << 20;
  // An event with the outcome kSpooled survives a crash of the process. With `sync` it also
  // survives a crash of the machine, at the cost of an fdatasync() per event. Without it there
  // is one fdatasync() per segment, and one at Shutdown().
  bool sync = false;
};

struct SinkOptions {
  std::string name = "default";  // the label "sink" in metrics
  CountOptions count{};
  SeriesOptions series{};
  // How many requests may be under way at the same time. Events about one object stay in order
  // in any case. client-go has 1 for old-style events, and no limit for new-style ones.
  std::size_t max_in_flight = 32;
  // client-go makes twelve tries, ten seconds apart.
  int max_tries = 12;
  std::chrono::milliseconds retry_after{10'000};
  // When the queue is full, a Warning replaces the oldest Normal event.
  bool prefer_warnings = false;
  // The program's own Pod or Node. When events are lost, an event about this object reports
  // how many and why, at most once per minute. Unset: losses are only counted.
  std::optional<ObjectReference> self{};
  // Unset: events that cannot be delivered are lost, and counted. client-go has no spool, so
  // StartRecordingToSink() rejects this together with upstream_exact.
  std::optional<SpoolOptions> spool{};
};

// A Watcher receives events in the order in which they were recorded.
//
// Thread-safe.
class HERALD_EXPORT Watcher {
 public:
  struct Item {
    WatchType type = WatchType::kAdded;
    std::shared_ptr<const Event> event;  // shared with other watchers, so immutable
  };

  // Stops.
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Waits for the next event. Returns nothing after Stop(), or when the broadcaster is shut
  // down and all queued events were taken. Must not be called from a task of the broadcaster's
  // executor.
  std::optional<Item> Next();
  // The next event, or nothing if none is queued.
  std::optional<Item> TryNext();
  // All queued events, at most `max`. Waits for the first one as Next() does; empty where
  // Next() returns nothing.
  std::vector<Item> NextBatch(std::size_t max);

  // The number of events that this watcher missed because its queue was full.
  std::uint64_t dropped() const;

  // Ends the watcher and discards its queue. Idempotent.
  void Stop();

 private:
  friend class Broadcaster;
  class Impl;
  explicit Watcher(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// The result of Flush() or Shutdown().
struct DrainReport {
  bool complete = false;  // every event that was recorded before the call has its outcome
  // If not complete. Flush(): how many events have no outcome, including those recorded since
  // the call. Shutdown(): how many events were lost or spooled.
  std::uint64_t in_flight = 0;
};

// A Broadcaster distributes each recorded event to all listeners: watchers, handlers, logs and
// sinks. Most programs have one.
//
//   Broadcaster broadcaster;
//   broadcaster.StartRecordingToSink(sink);
//   Recorder recorder = broadcaster.NewRecorder({.component = "node-agent", .host = node});
//
// A listener receives every event that is recorded after it was added, in the order of
// recording, and none that was recorded before. A handler that throws or is slow does not affect
// other listeners, except that all wait for a slow one under WhenFull::kWait.
//
// Thread-safe.
class HERALD_EXPORT Broadcaster {
 public:
  Broadcaster() : Broadcaster(BroadcasterOptions()) {}
  explicit Broadcaster(const BroadcasterOptions& options);
  // Calls Shutdown() with BroadcasterOptions::drain.
  ~Broadcaster();
  Broadcaster(const Broadcaster&) = delete;
  Broadcaster& operator=(const Broadcaster&) = delete;

  Recorder NewRecorder(RecorderOptions options);

  // An error after Shutdown(): "broadcaster already stopped".
  Result<std::unique_ptr<Watcher>> Watch();
  // The watcher receives the prefix first.
  Result<std::unique_ptr<Watcher>> WatchWithPrefix(std::vector<Watcher::Item> prefix);

  // Calls the handler with each event, one at a time, on the executor, until the
  // broadcaster is shut down.
  Status StartEventWatcher(std::function<void(const Event&)> handler);
  // Prints each event as a line, exactly as client-go's StartLogging does.
  Status StartLogging(std::function<void(std::string_view)> print);
  // Logs each event as the message "Event occurred" with fields, as client-go does.
  Status StartStructuredLogging(LogFunction log);
  // Writes each event to the sink. The broadcaster keeps the sink until Shutdown(), so the sink
  // may own recorders of this broadcaster. There may be several sinks; each has its own
  // correlation, queue and statistics. Returns an error if the spool cannot be opened: kConflict
  // if another process or sink uses its directory.
  Status StartRecordingToSink(std::shared_ptr<Sink> sink, SinkOptions options = {});

  // Distributes an event that was not made by a recorder. Blocks while the queue is full.
  Status Action(WatchType type, std::shared_ptr<const Event> event);
  // Does not block: returns kTooManyRequests if the queue is full.
  Status ActionOrDrop(WatchType type, std::shared_ptr<const Event> event);

  // One entry per sink, in the order in which they were started.
  std::vector<SinkStats> Stats() const;
  // The number of events that were recorded while there was no sink.
  std::uint64_t without_sink() const;
  // Appends the statistics of all sinks in Prometheus' text format.
  void WritePrometheusText(std::string* out) const;

  // Waits until every event that was recorded before this call has its outcome, and writes the
  // counts of open series. Returns after `patience` at the latest. Does not wait for events that
  // are recorded meanwhile.
  DrainReport Flush(std::chrono::nanoseconds patience);

  // Flushes, and then stops: events that are recorded later are counted as lost, and watchers
  // end after their queued events. Idempotent. Neither this nor Flush() may be called from a
  // task of the executor.
  DrainReport Shutdown(std::chrono::nanoseconds patience);

 private:
  class Core;
  friend class Recorder;
  friend class Watcher;
  const std::unique_ptr<Executor> own_executor_;  // null where one was given
  const std::shared_ptr<Core> core_;
};

}  // namespace herald
