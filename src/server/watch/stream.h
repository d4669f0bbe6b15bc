#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "herald/base/clock.h"
#include "herald/base/executor.h"
#include "herald/base/status.h"
#include "http/server/server.h"
#include "server/events/encoding.h"
#include "server/events/event_list.h"
#include "store/store.h"

namespace herald::server {

// What one watch is to show.
struct WatchRequest {
  EventFilter filter{};
  Form form{};
  std::string user{};      // whose limit it counts against
  std::uint64_t flow = 0;  // whose turn it is when initial events are read, see store::Query

  // Where it begins: with all that is there, at a revision, or now.
  bool initial_events = false;
  store::Revision after = 0;  // without initial_events; 0: now
  // With initial_events: the client has seen this revision, so it must be there.
  std::uint64_t not_older_than = 0;

  bool bookmarks = false;
  std::chrono::seconds timeout{0};  // > 0
};

struct WatchLimits {
  std::size_t max_watches = 20'000;
  std::size_t max_watches_per_user = 5'000;
};

// All watches that are being served. Each is a stream: first the events that are there, if
// asked for, then every change, as fast as its client reads. A stream takes changes from
// the store only while its client has taken what it got (kMaxQueuedBytes), so a slow
// client costs a position in the store's log; and a change is encoded once for all
// streams of the same form.
//
//   store --ready--> woken streams --one task--> Pump() <--drained-- connection
//
// Thread-safe. A stream runs on whichever thread has news for it, one at a time.
class WatchStreams {
 public:
  // What lies unread at a client before its stream waits; less where many streams share a
  // connection. One wake-up's worth for a link of 100 MB/s and 2 ms; a thousand such clients
  // cost 256 MB at most.
  static constexpr std::size_t kMaxQueuedBytes = 256 * 1024;
  // As often as upstream's cache sends them to those who ask.
  static constexpr std::chrono::seconds kBookmarkInterval{60};

  // All borrowed; they outlive this object. Its own streams may be running until the executor
  // and the connections have stopped.
  WatchStreams(store::Store* store, Executor* executor, WatchLimits limits);
  // Stops.
  ~WatchStreams();
  WatchStreams(const WatchStreams&) = delete;
  WatchStreams& operator=(const WatchStreams&) = delete;

  // Whether one more is allowed: kTooManyRequests otherwise, and kServiceUnavailable after
  // Stop(). The head of the answer must have been sent by the caller when this returns ok, for
  // frames follow at once: so it is sent by `start`.
  Status Open(WatchRequest request, std::shared_ptr<http::Responder> responder,
              const std::function<void()>& start);

  // Ends all streams cleanly and refuses new ones. Idempotent.
  void Stop();

  std::size_t size() const;

 private:
  class Stream;
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace herald::server
