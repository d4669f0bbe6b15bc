#pragma once

#include <atomic>
#include <cstdint>

#include "store/rocks/committer.h"
#include "store/rocks/compactor.h"
#include "store/rocks/disk_usage.h"
#include "store/rocks/options.h"
#include "store/rocks/published_state.h"
#include "store/rocks/shared_database.h"
#include "store/store.h"

namespace herald::store {

// An Evictor keeps the size of the data directory within its DiskBudget: it deletes the oldest
// entries, compacts the watch window and lets RocksDB discard the deleted rows.
//
// Thread-confined: Maintenance calls it, under its lock.
class Evictor {
 public:
  // All are borrowed.
  struct Parts {
    const RocksStoreOptions* options = nullptr;
    SharedDatabase* database = nullptr;
    PublishedState* published = nullptr;
    Committer* committer = nullptr;
    Compactor* compactor = nullptr;
    DiskUsage* disk = nullptr;
    const std::atomic<bool>* stopping = nullptr;
  };
  explicit Evictor(Parts parts) : parts_(parts) {}
  Evictor(const Evictor&) = delete;
  Evictor& operator=(const Evictor&) = delete;

  // Does nothing unless the directory is larger than DiskBudget::evict_above.
  void Evict();

 private:
  // False: RocksDB could not write.
  bool MakeRoom();
  // Deletes the oldest entries, about that many bytes of keys and values.
  void EvictBytes(std::uint64_t bytes);

  const Parts parts_;
  // All changes of the log before this one were handled, so that a scan does not step over the
  // rows that RocksDB has deleted but not yet discarded.
  Revision oldest_from_ = 0;
};

}  // namespace herald::store
