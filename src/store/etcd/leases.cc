#include "store/etcd/leases.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace herald::store {
namespace {

using std::chrono::seconds;

// As kube-apiserver's --lease-reuse-duration-seconds, and its share of a lifetime.
constexpr seconds kMostSlack{60};
constexpr int kLifetimesPerSlack = 20;

// Between the question for a lease and the write that it is for something may take its time; an
// entry must not pay for that with a part of its own.
constexpr seconds kMargin{1};

// When the next lease is asked for: at 5,000 writes a second 50 ms before it is needed, which
// is several times what etcd takes to grant one.
constexpr int kAskAheadAt = LeaseBook::kMaxUses * 3 / 4;

// Multiples of it are spread evenly over [0, 1), however many there are.
constexpr double kGoldenRatio = 0.6180339887498949;

}  // namespace

seconds LeaseBook::Slack(seconds lifetime) {
  return std::clamp(lifetime / kLifetimesPerSlack, seconds(1), kMostSlack);
}

LeaseBook::LeaseBook(const Clock& clock, Grant grant) : clock_(clock), grant_(std::move(grant)) {}

std::uint64_t LeaseBook::grants() const {
  MutexLock lock(mu_);
  return grants_;
}

LeaseBook::Open::iterator LeaseBook::NewLease(seconds lifetime, SteadyTime now, seconds* ttl) {
  // The upper half of the slack, each time another part of it.
  double whole = 0;
  const double part = std::modf(static_cast<double>(grants_) * kGoldenRatio, &whole);
  const seconds slack = Slack(lifetime);
  const seconds least = (slack + seconds(1)) / 2;
  const seconds longer =
      least + seconds(static_cast<std::int64_t>(
                  part * static_cast<double>((slack - least + seconds(1)).count())));
  ++grants_;
  *ttl = lifetime + kMargin + longer;
  return open_.emplace(now + *ttl, std::make_shared<Lease>());
}

void LeaseBook::Take(seconds lifetime, const Done& done) {
  if (lifetime >= kForEver) return done(std::int64_t{0});
  lifetime = std::max(lifetime, seconds(1));
  const SteadyTime now = clock_.Steady();
  const SteadyTime needed = now + lifetime + kMargin;
  std::shared_ptr<Lease> lease;
  std::shared_ptr<Lease> ahead;
  seconds ttl{0};
  bool ask = false;
  std::int64_t id = 0;
  {
    MutexLock lock(mu_);
    // What ended is of no use to anybody.
    open_.erase(open_.begin(), open_.lower_bound(now + kMargin));
    auto found = open_.lower_bound(needed);
    if (found == open_.end() || found->first > needed + Slack(lifetime)) {
      found = NewLease(lifetime, now, &ttl);
      ask = true;
    }
    lease = found->second;
    ++lease->uses;
    if (lease->uses == kAskAheadAt) ahead = NewLease(lifetime, now, &ttl)->second;
    if (lease->uses == kMaxUses) open_.erase(found);
    id = lease->id;
    if (id == 0) lease->waiting.push_back(done);
  }
  if (ask) AskFor(lease, now, ttl);
  if (ahead) AskFor(ahead, now, ttl);
  if (id != 0) done(id);
}

void LeaseBook::AskFor(const std::shared_ptr<Lease>& lease, SteadyTime asked, seconds ttl) {
  grant_(ttl, [this, lease, asked](const Result<EtcdClient::Lease>& granted) {
    Answered(lease, asked, granted);
  });
}

void LeaseBook::Answered(const std::shared_ptr<Lease>& lease, SteadyTime asked,
                         const Result<EtcdClient::Lease>& granted) {
  std::vector<Done> waiting;
  {
    MutexLock lock(mu_);
    waiting.swap(lease->waiting);
    const auto found = std::find_if(open_.begin(), open_.end(),
                                    [&](const auto& item) { return item.second == lease; });
    if (!granted) {
      if (found != open_.end()) open_.erase(found);
    } else {
      lease->id = granted->id;
      // etcd may have made it longer than it was asked to.
      if (found != open_.end() && found->first != asked + granted->ttl) {
        open_.erase(found);
        open_.emplace(asked + granted->ttl, lease);
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

void LeaseBook::Forget(std::int64_t lease) {
  MutexLock lock(mu_);
  std::erase_if(open_, [lease](const auto& item) { return item.second->id == lease; });
}

}  // namespace herald::store
