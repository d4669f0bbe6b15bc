#include "replicaset_controller/batches.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace replicaset_controller {

using herald::Status;

std::vector<Status> RunAll(int count, const Start& start) {
  struct Pending {
    std::mutex mu;
    std::condition_variable ended;
    int running;                   // guarded by mu
    std::vector<Status> failures;  // guarded by mu
  };
  // Shared, because the last callback may not have returned when this function returns.
  const auto pending = std::make_shared<Pending>();
  pending->running = count;
  for (int i = 0; i < count; ++i) {
    start(i, [pending](const Status& status) {
      const std::lock_guard lock(pending->mu);
      if (!status.ok()) pending->failures.push_back(status);
      if (--pending->running == 0) pending->ended.notify_all();
    });
  }
  std::unique_lock lock(pending->mu);
  pending->ended.wait(lock, [&] { return pending->running == 0; });
  return std::move(pending->failures);
}

SlowStartResult SlowStart(int count, const Start& start, const std::stop_token& stop) {
  SlowStartResult result;
  int started = 0;
  for (int batch = 1; started < count && !stop.stop_requested(); batch *= 2) {
    const int size = std::min(batch, count - started);
    std::vector<Status> failures =
        RunAll(size, [&](int i, Done done) { start(started + i, std::move(done)); });
    started += size;
    result.succeeded += size - static_cast<int>(failures.size());
    if (!failures.empty()) {
      result.error = std::move(failures.front());
      break;
    }
  }
  return result;
}

}  // namespace replicaset_controller
