#include "store/rocks/shared_database.h"

#include <mutex>
#include <utility>

#include "store/rocks/errors.h"

namespace herald::store {
namespace {

// Keys whose state is kept in memory. Most events are written once and never read; one that was
// written again is likely to be written once more.
constexpr RecentEntries::Limits kRecent{.created = 8'192, .rewritten = 16'384, .bytes = 16u << 20};

}  // namespace

SharedDatabase::SharedDatabase(std::unique_ptr<RocksDb> rocks, const Schema* schema)
    : schema_(*schema), recent_(kRecent), rocks_(std::move(rocks)) {}

SharedDatabase::Access::Access(SharedDatabase* shared) : shared_(*shared) {
  if (shared->replace_waits_) {
    MutexLock wait(shared->gate_);
  }
  lock_ = std::shared_lock(shared->database_mu_);
  rocks_ = shared->rocks_.get();
}

Status SharedDatabase::Access::status() const {
  if (rocks_ != nullptr) return Status();
  return ServiceUnavailable("the data directory cannot be read", kRetryAfterFault);
}

Status SharedDatabase::Replace(
    const std::function<void()>& waiting,
    const std::function<Status(std::unique_ptr<RocksDb>* rocks)>& replace) {
  MutexLock gate(gate_);
  replace_waits_ = true;
  std::unique_lock lock(database_mu_, std::try_to_lock);
  if (!lock) {
    waiting();
    lock.lock();
  }
  replace_waits_ = false;  // a new Access now waits for the lock itself
  rocks_.reset();
  recent_.Clear();
  return replace(&rocks_);
}

}  // namespace herald::store
