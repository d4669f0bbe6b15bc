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

// client-go's DefaultControllerRateLimiter: each failure of a key doubles its wait, and
// all keys together come back no faster than a token bucket allows.
struct WorkQueueOptions {
  std::chrono::nanoseconds base_delay = std::chrono::milliseconds(5);
  std::chrono::nanoseconds max_delay = std::chrono::seconds(1000);
  double qps = 10;  // of AddRateLimited(); 0: no limit
  int burst = 100;
  const Clock* clock = nullptr;  // borrowed; null: SystemClock()
};

// A WorkQueue holds the keys of objects that need attention, as controllers work:
//
//   - a key that is in it already is not added again;
//   - a key that is being worked on is never handed out a second time: if it is added
//     meanwhile, it comes back when the work is done;
//   - a key may be added for later, or after a failure, later each time.
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
  // REQUIRES: nobody is in a call
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void Add(std::string_view key);
  // Of several times for one key the earliest counts.
  void AddAfter(std::string_view key, std::chrono::nanoseconds delay);
  // After the wait that this key's failures so far ask for.
  void AddRateLimited(std::string_view key);
  // The key has succeeded: its failures are forgotten.
  void Forget(std::string_view key);
  int Failures(std::string_view key) const;

  // The next key, waited for; nothing once the queue is shut down and empty, or `stop` is
  // requested. Whoever gets one calls Done() with it.
  std::optional<std::string> Get(const std::stop_token& stop = {});
  // The same without waiting.
  std::optional<std::string> TryGet();
  void Done(std::string_view key);

  // Nothing can be added any more; what is ready is still handed out, what was
  // for later is not.
  void ShutDown();
  // The same, and waits until all of that is done: somebody has to go on taking keys.
  void ShutDownAndDrain();

  std::size_t size() const;     // ready to be handed out
  std::size_t waiting() const;  // for later

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald
