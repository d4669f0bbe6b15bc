#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/string_hash.h"

namespace herald {

// The hash of an LruMap's keys.
template <typename Key>
struct LruHash : std::hash<Key> {};
template <>
struct LruHash<std::string> : StringHash {};

// An LruMap keeps the `capacity` most recently used entries. A new entry in a full map evicts the
// least recently used one.
//
// The correlators keep events in it (client-go's caches have 4096 entries,
// tools/record/events_cache.go). So all operations are O(1), an entry is one allocation, and a full
// map does not allocate: the node of the evicted entry becomes the node of the new one. With string
// keys, lookups take a string_view and do not allocate.
//
// The hash is not keyed: a client that chooses object names can make them collide. The capacity
// limits the cost.
//
// Pointers and references to values are valid until their entry is erased or evicted; an iterator
// is valid until its entry is erased, evicted or used.
//
// Thread-confined. Neither copied nor moved, because entries point to each other.
template <typename Key, typename Value, typename Hash = LruHash<Key>,
          typename Equal = std::equal_to<>>
class LruMap {
  struct Links;
  using Map = std::unordered_map<Key, Links, Hash, Equal>;
  using Node = std::pair<const Key, Links>;

  // The list is inside of the hash map's nodes, whose addresses do not change. So an entry is one
  // allocation.
  struct Links {
    Value value;
    Node* newer = nullptr;
    Node* older = nullptr;
  };

 public:
  struct Entry {
    const Key& key;
    Value& value;
  };

  // Iterates from the most to the least recently used entry. This does not count as a use.
  class Iterator {
   public:
    using value_type = Entry;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    Entry operator*() const { return {node_->first, node_->second.value}; }
    Iterator& operator++() {
      node_ = node_->second.older;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator&) const = default;

   private:
    friend class LruMap;
    explicit Iterator(Node* node) : node_(node) {}
    Node* node_ = nullptr;
  };

  // REQUIRES: capacity > 0
  explicit LruMap(std::size_t capacity) : capacity_(capacity) { HERALD_CHECK(capacity > 0); }
  LruMap(const LruMap&) = delete;
  LruMap& operator=(const LruMap&) = delete;

  // The value of a key, or null. Counts as a use.
  template <typename K>
  Value* Get(const K& key) {
    const auto it = map_.find(key);
    if (it == map_.end()) return nullptr;
    Touch(&*it);
    return &it->second.value;
  }

  // The same, but does not count as a use.
  template <typename K>
  const Value* Peek(const K& key) const {
    const auto it = map_.find(key);
    return it == map_.end() ? nullptr : &it->second.value;
  }

  // Inserts an entry or replaces its value. Counts as a use. Returns the entry that was evicted, if
  // any; a replaced value is not returned.
  template <typename K>
  std::optional<std::pair<Key, Value>> Put(K&& key, Value value) {
    const auto it = map_.find(key);
    if (it != map_.end()) {
      it->second.value = std::move(value);
      Touch(&*it);
      return std::nullopt;
    }
    if (map_.size() < capacity_) {
      const auto added =
          map_.emplace(std::forward<K>(key), Links{std::move(value), nullptr, nullptr}).first;
      PushNewest(&*added);
      return std::nullopt;
    }
    // First, because it may throw and because `key` may refer to the entry that is evicted.
    Key own_key(std::forward<K>(key));
    Unlinked unlinked = Unlink(oldest_);
    std::pair<Key, Value> evicted(std::move(unlinked.key()), std::move(unlinked.mapped().value));
    unlinked.key() = std::move(own_key);
    unlinked.mapped().value = std::move(value);
    PushNewest(&*map_.insert(std::move(unlinked)).position);
    return evicted;
  }

  // Returns whether there was such an entry.
  template <typename K>
  bool Erase(const K& key) {
    const auto it = map_.find(key);
    if (it == map_.end()) return false;
    Detach(&*it);
    map_.erase(it);
    return true;
  }

  void Clear() {
    map_.clear();
    newest_ = oldest_ = nullptr;
  }

  std::size_t size() const { return map_.size(); }
  std::size_t capacity() const { return capacity_; }

  Iterator begin() { return Iterator(newest_); }
  Iterator end() { return Iterator(); }

 private:
  using Unlinked = typename Map::node_type;

  // REQUIRES: node is in the list
  void Detach(Node* node) {
    Links& links = node->second;
    (links.newer != nullptr ? links.newer->second.older : newest_) = links.older;
    (links.older != nullptr ? links.older->second.newer : oldest_) = links.newer;
  }

  // REQUIRES: node is not in the list
  void PushNewest(Node* node) {
    node->second.newer = nullptr;
    node->second.older = newest_;
    (newest_ != nullptr ? newest_->second.newer : oldest_) = node;
    newest_ = node;
  }

  void Touch(Node* node) {
    if (node == newest_) return;
    Detach(node);
    PushNewest(node);
  }

  Unlinked Unlink(Node* node) {
    Detach(node);
    return map_.extract(map_.find(node->first));
  }

  const std::size_t capacity_;
  Map map_;
  Node* newest_ = nullptr;
  Node* oldest_ = nullptr;
};

}  // namespace herald
