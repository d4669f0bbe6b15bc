#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/delete_options.h"
#include "herald/api/event.h"
#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "store/store.h"

namespace herald::server {

// The registry has the rules for reading and writing events: which members the server sets, which
// an update may change, when a write conflicts and when it changes nothing. It is the counterpart
// of kube-apiserver's registry/generic/registry/store.go with the strategies of
// registry/core/event. Like them, it retries a write that another write overtook.
//
// All calls are asynchronous; `done` is called exactly once, on a thread of the store or before
// the call returns.
//
// Thread-safe.
class Registry {
 public:
  // The event that a request is about, and the request's options.
  struct Target {
    EventApi api = EventApi::kCoreV1;
    std::string namespace_{};
    std::string name{};  // empty for a create
    bool dry_run = false;
    // The last check before something is written; an error rejects the write. May be empty. Called
    // at most once.
    std::function<Status(const Event&)> admit{};
    // Runs long work on another thread: if is_long_work, or if the stored event is large. Empty:
    // the work runs on the calling thread or on one of the store's.
    std::function<void(std::function<void()>)> post{};
    bool is_long_work = false;
    // An error if a PUT may not create the event; it is returned if the event does not exist.
    Status may_create{};
  };

  struct EventResult {
    Event event{};
    bool created = false;
    bool deleted = false;                 // `event` is the event before it was deleted
    std::vector<std::string> warnings{};  // to be sent to the client
    bool is_large = false;                // encoding it is long work
  };
  using Done = std::function<void(Result<EventResult>)>;

  // Applies a patch to the current event. Called again if another write was faster.
  using Transform = std::function<Result<Event>(const Event& current)>;

  // The store and the clock are borrowed and outlive the registry and all its calls.
  Registry(store::Store* store, const Clock* clock) : store_(store), clock_(clock) {}

  void Get(const Target& target, Done done);
  void Create(Target target, Event event, Done done);
  // Replaces the event, or creates it if it does not exist.
  void Update(Target target, Event event, Done done);
  void Patch(Target target, Transform transform, Done done);
  void Delete(Target target, DeleteOptions options, Done done);

 private:
  class Creation;
  class Race;
  class Change;
  class Deletion;

  store::Store* const store_;
  const Clock* const clock_;
};

// "events" or "events.events.k8s.io": the resource in messages.
std::string_view QualifiedResource(EventApi api);
Status EventNotFound(EventApi api, std::string_view name);

}  // namespace herald::server
