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

// An EtcdMirror follows the one watch that a replica has on etcd. It tells the WatchHub of all
// changes, and keeps a table of all entries for reads that etcd has no index for.
//
//   kLoading --all pages at one revision--> kLive --the table outgrows its bound--> kFeeding
//      ^                                      |                                         |
//      |--what comes next was compacted away--'------------ Reload(), from time to time-'
//
//   kLive      reads can be answered, by whoever has made sure that the table is fresh enough
//   kFeeding   the hub is fed, reads have to go to etcd
//
// It is never known to be up to date by itself: it is as of revision(), and WaitFor() says
// whether it gets as far as a revision that etcd has just told. Between changes etcd says how
// far it is only when asked, and then only where progress_is_sound().
//
// Thread-safe. Stop() before what it borrows goes.
class EtcdMirror {
 public:
  // What it asks of etcd. Functions, so that a test can be etcd.
  struct Source {
    std::function<void(EtcdRange, std::function<void(Result<EtcdPage>)>)> range{};
    std::function<std::unique_ptr<EtcdWatch>(Revision after,
                                             std::function<void(Result<EtcdWatchBatch>)>)>
        watch{};
    std::function<bool()> progress_is_sound{};
  };

  struct Options {
    Schema schema{};
    const Clock* clock = nullptr;  // what entries are dated with; borrowed
    // All keys are in [start, end).
    std::string start{};
    std::string end{};
    std::uint64_t max_bytes = 512ull << 20;  // in memory, history included; 0: no table at all
    std::uint64_t max_watch_window_bytes = 128ull << 20;
    std::chrono::seconds watch_window{5 * 60};
    // How many revisions before the first list the watch begins, if etcd still has them: clients
    // that were cut off when we started anew, all at once, then find what they missed here.
    Revision replay = 8'192;
    Executor* executor = nullptr;  // for what must be done later; borrowed, stopped after Stop()
    LogFunction log{};
  };

  EtcdMirror(Options options, Source source, WatchHub* hub);
  ~EtcdMirror();
  EtcdMirror(const EtcdMirror&) = delete;
  EtcdMirror& operator=(const EtcdMirror&) = delete;

  void Start() EXCLUDES(mu_);
  // Ends the watch, and answers those who wait. Idempotent. Not from a callback of etcd's.
  void Stop() EXCLUDES(mu_);

  // Waits until something was learnt from etcd at all; false if that took too long.
  bool WaitUntilStarted(std::chrono::nanoseconds timeout) EXCLUDES(mu_);

  // What the table is as of; 0 where there is none to read.
  Revision revision() const EXCLUDES(mu_);

  // Calls `done` with true once the table is as of that revision or later, with false where
  // it is not and cannot be expected to be soon.
  void WaitFor(Revision revision, std::function<void(bool)> done) EXCLUDES(mu_);

  // A read of the table, which keeps the history that it needs. Thread-confined. Borrows the
  // query and the mirror.
  class Reading {
   public:
    ~Reading();
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
    // Looks at about `max_rows` more. Nothing: there are more.
    std::optional<Page> Continue(std::size_t max_rows);

   private:
    friend class EtcdMirror;
    Reading(EtcdMirror* mirror, const Query& query, std::shared_ptr<EntryTable> table, Revision at)
        : mirror_(*mirror), query_(query), table_(std::move(table)), at_(at), page_(query, at) {}

    EtcdMirror& mirror_;
    const Query& query_;
    const std::shared_ptr<EntryTable> table_;
    const Revision at_;
    EntryTable::Cursor cursor_;
    PageMaker page_;
  };
  // Null where the table does not reach there. `at` 0: as it is now.
  std::unique_ptr<Reading> NewReading(const Query& query, Revision at) EXCLUDES(mu_);
  // All of it at once.
  std::optional<Page> Read(const Query& query, Revision at) EXCLUDES(mu_);
  std::optional<std::optional<Entry>> Get(const std::string& key) EXCLUDES(mu_);
  std::optional<Watch::Batch> ReadLog(const std::string& prefix, Revision after, std::size_t max)
      EXCLUDES(mu_);

