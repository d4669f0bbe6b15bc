#include "base/thread/mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace herald {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;

// A typical class with a lock, so that clang's analysis covers one.
class Counter {
 public:
  void Add() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    AddLocked();
    lock.Unlock();
    changed_.NotifyAll();
  }

  void WaitUntil(int value) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    changed_.Wait(lock, [this, value]() REQUIRES(mu_) { return value_ >= value; });
  }

  void WaitInALoopUntil(int value) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (value_ < value) changed_.Wait(lock);
  }

  bool WaitUntilFor(int value, nanoseconds timeout) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return changed_.WaitFor(lock, timeout,
                            [this, value]() REQUIRES(mu_) { return value_ >= value; });
  }

  int value() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return value_;
  }

 private:
  void AddLocked() REQUIRES(mu_) { ++value_; }

  mutable Mutex mu_;
  CondVar changed_;
  int value_ GUARDED_BY(mu_) = 0;
};

TEST(MutexTest, AllowsOneThreadAtATime) {
  Counter counter;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&counter] {
      for (int i = 0; i < 1000; ++i) counter.Add();
    });
  }
  threads.clear();
  EXPECT_EQ(counter.value(), 4000);
}

// Whether another thread could lock it now.
bool IsFree(Mutex& mu) {
  bool is_free = false;
  std::jthread([&] {
    if (mu.TryLock()) {
      is_free = true;
      mu.Unlock();
    }
  }).join();
  return is_free;
}

TEST(MutexTest, TryLockFailsWhileAnotherThreadHoldsIt) {
  Mutex mu;
  {
    MutexLock lock(mu);
    EXPECT_FALSE(IsFree(mu));
  }
  EXPECT_TRUE(IsFree(mu));
}

TEST(MutexLockTest, CanBeUnlockedAndLockedAgain) {
  Mutex mu;
  {
    MutexLock lock(mu);
    lock.Unlock();
    EXPECT_TRUE(IsFree(mu));
    lock.Lock();
    EXPECT_FALSE(IsFree(mu));
    lock.Unlock();
  }
  EXPECT_TRUE(IsFree(mu));
}

TEST(CondVarTest, WakesThreadsThatWaitForTheCondition) {
  Counter counter;
  std::vector<std::jthread> waiters;
  waiters.emplace_back([&] { counter.WaitUntil(3); });
  waiters.emplace_back([&] { counter.WaitInALoopUntil(3); });
  // The hour only limits a failing test; otherwise the thread is notified.
  waiters.emplace_back([&] { EXPECT_TRUE(counter.WaitUntilFor(3, hours(1))); });
  for (int i = 0; i < 3; ++i) counter.Add();
  waiters.clear();
}

TEST(CondVarTest, WaitForReturnsFalseAfterTheTimeout) {
  Counter counter;
  EXPECT_FALSE(counter.WaitUntilFor(1, nanoseconds(0)));
  counter.Add();
  EXPECT_TRUE(counter.WaitUntilFor(1, nanoseconds(0)));
}

}  // namespace
}  // namespace herald
