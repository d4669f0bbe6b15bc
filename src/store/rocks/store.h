#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "herald/base/status.h"
#include "store/clock_guard.h"
#include "store/rocks/backup.h"
#include "store/rocks/committer.h"
#include "store/rocks/compactor.h"
#include "store/rocks/database.h"
#include "store/rocks/disk_usage.h"
#include "store/rocks/evictor.h"
#include "store/rocks/expirer.h"
#include "store/rocks/expiry_cursor.h"
#include "store/rocks/health.h"
#include "store/rocks/lifetime_tracker.h"
#include "store/rocks/maintenance.h"
#include "store/rocks/options.h"
#include "store/rocks/published_state.h"
#include "store/rocks/read_scheduler.h"
#include "store/rocks/recovery.h"
#include "store/rocks/revision_marker.h"
#include "store/rocks/shared_database.h"
#include "store/store.h"
#include "store/watch_hub.h"

namespace herald::store {

// A RocksStore keeps its entries in a directory of this machine. It joins the parts that do the
// work; each is described in its own header.
//
//   Commit() --WriteQueue--> Committer --one synced WriteBatch--> SharedDatabase (RocksDB)
//                               |                                   ^         ^
//                               | PublishedState, WatchHub,         |         | log rows, for
//                               v completions                       |         | lagging watches
//   Get(), Read() ----------------------------> ReadScheduler ------'---------'
//
//   Maintenance, about once a second:  Recovery, Expirer, Compactor, Evictor
//                                      (their deletions go through the Committer)
//
// Threads: the committer's; `read_threads` and one for large values (ReadScheduler); one for
// maintenance, with StoreOptions::background.
//
// Lock order: Maintenance, RevisionMarker, SharedDatabase, then one of the leaves (WriteQueue,
// PublishedState, StoreHealth, RecentEntries, WatchHub, ClockGuard).
//
// When a write fails (the disk is full or read-only), Health() reports it, writes are rejected and
// reads continue, until Recovery succeeds.
//
// A limit on the size of the directory is kept by evicting the oldest entries, and by rejecting
// new ones (kTooManyRequests) while clients write faster than eviction frees room; see DiskBudget.
//
// Thread-safe.
class RocksStore final : public Store {
 public:
  static Result<std::unique_ptr<RocksStore>> Open(StoreOptions options, RocksStoreOptions rocks);
  // Commits the writes that were accepted. REQUIRES: no watch exists
  ~RocksStore() override;
  RocksStore(const RocksStore&) = delete;
  RocksStore& operator=(const RocksStore&) = delete;

  void Commit(Write write, WriteDone done) override;
  void Get(std::string key, EntryDone done) override;
  void Read(Query query, PageDone done) override;
  void CurrentRevision(std::function<void(Result<Revision>)> done) override;
  Result<std::unique_ptr<Watch>> NewWatch(std::string prefix, Revision after,
                                          std::function<void()> ready) override;
  void RefreshLifetimes() override;
  void AcceptClock() override;
  void Maintain() override;
  Status Health() override;
  StoreStats Stats() override;

  // Copies the store while reads and writes continue; see BackupDatabase(). kCancelled if the store
  // is closed, or its database must be opened again, before the copy is complete.
  Status Backup(const std::filesystem::path& target, BackupMode mode = BackupMode::kCopy);

  // Compacts all old versions and moves the latest revision to `revision`, so that the next write
  // gets the one after it. For a store that has lost writes: no revision that a client may have
  // seen is used again, and watches that resume from one of those get kExpired.
  // REQUIRES: no other thread writes
  Status SkipTo(Revision revision);

 private:
  RocksStore(StoreOptions options, RocksStoreOptions rocks, std::unique_ptr<RocksDb> db);
  void Start();

  // In the order of their dependencies: each part borrows some of those above it.
  const StoreOptions options_;
  const RocksStoreOptions rocks_options_;
  const Clock& clock_;
  std::atomic<bool> stopping_ = false;
  SharedDatabase database_;
  PublishedState published_;
  StoreHealth health_;
  RevisionMarker marker_;
  ClockGuard clock_guard_;
  LifetimeTracker lifetimes_;
  ExpiryCursor expiry_cursor_;
  DiskUsage disk_;
  ReadScheduler reads_;
  WatchHub hub_;
  Committer committer_;
  Expirer expirer_;
  Compactor compactor_;
  Evictor evictor_;
  Recovery recovery_;
  Maintenance maintenance_;
};

}  // namespace herald::store
