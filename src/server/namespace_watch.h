#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "herald/base/executor.h"
#include "herald/base/status.h"
#include "http/server.h"
#include "server/encoding.h"
#include "store/store.h"

namespace herald::server {

// Watches of namespaces. A namespace is there while it has events (namespaces.h), and
// nobody writes it down when it comes or goes; so all watchers together look every
// kInterval and are told what is different. There are few of them: `kubectl get ns -w`.
//
// Thread-safe.
class NamespaceWatches {
 public:
  static constexpr std::chrono::seconds kInterval{5};
  static constexpr std::size_t kMaxWatches = 1000;
  // A client that leaves so much unread is cut off: there is nothing to go back to.
  static constexpr std::size_t kMaxQueuedBytes = 256 * 1024;

  struct Request {
    std::string name{};  // one alone; empty: all
    Form form{};         // never protobuf
    bool initial_events = true;
    std::chrono::seconds timeout{0};
  };

  // Both borrowed; they outlive this object, and the executor's threads have stopped or
  // will never touch it again when it goes.
  NamespaceWatches(store::Store* store, Executor* executor);
  // Stops.
  ~NamespaceWatches();
  NamespaceWatches(const NamespaceWatches&) = delete;
  NamespaceWatches& operator=(const NamespaceWatches&) = delete;

  // `start` sends the head of the answer; it is not called where the watch is refused.
  Status Open(Request request, std::shared_ptr<http::Responder> responder,
              const std::function<void()>& start);

  // Ends all cleanly and refuses new ones. Idempotent.
  void Stop();

 private:
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace herald::server
