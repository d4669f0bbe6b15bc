#include "herald/client/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/thread/mutex.h"

namespace herald {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class WorkQueueTest : public ::testing::Test {
 protected:
  FakeClock clock_{WallTime(seconds(1'700'000'000))};
  WorkQueue queue_{{.clock = &clock_}};

  std::string Take() { return queue_.TryGet().value_or("-"); }
};

TEST_F(WorkQueueTest, ReturnsKeysInOrderAndEachOnce) {
  for (const char* key : {"a", "b", "a", "c", "b"}) queue_.Add(key);
  EXPECT_EQ(queue_.size(), 3U);
  EXPECT_EQ(Take(), "a");
  EXPECT_EQ(Take(), "b");
  EXPECT_EQ(Take(), "c");
  EXPECT_EQ(Take(), "-");
}

TEST_F(WorkQueueTest, QueuesAKeyAgainThatWasAddedWhileProcessed) {
  queue_.Add("a");
  EXPECT_EQ(Take(), "a");
  queue_.Add("a");
  queue_.Add("a");
  EXPECT_EQ(Take(), "-");
  queue_.Done("a");
  EXPECT_EQ(Take(), "a");
  queue_.Done("a");
  EXPECT_EQ(Take(), "-");
}

TEST_F(WorkQueueTest, DelaysAKeyUntilTheEarliestTime) {
  queue_.AddAfter("a", seconds(10));
  queue_.AddAfter("b", seconds(5));
  queue_.AddAfter("a", seconds(3));
  queue_.AddAfter("a", seconds(20));
  EXPECT_EQ(queue_.waiting(), 2U);
  EXPECT_EQ(Take(), "-");
  clock_.Advance(seconds(3));
  EXPECT_EQ(Take(), "a");
  clock_.Advance(seconds(2));
  EXPECT_EQ(Take(), "b");
  queue_.Done("a");
  clock_.Advance(seconds(100));
  EXPECT_EQ(Take(), "-");
}

TEST_F(WorkQueueTest, DoublesTheDelayAfterEachFailure) {
  for (const int ms : {5, 10, 20, 40, 80}) {
    queue_.AddRateLimited("a");
    clock_.Advance(milliseconds(ms) - std::chrono::nanoseconds(1));
    EXPECT_EQ(Take(), "-") << ms;
    clock_.Advance(std::chrono::nanoseconds(1));
    EXPECT_EQ(Take(), "a") << ms;
    queue_.Done("a");
  }
  EXPECT_EQ(queue_.Failures("a"), 5);
  queue_.Forget("a");
  EXPECT_EQ(queue_.Failures("a"), 0);
  queue_.AddRateLimited("a");
  clock_.Advance(milliseconds(5));
  EXPECT_EQ(Take(), "a");
}

TEST_F(WorkQueueTest, LimitsTheDelay) {
  for (int i = 0; i < 100; ++i) {
    queue_.AddRateLimited("a");
    clock_.Advance(seconds(1000));
    ASSERT_EQ(Take(), "a");
    queue_.Done("a");
  }
}

TEST_F(WorkQueueTest, LimitsTheRateOfAllKeys) {
  // 100 at once, then 10 a second.
  for (int i = 0; i < 120; ++i) queue_.AddRateLimited("k" + std::to_string(i));
  const auto ready = [this] {
    int n = 0;
    while (queue_.TryGet()) ++n;
    return n;
  };
  clock_.Advance(milliseconds(5));
  EXPECT_EQ(ready(), 100);
  clock_.Advance(seconds(1));
  EXPECT_EQ(ready(), 10);
  clock_.Advance(seconds(1));
  EXPECT_EQ(ready(), 10);
}

TEST_F(WorkQueueTest, ReturnsOnlyReadyKeysAfterShutDown) {
  queue_.Add("a");
  queue_.AddAfter("b", seconds(1));
  queue_.ShutDown();
  queue_.Add("c");
  EXPECT_EQ(queue_.Get().value_or("-"), "a");
  clock_.Advance(seconds(2));
  EXPECT_FALSE(queue_.Get());
}

TEST(WorkQueue, GivesEachKeyToOneWorkerAtATime) {
  // Short delays, so that keys that fail often do not slow down the test.
  WorkQueue queue({.max_delay = milliseconds(1), .qps = 0});
  Mutex mu;
  std::set<std::string> working;
  std::atomic<int> done{0};
  bool overlapped = false;
  std::vector<std::thread> workers;
  for (int w = 0; w < 4; ++w) {
    workers.emplace_back([&] {
      while (const auto key = queue.Get()) {
        {
          const MutexLock lock(mu);
          overlapped |= !working.insert(*key).second;
        }
        if (++done % 7 == 0) queue.AddRateLimited(*key);
        {
          const MutexLock lock(mu);
          working.erase(*key);
        }
        queue.Done(*key);
      }
    });
  }
  for (int i = 0; i < 2000; ++i) queue.Add("key-" + std::to_string(i % 10));
  while (queue.size() > 0 || queue.waiting() > 0) std::this_thread::yield();
  queue.ShutDownAndDrain();
  for (std::thread& worker : workers) worker.join();
  EXPECT_FALSE(overlapped);
  EXPECT_GT(done, 10);
}

TEST(WorkQueue, EndsGetWhenAStopIsRequested) {
  WorkQueue queue;
  std::stop_source stop;
  std::thread waiter([&] { EXPECT_FALSE(queue.Get(stop.get_token())); });
  stop.request_stop();
  waiter.join();
}

TEST(WorkQueue, EndsGetWhenADelayedKeyIsDue) {
  WorkQueue queue;
  queue.AddAfter("late", seconds(3600));
  std::thread waiter([&] { EXPECT_EQ(queue.Get().value_or("-"), "soon"); });
  queue.AddAfter("soon", milliseconds(1));
  waiter.join();
}

}  // namespace
}  // namespace herald
