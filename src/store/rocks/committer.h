#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "store/rocks/disk_usage.h"
#include "store/rocks/expiry_cursor.h"
#include "store/rocks/format.h"
#include "store/rocks/health.h"
#include "store/rocks/lifetime_tracker.h"
#include "store/rocks/options.h"
#include "store/rocks/published_state.h"
#include "store/rocks/revision_marker.h"
#include "store/rocks/shared_database.h"
#include "store/rocks/write_queue.h"
#include "store/store.h"
#include "store/watch_hub.h"

namespace herald::store {

// A Committer writes. It is the only part of the store that does, from one thread, so a condition
// that it has checked still holds when it writes.
//
// Writes wait in a queue. The thread takes all that wait and commits them as a group, with one
// sync: the more writers wait, the less each one pays for it. A group passes these steps:
//
//   collect   as many waiting writes as fit into a batch
//   check     each condition, against the rows and the earlier writes of the group; a write whose
//             condition holds gets the next revision
//   write     all rows as one synced WriteBatch       --failed--> complete all with the error
//   publish   the new state, then the watches: all may read it from here on
//   complete  call the completions, in the order of the writes
//
// 1. A completion is called exactly once, after its write is durable and published.
// 2. Revisions are consecutive. A failed batch uses none; if it reached the disk in spite of the
//    error, Recovery publishes it.
// 3. From check to publish the thread holds a SharedDatabase::Access, so the database, the state
//    and the watches agree whenever Recovery has the database to itself. Completions and watches
//    are called without it, because they may call any method of the store.
//
// Maintenance writes run between groups. They are not synced: if a crash loses them, maintenance
// does them again.
//
// Thread-safe, except Reload().
class Committer {
 public:
  // All are borrowed and outlive the committer.
  struct Parts {
    const Schema* schema = nullptr;
    const Clock* clock = nullptr;
    const RocksStoreOptions* options = nullptr;
    SharedDatabase* database = nullptr;
    PublishedState* published = nullptr;
    StoreHealth* health = nullptr;
    RevisionMarker* marker = nullptr;
    LifetimeTracker* lifetimes = nullptr;
    ExpiryCursor* expiry_cursor = nullptr;
    DiskUsage* disk = nullptr;
    WatchHub* hub = nullptr;
  };
  explicit Committer(Parts parts);
  // Stops.
  ~Committer();
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;

  void Start();
  // Commits all that was accepted, then ends the thread. Later writes are rejected. Idempotent.
  void Stop();

  // See Store::Commit(). The Schema is called on the caller's thread.
  void Commit(Write write, Store::WriteDone done);

  // For maintenance. Both wait until it is done.

  struct Deletion {
    std::string key{};
    Revision revision = 0;     // only if the key is still at this revision
    std::string expiry_row{};  // is deleted with the entry; empty: none
  };
  // Returns how many entries were deleted.
  Result<std::size_t> DeleteAndWait(std::vector<Deletion> deletions, WriteCause cause);
  // REQUIRES: write.done is not set
  Status WriteAndWait(MaintenanceWrite write);

  // Takes over the state of a database that replaces the old one. Returns the state.
  // REQUIRES: called from SharedDatabase::Replace(), or before Start()
  const State& Reload(const RocksDb& rocks);

  // Since the start.
  std::uint64_t expired() const { return expired_; }
  std::uint64_t evicted() const { return evicted_; }

 private:
  struct Group;

  void Run();
  void CommitGroup(std::vector<PendingWrite>& writes);
  // The steps of CommitGroup().
  Group Check(std::vector<PendingWrite>& writes, const SharedDatabase::Access& access);
  Status WriteGroup(Group& group, const RocksDb& rocks);
  WatchHub::Woken Publish(Group& group);

  void RunMaintenanceWrite(MaintenanceWrite& write);
  Status WriteRows(const RocksDb& rocks, rocksdb::WriteBatch& rows, bool sync);

  const Parts parts_;
  std::atomic<std::uint64_t> expired_ = 0;
  std::atomic<std::uint64_t> evicted_ = 0;
  WriteQueue queue_;
  // As last written. Used by the committer's thread under an Access, and by Reload().
  State state_;
  std::thread thread_;
};

}  // namespace herald::store