  // Entries whose time was over at that moment, soonest first; nothing where there is no table.
  std::optional<std::vector<Entry>> Overdue(WallTime when, std::size_t max) EXCLUDES(mu_);
  // Computes the expiry of all entries by the rules in force, and returns those that are expired at
  // `now` and were not by the rules before; nothing where there is no table.
  std::optional<std::vector<Entry>> RefreshLifetimes(WallTime now) EXCLUDES(mu_);

  // From time to time: forgets history, asks etcd how far it is, and lists again where the table
  // had grown too large a while ago.
  void Maintain() EXCLUDES(mu_);

  struct Stats {
    Revision revision = 0;
    std::optional<std::uint64_t> entries{};  // none where they are not counted
    std::uint64_t expired = 0;
    std::uint64_t lists = 0;  // of everything
  };
  Stats stats() const EXCLUDES(mu_);

 private:
  enum class State : std::uint8_t { kLoading, kLive, kFeeding, kStopped };
  struct Loading;
  struct Waiter {
    SteadyTime deadline{};
    std::function<void(bool)> done{};
  };

  EntryTable::Facts FactsOf(const Entry& entry, bool is_new, WallTime now) const;

  void StartLoading() EXCLUDES(mu_);
  void LoadPage(const std::shared_ptr<Loading>& loading);
  void Loaded(const std::shared_ptr<Loading>& loading, Result<EtcdPage> page) EXCLUDES(mu_);
  void Install(const std::shared_ptr<Loading>& loading) EXCLUDES(mu_);
  void LoadLater(const Status& why) EXCLUDES(mu_);
  void StartWatch(Revision after) REQUIRES(watch_mu_);

  void Take(Result<EtcdWatchBatch> batch) EXCLUDES(mu_);
  void Apply(EtcdWatchBatch& batch, std::vector<EntryTable::Facts> facts, WallTime now)
      REQUIRES(mu_);
  void WatchExpired(const Status& why) EXCLUDES(mu_);
  void EndWatch() EXCLUDES(watch_mu_);
  std::vector<std::function<void(bool)>> Satisfied() REQUIRES(mu_);
  void AskForProgress() EXCLUDES(mu_, watch_mu_);
  // While somebody waits: asks once more, and tells those who waited too long.
  void Tick() EXCLUDES(mu_, watch_mu_);
  void Say(LogLevel level, std::string_view message, const std::string& error) const;

  const Options options_;
  const Source source_;
  const Clock& clock_;
  WatchHub* const hub_;

  // A watch is made, asked and ended under this one, which its callbacks do not take: they
  // may be waited for. Before mu_.
  Mutex watch_mu_;
  std::unique_ptr<EtcdWatch> watch_ GUARDED_BY(watch_mu_);
  bool stopped_ GUARDED_BY(watch_mu_) = false;

  // Guards all below. Before the hub's own lock; nothing foreign runs under it.
  mutable Mutex mu_ ACQUIRED_AFTER(watch_mu_);
  CondVar started_;
  State state_ GUARDED_BY(mu_) = State::kLoading;
  // Whether the changes behind the hub's head are known to be gone.
  bool gap_ GUARDED_BY(mu_) = false;
  // How far before the list the watch is to begin; 0 once it has told anything.
  Revision replay_ GUARDED_BY(mu_);
  Revision listed_ GUARDED_BY(mu_) = 0;  // what the last list was as of
  // In kLive. Whoever reads chunk by chunk keeps the one that it began with.
  std::shared_ptr<EntryTable> table_ GUARDED_BY(mu_);
  std::multimap<Revision, Waiter> waiters_ GUARDED_BY(mu_);
  bool ticking_ GUARDED_BY(mu_) = false;
  // etcd was asked how far it is, and nothing came since.
  bool asked_ GUARDED_BY(mu_) = false;
  SteadyTime ask_at_ GUARDED_BY(mu_);  // not before, where nobody waits
  // Somebody waited in vain and nothing came since: others need not wait as well.
  bool stalled_ GUARDED_BY(mu_) = false;
  SteadyTime too_large_since_ GUARDED_BY(mu_);
  Backoff backoff_ GUARDED_BY(mu_);
  bool list_failed_ GUARDED_BY(mu_) = false;  // the last time, and that was said
  std::uint64_t expired_ GUARDED_BY(mu_) = 0;
  std::uint64_t lists_ GUARDED_BY(mu_) = 0;
};

}  // namespace herald::store
