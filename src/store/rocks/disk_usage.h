#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "store/rocks/options.h"

namespace herald::store {

// DiskUsage compares the size of the data directory with its DiskBudget while the committer writes.
// It decides when new entries are rejected and when eviction has to begin early.
//
// Thread-safe, except CountWritten().
class DiskUsage {
 public:
  // Measures the directory. The options are borrowed. `eviction_needed` is called on the
  // committer's thread, once until StartEviction().
  DiskUsage(const RocksStoreOptions* options, std::function<void()> eviction_needed)
      : options_(*options), eviction_needed_(std::move(eviction_needed)) {
    SetUsed(DirectoryBytes(options_.db.directory));
  }
  DiskUsage(const DiskUsage&) = delete;
  DiskUsage& operator=(const DiskUsage&) = delete;

  // The directory is so near its limit that no new entry is accepted.
  bool full() const { return full_; }

  // Measures each time that enough was written. Only the committer's thread.
  void CountWritten(std::size_t bytes) {
    const DiskBudget& budget = options_.db.budget;
    written_since_measured_ += bytes;
    if (written_since_measured_ < budget.measure_every) return;
    written_since_measured_ = 0;
    const std::uint64_t used = DirectoryBytes(options_.db.directory);
    if (used > budget.reject_above) full_ = true;
    // Not at the next regular run of maintenance: within a second, a small limit would be used up.
    if (used > budget.evict_above && !eviction_requested_.exchange(true)) eviction_needed_();
  }

  // Eviction begins, and ends with that many bytes.
  void StartEviction() { eviction_requested_ = false; }
  void SetUsed(std::uint64_t bytes) { full_ = bytes > options_.db.budget.reject_above; }

 private:
  const RocksStoreOptions& options_;
  const std::function<void()> eviction_needed_;
  std::atomic<bool> full_ = false;
  std::atomic<bool> eviction_requested_ = false;
  std::uint64_t written_since_measured_ = 0;  // the committer's thread only
};

}  // namespace herald::store
