#pragma once

#include <atomic>
#include <cstdint>

#include "herald/base/clock.h"
#include "store/clock_guard.h"
#include "store/rocks/committer.h"
#include "store/rocks/format.h"
#include "store/rocks/options.h"
#include "store/rocks/published_state.h"
#include "store/rocks/reader.h"
#include "store/rocks/shared_database.h"
#include "store/store.h"
#include "store/watch_hub.h"

namespace herald::store {

// A Compactor deletes old versions and changes when they leave the watch window.
//
// It follows the log from the oldest change on. A change leaves the window when it is older than
// StoreOptions::watch_window, or when the window has too many bytes. With it go the version that it
// replaced, the index rows that only this version had, and, if it is a deletion, its own rows.
//
// A revision is unreadable (PublishedState::compacted, WatchHub::Compacted()) before its rows are
// deleted.
//
// Thread-confined: Maintenance calls it, under its lock.
class Compactor {
 public:
  // All are borrowed.
  struct Parts {
    const StoreOptions* store_options = nullptr;
    const RocksStoreOptions* options = nullptr;
    SharedDatabase* database = nullptr;
    PublishedState* published = nullptr;
    Committer* committer = nullptr;
    WatchHub* hub = nullptr;
    ClockGuard* clock_guard = nullptr;
    const std::atomic<bool>* stopping = nullptr;
  };
  explicit Compactor(Parts parts);
  Compactor(const Compactor&) = delete;
  Compactor& operator=(const Compactor&) = delete;

  // Deletes versions and changes outside of the watch window.
  void Compact();
  // Deletes all old versions and changes.
  void CompactAll();

  // Lets RocksDB discard the rows that were deleted. False: it could not write.
  bool Reclaim();
  // Bytes that were deleted since the last Reclaim().
  std::uint64_t reclaimable_bytes() const { return reclaimable_bytes_; }

 private:
  // Which changes may be deleted.
  struct Limits {
    bool all = false;
    WallTime keep_from{};         // changes since then are kept,
    std::uint64_t max_bytes = 0;  // unless the window has more bytes than this
  };
  struct Step;

  void CompactTo(const Limits& limits);
  // Reads the rows of one step. False: a row of the log is damaged.
  bool ReadStep(const Limits& limits, const State& state, Step* step) const;
  // Adds the deletion of what the change at `revision` has replaced.
  void AddDeletions(const RocksDb& rocks, Revision revision, const LogRow& log,
                    rocksdb::Iterator& index, MaintenanceWrite* write) const;
  // Adds the deletion of index rows that belong to `previous` and to no later version.
  void DeleteIndexRows(const RocksDb& rocks, const KeyState& previous, const LogRow& log,
                       Revision revision, rocksdb::Iterator& index, MaintenanceWrite* write) const;

  const Parts parts_;
  const std::uint64_t max_window_bytes_;
  std::uint64_t reclaimable_bytes_ = 0;
};

}  // namespace herald::store
