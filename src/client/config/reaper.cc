#include "client/config/reaper.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"

namespace herald {
namespace {

// Constant-initialized and never destroyed, so it can be read at any time.
constinit std::atomic<bool> exiting{false};

// Holds the threads that were started, and joins them when static objects are destroyed. There are
// few: only a program that drops a client in one of its callbacks causes one. Thread-safe.
class Reaper {
 public:
  ~Reaper() {
    exiting = true;
    std::vector<std::thread> threads;
    {
      const MutexLock lock(mu_);
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
  }
  Reaper() = default;
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  void Run(std::function<void()> destroy) {
    const MutexLock lock(mu_);
    threads_.emplace_back([destroy = std::move(destroy)] { destroy(); });
  }

 private:
  Mutex mu_;
  std::vector<std::thread> threads_ GUARDED_BY(mu_);
};

}  // namespace

void DestroyElsewhere(std::function<void()> destroy) {
  if (exiting) {
    // Threads cannot be joined any more. The object is leaked; the process ends anyway.
    new std::function<void()>(std::move(destroy));
    return;
  }
  static Reaper reaper;
  reaper.Run(std::move(destroy));
}

}  // namespace herald
