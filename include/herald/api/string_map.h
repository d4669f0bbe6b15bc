#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "herald/api/rare.h"

namespace herald {

// A map of labels or annotations: a std::map that takes only a pointer while it is empty, as most
// are. Sorted, because both wire formats write them in this order. A lookup by string_view makes no
// copy. It has the members of std::map that Herald uses.
//
// A value: not synchronized.
class StringMap {
 public:
  using Map = std::map<std::string, std::string, std::less<>>;
  using key_type = Map::key_type;
  using mapped_type = Map::mapped_type;
  using value_type = Map::value_type;
  using iterator = Map::iterator;
  using const_iterator = Map::const_iterator;
  using const_reverse_iterator = Map::const_reverse_iterator;

  StringMap() = default;
  StringMap(std::initializer_list<value_type> entries)
      : StringMap(entries.begin(), entries.end()) {}
  template <typename Iterator>
  StringMap(Iterator first, Iterator last) {
    if (first != last) map_.emplace(first, last);
  }

  bool empty() const { return !map_ || map_->empty(); }
  std::size_t size() const { return map_ ? map_->size() : 0; }

  // While there is no map, all iterators are value-initialized, and so equal.
  iterator begin() { return map_ ? map_->begin() : iterator(); }
  iterator end() { return map_ ? map_->end() : iterator(); }
  const_iterator begin() const { return map_ ? map_->begin() : const_iterator(); }
  const_iterator end() const { return map_ ? map_->end() : const_iterator(); }
  const_reverse_iterator rbegin() const { return const_reverse_iterator(end()); }
  const_reverse_iterator rend() const { return const_reverse_iterator(begin()); }

  iterator find(std::string_view key) { return map_ ? map_->find(key) : end(); }
  const_iterator find(std::string_view key) const { return map_ ? map_->find(key) : end(); }
  bool contains(std::string_view key) const { return find(key) != end(); }
  std::size_t count(std::string_view key) const { return contains(key) ? 1 : 0; }

  std::string& operator[](std::string key) { return MutableMap()[std::move(key)]; }
  template <typename... Args>
  std::pair<iterator, bool> emplace(Args&&... args) {
    return MutableMap().emplace(std::forward<Args>(args)...);
  }
  std::pair<iterator, bool> insert_or_assign(std::string key, std::string value) {
    return MutableMap().insert_or_assign(std::move(key), std::move(value));
  }
  std::size_t erase(std::string_view key) {
    const iterator found = find(key);
    if (found == end()) return 0;
    map_->erase(found);
    return 1;
  }
  void clear() { map_.reset(); }

  friend bool operator==(const StringMap& a, const StringMap& b) {
    if (a.empty() || b.empty()) return a.empty() && b.empty();
    return *a.map_ == *b.map_;
  }

 private:
  Map& MutableMap() { return map_ ? *map_ : map_.emplace(); }

  Rare<Map> map_;
};

}  // namespace herald
