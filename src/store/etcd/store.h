#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes/random.h"
#include "base/thread/fair_queue.h"
#include "base/thread/mutex.h"
#include "herald/base/executor.h"
#include "herald/base/log.h"
#include "herald/base/status.h"
#include "store/clock_guard.h"
#include "store/etcd/cache.h"
#include "store/etcd/client.h"
#include "store/etcd/leases.h"
#include "store/store.h"
#include "store/watch_hub.h"

namespace herald::store {

struct EtcdStoreOptions {
  EtcdClientOptions client{};
  // All keys of the store start with `root`; in etcd they start with `etcd_root` instead.
  std::string root{};
  std::string etcd_root{};
  // Each replica caches the keys with this prefix, which starts with `root`. Only they can be
  // watched.
  std::string cached_prefix{};
  std::uint64_t max_cache_bytes = 512ull << 20;  // of memory; if exceeded, all lists read etcd
  // How often etcd is compacted. The revisions of the last one to two intervals are kept.
  // 0: never; another process compacts etcd.
  std::chrono::seconds compaction_interval{5 * 60};
  int read_threads = 2;  // for filtering and sorting
  LogFunction log{};
};

// An EtcdStore keeps its entries in etcd, where other replicas and kube-apiserver can access them.
//
//   Commit() --LeasePool--> one transaction --------------------> etcd
//   Read()   --etcd's latest revision, shared by all readers -----> |  |
//              then from the cache, if it reaches that revision     |  |
//              otherwise page by page ------------------------------'  |
//   watches  <-- WatchHub <-- EtcdCache <---- one watch for all -------'
//
// Each entry is written in its own transaction, so each change has its own revision. Only the keys
// of an expired lease are deleted at one revision. A write completes when etcd has answered.
// Watches get the change from etcd's watch, before or after that. A watch without a revision starts
// after the latest revision that this store has received.
//
// Reads at the latest revision are linearizable across all replicas: the cache answers only after
// it has reached a revision that etcd returned after the read began.
//
// Maintain() deletes entries that their lease should have deleted and did not (a new leader
// restarts leases, a restored etcd may have lost them, another writer may not have used any). It
// also deletes entries whose lifetime became shorter. A longer lifetime applies from the next write
// of an entry, because a new lease would be visible as a change.
//
// Leases expire by etcd's monotonic clock. Only the deletes of Maintain() depend on this machine's
// wall clock, so they are suspended after a clock jump; see ClockGuard. A new process reads all
// entries and applies the current rules to each, so no state is kept across restarts.
//
// In each interval one replica compacts etcd, kube-apiservers included; see CompactHistory().
//
// The options' `max_bytes` is not used here, and `watch_window` only for the cache.
//
// Thread-safe.
class EtcdStore final : public Store {
 public:
  // Waits for etcd for at most 3 s. If etcd is unavailable, opens anyway; Health() then fails.
  static Result<std::unique_ptr<EtcdStore>> Open(StoreOptions options, EtcdStoreOptions etcd);
  // All watches must be destroyed before. Fails calls in progress.
  ~EtcdStore() override;
  EtcdStore(const EtcdStore&) = delete;
  EtcdStore& operator=(const EtcdStore&) = delete;

  void Commit(Write write, WriteDone done) override;
  void Get(std::string key, EntryDone done) override;
  std::optional<Entry> Recall(const std::string& key) override;  // from the cache
  void Read(Query query, PageDone done) override;
  void CurrentRevision(std::function<void(Result<Revision>)> done) override;
  Result<std::unique_ptr<Watch>> NewWatch(std::string prefix, Revision after,
                                          std::function<void()> ready) override;
  void RefreshLifetimes() override;
  void AcceptClock() override { clock_guard_.Accept(); }
  void Maintain() override EXCLUDES(maintain_mu_, mu_);
  Status Health() override EXCLUDES(mu_);
  StoreStats Stats() override EXCLUDES(mu_);

  // Number of leases requested, and of lists of all entries for the cache.
  std::uint64_t leases_granted() const { return leases_.grants(); }
  std::uint64_t full_lists() const { return cache_->stats().lists; }

  // Compacts etcd, like kube-apiserver (apiserver/pkg/storage/etcd3/compact.go). In each interval
  // all compactors try to update a well-known key. The one whose expected revision is current wins
  // and compacts up to etcd's revision of the previous interval. Called by the store's own thread
  // and by tests; returns when it is done.
  void CompactHistory() EXCLUDES(maintain_mu_);

