#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "herald/base/status.h"
#include "store/store.h"

namespace herald::store {

// Long enough that only a hang exceeds it, on a busy machine under a sanitizer.
inline constexpr std::chrono::seconds kSuiteDeadline{60};

// A watch for tests: it waits for `ready` instead of sleeping. Thread-confined.
class SuiteWatch {
 public:
  SuiteWatch(Store& store, const std::string& prefix, Revision after)
      : signal_(std::make_shared<Signal>()) {
    auto watch = store.NewWatch(prefix, after, [signal = signal_] { signal->Raise(); });
    if (watch) {
      watch_ = std::move(*watch);
    } else {
      error_ = watch.error();
    }
  }

  const Status& error() const { return error_; }

  // The next `count` changes, from as many batches as needed; fewer after an error (see error()) or
  // the deadline.
  std::vector<std::shared_ptr<const Change>> Take(std::size_t count, std::size_t max = 100) {
    std::vector<std::shared_ptr<const Change>> taken;
    while (taken.size() < count && error_.ok()) {
      const int before = signal_->count();
      auto batch = watch_->Next(std::min(max, count - taken.size()));
      if (!batch) {
        error_ = batch.error();
        break;
      }
      EXPECT_LE(batch->changes.size(), std::min(max, count - taken.size()));
      revision_ = batch->revision;
      if (batch->changes.empty() && !signal_->WaitBeyond(before)) {
        ADD_FAILURE() << "no change arrived: " << taken.size() << " of " << count;
        break;
      }
      for (auto& change : batch->changes) taken.push_back(std::move(change));
    }
    return taken;
  }

  // Reads until the watch ends, and returns its error.
  Status TakeError() {
    while (error_.ok()) {
      const int before = signal_->count();
      auto batch = watch_->Next(100);
      if (!batch) {
        error_ = batch.error();
      } else if (batch->changes.empty() && !signal_->WaitBeyond(before)) {
        ADD_FAILURE() << "the watch did not end";
        break;
      }
    }
    return error_;
  }

  // Whether the watch has no more changes now. Its revision() is then up to date.
  bool IsDrained() {
    auto batch = watch_->Next(1);
    if (!batch) return false;
    revision_ = batch->revision;
    return batch->changes.empty();
  }

  // The revision of the last batch.
  Revision revision() const { return revision_; }
  int ready_calls() const { return signal_->count(); }

 private:
  class Signal {
   public:
    void Raise() {
      MutexLock lock(mu_);
      ++count_;
      raised_.NotifyAll();
    }
    int count() {
      MutexLock lock(mu_);
      return count_;
    }
    bool WaitBeyond(int before) {
      MutexLock lock(mu_);
      return raised_.WaitFor(lock, kSuiteDeadline,
                             [this, before]() REQUIRES(mu_) { return count_ > before; });
    }

   private:
    Mutex mu_;
    CondVar raised_;
    int count_ GUARDED_BY(mu_) = 0;
  };

  // Shared with the callback, which may be called after the watch was destroyed.
  std::shared_ptr<Signal> signal_;
  std::unique_ptr<Watch> watch_;
  Status error_;
  Revision revision_ = 0;
};

}  // namespace herald::store
