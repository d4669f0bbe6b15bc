#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "herald/base/executor.h"

// Helpers for the tests of Executor and Strand.

namespace herald {

// Calls `action` when the last copy is destroyed.
class OnDestruction {
 public:
  explicit OnDestruction(std::function<void()> action) : action_(std::move(action)) {}
  ~OnDestruction() { action_(); }
  OnDestruction(const OnDestruction&) = delete;
  OnDestruction& operator=(const OnDestruction&) = delete;

 private:
  const std::function<void()> action_;
};

inline std::shared_ptr<OnDestruction> Finally(std::function<void()> action) {
  return std::make_shared<OnDestruction>(std::move(action));
}

// Waits until Stop() has begun: new tasks are then destroyed.
inline void WaitUntilStopping(Executor& executor) {
  for (;;) {
    auto held = std::make_shared<int>();
    const std::weak_ptr<int> alive = held;
    executor.PostAt(SteadyTime::max(), [held = std::move(held)] {});
    if (alive.expired()) return;
  }
}

}  // namespace herald
