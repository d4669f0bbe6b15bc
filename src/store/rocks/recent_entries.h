#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "store/rocks/reader.h"
#include "store/store.h"

namespace herald::store {

// RecentEntries remembers the state of the keys that were written last. A crash-looping
// pod's event is written every few seconds, and each time it is read first and looked at
// once more by the committer: lookups in RocksDB, which are most of what that costs. A list
// finds here what it would else have to find among many old versions.
//
// It never knows an older state than RocksDB, because the committer alone fills it:
//
//   Forget() the keys of a batch  ->  the batch is written  ->  Remember() them
//
// In between they are read from RocksDB.
//
// Thread-safe.
class RecentEntries {
 public:
  // By key. Of those that do not exist any more the revision is 0.
  using Standings = std::unordered_map<std::string, RocksReader::Standing>;

  struct Limits {
    std::size_t created = 0;    // keys that were written once
    std::size_t rewritten = 0;  // others
    std::size_t bytes = 0;      // of keys and values, all together
  };

  explicit RecentEntries(Limits limits) : limits_(limits) {}

  // Null: not known here.
  std::optional<RocksReader::Standing> Find(const std::string& key) const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return FindLocked(key);
  }

  // The same of many, in their order. Looked up one right after the other they cost half as much,
  // because the processor waits for several places in memory at once.
  std::vector<std::optional<RocksReader::Standing>> Find(const std::vector<Entry>& keys) const
      EXCLUDES(mu_) {
    std::vector<std::optional<RocksReader::Standing>> standings;
    standings.reserve(keys.size());
    MutexLock lock(mu_);
    for (const Entry& entry : keys) standings.push_back(FindLocked(entry.key));
    return standings;
  }

  void Forget(const Standings& batch) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    for (const auto& [key, standing] : batch) Erase(entries_.find(key));
  }

  void Remember(const Standings& batch) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    for (const auto& [key, standing] : batch) {
      if (standing.revision == 0) continue;
      Erase(entries_.find(key));
      Order& order = standing.created == standing.revision ? created_ : rewritten_;
      order.emplace_back(standing.revision, key);
      entries_.emplace(order.back().second, standing);
      bytes_ += BytesOf(key, standing);
    }
    while (created_.size() > limits_.created) DropOldest(created_);
    while (rewritten_.size() > limits_.rewritten) DropOldest(rewritten_);
    while (bytes_ > limits_.bytes) DropOldest(created_.empty() ? rewritten_ : created_);
  }

  void Clear() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    entries_.clear();
    created_.clear();
    rewritten_.clear();
    bytes_ = 0;
  }

 private:
  // What was remembered, oldest first.
  using Order = std::deque<std::pair<Revision, std::string>>;

  // The keys are those in the order that the entry was remembered with.
  using Entries = std::unordered_map<std::string_view, RocksReader::Standing>;

  static std::size_t BytesOf(std::string_view key, const RocksReader::Standing& standing) {
    return key.size() + standing.value->size();
  }
  std::optional<RocksReader::Standing> FindLocked(std::string_view key) const REQUIRES(mu_) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return std::nullopt;
    return found->second;
  }
  void Erase(Entries::iterator found) REQUIRES(mu_) {
    if (found == entries_.end()) return;
    bytes_ -= BytesOf(found->first, found->second);
    entries_.erase(found);
  }
  void DropOldest(Order& order) REQUIRES(mu_) {
    const auto& [revision, key] = order.front();
    const auto found = entries_.find(key);
    // Written again since: then it is further behind as well.
    if (found != entries_.end() && found->second.revision == revision) Erase(found);
    order.pop_front();
  }

  const Limits limits_;

  mutable Mutex mu_;  // a leaf
  Order created_ GUARDED_BY(mu_);
  Order rewritten_ GUARDED_BY(mu_);
  Entries entries_ GUARDED_BY(mu_);
  std::size_t bytes_ GUARDED_BY(mu_) = 0;
};

}  // namespace herald::store
