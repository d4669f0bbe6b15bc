#pragma once

#include <atomic>
#include <cstdint>

namespace herald {

// Repeats an asynchronous step without recursion, even if a step completes before its call returns.
//
//   void Go() {
//     loop.Run([this] { StartStep([this] { if (more && loop.Again()) Go(); }); });
//   }
//
// Each step calls Again() at most once; without a call the loop ends. Thread-safe in this use:
// steps may complete on any thread.
class AsyncLoop {
 public:
  template <typename Step>
  void Run(Step&& step) {
    do {
      state_.store(kRunning, std::memory_order_release);
      step();
    } while (state_.exchange(kReturned, std::memory_order_acq_rel) == kAgain);
  }

  // Returns true if the caller must call Run() again, because the last call has returned.
  bool Again() { return state_.exchange(kAgain, std::memory_order_acq_rel) == kReturned; }

 private:
  static constexpr std::uint8_t kRunning = 0;
  static constexpr std::uint8_t kReturned = 1;
  static constexpr std::uint8_t kAgain = 2;
  std::atomic<std::uint8_t> state_{kRunning};
};

// Runs work that several threads request, on one thread at a time. A call during the work returns
// at once, and the thread that does the work repeats it.
//
// Thread-safe.
class OneAtATime {
 public:
  template <typename Work>
  void Run(Work&& work) {
    std::uint32_t wanted = wanted_.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (wanted != 1) return;
    do {
      work();
    } while ((wanted = wanted_.fetch_sub(wanted, std::memory_order_acq_rel) - wanted) != 0);
  }

 private:
  std::atomic<std::uint32_t> wanted_{0};  // calls of Run() that are not done yet
};

}  // namespace herald
