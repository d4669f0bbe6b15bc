#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/json/document.h"
#include "herald/base/status.h"

namespace herald::strategic {

// A string that is the same for two scalars if they are equal in Go.
std::string Identity(const Json& scalar);

// The identity of a list's element: that of its merge key's value, or its own if `key` is empty.
Status ElementIdentity(const Json& element, std::string_view key, std::string* identity);

// The positions of a list's elements, by identity. Among equal elements the first one counts.
// Thread-confined.
class Positions {
 public:
  // Elements without identity have no position.
  Positions(const Json::Array& list, std::string_view key);

  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  std::size_t Find(const std::string& identity) const {
    const auto it = by_identity_.find(identity);
    return it == by_identity_.end() ? kNone : it->second;
  }
  void Add(const std::string& identity, std::size_t position) {
    by_identity_.try_emplace(identity, position);
  }
  void Remove(const std::string& identity) { by_identity_.erase(identity); }

  std::size_t first_scalar() const { return first_scalar_; }

 private:
  // Not hashed: a client chooses the identities and could make their hashes collide.
  std::map<std::string, std::size_t> by_identity_;
  std::size_t first_scalar_ = kNone;
};

// Sorts a merged list. Elements that the patch names are in the patch's order and all others in
// the server's order. The two sequences are then merged: an element of the server goes first if it
// is before the patch's element on the server. Thread-confined, used once: Split(), then
// Interleave().
class ListOrder {
 public:
  ListOrder(const Json::Array& patch_order, const Json::Array& server_order, std::string_view key)
      : patch_order_(patch_order),
        server_order_(server_order),
        key_(key),
        in_patch_(patch_order, key),
        on_server_(server_order, key) {}

  // Moves the elements out of *merged into two sequences.
  Status Split(Json::Array* merged);

  // Moves them back in order. `objects`: whether the elements are objects.
  Status Interleave(bool objects, Json::Array* merged);

 private:
  struct Item {
    std::string identity;
    std::size_t position = 0;  // in the patch's or in the server's order
    std::size_t arrival = 0;   // in the merged list
    Json json;
  };

  // With an empty $setElementOrder, new elements have no position. Upstream's comparison then
  // returns "less" in both directions, and the result depends on its sort algorithm: insertion sort
  // for up to 20 elements, which we do, too. In longer lists we put elements without position at
  // the end.
  static void Sort(std::vector<Item>* items);

  const Json::Array& patch_order_;
  const Json::Array& server_order_;
  const std::string_view key_;
  const Positions in_patch_;
  const Positions on_server_;
  std::vector<Item> ours_, theirs_;
};

// Whether the elements of a patch's list have the order that the patch's $setElementOrder asks for.
Status CheckOrder(const Json& patch_list, const Json& order, std::string_view key);

// Sorts *merged in one step. `objects`: whether the elements are objects.
Status Reorder(Json::Array* merged, const Json::Array& patch_order, const Json::Array& server_order,
               std::string_view key, bool objects);

}  // namespace herald::strategic
