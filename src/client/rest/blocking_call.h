#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/thread/mutex.h"
#include "herald/base/status.h"

namespace herald {

// Turns a call with a callback into a blocking call: calls start(done) and waits for done.
template <typename T, typename Start>
Result<T> WaitForResult(Start&& start) {
  struct State {
    Mutex mu;
    CondVar ready;
    std::optional<Result<T>> result GUARDED_BY(mu);
  };
  // Shared, because the callback may not have returned when the caller continues.
  const auto state = std::make_shared<State>();
  std::forward<Start>(start)(std::function<void(Result<T>)>([state](Result<T> result) {
    const MutexLock lock(state->mu);
    state->result.emplace(std::move(result));
    state->ready.NotifyAll();
  }));
  MutexLock lock(state->mu);
  for (;;) {
    if (std::optional<Result<T>>& result = state->result) return std::move(*result);
    state->ready.Wait(lock);
  }
}

// The value of a Result that has none.
struct Nothing {};

// The same for callbacks that get a Status.
template <typename Start>
Status WaitForStatus(Start&& start) {
  const Result<Nothing> result =
      WaitForResult<Nothing>([&](std::function<void(Result<Nothing>)> done) {
        start([done = std::move(done)](const Status& status) {
          if (status.ok()) return done(Nothing());
          done(status);
        });
      });
  return result ? Status() : result.error();
}

}  // namespace herald
