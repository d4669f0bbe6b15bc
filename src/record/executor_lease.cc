#include "record/executor_lease.h"

#include <utility>

namespace herald {

class ExecutorLease::Use {
 public:
  explicit Use(ExecutorLease* lease)
      : state_(lease->state_),
        granted_((state_.fetch_add(kOneUse, std::memory_order_acquire) & kRevoked) == 0) {}
  ~Use() {
    const std::uint32_t before = state_.fetch_sub(kOneUse, std::memory_order_release);
    if (before == kOneUse + kRevoked) state_.notify_all();
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  bool granted() const { return granted_; }

 private:
  std::atomic<std::uint32_t>& state_;
  const bool granted_;
};

void ExecutorLease::Post(Task task) {
  const Use use(this);
  if (use.granted()) executor_.Post(std::move(task));
}

void ExecutorLease::PostAt(SteadyTime when, Task task) {
  const Use use(this);
  if (use.granted()) executor_.PostAt(when, std::move(task));
}

void ExecutorLease::Revoke() {
  std::uint32_t state = state_.fetch_or(kRevoked, std::memory_order_acq_rel) | kRevoked;
  while (state != kRevoked) {
    state_.wait(state, std::memory_order_acquire);
    state = state_.load(std::memory_order_acquire);
  }
}

void LeasedStrand::Post(Task task) {
  const ExecutorLease::Use use(lease_.get());
  if (use.granted()) strand_.Post(std::move(task));
}

}  // namespace herald
