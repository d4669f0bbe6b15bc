#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/thread/mutex.h"
#include "herald/base/clock.h"
#include "herald/base/executor.h"
#include "herald/base/status.h"
#include "store/clock_guard.h"
#include "store/memory/entry_table.h"
#include "store/store.h"
#include "store/watch_hub.h"

namespace herald::store {

// A MemoryStore is a Store without a disk: for tests, for trying Herald out, and as the simple
// model that the store on disk is compared with. Writes are not durable; all else is as store.h
// specifies.
//
// Completions are called before the call returns. `max_bytes` limits the keys and values of live
// entries.
//
// Thread-safe.
class MemoryStore final : public Store {
 public:
  explicit MemoryStore(StoreOptions options);
  // Waits for the background work. REQUIRES: no watch exists
  ~MemoryStore() override;
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;

  void Commit(Write write, WriteDone done) override EXCLUDES(mu_);
  void Get(std::string key, EntryDone done) override EXCLUDES(mu_);
  void Read(Query query, PageDone done) override EXCLUDES(mu_);
  void CurrentRevision(std::function<void(Result<Revision>)> done) override EXCLUDES(mu_);
  Result<std::unique_ptr<Watch>> NewWatch(std::string prefix, Revision after,
                                          std::function<void()> ready) override;
  void RefreshLifetimes() override EXCLUDES(mu_);
  void AcceptClock() override { clock_guard_.Accept(); }
  void Maintain() override EXCLUDES(mu_, maintain_mu_);
  Status Health() override { return Status(); }
  StoreStats Stats() override EXCLUDES(mu_);

 private:
  // Stores `value` (null: deletes it) at the next revision. Returns the change.
  // REQUIRES: if value is null, the key exists
  std::shared_ptr<const Change> Apply(const std::string& key, Bytes value, EntryTable::Facts facts)
      REQUIRES(mu_);

  Result<Watch::Batch> ReadLog(const std::string& prefix, Revision after, std::size_t max)
      EXCLUDES(mu_);

  void Refresh() EXCLUDES(mu_);
  void Expire() EXCLUDES(mu_);
  void Evict() EXCLUDES(mu_);
  void Compact() EXCLUDES(mu_);
  void MaintainAndRepeat();

  const StoreOptions options_;
  const Clock& clock_;
  ClockGuard clock_guard_;

  Mutex maintain_mu_;  // one Maintain() at a time; before mu_

  // Guards all below. Before the hub's lock. Neither callbacks nor the Schema are called under it.
  mutable Mutex mu_ ACQUIRED_AFTER(maintain_mu_);
  EntryTable table_ GUARDED_BY(mu_);
  std::map<Revision, std::string> by_age_ GUARDED_BY(mu_);  // keys of live entries
  std::uint64_t expired_ GUARDED_BY(mu_) = 0;
  std::uint64_t evicted_ GUARDED_BY(mu_) = 0;
  WallTime complete_since_ GUARDED_BY(mu_);
  bool refresh_ GUARDED_BY(mu_) = false;

  WatchHub hub_;
  // Last, so that it stops first. Null without background work.
  std::unique_ptr<Executor> executor_;
};

}  // namespace herald::store
