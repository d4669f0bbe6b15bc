#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/limit/backoff.h"
#include "base/thread/mutex.h"
#include "herald/base/clock.h"
#include "herald/base/executor.h"
#include "herald/base/log.h"
#include "herald/base/status.h"
#include "store/etcd/client.h"
#include "store/memory/entry_table.h"
#include "store/store.h"
#include "store/watch_hub.h"

namespace herald::store {

// An EtcdCache follows the one watch that a replica has on etcd. It passes all changes to the
// WatchHub. It also keeps a table of all entries, for reads that need an index, which etcd lacks.
//
//   kLoading --all pages at one revision--> kLive --the table exceeds its limit--> kWatchOnly
//      ^                                      |                                        |
//      |---the next changes were compacted----'--------- Maintain(), from time to time-'
//
//   kLive       the table can be read; callers use WaitFor() to make sure that it is fresh enough
//   kWatchOnly  only the hub gets changes; reads must go to etcd
//
// The table is as of revision(), and does not know by itself whether that is the latest. A caller
// gets the latest revision from etcd and passes it to WaitFor(). Between changes etcd reports the
// watch's revision only on request, and the report counts only if progress_is_sound().
//
// Thread-safe. Stop() must be called before the borrowed objects are destroyed.
class EtcdCache {
 public:
  // The calls to etcd. Functions, so that a test can replace them.
  struct Source {
    std::function<void(EtcdRange, std::function<void(Result<EtcdPage>)>)> range{};
    std::function<std::unique_ptr<EtcdWatch>(Revision after,
                                             std::function<void(Result<EtcdWatchBatch>)>)>
        watch{};
    std::function<bool()> progress_is_sound{};
  };

  struct Options {
    Schema schema{};
    const Clock* clock = nullptr;  // for the times at which entries were written; borrowed
    // All keys are in [start, end).
    std::string start{};
    std::string end{};
    std::uint64_t max_bytes = 512ull << 20;  // of memory, with the watch window; 0: no table
    std::uint64_t max_watch_window_bytes = 128ull << 20;
    std::chrono::seconds watch_window{5 * 60};
    // How many revisions before the first list the watch starts, if etcd still has them. Clients
    // that reconnect after a restart of this process then find the changes that they missed.
    Revision replay = 8'192;
    Executor* executor = nullptr;  // for delayed work; borrowed, stopped after Stop()
    LogFunction log{};
  };

  EtcdCache(Options options, Source source, WatchHub* hub);
  ~EtcdCache();
  EtcdCache(const EtcdCache&) = delete;
  EtcdCache& operator=(const EtcdCache&) = delete;

  void Start() EXCLUDES(mu_);
  // Ends the watch and fails all WaitFor(). Idempotent. Must not be called by a callback of etcd.
  void Stop() EXCLUDES(mu_);

  // Waits for the first response of etcd; returns false on timeout.
  bool WaitUntilStarted(std::chrono::nanoseconds timeout) EXCLUDES(mu_);

  // The table's revision; 0 if there is no table.
  Revision revision() const EXCLUDES(mu_);

  // Calls `done` with true when the table has reached the revision, with false if it is not
  // expected to reach it soon.
  void WaitFor(Revision revision, std::function<void(bool)> done) EXCLUDES(mu_);

  // Reads the table at one revision, in slices, and keeps the old versions that it needs.
  // Thread-confined. Borrows the query and the cache.
  class Reader {
   public:
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    // Reads about `max_rows` more rows. Returns nothing if there are more.
    std::optional<Page> Continue(std::size_t max_rows);

   private:
    friend class EtcdCache;
    Reader(EtcdCache* cache, const Query& query, std::shared_ptr<EntryTable> table, Revision at)
        : cache_(*cache), query_(query), table_(std::move(table)), at_(at), page_(query, at) {}

    EtcdCache& cache_;
    const Query& query_;
    const std::shared_ptr<EntryTable> table_;
    const Revision at_;
    EntryTable::Cursor cursor_;
    PageMaker page_;
  };
  // Null if the table does not have that revision. `at` 0: the table's latest.
  std::unique_ptr<Reader> NewReader(const Query& query, Revision at) EXCLUDES(mu_);
  // The whole result at once.
  std::optional<Page> Read(const Query& query, Revision at) EXCLUDES(mu_);
  std::optional<std::optional<Entry>> Get(const std::string& key) EXCLUDES(mu_);
  std::optional<Watch::Batch> ReadLog(const std::string& prefix, Revision after, std::size_t max)
      EXCLUDES(mu_);

