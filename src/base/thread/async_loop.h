#pragma once

#include <atomic>
#include <cstdint>

namespace herald {

// Repeats an asynchronous step any number of times without piling up stack frames where
// a step completes before its call returns.
//
//   void Go() {
//     loop.Run([this] { StartStep([this] { if (more && loop.Again()) Go(); }); });
//   }
//
// Each step leads to at most one call of Again(); without one the loop is over. Thread-safe in
// this use: steps may complete on any thread.
class AsyncLoop {
 public:
  template <typename Step>
  void Run(Step&& step) {
    do {
      state_.store(kRunning, std::memory_order_release);
      step();
    } while (state_.exchange(kReturned, std::memory_order_acq_rel) == kAgain);
  }

  // True where the caller must call Run() anew: the one before has returned already.
  bool Again() { return state_.exchange(kAgain, std::memory_order_acq_rel) == kReturned; }

 private:
  static constexpr std::uint8_t kRunning = 0;
  static constexpr std::uint8_t kReturned = 1;
  static constexpr std::uint8_t kAgain = 2;
  std::atomic<std::uint8_t> state_{kRunning};
};

// Lets one thread at a time do work that several threads ask for. A call while the work is being
// done returns at once, and the thread that does it does it once more.
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
  std::atomic<std::uint32_t> wanted_{0};  // calls of Run() that are not done with yet
};

}  // namespace herald
