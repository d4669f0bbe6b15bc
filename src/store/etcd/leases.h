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

// A LeasePool provides an etcd lease for each entry with a limited lifetime.
//
// One lease per entry would be the simplest way, but it overloaded etcd where it was tried. One
// lease for very many entries blocks etcd when it expires (revoking 1,000 keys takes 5 ms). So
// entries that expire within the same minute share a lease, at most kMaxUses of them:
//
//   lifetime                1 h              5 min            10 s
//   the lease is longer by  30 to 60 s       8 to 15 s        1 s
//   it is used for          up to 60 s or 1,000 entries, whichever comes first
//
// An entry never expires before its lifetime, and at most `Slack(lifetime)` after it, if etcd
// revokes leases on time. kube-apiserver has the same rule
// (apiserver/pkg/storage/etcd3/lease_manager.go) with one lease at a time. Here, entries of
// different lifetimes share leases too.
//
// The extra length differs from lease to lease, so that leases which were granted together do not
// expire together, not even after a new leader of etcd restarts all of them.
//
// If leases fill up fast, the next one is requested before the current one is full, so that writes
// do not wait for it.
//
// Thread-safe. It must outlive the grants that it requested.
class LeasePool {
 public:
  using Granted = std::function<void(Result<EtcdClient::Lease>)>;
  using Grant = std::function<void(std::chrono::seconds ttl, Granted done)>;
  using Done = std::function<void(Result<std::int64_t>)>;

  // Maximum of entries per lease.
  static constexpr int kMaxUses = 1'000;
  // Entries with this lifetime or longer get no lease: etcd's limit is 285 years.
  static constexpr std::chrono::seconds kForever{9'000'000'000};

  // How long after its lifetime an entry may expire. At least one second.
  static std::chrono::seconds Slack(std::chrono::seconds lifetime);

  LeasePool(const Clock& clock, Grant grant);
  LeasePool(const LeasePool&) = delete;
  LeasePool& operator=(const LeasePool&) = delete;

  // Calls `done` with a lease for an entry that is written now; with 0 if the entry never expires.
  // `done` is called before this returns, or by the thread that completes the grant.
  void Acquire(std::chrono::seconds lifetime, const Done& done) EXCLUDES(mu_);

  // etcd does not have this lease (any more), so it is not used again.
  void Forget(std::int64_t lease) EXCLUDES(mu_);

  // Number of requested leases.
  std::uint64_t grants() const EXCLUDES(mu_);

 private:
  struct Lease {
    std::int64_t id = 0;  // 0: requested, not granted yet
    int uses = 0;
    std::vector<Done> waiting{};
  };
  // Leases that are not full, by the earliest time at which etcd revokes them.
  using LeasesByEnd = std::multimap<SteadyTime, std::shared_ptr<Lease>>;

  LeasesByEnd::iterator NewLease(std::chrono::seconds lifetime, SteadyTime now,
                                 std::chrono::seconds* ttl) REQUIRES(mu_);
  void RequestGrant(const std::shared_ptr<Lease>& lease, SteadyTime requested_at,
                    std::chrono::seconds ttl) EXCLUDES(mu_);
  void OnGranted(const std::shared_ptr<Lease>& lease, SteadyTime requested_at,
                 const Result<EtcdClient::Lease>& granted) EXCLUDES(mu_);

  const Clock& clock_;
  const Grant grant_;

  // Guards all below. A leaf: neither grants nor completions run while it is held.
  mutable Mutex mu_;
  LeasesByEnd leases_ GUARDED_BY(mu_);
  std::uint64_t grants_ GUARDED_BY(mu_) = 0;
};

}  // namespace herald::store
