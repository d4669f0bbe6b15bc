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

// A MemoryStore is a Store that is gone with its process: for tests, for a try-out, and
// as the plain model that the store on disk is compared with. "Durable" means nothing
// here, everything else is as store.h says.
//
// Completions run before the call returns. `max_bytes` bounds the keys and values of
// live entries, since there is no disk.
//
// Thread-safe.
class MemoryStore final : public Store {
 public:
  explicit MemoryStore(StoreOptions options);
  // Watches must be gone. Waits for the background work.
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
  // Makes `value` (null: none) the state of a key, with all that hangs on it.
  // REQUIRES: where value is null, the key exists
  std::shared_ptr<const Change> Apply(const std::string& key, Bytes value, EntryTable::Facts facts)
      REQUIRES(mu_);

  Result<Watch::Batch> ReadLog(const std::string& prefix, Revision after, std::size_t max)
      EXCLUDES(mu_);

  void Refresh() EXCLUDES(mu_);
  void Expire() EXCLUDES(mu_);
  void Evict() EXCLUDES(mu_);
  void Compact() EXCLUDES(mu_);
  void MaintainAndCallAgain();

  const StoreOptions options_;
  const Clock& clock_;
  ClockGuard clock_guard_;

  Mutex maintain_mu_;  // one Maintain() at a time; before mu_

  // Guards all below. Before the hub's own lock; no callback runs under it, and neither
  // does the Schema.
  mutable Mutex mu_ ACQUIRED_AFTER(maintain_mu_);
  EntryTable table_ GUARDED_BY(mu_);
  std::map<Revision, std::string> by_age_ GUARDED_BY(mu_);  // live entries
  std::uint64_t expired_ GUARDED_BY(mu_) = 0;
  std::uint64_t evicted_ GUARDED_BY(mu_) = 0;
  WallTime complete_since_ GUARDED_BY(mu_);
  bool refresh_ GUARDED_BY(mu_) = false;

  WatchHub hub_;
  // Last, so that it stops first. Null without background work.
  std::unique_ptr<Executor> executor_;
};

}  // namespace herald::store
