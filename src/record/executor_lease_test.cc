#include "record/executor_lease.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace herald {
namespace {

TEST(ExecutorLeaseTest, RunsWhatIsPostedBeforeItIsRevokedAndNothingElse) {
  FakeClock clock{WallTime(std::chrono::seconds(1))};
  std::optional<Executor> executor(std::in_place, Executor::Options{.threads = 0, .clock = &clock});
  const auto lease = std::make_shared<ExecutorLease>(&*executor);
  LeasedStrand strand(lease);
  int ran = 0;
  const auto post_all = [&] {
    lease->Post([&] { ++ran; });
    lease->PostAt(clock.Steady(), [&] { ++ran; });
    strand.Post([&] { ++ran; });
  };
  post_all();
  EXPECT_FALSE(lease->revoked());
  lease->Revoke();
  EXPECT_TRUE(lease->revoked());
  lease->Revoke();
  executor->RunUntilIdle();
  EXPECT_EQ(ran, 3);
  executor.reset();
  post_all();
  EXPECT_EQ(ran, 3);
}

TEST(ExecutorLeaseTest, DestroysATaskThatComesTooLate) {
  Executor executor({.threads = 0});
  ExecutorLease lease(&executor);
  lease.Revoke();
  const auto held = std::make_shared<int>(0);
  lease.Post([held] {});
  EXPECT_EQ(held.use_count(), 1);
}

// Under TSan and ASan: the executor is destroyed while others post.
TEST(ExecutorLeaseTest, TheExecutorMayBeDestroyedAfterRevokeWhileOthersPost) {
  for (int round = 0; round < 50; ++round) {
    auto executor = std::make_unique<Executor>(Executor::Options{.threads = 1});
    const auto lease = std::make_shared<ExecutorLease>(executor.get());
    std::atomic<bool> end = false;
    std::atomic<int> posted = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&, strand = std::make_shared<LeasedStrand>(lease)] {
        while (!end) {
          strand->Post([] {});
          lease->Post([] {});
          ++posted;
        }
      });
    }
    while (posted < 10) std::this_thread::yield();
    lease->Revoke();
    executor.reset();
    end = true;
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace herald
