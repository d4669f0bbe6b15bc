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

// How a watcher learns what is there at the beginning.
enum class InitialList : std::uint8_t {
  kPaged,      // a list in pages, then a watch; every server can do it
  kStreaming,  // all in one watch (sendInitialEvents); servers that refuse get a list
};

struct ResourceWatcherOptions {
  std::string namespace_{};  // empty: all, or cluster-scoped
  std::string label_selector{};
  std::string field_selector{};
  InitialList initial_list = InitialList::kPaged;
  std::int64_t page_size = 500;           // objects, as client-go has it; 0: all at once
  WireFormat format = WireFormat::kJson;  // events only
  // Each watch is asked to end after between one and two times this, so that a server
  // gets rid of its clients bit by bit. As client-go's reflectors do.
  std::chrono::seconds watch_timeout{300};
  std::uint64_t seed = 0;  // of the jitter, for tests; 0: any
};

// What a watcher is doing.
//
//   kEmpty ──first page──> kListing ──last page──> kListed ──> kWatching
//     │  ^                    │ ^                    ^ │           │
//     │  │                 failed: the same page     │ failed, or ended:
//     │  │                 again after a wait        │ from the last version seen
//     │  │                                           └─────────────┤
//     │  └── 410: that version is gone; or a frame that could not be read ──┤
//     │                                                            │
//     └──(streaming)──> kStreaming ──bookmark: that was all────────┘
//
// A wait (0.8 s, doubling up to 30 s, with jitter) comes between any failure and the
// next try, and after a watch that ended at once without a word.
enum class ResourceWatcherState : std::uint8_t {
  kEmpty,      // nothing is known
  kListing,    // some pages are
  kListed,     // everything was at some version; no watch is open
  kStreaming,  // a watch is open and sends what was there
  kWatching,   // a watch is open and sends changes
  kStopped,
};

// What happened, as a watcher tells it.
template <typename T>
struct ResourceWatcherEvent {
  enum class Kind : std::uint8_t {
    kInit,       // what follows, up to kInitDone, is all there is; forget the rest then
    kInitApply,  // one of those objects
    kInitDone,
    kApply,   // the object is new or has changed
    kDelete,  // it is gone; its last state
  };

  Kind kind = Kind::kInit;
  T object{};  // nothing with kInit and kInitDone
};

// A ResourceWatcher keeps its handler up to date with the objects of a resource, for as long as it
// lives: it lists them, watches what changes, resumes where a watch ended, and starts again where
// the server no longer knows what happened since. No change is missed, and none is told twice,
// except by a new kInit. T is Event or Object.
//
// A kInit may come again before its kInitDone, and instead of it; only a kInitDone
// makes a whole of it. Informer (informer.h) does that.
//
// Thread-safe. Handlers run on the RestClient's thread, one at a time, and must not block;
// none runs once Stop() has returned.
template <typename T>
class HERALD_EXPORT ResourceWatcher {
 public:
  // To keep an object, move it away or copy it: what is left of it is used for the next one.
  using Handler = std::function<void(ResourceWatcherEvent<T>&&)>;
  // Told of each failure; what to do about it is the watcher's business.
  using ErrorHandler = std::function<void(const Status&)>;

  ResourceWatcher(std::shared_ptr<RestClient> rest, Resource resource,
                  ResourceWatcherOptions options, Handler on_event, ErrorHandler on_error = {});
  // Stops.
  ~ResourceWatcher();
  ResourceWatcher(const ResourceWatcher&) = delete;
  ResourceWatcher& operator=(const ResourceWatcher&) = delete;

  // At most once.
  void Start();
  // Idempotent. May be called by a handler; then that call is the last.
  void Stop();

  ResourceWatcherState state() const;

 private:
  class Core;
  // Shared with what is under way.
  const std::shared_ptr<Core> core_;
};

extern template class ResourceWatcher<Event>;
extern template class ResourceWatcher<Object>;

}  // namespace herald
