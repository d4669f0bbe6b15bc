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
  // All keys of the store begin with `root`; in etcd `etcd_root` stands in its place.
  std::string root{};
  std::string etcd_root{};
  // Of these keys, which begin with `root`, each replica keeps a mirror, and they alone can be
  // watched.
  std::string mirrored{};
  std::uint64_t max_mirror_bytes = 512ull << 20;  // of memory; beyond it every list reads etcd
  // How often history is compacted, which therefore reaches one to two intervals back.
  // 0: never; somebody else does it.
  std::chrono::seconds compaction_interval{5 * 60};
  int read_threads = 2;  // that filter and sort
  LogFunction log{};
};

// An EtcdStore keeps its entries in etcd, where other replicas, and kube-apiserver, find them.
//
//   Commit() --LeaseBook--> one transaction ------------------> etcd
//   Read()   --how far is etcd?-- shared by those who ask ------> |  |
//              then from the mirror, if that is as far           |  |
//              else page by page ---------------------------------'  |
//   watches  <-- WatchHub <-- EtcdMirror <---- one watch for all -----'
//
// Every entry is written in a transaction of its own, so revisions tell changes apart; only what
// a lease takes with it goes at one revision. Completions come when etcd has answered, and
// watches hear of it when etcd's watch has told it: in which order, nobody knows. A watch from
// now on begins behind all that this store was told by then.
//
// Reads at the latest revision are linearizable across all replicas: the mirror answers only
// when it has seen the revision that etcd gave after the question was put.
//
// What a lease should have deleted and did not (a new leader gives it its time again, a restored
// etcd may have lost it, another writer had none) Maintain() deletes. Lifetimes that become
// shorter are dealt with in the same way; longer ones hold from the next write of an entry,
// because a new lease would show as a change.
//
// Leases run in etcd, by a clock that nobody sets. Only what Maintain() deletes depends on the wall
// clock of this machine, so that waits after a jump; see ClockGuard. A new process reads all
// entries and asks the rules of the day for each, so nothing has to be remembered across restarts.
//
// One of all replicas, kube-apiservers included, compacts in each interval; see CompactHistory().
//
// `max_bytes` of the options does not count here, and `watch_window` only for the mirror.
//
// Thread-safe.
class EtcdStore final : public Store {
 public:
  // Waits for etcd for a moment only: without it the store is there, and says so in Health().
  static Result<std::unique_ptr<EtcdStore>> Open(StoreOptions options, EtcdStoreOptions etcd);
  // Watches must be gone. What is under way fails.
  ~EtcdStore() override;
  EtcdStore(const EtcdStore&) = delete;
  EtcdStore& operator=(const EtcdStore&) = delete;

  void Commit(Write write, WriteDone done) override;
  void Get(std::string key, EntryDone done) override;
  std::optional<Entry> Recall(const std::string& key) override;  // from the mirror
  void Read(Query query, PageDone done) override;
  void CurrentRevision(std::function<void(Result<Revision>)> done) override;
  Result<std::unique_ptr<Watch>> NewWatch(std::string prefix, Revision after,
                                          std::function<void()> ready) override;
  void RefreshLifetimes() override;
  void AcceptClock() override { clock_guard_.Accept(); }
  void Maintain() override EXCLUDES(maintain_mu_, mu_);
  Status Health() override EXCLUDES(mu_);
  StoreStats Stats() override EXCLUDES(mu_);

  // Leases that were asked for, and lists of everything that the mirror was made of.
  std::uint64_t leases_granted() const { return leases_.grants(); }
  std::uint64_t full_lists() const { return mirror_->stats().lists; }

  // What one of the compactors of an etcd does once in each interval, as kube-apiserver does it
  // (apiserver/pkg/storage/etcd3/compact.go): whoever moves the well-known key on from where it
  // saw it last compacts up to the revision that it saw then. The others have lost this
  // round. For the store's own thread and for tests; returns when it is done.
  void CompactHistory() EXCLUDES(maintain_mu_);

 private:
  class Reading;

  EtcdStore(StoreOptions options, EtcdStoreOptions etcd);
  void Start(std::unique_ptr<EtcdClient> client);

