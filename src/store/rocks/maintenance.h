#pragma once

#include <memory>

#include "base/thread/mutex.h"
#include "herald/base/executor.h"
#include "herald/base/status.h"
#include "store/clock_guard.h"
#include "store/rocks/committer.h"
#include "store/rocks/compactor.h"
#include "store/rocks/evictor.h"
#include "store/rocks/expirer.h"
#include "store/rocks/published_state.h"
#include "store/rocks/recovery.h"
#include "store/rocks/revision_marker.h"
#include "store/rocks/shared_database.h"
#include "store/watch_hub.h"

namespace herald::store {

// Maintenance decides when the parts that keep a store in order run, and in which order:
//
//   Recovery        is the store writable? If not, nothing else runs.
//   RevisionMarker  marks the latest acknowledged revision
//   Expirer         refreshes lifetimes if requested, deletes expired entries
//   ClockGuard      its record is saved for the next process
//   Compactor       deletes what left the watch window
//   Evictor         keeps the directory within its size limit
//
// These parts do not write themselves: the committer writes for them, in small portions between
// the writes of clients.
//
// Thread-safe. The parts run one at a time, under `mu_`.
class Maintenance {
 public:
  // All are borrowed.
  struct Parts {
    SharedDatabase* database = nullptr;
    PublishedState* published = nullptr;
    RevisionMarker* marker = nullptr;
    ClockGuard* clock_guard = nullptr;
    Committer* committer = nullptr;
    WatchHub* hub = nullptr;
    Recovery* recovery = nullptr;
    Expirer* expirer = nullptr;
    Compactor* compactor = nullptr;
    Evictor* evictor = nullptr;  // null: the directory has no size limit
  };
  explicit Maintenance(Parts parts) : parts_(parts) {}
  // Stops.
  ~Maintenance() { Stop(); }
  Maintenance(const Maintenance&) = delete;
  Maintenance& operator=(const Maintenance&) = delete;

  // Runs from now on about once a second, on a thread of its own. REQUIRES: called once at most,
  // before any other method
  void Start();
  // Waits for a run that is under way. Idempotent.
  void Stop();

  // Runs once, on the caller's thread.
  void Run() EXCLUDES(mu_);
  // Runs soon, on the thread of Start(). Does nothing if there is none.
  void RequestRun();

  // See RocksStore::SkipTo().
  Status SkipTo(Revision revision) EXCLUDES(mu_);

 private:
  void RunAndRepeat() EXCLUDES(mu_);
  void SaveClockRecord() REQUIRES(mu_);

  const Parts parts_;
  // One run at a time. Held while the committer is waited for, so it comes before every other lock
  // of the store.
  Mutex mu_;
  std::unique_ptr<Executor> executor_;  // null: Run() is called by the owner alone
};

}  // namespace herald::store