  // Entries that had expired at `when`, earliest first; nothing if there is no table.
  std::optional<std::vector<Entry>> Overdue(WallTime when, std::size_t max) EXCLUDES(mu_);
  // Computes the expiry of all entries by the current rules. Returns those that are expired at
  // `now` but were not by the old rules; nothing if there is no table.
  std::optional<std::vector<Entry>> RefreshLifetimes(WallTime now) EXCLUDES(mu_);

  // To be called from time to time: trims the watch window, requests progress from etcd, and lists
  // again some time after the table became too large.
  void Maintain() EXCLUDES(mu_);

  struct Stats {
    Revision revision = 0;
    std::optional<std::uint64_t> entries{};  // nothing if there is no table
    std::uint64_t expired = 0;
    std::uint64_t lists = 0;  // lists of all entries
  };
  Stats stats() const EXCLUDES(mu_);

 private:
  enum class State : std::uint8_t { kLoading, kLive, kWatchOnly, kStopped };
  struct PendingList;
  struct Waiter {
    SteadyTime deadline{};
    std::function<void(bool)> done{};
  };

  EntryTable::Facts FactsOf(const Entry& entry, bool is_new, WallTime now) const;

  void StartList() EXCLUDES(mu_);
  void RequestPage(const std::shared_ptr<PendingList>& list);
  void OnPage(const std::shared_ptr<PendingList>& list, Result<EtcdPage> page) EXCLUDES(mu_);
  void InstallList(const std::shared_ptr<PendingList>& list) EXCLUDES(mu_);
  void RetryListLater(const Status& why) EXCLUDES(mu_);
  void StartWatch(Revision after) REQUIRES(watch_mu_);

  void OnWatchBatch(Result<EtcdWatchBatch> batch) EXCLUDES(mu_);
  void Apply(EtcdWatchBatch& batch, std::vector<EntryTable::Facts> facts, WallTime now)
      REQUIRES(mu_);
  void WatchExpired(const Status& why) EXCLUDES(mu_);
  void EndWatch() EXCLUDES(watch_mu_);
  std::vector<std::function<void(bool)>> TakeSatisfiedWaiters() REQUIRES(mu_);
  void RequestProgress() EXCLUDES(mu_, watch_mu_);
  // Runs while there are waiters: requests progress again, and fails waiters that timed out.
  void CheckWaiters() EXCLUDES(mu_, watch_mu_);
  void Log(LogLevel level, std::string_view message, const std::string& error) const;

  const Options options_;
  const Source source_;
  const Clock& clock_;
  WatchHub* const hub_;

  // Guards creation, use and destruction of the watch. The watch's callbacks do not take it,
  // because destroying the watch waits for them. Acquired before mu_.
  Mutex watch_mu_;
  std::unique_ptr<EtcdWatch> watch_ GUARDED_BY(watch_mu_);
  bool stopped_ GUARDED_BY(watch_mu_) = false;

  // Guards all below. Acquired before the hub's lock. No callbacks run while it is held.
  mutable Mutex mu_ ACQUIRED_AFTER(watch_mu_);
  CondVar started_;
  State state_ GUARDED_BY(mu_) = State::kLoading;
  // The changes after the hub's head were compacted before the watch got them.
  bool missed_changes_ GUARDED_BY(mu_) = false;
  // How many revisions before the list the watch starts; 0 after its first batch.
  Revision replay_revisions_ GUARDED_BY(mu_);
  Revision list_revision_ GUARDED_BY(mu_) = 0;  // of the last list
  // Null except in kLive. Readers keep the table with which they started.
  std::shared_ptr<EntryTable> table_ GUARDED_BY(mu_);
  std::multimap<Revision, Waiter> waiters_ GUARDED_BY(mu_);
  bool checking_waiters_ GUARDED_BY(mu_) = false;
  // Progress was requested and nothing was received since.
  bool progress_requested_ GUARDED_BY(mu_) = false;
  SteadyTime next_progress_request_ GUARDED_BY(mu_);  // the earliest, if there are no waiters
  // A waiter timed out and nothing was received since: new waiters fail at once.
  bool stalled_ GUARDED_BY(mu_) = false;
  SteadyTime too_large_since_ GUARDED_BY(mu_);
  Backoff backoff_ GUARDED_BY(mu_);
  bool list_failed_ GUARDED_BY(mu_) = false;  // the last list failed, and that was logged
  std::uint64_t expired_ GUARDED_BY(mu_) = 0;
  std::uint64_t lists_ GUARDED_BY(mu_) = 0;
};

}  // namespace herald::store
