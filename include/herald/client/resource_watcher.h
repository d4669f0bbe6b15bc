#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "herald/base/export.h"
#include "herald/base/status.h"
#include "herald/client/dynamic.h"
#include "herald/client/events.h"
#include "herald/client/resource.h"
#include "herald/client/rest.h"

namespace herald {

// How a ResourceWatcher gets the existing objects.
enum class InitialList : std::uint8_t {
  kPaged,      // a list in pages, then a watch; every server supports it
  kStreaming,  // one watch with sendInitialEvents; kPaged if the server rejects it
};

struct ResourceWatcherOptions {
  std::string namespace_{};  // empty: all namespaces, or cluster-scoped objects
  std::string label_selector{};
  std::string field_selector{};
  InitialList initial_list = InitialList::kPaged;
  std::int64_t page_size = 500;           // objects, as in client-go; 0: one page with all objects
  WireFormat format = WireFormat::kJson;  // for T = Event only
  // Each watch ends after a random time of one to two times this value, so that the clients of a
  // server do not all reconnect at the same time. As in client-go's reflectors.
  std::chrono::seconds watch_timeout{300};
  std::uint64_t seed = 0;  // of the jitter, for tests; 0: random
};

// The state of a ResourceWatcher.
//
//   kEmpty ──first page──> kListing ──last page──> kListed ──> kWatching
//     │  ^                    │ ^                    ^ │           │
//     │  │                 failed: retry the page    │ failed or ended: resume
//     │  │                 after a delay             │ after the last version seen
//     │  │                                           └─────────────┤
//     │  └── 410 Gone, or a frame that cannot be decoded ──────────┤
//     │                                                            │
//     └──(streaming)──> kStreaming ──bookmark: end of the list─────┘
//
// There is a delay (0.8 s, doubling up to 30 s, with jitter) between a failure and the next
// attempt, and after a watch that ended within a second without a frame.
enum class ResourceWatcherState : std::uint8_t {
  kEmpty,      // no object is known
  kListing,    // some pages have been read
  kListed,     // all objects are known at some version; no watch is open
  kStreaming,  // a watch is open and sends the existing objects
  kWatching,   // a watch is open and sends changes
  kStopped,
};

// What a ResourceWatcher passes to its handler.
template <typename T>
struct ResourceWatcherEvent {
  enum class Kind : std::uint8_t {
    kInit,       // a list of all existing objects begins
    kInitApply,  // one object of the list
    kInitDone,   // the list is complete: objects that were not in it do not exist any more
    kApply,      // the object is new or has changed
    kDelete,     // the object was deleted; its last state
  };

  Kind kind = Kind::kInit;
  T object{};  // empty for kInit and kInitDone
};

// A ResourceWatcher reports the objects of a resource and all their changes to a handler. It lists
// the objects, watches for changes, opens a new watch where the last one ended, and lists again if
// the server does not have the changes since then any more. No change is missed. No change is
// reported twice, except by a new list. client-go calls this a Reflector. T is Event or Object.
//
// A list may be interrupted: then a new kInit follows instead of kInitDone. Informer (informer.h)
// handles this and keeps the objects.
//
// Thread-safe. Handlers run on the RestClient's thread, one at a time, and must not block. No
// handler runs after Stop() has returned.
template <typename T>
class HERALD_EXPORT ResourceWatcher {
 public:
  // To keep an object, move or copy it: its memory is reused for the next one.
  using Handler = std::function<void(ResourceWatcherEvent<T>&&)>;
  // Called with each failure, for logs; the watcher retries by itself.
  using ErrorHandler = std::function<void(const Status&)>;

  ResourceWatcher(std::shared_ptr<RestClient> rest, Resource resource,
                  ResourceWatcherOptions options, Handler on_event, ErrorHandler on_error = {});
  // Stops.
  ~ResourceWatcher();
  ResourceWatcher(const ResourceWatcher&) = delete;
  ResourceWatcher& operator=(const ResourceWatcher&) = delete;

  // REQUIRES: not called before
  void Start();
  // Idempotent. May be called by a handler; no handler is called after that one.
  void Stop();

  ResourceWatcherState state() const;

 private:
  class Core;
  // Shared with the requests and timers under way.
  const std::shared_ptr<Core> core_;
};

extern template class ResourceWatcher<Event>;
extern template class ResourceWatcher<Object>;

}  // namespace herald
