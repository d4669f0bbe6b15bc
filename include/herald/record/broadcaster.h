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

// What happens when a watcher does not keep up and its queue is full.
enum class WhenFull : std::uint8_t {
  kDrop,  // that watcher misses the event (client-go's DropIfChannelFull)
  kWait,  // everybody waits for it (WaitIfChannelFull)
};

struct BroadcasterOptions {
  // How many events may wait to be handed out, and to be taken by each watcher. As
  // client-go's tools/record has it; its watch.Broadcaster has 25 for the first.
  std::size_t incoming_events = 1000;
  std::size_t watcher_events = 1000;
  // The same in bytes, so that large messages cannot fill the memory either.
  std::size_t queue_bytes = 16 << 20;
  WhenFull when_full = WhenFull::kDrop;
  // Where the work is done. Null: a thread of the broadcaster's own. Must outlive the
  // broadcaster; recorders, watchers and sinks that outlive it do not use it.
  Executor* executor = nullptr;
  // For the broadcaster's own thread. Null: the system's. With an executor the time is
  // the executor's, by which its timers run; this must then be null or the same. Must outlive
  // the broadcaster and the calls of its recorders that began before its end.
  const Clock* clock = nullptr;
  // What goes wrong inside; null: nothing is told. It lives as long as the broadcaster
  // and every recorder, so it must not own one of its recorders: neither would ever be
  // destroyed.
  LogFunction log{};
  // Do exactly as client-go does, faults included. doc/compatibility.md lists them.
  bool upstream_exact = false;
  // How long the destructor waits for what is still to be written.
  std::chrono::milliseconds drain{5000};
};

// Where events wait on disk that the sink does not take: those that were tried in vain
// because it could not be reached or was broken, and those that are left at Shutdown().
// They keep their names and times, are tried again every minute, and by the next
// process that is given the directory. One of a process' sinks per directory.
struct SpoolOptions {
  std::string directory{};  // made if only its last part is missing; on a local disk
  std::uint64_t max_bytes = 64 << 20;
  // How much is written, read and removed at a time.
  std::uint64_t segment_bytes = 1 << 20;
  // An event that ended as kSpooled survives the death of the process. With this, that
  // of the machine as well, for the price of a wait for the disk per event; otherwise
  // the disk is waited for once per segment and at Shutdown().
  bool sync = false;
};

struct SinkOptions {
  std::string name = "default";  // in metrics
  CountOptions count{};
  SeriesOptions series{};
  // How many requests may be under way at once. Events about one object stay in
  // order whatever this is. client-go has 1, and no bound for those in the new style.
  std::size_t max_in_flight = 32;
  // client-go's twelve tries, ten seconds apart.
  int max_tries = 12;
  std::chrono::milliseconds retry_after{10'000};
  // When the queue is full, a Warning takes the place of the oldest Normal.
  bool prefer_warnings = false;
  // The program's own Pod or Node. After a loss an event about it says how many
  // events were lost and why, at most once a minute. Unset: none is written.
  std::optional<ObjectReference> self{};
  // Unset: what cannot be delivered is lost, and counted. client-go has nothing like it,
  // so StartRecordingToSink() refuses it together with upstream_exact.
  std::optional<SpoolOptions> spool{};
};

// Events as one consumer takes them, in the order in which they were recorded.
//
// Thread-safe.
class HERALD_EXPORT Watcher {
 public:
  struct Item {
    WatchType type = WatchType::kAdded;
    std::shared_ptr<const Event> event;  // shared with all other watchers, never changed
  };

  // Stops.
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // The next event; waits for one. Nothing once the watcher was stopped or the
  // broadcaster shut down and all is taken. Must not be called from a task of the
  // broadcaster's executor.
  std::optional<Item> Next();
  // The next event, or nothing if none is there now.
  std::optional<Item> TryNext();
  // Takes all that is there, at most `max`; waits for at least one, as Next() does.
  std::vector<Item> NextBatch(std::size_t max);

  // How many events this watcher missed because its queue was full.
  std::uint64_t dropped() const;

  // No event comes after this; what is queued is thrown away. Idempotent.
  void Stop();

 private:
  friend class Broadcaster;
  class Impl;
  explicit Watcher(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// What is left after Flush() or Shutdown().
struct DrainReport {
  bool complete = false;  // everything recorded before the call has its outcome
  // If not complete: how many events have none yet, those recorded since the call
  // included (Flush), or were lost or spooled (Shutdown).
  std::uint64_t in_flight = 0;
};

// A Broadcaster hands each recorded event to every listener: watchers, logs, sinks.
// It is where a program's events come together, so most programs have one.
//
//   Broadcaster broadcaster;
//   broadcaster.StartRecordingToSink(sink);
//   Recorder recorder = broadcaster.NewRecorder({.component = "node-agent", .host = node});
//
// A listener sees every event recorded after it was added and none recorded before,
// in the order of recording. A handler that throws, or is slow, hurts no other
// listener (a slow one under kWait excepted: there everybody waits by request).
//
// Thread-safe.
class HERALD_EXPORT Broadcaster {
 public:
  Broadcaster() : Broadcaster(BroadcasterOptions()) {}
  explicit Broadcaster(const BroadcasterOptions& options);
  // Shuts down, waiting as long as options.drain says.
  ~Broadcaster();
  Broadcaster(const Broadcaster&) = delete;
  Broadcaster& operator=(const Broadcaster&) = delete;

  Recorder NewRecorder(RecorderOptions options);

  // An error after Shutdown(): "broadcaster already stopped".
  Result<std::unique_ptr<Watcher>> Watch();
  // The watcher sees these first.
  Result<std::unique_ptr<Watcher>> WatchWithPrefix(std::vector<Watcher::Item> prefix);

  // Calls the handler with each event, one at a time, on the executor, until the
  // broadcaster is shut down.
  Status StartEventWatcher(std::function<void(const Event&)> handler);
  // Each event as a line of text, exactly as client-go's StartLogging words it.
  Status StartLogging(std::function<void(std::string_view)> print);
  // Each event as the message "Event occurred" with fields.
  Status StartStructuredLogging(LogFunction log);
  // Writes each event to the sink, which is held until Shutdown(), and may hold recorders
  // of this broadcaster itself. There may be several sinks; each has its own
  // correlation, queue and statistics. An error if its spool cannot be opened: kConflict
  // where another process or sink has it.
  Status StartRecordingToSink(std::shared_ptr<Sink> sink, SinkOptions options = {});

  // Hands out an event that some other program made. Blocks while the queue is full.
  Status Action(WatchType type, std::shared_ptr<const Event> event);
  // The same without blocking: kTooManyRequests if the queue is full.
  Status ActionOrDrop(WatchType type, std::shared_ptr<const Event> event);

  // By sink, in the order in which they were started.
  std::vector<SinkStats> Stats() const;
  // How many events were recorded while there was no sink.
  std::uint64_t without_sink() const;
  void WritePrometheusText(std::string* out) const;

  // Waits until all that was recorded before this call has its outcome, and writes
  // the counts of open series; gives up after `patience`. What is recorded meanwhile is
  // not waited for.
  DrainReport Flush(std::chrono::nanoseconds patience);

  // Flushes, then stops for good: later events are counted as lost, watchers end
  // after what they have queued. Idempotent. Neither this nor Flush() may be called
  // from a task of the executor.
  DrainReport Shutdown(std::chrono::nanoseconds patience);

 private:
  class Core;
  friend class Recorder;
  friend class Watcher;
  const std::unique_ptr<Executor> own_executor_;  // null where one was given
  const std::shared_ptr<Core> core_;
};

}  // namespace herald