  // ---- keys ----
  std::string ToEtcd(std::string_view key) const;
  std::string FromEtcd(std::string key) const;
  EtcdRange ToEtcd(EtcdRange range) const;
  std::shared_ptr<const Change> FromEtcd(const std::shared_ptr<const Change>& change,
                                         bool last) const;
  // As the client's, with the store's own keys.
  void Range(EtcdRange range, std::function<void(Result<EtcdPage>)> done);
  std::unique_ptr<EtcdWatch> WatchKeys(const std::string& prefix, Revision after,
                                       std::function<void(Result<EtcdWatchBatch>)> batch);

  void Saw(Revision revision);
  void WentBack(Revision from, Revision to);
  void CommitWith(std::int64_t lease, std::shared_ptr<Write> write, bool again, WriteDone done);
  void ReadFromEtcd(const std::shared_ptr<Reading>& reading);
  void ReadFromMirror(const std::shared_ptr<Reading>& reading, Revision at);
  void GetFromEtcd(std::string key, EntryDone done);
  void AskRevision(std::vector<std::function<void(Result<Revision>)>> asking) EXCLUDES(mu_);
  Result<Watch::Batch> ReadHistory(const std::string& prefix, Revision after, std::size_t max)
      EXCLUDES(mu_);

  // ---- maintenance ----
  void MaintainAndCallAgain();
  void CompactAndCallAgain();
  void LookAtEtcd() EXCLUDES(mu_);
  void Sweep(WallTime now) REQUIRES(maintain_mu_);
  void Refresh(WallTime now) REQUIRES(maintain_mu_);
  std::vector<Entry> FindOverdue(WallTime when);
  void DeleteAll(const std::vector<Entry>& entries);
  void Say(LogLevel level, std::string_view message, const std::string& error) const;

  const StoreOptions options_;
  const EtcdStoreOptions etcd_;
  const Clock& clock_;
  ClockGuard clock_guard_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> refresh_ = false;
  std::atomic<Revision> seen_ = 0;  // the latest of all answers
  // etcd was restored from a backup, without moving its revisions on, while we were here. What
  // we know and what watches have seen is of a time that never was: only a new start helps. Until
  // then reads go to etcd, nothing can be watched and Health() says why.
  std::atomic<bool> went_back_ = false;

  // One Maintain() at a time, and the bookkeeping of compactions. Before mu_.
  Mutex maintain_mu_;
  SteadyTime next_sweep_ GUARDED_BY(maintain_mu_);
  Random random_ GUARDED_BY(maintain_mu_);
  Revision compaction_key_ GUARDED_BY(maintain_mu_) = 0;
  Revision compact_to_ GUARDED_BY(maintain_mu_) = 0;

  // Guards all below. A leaf.
  Mutex mu_ ACQUIRED_AFTER(maintain_mu_);
  CondVar told_;  // for lagging watches that wait for etcd
  bool asking_ GUARDED_BY(mu_) = false;
  // Those who came since etcd was last asked for its revision: an answer to an older question
  // may be from before theirs.
  std::vector<std::function<void(Result<Revision>)>> next_to_ask_ GUARDED_BY(mu_);
  Status condition_ GUARDED_BY(mu_);
  std::uint64_t bytes_ GUARDED_BY(mu_) = 0;
  std::uint64_t count_ GUARDED_BY(mu_) = 0;  // of entries, where the mirror does not count
  Revision compacted_ GUARDED_BY(mu_) = 0;

  // Reads and short delays; lagging watches, which wait for etcd there; Maintain().
  const std::unique_ptr<Executor> readers_;
  const std::unique_ptr<Executor> lagging_;
  std::unique_ptr<Executor> background_;
  const std::unique_ptr<WatchHub> hub_;
  LeaseBook leases_;
  const std::unique_ptr<EtcdMirror> mirror_;
  // Of readers_, for reads of the mirror. Goes before that, for the reads that still wait.
  FairQueue read_queue_;
  // The first to go, so that all that it calls back is still there; what that asks of it again is
  // refused, so it can be reached for as long as it goes.
  std::unique_ptr<EtcdClient> owned_client_;
  EtcdClient* client_ = nullptr;
};

}  // namespace herald::store
