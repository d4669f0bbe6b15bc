#pragma once

#include <atomic>

#include "base/thread/mutex.h"
#include "herald/base/status.h"
#include "store/rocks/options.h"

namespace herald::store {

// Whether the store can write, and if not, why.
//
//   ok --Fail()--> failed --Restore(), by Recovery--> ok
//
// Thread-safe. Logs without a lock held.
class StoreHealth {
 public:
  explicit StoreHealth(const RocksStoreOptions* options) : options_(*options) {}
  StoreHealth(const StoreHealth&) = delete;
  StoreHealth& operator=(const StoreHealth&) = delete;

  // Without a lock, for each write. If the two differ for a moment, status() decides.
  bool ok() const { return ok_; }
  Status status() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return status_;
  }

  // The first failure is the one that is reported.
  void Fail(const Status& why) EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      if (!status_.ok()) return;
      status_ = why;
      ok_ = false;
    }
    options_.Log(LogLevel::kError, "the store cannot write", why.message());
  }
  void Restore() EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      status_ = Status();
      ok_ = true;
    }
    options_.Log(LogLevel::kInfo, "the store can write again");
  }

 private:
  const RocksStoreOptions& options_;
  std::atomic<bool> ok_ = true;

  mutable Mutex mu_;  // a leaf
  Status status_ GUARDED_BY(mu_);
};

}  // namespace herald::store
