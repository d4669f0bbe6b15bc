#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "herald/base/executor.h"
#include "herald/base/status.h"
#include "http/server/server.h"
#include "server/discovery/namespaces.h"
#include "server/events/encoding.h"
#include "store/store.h"

namespace herald::server {

// Watches of namespaces. A namespace exists while it has events (namespaces.h) and is not stored.
// So all watchers share one watch of events, from which changes of namespaces are derived. Without
// watchers nothing is read.
//
// Thread-safe.
class NamespaceWatches {
 public:
  static constexpr std::size_t kMaxWatches = 1000;
  // A client with more unread bytes is disconnected, because no older changes are kept for it.
  static constexpr std::size_t kMaxQueuedBytes = 256 * 1024;
  // The time after which a failed read of the store is retried.
  static constexpr std::chrono::seconds kRetryInterval{5};

  struct Request {
    std::optional<std::string> name{};  // only this namespace; nothing: all
    Form form{};                        // never protobuf
    bool initial_events = true;
    std::chrono::seconds timeout{0};
  };

  // All borrowed; they outlive this object.
  NamespaceWatches(store::Store* store, Namespaces* namespaces, Executor* executor);
  // Stops.
  ~NamespaceWatches();
  NamespaceWatches(const NamespaceWatches&) = delete;
  NamespaceWatches& operator=(const NamespaceWatches&) = delete;

  // `start` sends the head of the response. It is not called if the watch is rejected.
  Status Open(Request request, std::shared_ptr<http::Responder> responder,
              const std::function<void()>& start);

  // Ends all cleanly and rejects new ones. Idempotent.
  void Stop();

 private:
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace herald::server
