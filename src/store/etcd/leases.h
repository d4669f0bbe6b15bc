#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/thread/mutex.h"
#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "store/etcd/client.h"

namespace herald::store {

// A LeaseBook finds a lease of etcd's for each entry that must not live for ever.
//
// One lease per entry would be the plain way, and broke etcd where it was tried; one for
// very many entries stalls it when they all go at once (revoking 1,000 keys takes it 5 ms). So
// entries that end within the same minute share one, at most kMaxUses of them:
//
//   lifetime            1 h                      5 min            10 s
//   a lease is longer   by 30 to 60 s            by 8 to 15 s     by 1 s
//   it is taken for     up to 60 s, or 1,000 entries, whichever comes first
//
// An entry never ends before its time, and at most `Slack(lifetime)` after it, as far as etcd keeps
// its own word. kube-apiserver has the same rule (apiserver/pkg/storage/etcd3/lease_manager.go),
// with one lease at a time; here entries of different lifetimes share leases, too.
//
// How much longer a lease is differs from one to the next, so that leases which were granted
// together do not end together: not now, and not when a new leader of etcd starts all
// their times anew.
//
// While leases go fast the next one is asked for before the last is full. Nobody waits for a grant
// but those who need it.
//
// Thread-safe. Outlives the grants that it asked for.
class LeaseBook {
 public:
  using Granted = std::function<void(Result<EtcdClient::Lease>)>;
  using Grant = std::function<void(std::chrono::seconds ttl, Granted done)>;
  using Done = std::function<void(Result<std::int64_t>)>;

  // Entries that one lease is taken for.
  static constexpr int kMaxUses = 1'000;
  // What lives as long as this or longer needs no lease: 285 years are what etcd can count.
  static constexpr std::chrono::seconds kForEver{9'000'000'000};

  // Later than its time an entry may go, by the length of its lease. Never less than a second.
  static std::chrono::seconds Slack(std::chrono::seconds lifetime);

  LeaseBook(const Clock& clock, Grant grant);
  LeaseBook(const LeaseBook&) = delete;
  LeaseBook& operator=(const LeaseBook&) = delete;

  // A lease for an entry that is written now; 0 for one that lives for ever. `done` is called
  // before the call returns, or by whoever answers the grant.
  void Take(std::chrono::seconds lifetime, const Done& done) EXCLUDES(mu_);

  // etcd does not know that lease (any more): it is not given out again.
  void Forget(std::int64_t lease) EXCLUDES(mu_);

  // How many leases were asked for.
  std::uint64_t grants() const EXCLUDES(mu_);

 private:
  struct Lease {
    std::int64_t id = 0;  // 0: asked for
    int uses = 0;
    std::vector<Done> waiting{};
  };
  // Those that are not full, by their end, not before which etcd revokes them.
  using Open = std::multimap<SteadyTime, std::shared_ptr<Lease>>;

  Open::iterator NewLease(std::chrono::seconds lifetime, SteadyTime now, std::chrono::seconds* ttl)
      REQUIRES(mu_);
  void AskFor(const std::shared_ptr<Lease>& lease, SteadyTime asked, std::chrono::seconds ttl)
      EXCLUDES(mu_);
  void Answered(const std::shared_ptr<Lease>& lease, SteadyTime asked,
                const Result<EtcdClient::Lease>& granted) EXCLUDES(mu_);

  const Clock& clock_;
  const Grant grant_;

  // Guards all below. A leaf: neither grants nor completions run under it.
  mutable Mutex mu_;
  Open open_ GUARDED_BY(mu_);
  std::uint64_t grants_ GUARDED_BY(mu_) = 0;
};

}  // namespace herald::store
