#include "store/etcd/leases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace herald::store {
namespace {

using namespace std::chrono_literals;
using std::chrono::seconds;

// The test grants the leases.
class LeasePoolTest : public testing::Test {
 protected:
  struct GrantRequest {
    seconds ttl;
    SteadyTime at;
    LeasePool::Granted done;
  };

  // The lease of an entry; -1 while it waits.
  struct AcquiredLease {
    std::int64_t lease = -1;
    Status error{};
  };

  std::shared_ptr<AcquiredLease> Acquire(seconds lifetime) {
    auto acquired = std::make_shared<AcquiredLease>();
    pool_.Acquire(lifetime, [acquired](const Result<std::int64_t>& lease) {
      if (lease) {
        acquired->lease = *lease;
      } else {
        acquired->error = lease.error();
      }
    });
    return acquired;
  }
  void Grant(std::size_t i, seconds longer = 0s) {
    const std::int64_t id = next_id_++;
    ends_[id] = requests_[i].at + requests_[i].ttl + longer;
    std::exchange(requests_[i].done, nullptr)(EtcdClient::Lease{id, requests_[i].ttl + longer});
  }
  void GrantAll() {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i].done) Grant(i);
    }
  }

  FakeClock clock_{WallTime()};
  std::vector<GrantRequest> requests_;
  std::map<std::int64_t, SteadyTime> ends_;
  std::int64_t next_id_ = 1;
  LeasePool pool_{clock_, [this](seconds ttl, LeasePool::Granted done) {
                    requests_.push_back({ttl, clock_.Steady(), std::move(done)});
                  }};
};

TEST_F(LeasePoolTest, EntriesOfTheSameMinuteShareALease) {
  const auto first = Acquire(1h);
  EXPECT_EQ(first->lease, -1) << "it waits for the grant";
  const auto second = Acquire(1h);
  ASSERT_EQ(requests_.size(), 1u);
  Grant(0);
  EXPECT_EQ(first->lease, 1);
  EXPECT_EQ(second->lease, 1);
  clock_.Advance(20s);
  EXPECT_EQ(Acquire(1h)->lease, 1) << "later ones do not wait";
  EXPECT_EQ(requests_.size(), 1u);
}

TEST_F(LeasePoolTest, AnEntryExpiresAfterItsLifetimeAndWithinTheSlack) {
  for (const seconds lifetime :
       {seconds(1), seconds(10), seconds(300), seconds(3600), seconds(7 * 24 * 3600)}) {
    for (int i = 0; i < 500; ++i) {
      const auto acquired = Acquire(lifetime);
      GrantAll();
      ASSERT_GT(acquired->lease, 0);
      const auto left = ends_[acquired->lease] - clock_.Steady();
      EXPECT_GE(left, lifetime) << lifetime.count();
      EXPECT_LE(left, lifetime + LeasePool::Slack(lifetime) + 2s) << lifetime.count();
      clock_.Advance(170ms);
    }
  }
}

TEST_F(LeasePoolTest, UsesALeaseForAThousandEntriesAndRequestsTheNextOneAhead) {
  Acquire(1h);
  GrantAll();
  for (int i = 1; i < 749; ++i) EXPECT_EQ(Acquire(1h)->lease, 1);
  EXPECT_EQ(requests_.size(), 1u);
  EXPECT_EQ(Acquire(1h)->lease, 1);
  EXPECT_EQ(requests_.size(), 2u) << "before it is needed";
  Grant(1);
  for (int i = 750; i < 1'000; ++i) Acquire(1h);
  std::map<std::int64_t, int> uses;
  for (int i = 0; i < 100'000; ++i) {
    const auto acquired = Acquire(1h);
    GrantAll();
    ++uses[acquired->lease];
  }
  for (const auto& [lease, count] : uses) EXPECT_LE(count, LeasePool::kMaxUses) << lease;
  EXPECT_LE(pool_.grants(), 103u) << "one per thousand entries, and one ahead";
}

TEST_F(LeasePoolTest, NeedsNoMoreThanTwoLeasesAMinuteForFewEntries) {
  for (int minute = 0; minute < 120; ++minute) {
    for (int i = 0; i < 12; ++i) {
      Acquire(1h);
      Acquire(2h);
      Acquire(24h);
      GrantAll();
      clock_.Advance(5s);
    }
  }
  // Entries of different lifetimes that expire together share leases; before that, each lifetime
  // has its own.
  EXPECT_LE(pool_.grants(), 2u * 120 * 3);
  const std::uint64_t before = pool_.grants();
  for (int minute = 0; minute < 60; ++minute) {
    for (int i = 0; i < 12; ++i) {
      Acquire(1h);
      GrantAll();
      clock_.Advance(5s);
    }
  }
  EXPECT_LE(pool_.grants() - before, 2u * 60);
}

TEST_F(LeasePoolTest, LeasesOfABurstExpireAtDifferentTimes) {
  // 100,000 entries at once: the largest burst that is expected in a minute.
  for (int i = 0; i < 100'000; ++i) Acquire(1h);
  GrantAll();
  std::map<seconds, int> together;
  for (const GrantRequest& request : requests_) ++together[request.ttl];
  EXPECT_GE(together.size(), 30u);
  for (const auto& [ttl, count] : together) {
    EXPECT_LE(count, 6) << "each takes 5 ms, and etcd revokes leases twice a second";
  }
}

TEST_F(LeasePoolTest, FailsAllWaitersIfTheGrantFailsAndRetriesForTheNext) {
  const auto first = Acquire(1h);
  const auto second = Acquire(1h);
  std::exchange(requests_[0].done, nullptr)(Status(StatusReason::kServiceUnavailable, "no leader"));
  EXPECT_TRUE(first->error.Is(StatusReason::kServiceUnavailable));
  EXPECT_TRUE(second->error.Is(StatusReason::kServiceUnavailable));
  const auto third = Acquire(1h);
  ASSERT_EQ(requests_.size(), 2u);
  Grant(1);
  EXPECT_EQ(third->lease, 1);
}

TEST_F(LeasePoolTest, DoesNotUseALeaseThatEtcdHasLost) {
  Acquire(1h);
  GrantAll();
  EXPECT_EQ(Acquire(1h)->lease, 1);
  pool_.Forget(1);
  const auto acquired = Acquire(1h);
  GrantAll();
  EXPECT_EQ(acquired->lease, 2);
}

TEST_F(LeasePoolTest, UsesALeaseThatEtcdExtendedOnlyIfItIsNotTooLong) {
  Acquire(1s);
  Grant(0, 5s);  // etcd does this if its election timeout is several seconds
  const auto acquired = Acquire(1s);
  EXPECT_EQ(acquired->lease, -1) << "the lease is six times as long as the lifetime";
  EXPECT_EQ(Acquire(6s)->lease, 1);
}

TEST_F(LeasePoolTest, EntriesThatNeverExpireNeedNoLease) {
  EXPECT_EQ(Acquire(seconds::max())->lease, 0);
  EXPECT_EQ(Acquire(LeasePool::kForever)->lease, 0);
  EXPECT_TRUE(requests_.empty());
}

}  // namespace
}  // namespace herald::store
