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
#include "store/rocks/key_state.h"
#include "store/store.h"

namespace herald::store {

// RecentEntries caches the states of the keys that were written last. A crash-looping pod's event
// is written every few seconds. Each time the client reads it first, and the committer reads it
// once more; lookups in RocksDB would be most of that cost. A list finds here what it would
// otherwise have to find among many old versions.
//
// It never has an older state than RocksDB, because only the committer fills it:
//
//   Forget() the keys of a batch  ->  write the batch  ->  Remember() them
//
// In between they are read from RocksDB. Deleted keys are not remembered.
//
// Thread-safe.
class RecentEntries {
 public:
  struct Limits {
    std::size_t created = 0;    // number of keys that were written once
    std::size_t rewritten = 0;  // number of other keys
    std::size_t bytes = 0;      // total size of keys and values
  };

  explicit RecentEntries(Limits limits) : limits_(limits) {}

  // Nothing if it is not in the cache.
  std::optional<KeyState> Find(const std::string& key) const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return FindLocked(key);
  }

  // The same for many keys, in their order. It costs half as much as single calls, because the
  // processor waits for several places in memory at once.
  std::vector<std::optional<KeyState>> Find(const std::vector<Entry>& keys) const EXCLUDES(mu_) {
    std::vector<std::optional<KeyState>> states;
    states.reserve(keys.size());
    MutexLock lock(mu_);
    for (const Entry& entry : keys) states.push_back(FindLocked(entry.key));
    return states;
  }

  void Forget(const KeyStates& batch) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    for (const auto& [key, state] : batch) Erase(entries_.find(key));
  }

  void Remember(const KeyStates& batch) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    for (const auto& [key, state] : batch) {
      if (state.revision == 0) continue;
      Erase(entries_.find(key));
      Order& order = state.created == state.revision ? created_ : rewritten_;
      order.emplace_back(state.revision, key);
      entries_.emplace(order.back().second, state);
      bytes_ += BytesOf(key, state);
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
  // Revisions and keys, oldest first.
  using Order = std::deque<std::pair<Revision, std::string>>;

  // The keys point into the Order that the entry is in.
  using Entries = std::unordered_map<std::string_view, KeyState>;

  static std::size_t BytesOf(std::string_view key, const KeyState& state) {
    return key.size() + state.value->size();
  }
  std::optional<KeyState> FindLocked(std::string_view key) const REQUIRES(mu_) {
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
    // If it was written again since, it is also in an order at its new revision.
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
