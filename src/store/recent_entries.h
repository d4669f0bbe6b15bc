#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "store/rocks_reader.h"
#include "store/store.h"

namespace herald::store {

// RecentEntries remembers the state of the keys that were written last. A crash-looping
// pod's event is written every few seconds, and each time it is read first and looked at
// once more by the committer: three lookups in RocksDB, which are most of what that costs.
//
// It never knows an older state than RocksDB, because the committer alone fills it:
//
//   Forget() the keys of a batch  ->  the batch is written  ->  Remember() them
//
// In between they are read from RocksDB. Values are those that the WatchHub holds anyway.
//
// Thread-safe.
class RecentEntries {
 public:
  // By key. Of those that do not exist any more the revision is 0.
  using Standings = std::unordered_map<std::string, RocksReader::Standing>;

  explicit RecentEntries(std::size_t max_entries) : max_entries_(max_entries) {}

  // Null: not known here.
  std::optional<RocksReader::Standing> Find(const std::string& key) const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return std::nullopt;
    return found->second;
  }

  void Forget(const Standings& batch) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    for (const auto& [key, standing] : batch) entries_.erase(key);
  }

  void Remember(const Standings& batch) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    for (const auto& [key, standing] : batch) {
      if (standing.revision == 0) continue;
      entries_.insert_or_assign(key, standing);
      order_.emplace_back(standing.revision, key);
    }
    while (order_.size() > max_entries_) {
      const auto& [revision, key] = order_.front();
      const auto found = entries_.find(key);
      // Written again since: then it is further behind as well.
      if (found != entries_.end() && found->second.revision == revision) entries_.erase(found);
      order_.pop_front();
    }
  }

  void Clear() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    entries_.clear();
    order_.clear();
  }

 private:
  const std::size_t max_entries_;

  mutable Mutex mu_;  // a leaf
  Standings entries_ GUARDED_BY(mu_);
  // What was remembered, oldest first.
  std::deque<std::pair<Revision, std::string>> order_ GUARDED_BY(mu_);
};

}  // namespace herald::store
