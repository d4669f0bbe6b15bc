#pragma once

#include <memory>

#include "herald/base/status.h"
#include "store/rocks/committer.h"
#include "store/rocks/health.h"
#include "store/rocks/options.h"
#include "store/rocks/published_state.h"
#include "store/rocks/shared_database.h"
#include "store/watch_hub.h"

namespace herald::store {

// A Recovery makes the store writable again after a write has failed, because the disk was full or
// read-only.
//
//   healthy --a write fails--> failed: writes are rejected, reads continue
//                                | probe: the disk accepts a file
//                                v
//                              reopen the database --it cannot be opened--> failed
//                                |
//                                v
//                              healthy
//
// The database must be opened again because RocksDB cannot continue a write-ahead log after half a
// record. A writer that got the error does not know whether its write was committed, as with any
// lost response. After the reopening it is known: either the whole batch is there, and watches get
// its changes, or none of it.
//
// Damaged files (kCorruption) are not retried.
//
// Thread-confined: Maintenance calls it, under its lock.
class Recovery {
 public:
  // All are borrowed.
  struct Parts {
    const RocksStoreOptions* options = nullptr;
    SharedDatabase* database = nullptr;
    PublishedState* published = nullptr;
    StoreHealth* health = nullptr;
    Committer* committer = nullptr;
    WatchHub* hub = nullptr;
  };
  explicit Recovery(Parts parts) : parts_(parts) {}
  Recovery(const Recovery&) = delete;
  Recovery& operator=(const Recovery&) = delete;

  // Returns whether the store is healthy, after an attempt to recover if it was not.
  bool Recover();

 private:
  // Whether the disk accepts bytes.
  Status Probe() const;
  Status Reopen();
  // Opens the database; if that fails, for reading only. REQUIRES: no Access exists
  Status Open(std::unique_ptr<RocksDb>* rocks) const;
  // Publishes the state of the new database, with the changes that watches have not seen. Returns
  // the watches to wake. REQUIRES: no Access exists
  Result<WatchHub::Woken> PublishState(const RocksDb& rocks);

  const Parts parts_;
};

}  // namespace herald::store
