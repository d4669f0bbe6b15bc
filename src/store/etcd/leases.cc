#include "store/etcd/leases.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace herald::store {
namespace {

using std::chrono::seconds;

// The default of kube-apiserver's --lease-reuse-duration-seconds, and its fraction of a lifetime.
constexpr seconds kMaxSlack{60};
constexpr int kSlackDivisor = 20;

// Time between the request for a lease and the write that uses it. It must not shorten the entry's
// lifetime.
constexpr seconds kMargin{1};

// The next lease is requested after this many uses: at 5,000 writes per second 50 ms before it is
// needed. etcd takes a fraction of that to grant one.
constexpr int kRequestNextAt = LeasePool::kMaxUses * 3 / 4;

// Its multiples, modulo 1, are spread evenly over [0, 1).
constexpr double kGoldenRatio = 0.6180339887498949;

}  // namespace

seconds LeasePool::Slack(seconds lifetime) {
  return std::clamp(lifetime / kSlackDivisor, seconds(1), kMaxSlack);
}

LeasePool::LeasePool(const Clock& clock, Grant grant) : clock_(clock), grant_(std::move(grant)) {}

std::uint64_t LeasePool::grants() const {
  MutexLock lock(mu_);
  return grants_;
}

LeasePool::LeasesByEnd::iterator LeasePool::NewLease(seconds lifetime, SteadyTime now,
                                                     seconds* ttl) {
  // The extra length is in the upper half of the slack and differs from lease to lease.
  double whole = 0;
  const double part = std::modf(static_cast<double>(grants_) * kGoldenRatio, &whole);
  const seconds slack = Slack(lifetime);
  const seconds least = (slack + seconds(1)) / 2;
  const seconds longer =
      least + seconds(static_cast<std::int64_t>(
                  part * static_cast<double>((slack - least + seconds(1)).count())));
  ++grants_;
  *ttl = lifetime + kMargin + longer;
  return leases_.emplace(now + *ttl, std::make_shared<Lease>());
}

void LeasePool::Acquire(seconds lifetime, const Done& done) {
  if (lifetime >= kForever) return done(std::int64_t{0});
  lifetime = std::max(lifetime, seconds(1));
  const SteadyTime now = clock_.Steady();
  const SteadyTime needed = now + lifetime + kMargin;
  std::shared_ptr<Lease> lease;
  std::shared_ptr<Lease> ahead;
  seconds ttl{0};
  bool request = false;
  std::int64_t id = 0;
  {
    MutexLock lock(mu_);
    // Remove expired leases.
    leases_.erase(leases_.begin(), leases_.lower_bound(now + kMargin));
    auto found = leases_.lower_bound(needed);
    if (found == leases_.end() || found->first > needed + Slack(lifetime)) {
      found = NewLease(lifetime, now, &ttl);
      request = true;
    }
    lease = found->second;
    ++lease->uses;
    if (lease->uses == kRequestNextAt) ahead = NewLease(lifetime, now, &ttl)->second;
    if (lease->uses == kMaxUses) leases_.erase(found);
    id = lease->id;
    if (id == 0) lease->waiting.push_back(done);
  }
  if (request) RequestGrant(lease, now, ttl);
  if (ahead) RequestGrant(ahead, now, ttl);
  if (id != 0) done(id);
}

void LeasePool::RequestGrant(const std::shared_ptr<Lease>& lease, SteadyTime requested_at,
                             seconds ttl) {
  grant_(ttl, [this, lease, requested_at](const Result<EtcdClient::Lease>& granted) {
    OnGranted(lease, requested_at, granted);
  });
}

void LeasePool::OnGranted(const std::shared_ptr<Lease>& lease, SteadyTime requested_at,
                          const Result<EtcdClient::Lease>& granted) {
  std::vector<Done> waiting;
  {
    MutexLock lock(mu_);
    waiting.swap(lease->waiting);
    const auto found = std::find_if(leases_.begin(), leases_.end(),
                                    [&](const auto& item) { return item.second == lease; });
    if (!granted) {
      if (found != leases_.end()) leases_.erase(found);
    } else {
      lease->id = granted->id;
      // etcd may have granted a longer lease.
      if (found != leases_.end() && found->first != requested_at + granted->ttl) {
        leases_.erase(found);
        leases_.emplace(requested_at + granted->ttl, lease);
      }
    }
  }
  for (const Done& done : waiting) {
    if (granted) {
      done(granted->id);
    } else {
      done(granted.error());
    }
  }
}

void LeasePool::Forget(std::int64_t lease) {
  MutexLock lock(mu_);
  std::erase_if(leases_, [lease](const auto& item) { return item.second->id == lease; });
}

}  // namespace herald::store
