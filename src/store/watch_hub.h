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

// A WatchHub tells the watches of one store what was written. Every backend has one.
//
// The newest changes are in a ring, and watches that keep up take them from there: a
// change is made once, and twenty watches share it by twenty pointers. Nothing is ever
// queued per watch; a watch is a position.
//
//   position:  gone | in the backend's log | in the ring | head
//                   ^compacted             ^floor        ^what was appended last
//
// Changes may share a revision, where one transaction made them. Whoever appends, or reads
// the log, gives all of them at once; a watch may take them in parts, and the batches before the
// last part do not say that the revision was given out.
//
// A watch whose position falls behind the ring (its client is slow, or it resumes after
// a restart) reads the log through the backend's Reader at its own pace, on `executor`,
// until it has caught up with the ring. So a slow watch holds up nobody and costs no memory.
//
// The order of calls, for whoever writes a backend: a change is durable and visible to
// reads first, then appended here, and only then is its writer told. A client that was told
// of revision 7 and then watches from now never sees 7, and one who saw 7 in a watch
// and then reads finds it.
//
// Thread-safe. Append(), Skip() and Compacted() come from one thread at a time.
class WatchHub {
 public:
  // What a watch reads behind the ring: changes of keys with `prefix` after `after`, in order;
  // at most `max`, unless it takes more to make whole revisions; `revision` says how far it looked,
  // which must be beyond `after` while there is more. kExpired where `after` was compacted away.
  // Compaction may run at the same time: a read that returns nothing at `after` is treated as
  // kExpired if Compacted() has passed `after` by then.
  // Called from any thread, without locks; it may read from disk.
  using Reader = std::function<Result<Watch::Batch>(const std::string& prefix, Revision after,
                                                    std::size_t max)>;

  struct Options {
    // The ring's bounds. At 20,000 writes a second it holds 800 ms, so that watches that were not
    // scheduled for a moment need not go to the log, each of them for itself.
    std::size_t max_changes = 16'384;
    std::size_t max_bytes = 16u << 20;  // of keys and values, old ones included
    // The same while nobody watches: whoever begins now rarely has missed more.
    std::size_t max_unwatched_changes = 1'024;
    // Where lagging watches read; borrowed, stopped before the hub is destroyed. Null: inside
    // Next(), for backends whose log is in memory.
    Executor* executor = nullptr;
  };

  // The callbacks of watches that have something to read now. Whoever appends calls Wake()
  // with it when it holds no lock.
  using Woken = std::vector<std::shared_ptr<const std::function<void()>>>;
  static void Wake(const Woken& woken);

  // `head` is the latest revision, `compacted` what is gone already.
  WatchHub(Revision head, Revision compacted, Reader reader, Options options);
  ~WatchHub();
  WatchHub(const WatchHub&) = delete;
  WatchHub& operator=(const WatchHub&) = delete;

  // Changes in the order of their revisions, whole revisions, all beyond the head, which is then
  // `head`. With none it only says that there was nothing up to there for anybody.
  [[nodiscard]] Woken Append(const std::vector<std::shared_ptr<const Change>>& changes,
                             Revision head) EXCLUDES(mu_);

  // The changes up to here were not seen: the head is there now, and whoever was before
  // it has to look in the log, also those that waited.
  [[nodiscard]] Woken Skip(Revision head) EXCLUDES(mu_);

  // Changes up to here are gone. Watches that have not read them yet are over.
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
  // The body of the task that reads the log for a lagging watch.
  void Fetch(const std::shared_ptr<Watcher>& watcher) EXCLUDES(mu_);

  // Takes what was fetched for the watch, at most `max`, and moves it on.
  static void TakeFetched(Watcher& watcher, std::size_t max, Watch::Batch& batch);
  // Takes from the ring what the watch has not seen, at most `max`, and moves it on. What is
  // left of a revision stays with the watch.
  // REQUIRES: watcher.position >= floor_
  void TakeFromRing(Watcher& watcher, std::size_t max, Watch::Batch& batch) REQUIRES(mu_);
  void StartWaiting(Watcher& watcher) REQUIRES(mu_);
  void StopWaiting(Watcher& watcher) REQUIRES(mu_);

  // Watches that wait, by prefix.
  using ByPrefix = std::map<std::string, std::set<Watcher*>, std::less<>>;

  const Reader reader_;
  const Options options_;

  // Guards all below, and what a Watcher says it guards. A leaf: a backend may hold its own
  // lock when it appends; neither Reader nor callbacks run under this one.
  mutable Mutex mu_;
  Revision head_ GUARDED_BY(mu_);
  Revision compacted_ GUARDED_BY(mu_);
  // All changes in (floor_, head_] are in the ring. compacted_ <= floor_ <= head_
  Revision floor_ GUARDED_BY(mu_);
  std::deque<std::shared_ptr<const Change>> ring_ GUARDED_BY(mu_);
  std::size_t ring_bytes_ GUARDED_BY(mu_) = 0;
  // Watches in kWaiting, by the length of their prefix and the prefix, so that a change
  // finds those it concerns in a few lookups, however many namespaces are watched.
  std::map<std::size_t, ByPrefix> waiting_ GUARDED_BY(mu_);
  std::size_t watches_ GUARDED_BY(mu_) = 0;
};

}  // namespace herald::store
