#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/thread/strand.h"
#include "herald/base/clock.h"
#include "herald/base/executor.h"

namespace herald {

// An ExecutorLease lets the parts of a broadcaster post to its executor until the broadcaster
// is destroyed. The executor may be the caller's, and may be destroyed right after the
// broadcaster. But recorders, watchers, sinks that answer late and choices of an API
// (ApiChoice) keep parts of the pipeline alive and call them at any time. All of these post
// through the lease, and what they post after Revoke() is destroyed unrun.
//
// Invariant: the executor is used only inside a call of Post() or PostAt() that began before
// Revoke(), and Revoke() returns after the last of them.
//
// Thread-safe.
class ExecutorLease {
 public:
  using Task = Executor::Task;

  // The executor is borrowed and outlives the call of Revoke().
  explicit ExecutorLease(Executor* executor) : executor_(*executor) {}
  ExecutorLease(const ExecutorLease&) = delete;
  ExecutorLease& operator=(const ExecutorLease&) = delete;

  // As those of Executor. Do nothing after Revoke().
  void Post(Task task);
  void PostAt(SteadyTime when, Task task);

  // Waits for calls that have begun, which is short: a post only queues. Idempotent. Must not
  // be called from a task of the executor or from the destructor of one.
  void Revoke();
  bool revoked() const { return (state_.load(std::memory_order_acquire) & kRevoked) != 0; }

 private:
  friend class LeasedStrand;
  // The scope of one use of the executor.
  class Use;

  static constexpr std::uint32_t kRevoked = 1;
  static constexpr std::uint32_t kOneUse = 2;

  Executor& executor_;
  // How many uses are in progress, times kOneUse, plus kRevoked. No lock is held over a post,
  // because a stopped executor destroys the task inside the call, and that may post again.
  std::atomic<std::uint32_t> state_{0};
};

// A Strand whose Post() does nothing once its lease is revoked. Thread-safe.
class LeasedStrand {
 public:
  using Task = Strand::Task;

  explicit LeasedStrand(std::shared_ptr<ExecutorLease> lease)
      : lease_(std::move(lease)), strand_(&lease_->executor_) {}

  void Post(Task task);
  // REQUIRES: the lease is not revoked before it returns
  bool TryRun(const Task& task) { return strand_.TryRun(task); }

 private:
  const std::shared_ptr<ExecutorLease> lease_;
  Strand strand_;
};

}  // namespace herald
