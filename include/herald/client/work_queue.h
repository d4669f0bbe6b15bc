#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "herald/base/clock.h"
#include "herald/base/export.h"

namespace herald {

// As client-go's DefaultControllerRateLimiter: each failure of a key doubles its delay, and a
// token bucket limits the rate of all keys together.
struct WorkQueueOptions {
  std::chrono::nanoseconds base_delay = std::chrono::milliseconds(5);
  std::chrono::nanoseconds max_delay = std::chrono::seconds(1000);
  double qps = 10;  // of AddRateLimited(); 0: no limit
  int burst = 100;
  const Clock* clock = nullptr;  // borrowed; null: SystemClock()
};

// A WorkQueue holds the keys of objects that a controller has to process:
//
//   - a key that is already in the queue is not added again;
//   - a key that is being processed is not returned to a second worker: if it is added
//     meanwhile, it is queued again when Done() is called;
//   - a key may be added with a delay, which grows with each failure.
//
//   while (auto key = queue.Get(stop)) {
//     if (Sync(*key)) queue.Forget(*key); else queue.AddRateLimited(*key);
//     queue.Done(*key);
//   }
//
// Thread-safe.
class HERALD_EXPORT WorkQueue {
 public:
  explicit WorkQueue(WorkQueueOptions options = {});
  // REQUIRES: no call is running
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void Add(std::string_view key);
  // If a key is added several times, the earliest time counts.
  void AddAfter(std::string_view key, std::chrono::nanoseconds delay);
  // Counts a failure of the key and adds it after the delay for its number of failures.
  void AddRateLimited(std::string_view key);
  // Resets the number of failures of the key. Call it after a success.
  void Forget(std::string_view key);
  int Failures(std::string_view key) const;

  // Waits for the next key. Returns nothing if the queue is shut down and empty, or if `stop` is
  // requested. The caller must call Done() with the key.
  std::optional<std::string> Get(const std::stop_token& stop = {});
  // Does not wait.
  std::optional<std::string> TryGet();
  void Done(std::string_view key);

  // After this nothing can be added. Keys that are ready are still returned; delayed keys are
  // dropped.
  void ShutDown();
  // Shuts down and waits until all keys that are ready have been processed. Other threads must
  // continue to call Get() and Done().
  void ShutDownAndDrain();

  std::size_t size() const;     // keys that are ready
  std::size_t waiting() const;  // keys that are delayed

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald
