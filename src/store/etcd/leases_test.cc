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

// An etcd that grants when the test says so.
class LeaseBookTest : public testing::Test {
 protected:
  struct Asked {
    seconds ttl;
    SteadyTime at;
    LeaseBook::Granted done;
  };

  // The lease, and its end, that an entry got; nothing while it waits.
  struct Taken {
    std::int64_t lease = -1;
    Status error{};
  };

  std::shared_ptr<Taken> Take(seconds lifetime) {
    auto taken = std::make_shared<Taken>();
    book_.Take(lifetime, [taken](const Result<std::int64_t>& lease) {
      if (lease) {
        taken->lease = *lease;
      } else {
        taken->error = lease.error();
      }
    });
    return taken;
  }
  void Grant(std::size_t i, seconds longer = 0s) {
    const std::int64_t id = next_id_++;
    ends_[id] = asked_[i].at + asked_[i].ttl + longer;
    std::exchange(asked_[i].done, nullptr)(EtcdClient::Lease{id, asked_[i].ttl + longer});
  }
  void GrantAll() {
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      if (asked_[i].done) Grant(i);
    }
  }

  FakeClock clock_{WallTime()};
  std::vector<Asked> asked_;
  std::map<std::int64_t, SteadyTime> ends_;
  std::int64_t next_id_ = 1;
  LeaseBook book_{clock_, [this](seconds ttl, LeaseBook::Granted done) {
                    asked_.push_back({ttl, clock_.Steady(), std::move(done)});
                  }};
};

TEST_F(LeaseBookTest, SharesOneLeaseAmongEntriesOfAMinute) {
  const auto first = Take(1h);
  EXPECT_EQ(first->lease, -1) << "it waits for etcd";
  const auto second = Take(1h);
  ASSERT_EQ(asked_.size(), 1u);
  Grant(0);
  EXPECT_EQ(first->lease, 1);
  EXPECT_EQ(second->lease, 1);
  clock_.Advance(20s);
  EXPECT_EQ(Take(1h)->lease, 1) << "and later ones do not wait at all";
  EXPECT_EQ(asked_.size(), 1u);
}

TEST_F(LeaseBookTest, NeverEndsAnEntryBeforeItsTimeNorLongAfter) {
  for (const seconds lifetime :
       {seconds(1), seconds(10), seconds(300), seconds(3600), seconds(7 * 24 * 3600)}) {
    for (int i = 0; i < 500; ++i) {
      const auto taken = Take(lifetime);
      GrantAll();
      ASSERT_GT(taken->lease, 0);
      const auto left = ends_[taken->lease] - clock_.Steady();
      EXPECT_GE(left, lifetime) << lifetime.count();
      EXPECT_LE(left, lifetime + LeaseBook::Slack(lifetime) + 2s) << lifetime.count();
      clock_.Advance(170ms);
    }
  }
}

TEST_F(LeaseBookTest, TakesALeaseForAThousandEntriesAndAsksForTheNextOneAhead) {
  Take(1h);
  GrantAll();
  for (int i = 1; i < 749; ++i) EXPECT_EQ(Take(1h)->lease, 1);
  EXPECT_EQ(asked_.size(), 1u);
  EXPECT_EQ(Take(1h)->lease, 1);
  EXPECT_EQ(asked_.size(), 2u) << "ahead of need";
  Grant(1);
  for (int i = 750; i < 1'000; ++i) Take(1h);
  std::map<std::int64_t, int> uses;
  for (int i = 0; i < 100'000; ++i) {
    const auto taken = Take(1h);
    GrantAll();
    ++uses[taken->lease];
  }
  for (const auto& [lease, count] : uses) EXPECT_LE(count, LeaseBook::kMaxUses) << lease;
  EXPECT_LE(book_.grants(), 103u) << "one per thousand, and one ahead";
}

TEST_F(LeaseBookTest, NeedsNoMoreThanTwoLeasesAMinuteForFewEntries) {
  for (int minute = 0; minute < 120; ++minute) {
    for (int i = 0; i < 12; ++i) {
      Take(1h);
      Take(2h);
      Take(24h);
      GrantAll();
      clock_.Advance(5s);
    }
  }
  // Entries of different lifetimes that end together share leases; before that, each
  // lifetime has its own.
  EXPECT_LE(book_.grants(), 2u * 120 * 3);
  const std::uint64_t before = book_.grants();
  for (int minute = 0; minute < 60; ++minute) {
    for (int i = 0; i < 12; ++i) {
      Take(1h);
      GrantAll();
      clock_.Advance(5s);
    }
  }
  EXPECT_LE(book_.grants() - before, 2u * 60);
}

TEST_F(LeaseBookTest, LetsLeasesOfABurstEndAtDifferentTimes) {
  // 100,000 entries at once: the worst that a minute can bring.
  for (int i = 0; i < 100'000; ++i) Take(1h);
  GrantAll();
  std::map<seconds, int> together;
  for (const Asked& asked : asked_) ++together[asked.ttl];
  EXPECT_GE(together.size(), 30u);
  for (const auto& [ttl, count] : together) {
    EXPECT_LE(count, 6) << "5 ms each, and etcd looks twice a second";
  }
}

TEST_F(LeaseBookTest, TellsAllWhoWaitWhyThereIsNoLeaseAndAsksAgainForTheNext) {
  const auto first = Take(1h);
  const auto second = Take(1h);
  std::exchange(asked_[0].done, nullptr)(Status(StatusReason::kServiceUnavailable, "no leader"));
  EXPECT_TRUE(first->error.Is(StatusReason::kServiceUnavailable));
  EXPECT_TRUE(second->error.Is(StatusReason::kServiceUnavailable));
  const auto third = Take(1h);
  ASSERT_EQ(asked_.size(), 2u);
  Grant(1);
  EXPECT_EQ(third->lease, 1);
}

TEST_F(LeaseBookTest, DoesNotGiveOutALeaseThatEtcdHasForgotten) {
  Take(1h);
  GrantAll();
  EXPECT_EQ(Take(1h)->lease, 1);
  book_.Forget(1);
  const auto taken = Take(1h);
  GrantAll();
  EXPECT_EQ(taken->lease, 2);
}

TEST_F(LeaseBookTest, UsesALeaseThatEtcdMadeLongerOnlyWhereThatIsNotTooLong) {
  Take(1s);
  Grant(0, 5s);  // an election timeout of seconds makes etcd do so
  const auto taken = Take(1s);
  EXPECT_EQ(taken->lease, -1) << "it would live six times as long as it should";
  EXPECT_EQ(Take(6s)->lease, 1);
}

TEST_F(LeaseBookTest, NeedsNoLeaseForWhatLivesForEver) {
  EXPECT_EQ(Take(seconds::max())->lease, 0);
  EXPECT_EQ(Take(LeaseBook::kForEver)->lease, 0);
  EXPECT_TRUE(asked_.empty());
}

}  // namespace
}  // namespace herald::store
