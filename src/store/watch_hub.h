#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/thread/mutex.h"
#include "herald/base/executor.h"
#include "herald/base/status.h"
#include "store/store.h"

namespace herald::store {

// A WatchHub sends the changes of one store to its watches. Every backend has one.
//
// The newest changes are in a ring, and watches that keep up take them from there: twenty watches
// share one change by twenty pointers. There is no queue per watch; a watch is a position.
//
//   position:  compacted | in the backend's log | in the ring | head
//                        ^compacted_            ^floor_       ^the last change that was appended
//
// Changes that one transaction made share a revision. They are appended, and read from the log, all
// at once. A watch may take them in several batches; only the last of these reports the revision as
// returned.
//
// A watch whose position is before the ring (its client is slow, or it resumes after a restart)
// reads the log through the backend's Reader at its own pace, on `executor`, until it has caught
// up with the ring. So a slow watch delays no other and costs no memory.
//
// A backend must keep this order: a change is durable and visible to reads first, then it is
// appended here, then its writer's completion is called. So a client whose write got revision 7 and
// that then watches from now does not see 7, and a client that saw 7 in a watch finds it in a read.
//
// Thread-safe. Append(), Skip() and Compacted() must be called by one thread at a time.
class WatchHub {
 public:
  // Reads the log for a watch that is before the ring: changes of keys with `prefix` after `after`,
  // in order, at most `max`, or more to complete a revision. Batch::revision is how far it has
  // read, which must be beyond `after` while there is more. kExpired if `after` was compacted.
  // Compaction may run at the same time: a read that returns nothing and does not advance is
  // treated as kExpired if Compacted() has passed `after` by then.
  // Called from any thread, without a lock held; it may read from disk.
  using Reader = std::function<Result<Watch::Batch>(const std::string& prefix, Revision after,
                                                    std::size_t max)>;

  struct Options {
    // Limits of the ring. At 20,000 writes a second it holds 800 ms, so that watches that were not
    // scheduled for a moment do not have to read the log, each on its own.
    std::size_t max_changes = 16'384;
    std::size_t max_bytes = 16u << 20;  // of keys and values, old values included
    // The limit while there are no watches: a watch that starts then has rarely missed more.
    std::size_t max_unwatched_changes = 1'024;
    // Where lagging watches read the log. Borrowed; must be stopped before the hub is destroyed.
    // Null: inside Next(), for backends whose log is in memory.
    Executor* executor = nullptr;
  };

  // The callbacks of watches that have something to read now. The caller of Append() passes it to
  // Wake() when it holds no lock.
  using Woken = std::vector<std::shared_ptr<const std::function<void()>>>;
  static void Wake(const Woken& woken);

  // `head` is the latest revision; changes up to `compacted` are compacted already.
  WatchHub(Revision head, Revision compacted, Reader reader, Options options);
  ~WatchHub();
  WatchHub(const WatchHub&) = delete;
  WatchHub& operator=(const WatchHub&) = delete;

  // Adds changes, in the order of their revisions, with all changes of each revision, all beyond
  // the head. The head is then `head`. Without changes, it only moves the head: there was no change
  // up to there.
  [[nodiscard]] Woken Append(const std::vector<std::shared_ptr<const Change>>& changes,
                             Revision head) EXCLUDES(mu_);

  // Moves the head without the changes up to there, which the caller has not seen. Watches before
  // it have to read the log, also those that waited.
  [[nodiscard]] Woken Skip(Revision head) EXCLUDES(mu_);

  // Changes up to here are compacted. Watches that have not read them yet end with kExpired.
  void Compacted(Revision revision) EXCLUDES(mu_);

  // See Store::NewWatch().
  Result<std::unique_ptr<Watch>> NewWatch(std::string prefix, Revision after,
                                          std::function<void()> ready) EXCLUDES(mu_);

  Revision head() const EXCLUDES(mu_);
  std::size_t watches() const EXCLUDES(mu_);

 private:
  class HubWatch;
  struct Watcher;

  Result<Watch::Batch> Next(const std::shared_ptr<Watcher>& watcher, std::size_t max) EXCLUDES(mu_);
  void Remove(const std::shared_ptr<Watcher>& watcher) EXCLUDES(mu_);
  // Reads the log for a lagging watch, on the executor.
  void Fetch(const std::shared_ptr<Watcher>& watcher) EXCLUDES(mu_);

  // Moves at most `max` changes that were fetched for the watch to the batch, and its position.
  static void TakeFetched(Watcher& watcher, std::size_t max, Watch::Batch& batch);
  // Adds changes of the ring that the watch has not seen to the batch, at most `max`, and moves its
  // position. The rest of a revision is kept in watcher.fetched.
  // REQUIRES: watcher.position >= floor_
  void TakeFromRing(Watcher& watcher, std::size_t max, Watch::Batch& batch) REQUIRES(mu_);
  void StartWaiting(Watcher& watcher) REQUIRES(mu_);
  void StopWaiting(Watcher& watcher) REQUIRES(mu_);

  // Waiting watches, by prefix.
  using ByPrefix = std::map<std::string, std::set<Watcher*>, std::less<>>;

  const Reader reader_;
  const Options options_;

  // Guards all below, and the guarded members of Watcher. A leaf: a backend may hold its own lock
  // when it appends; neither Reader nor callbacks run under this one.
  mutable Mutex mu_;
  Revision head_ GUARDED_BY(mu_);
  Revision compacted_ GUARDED_BY(mu_);
  // All changes in (floor_, head_] are in the ring. compacted_ <= floor_ <= head_
  Revision floor_ GUARDED_BY(mu_);
  std::deque<std::shared_ptr<const Change>> ring_ GUARDED_BY(mu_);
  std::size_t ring_bytes_ GUARDED_BY(mu_) = 0;
  // Watches in kWaiting, by the length of their prefix and the prefix, so that the watches for a
  // change are found in a few lookups, however many namespaces are watched.
  std::map<std::size_t, ByPrefix> waiting_ GUARDED_BY(mu_);
  std::size_t watches_ GUARDED_BY(mu_) = 0;
};

}  // namespace herald::store
