#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "herald/base/executor.h"

// What tasks of the executor's and the strand's tests are made of.

namespace herald {

// Runs `action` when the last copy of what holds it is gone.
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

// Returns once Stop() has begun, which shows in that it destroys what is posted.
inline void WaitUntilStopping(Executor& executor) {
  for (;;) {
    auto held = std::make_shared<int>();
    const std::weak_ptr<int> alive = held;
    executor.PostAt(SteadyTime::max(), [held = std::move(held)] {});
    if (alive.expired()) return;
  }
}

}  // namespace herald
