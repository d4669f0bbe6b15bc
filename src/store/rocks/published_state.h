#pragma once

#include <fmt/core.h>

#include <atomic>

#include "base/thread/mutex.h"
#include "herald/base/status.h"
#include "store/rocks/format.h"
#include "store/store.h"

namespace herald::store {

// The PublishedState contains what all threads share about the store: which revisions can be read,
// and the counters as of the last acknowledged write.
//
// A read may ask for a revision in [compacted, visible]. Both only grow. `compacted` moves before
// rows are deleted, `visible` after they are written. So a read that checks `compacted` again
// after it took its snapshot has seen whole states.
//
// Thread-safe.
class PublishedState {
 public:
  explicit PublishedState(const State& state)
      : visible_(state.revision), compacted_(state.compacted), state_(state) {}
  PublishedState(const PublishedState&) = delete;
  PublishedState& operator=(const PublishedState&) = delete;

  Revision visible() const { return visible_.load(); }
  Revision compacted() const { return compacted_.load(); }
  // As of the last write that was published.
  State state() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return state_;
  }

  // After a write. Called by one thread at a time.
  void Publish(const State& state) EXCLUDES(mu_) {
    RaiseVisible(state.revision);
    MutexLock lock(mu_);
    state_ = state;
  }
  // A read may be the first to see a batch that is written but not yet published. Later reads must
  // not see less than that.
  void RaiseVisible(Revision revision) {
    Revision visible = visible_.load();
    while (visible < revision && !visible_.compare_exchange_weak(visible, revision)) {
    }
  }
  // Before the rows are deleted. Called by one thread at a time.
  void SetCompacted(Revision revision) { compacted_ = revision; }

  // kExpired if changes after that revision are no longer all there.
  Status CheckKept(Revision at) const {
    const Revision compacted = compacted_.load();
    if (at >= compacted) return Status();
    return Status(
        StatusReason::kExpired,
        fmt::format("revision {} is no longer kept: the watch window begins at {}", at, compacted));
  }

 private:
  std::atomic<Revision> visible_;
  std::atomic<Revision> compacted_;

  mutable Mutex mu_;  // a leaf
  State state_ GUARDED_BY(mu_);
};

}  // namespace herald::store
