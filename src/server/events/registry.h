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

// The registry knows what an event may become: who fills in which member, what may
// change, when a write is a conflict and when it is none at all. It is the counterpart of
// kube-apiserver's registry/generic/registry/store.go with the strategies of
// registry/core/event, and like it retries a lost race by itself.
//
// All calls are asynchronous; `done` is called exactly once, on a thread of the store or before
// the call returns.
//
// Thread-safe.
class Registry {
 public:
  // The event that a request is about, and how it is meant.
  struct Target {
    EventApi api = EventApi::kCoreV1;
    std::string namespace_{};
    std::string name{};  // empty for a create
    bool dry_run = false;
    // The last word before something is written. May be empty. Called at most once.
    std::function<Status(const Event&)> admit{};
    // Where work on the event is done if it is long: because the request says so, or because the
    // stored event is large. Empty: on the thread that calls, or on one of the store.
    std::function<void(std::function<void()>)> post{};
    bool is_long_work = false;
    // Whether a PUT may create the event if it does not exist; the error refuses it.
    Status may_create{};
  };

  struct EventResult {
    Event event{};
    bool created = false;
    bool deleted = false;                 // the event is gone, and this is what it was
    std::vector<std::string> warnings{};  // for the client's eyes
    bool is_large = false;                // encoding it is long work
  };
  using Done = std::function<void(Result<EventResult>)>;

  // What a patch makes of the event as it stands. Called again when a race was lost.
  using Transform = std::function<Result<Event>(const Event& current)>;

  // The store and the clock are borrowed and outlive the registry and all its calls.
  Registry(store::Store* store, const Clock* clock) : store_(store), clock_(clock) {}

  void Get(const Target& target, Done done);
  void Create(Target target, Event event, Done done);
  // Replaces the event, or creates it where there is none.
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

// "events" or "events.events.k8s.io": what messages call the resource of an API.
std::string_view QualifiedResource(EventApi api);
Status EventNotFound(EventApi api, std::string_view name);

}  // namespace herald::server
