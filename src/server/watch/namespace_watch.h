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

// Watches of namespaces. A namespace exists while it has events (namespaces.h), and nothing is
// stored about it; so all watchers share one watch of the events, and are sent what that means for
// namespaces. While nobody watches, nothing is read.
//
// Thread-safe.
class NamespaceWatches {
 public:
  static constexpr std::size_t kMaxWatches = 1000;
  // A client that leaves so much unread is cut off: there is nothing to go back to.
  static constexpr std::size_t kMaxQueuedBytes = 256 * 1024;
  // How long to wait before a store that could not be read is asked again.
  static constexpr std::chrono::seconds kRetryInterval{5};

  struct Request {
    std::optional<std::string> name{};  // one alone; nothing: all
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

  // `start` sends the head of the answer; it is not called where the watch is rejected.
  Status Open(Request request, std::shared_ptr<http::Responder> responder,
              const std::function<void()>& start);

  // Ends all cleanly and rejects new ones. Idempotent.
  void Stop();

 private:
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace herald::server
