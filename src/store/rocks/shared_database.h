#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <shared_mutex>

#include "base/thread/mutex.h"
#include "herald/base/status.h"
#include "store/rocks/database.h"
#include "store/rocks/reader.h"
#include "store/rocks/recent_entries.h"
#include "store/store.h"

namespace herald::store {

// A SharedDatabase lets all threads use one open database, with the cache of recent entries in
// front of it, and lets maintenance replace that database while they do.
//
//   any thread    Access  --shared lock-->     RocksDb
//   maintenance   Replace --exclusive lock-->  closes it and opens another
//
// 1. The database does not change while an Access exists.
// 2. Replace() does not starve: a new Access waits while one Replace() waits for the old ones.
// 3. RecentEntries is never older than the database: replacing the database empties it.
//
// Lock order: gate_, database_mu_, then any other lock of the store.
//
// Thread-safe, except current().
class SharedDatabase {
 public:
  // The schema is borrowed.
  SharedDatabase(std::unique_ptr<RocksDb> rocks, const Schema* schema);
  SharedDatabase(const SharedDatabase&) = delete;
  SharedDatabase& operator=(const SharedDatabase&) = delete;

  // The database, for as long as this exists. Thread-confined. A thread must not make a second
  // one while it has one: Replace() may wait in between, and then both wait forever.
  class Access {
   public:
    explicit Access(SharedDatabase* shared);

    // kServiceUnavailable if a failure left no database that can even be read.
    Status status() const;
    // REQUIRES: status().ok()
    const RocksDb& rocks() const { return *rocks_; }
    RocksReader reader() const { return shared_.ReaderOf(*rocks_); }

   private:
    const SharedDatabase& shared_;
    std::shared_lock<std::shared_mutex> lock_;
    const RocksDb* rocks_ = nullptr;
  };

  // Calls `replace` when no Access exists, with the place of the database, which is closed already.
  // Calls `waiting` first if there is one to wait for. Returns the result of `replace`.
  // REQUIRES: one call at a time
  Status Replace(const std::function<void()>& waiting,
                 const std::function<Status(std::unique_ptr<RocksDb>* rocks)>& replace)
      EXCLUDES(gate_);
  // Whether Replace() waits for every Access to end; long users should stop then.
  bool replace_waits() const { return replace_waits_; }

  // REQUIRES: no Access exists, and none is made afterwards
  void Close() { rocks_.reset(); }

  // The database without a lock. REQUIRES: the caller is maintenance, which alone replaces it, and
  // the store is healthy
  RocksDb& current() const { return *rocks_; }
  RocksReader ReaderOf(const RocksDb& rocks) const { return {&rocks, &schema_, &recent_}; }

  // Filled by the committer alone.
  RecentEntries& recent() { return recent_; }

 private:
  const Schema& schema_;
  RecentEntries recent_;

  Mutex gate_;  // held by Replace(); a new Access waits for it
  std::atomic<bool> replace_waits_ = false;
  std::shared_mutex database_mu_;
  std::unique_ptr<RocksDb> rocks_;  // null only after a failure that not even reads survive
};

}  // namespace herald::store