 private:
  class PendingRead;

  EtcdStore(StoreOptions options, EtcdStoreOptions etcd);
  void Start(std::unique_ptr<EtcdClient> client);

  // ---- keys ----
  std::string ToEtcd(std::string_view key) const;
  std::string FromEtcd(std::string key) const;
  EtcdRange ToEtcd(EtcdRange range) const;
  std::shared_ptr<const Change> FromEtcd(const std::shared_ptr<const Change>& change,
                                         bool last) const;
  // Like the client's, but with the store's keys.
  void Range(EtcdRange range, std::function<void(Result<EtcdPage>)> done);
  std::unique_ptr<EtcdWatch> WatchKeys(const std::string& prefix, Revision after,
                                       std::function<void(Result<EtcdWatchBatch>)> batch);

  void UpdateLatestRevision(Revision revision);
  void OnRevisionWentBack(Revision from, Revision to);
  void CommitWith(std::int64_t lease, std::shared_ptr<Write> write, bool is_retry, WriteDone done);
  void ReadFromEtcd(const std::shared_ptr<PendingRead>& read);
  void ReadFromCache(const std::shared_ptr<PendingRead>& read, Revision at);
  void GetFromEtcd(std::string key, EntryDone done);
  void RequestRevision(std::vector<std::function<void(Result<Revision>)>> waiters) EXCLUDES(mu_);
  Result<Watch::Batch> ReadChanges(const std::string& prefix, Revision after, std::size_t max)
      EXCLUDES(mu_);

  // ---- maintenance ----
  void StartMaintenance();
  void MaintainAndReschedule();
  void CompactAndReschedule();
  void CheckEtcd() EXCLUDES(mu_);
  void Sweep(WallTime now) REQUIRES(maintain_mu_);
  void Refresh(WallTime now) REQUIRES(maintain_mu_);
  std::vector<Entry> FindOverdue(WallTime when);
  void DeleteEntries(const std::vector<Entry>& entries);
  void Log(LogLevel level, std::string_view message, const std::string& detail) const;

  const StoreOptions options_;
  const EtcdStoreOptions etcd_;
  const std::string cached_end_;  // the first key after those with `cached_prefix`; empty: none
  const Clock& clock_;
  ClockGuard clock_guard_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> refresh_ = false;
  std::atomic<Revision> latest_revision_ = 0;  // of all responses
  // etcd was restored from a backup with older revisions while this process ran. The cache and the
  // watches then have changes that do not exist in etcd, and only a restart helps. Until then reads
  // go to etcd, watches are rejected and Health() returns the reason.
  std::atomic<bool> revision_went_back_ = false;

  // Held by Maintain() and CompactHistory(). Acquired before mu_.
  Mutex maintain_mu_;
  SteadyTime next_sweep_ GUARDED_BY(maintain_mu_);
  Random random_ GUARDED_BY(maintain_mu_);
  Revision compaction_key_ GUARDED_BY(maintain_mu_) = 0;
  Revision compact_next_ GUARDED_BY(maintain_mu_) = 0;

  // Guards all below. A leaf.
  Mutex mu_ ACQUIRED_AFTER(maintain_mu_);
  CondVar changes_received_;  // for ReadChanges()
  bool revision_requested_ GUARDED_BY(mu_) = false;
  // Callers since etcd's revision was last requested. The response to that request may be older
  // than their calls.
  std::vector<std::function<void(Result<Revision>)>> revision_waiters_ GUARDED_BY(mu_);
  Status condition_ GUARDED_BY(mu_);
  std::uint64_t bytes_ GUARDED_BY(mu_) = 0;
  std::uint64_t count_ GUARDED_BY(mu_) = 0;  // number of entries, if there is no table
  Revision compacted_ GUARDED_BY(mu_) = 0;

  // For reads and short delays; for lagging watches, which block; for Maintain().
  const std::unique_ptr<Executor> readers_;
  const std::unique_ptr<Executor> lagging_;
  std::unique_ptr<Executor> background_;
  const std::unique_ptr<WatchHub> hub_;
  LeasePool leases_;
  const std::unique_ptr<EtcdCache> cache_;
  // Schedules reads of the cache on readers_. Destroyed before it, with the reads still queued.
  FairQueue read_queue_;
  // Destroyed first, because its completions use all of the above. They may call it even then;
  // client_ stays valid meanwhile, and the calls fail.
  std::unique_ptr<EtcdClient> owned_client_;
  EtcdClient* client_ = nullptr;
};

}  // namespace herald::store
