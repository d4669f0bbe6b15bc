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

// The parameters of one watch.
struct WatchRequest {
  EventFilter filter{};
  Form form{};
  std::string user{};      // whose limit the watch counts against
  std::uint64_t flow = 0;  // the user's key in fair queues, for initial events; see store::Query

  // Where it begins: with all existing events, after a revision, or now.
  bool initial_events = false;
  store::Revision after = 0;  // without initial_events; 0: now
  // With initial_events: the client has seen this revision, so the store must have reached it.
  std::uint64_t not_older_than = 0;

  bool bookmarks = false;
  std::chrono::seconds timeout{0};  // > 0
};

struct WatchLimits {
  std::size_t max_watches = 20'000;
  std::size_t max_watches_per_user = 5'000;
};

// All open watches of events. Each is a stream: first the existing events, if requested, then every
// change, as fast as the client reads. A stream takes changes from the store only while less than
// kMaxQueuedBytes wait for the client, so a slow client costs a position in the store's log and no
// memory. A change is encoded once for all streams of the same form.
//
//   store --ready--> woken streams --one task--> Pump() <--drained-- connection
//
// Thread-safe. A stream runs on the thread that has changes for it, one thread at a time.
class WatchStreams {
 public:
  // Unread bytes at which a stream waits for its client; fewer if many streams share a connection.
  // Enough for a link of 100 MB/s with 2 ms between wake-ups. A thousand slow clients cost at most
  // 256 MB.
  static constexpr std::size_t kMaxQueuedBytes = 256 * 1024;
  // The interval of upstream's watch cache.
  static constexpr std::chrono::seconds kBookmarkInterval{60};

  // All borrowed; they outlive this object. Its own streams may be running until the executor
  // and the connections have stopped.
  WatchStreams(store::Store* store, Executor* executor, WatchLimits limits);
  // Stops.
  ~WatchStreams();
  WatchStreams(const WatchStreams&) = delete;
  WatchStreams& operator=(const WatchStreams&) = delete;

  // Opens a watch. kTooManyRequests if there are too many, kServiceUnavailable after Stop(). If the
  // watch is accepted, `start` is called; it must send the head of the response, because frames
  // follow at once.
  Status Open(WatchRequest request, std::shared_ptr<http::Responder> responder,
              const std::function<void()>& start);

  // Ends all streams cleanly and rejects new ones. Idempotent.
  void Stop();

  std::size_t size() const;

 private:
  class Stream;
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace herald::server
