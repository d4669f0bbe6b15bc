#include "api/patch/list_order.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "api/patch/directives.h"
#include "api/patch/merge_errors.h"

namespace herald::strategic {
namespace {

// Every element needs its merge key.
Status CheckKeys(const Json::Array& list, std::string_view key) {
  for (const Json& element : list) {
    if (!element.is_object()) return NotAMap(element);
    if (element.Find(key) == nullptr) return NoMergeKey(element, key);
  }
  return Status();
}

bool HasContainer(const Json::Array& list) {
  return std::any_of(list.begin(), list.end(), [](const Json& j) { return j.is_container(); });
}

}  // namespace

std::string Identity(const Json& scalar) {
  switch (scalar.type()) {
    case Json::Type::kString:
      return "s" + scalar.AsString();
    case Json::Type::kNumber: {
      const Json::Number number = scalar.AsNumber();
      const auto* const real = std::get_if<double>(&number);
      if (real != nullptr && *real == 0) return "d0";  // also for -0
      std::string text(real != nullptr ? "d" : "i");
      AppendJson(scalar, &text);
      return text;
    }
    default:
      return std::string(scalar.text());
  }
}

Status ElementIdentity(const Json& element, std::string_view key, std::string* identity) {
  const Json* scalar = &element;
  if (!key.empty()) {
    if (!element.is_object()) return NotAMap(element);
    scalar = element.Find(key);
    if (scalar == nullptr) return NoMergeKey(element, key);
  }
  if (scalar->is_container()) return Crash();
  *identity = Identity(*scalar);
  return Status();
}

Positions::Positions(const Json::Array& list, std::string_view key) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::string identity;
    if (ElementIdentity(list[i], key, &identity).ok()) {
      by_identity_.try_emplace(std::move(identity), i);
    }
    if (!list[i].is_object() && first_scalar_ == kNone) first_scalar_ = i;
  }
}

Status ListOrder::Split(Json::Array* merged) {
  // Without a key Go hashes the elements, and panics if one is a list or a map.
  if (key_.empty() && (HasContainer(patch_order_) || HasContainer(*merged))) return Crash();
  for (Json& element : *merged) {
    Item item;
    if (Status s = ElementIdentity(element, key_, &item.identity); !s.ok()) return s;
    const std::size_t position = in_patch_.Find(item.identity);
    if (!key_.empty() && in_patch_.first_scalar() < position) {
      return PlainError("value for key " + std::to_string(in_patch_.first_scalar()) +
                        " is not a map");
    }
    const bool is_ours = position != Positions::kNone;
    item.position = is_ours ? position : on_server_.Find(item.identity);
    item.arrival = ours_.size() + theirs_.size();
    item.json = std::move(element);
    (is_ours ? ours_ : theirs_).push_back(std::move(item));
  }
  merged->clear();
  return Status();
}

Status ListOrder::Interleave(bool objects, Json::Array* merged) {
  if (objects) {
    if (Status s = CheckKeys(patch_order_, key_); !s.ok()) return s;
    if (Status s = CheckKeys(server_order_, key_); !s.ok()) return s;
  }
  Sort(&ours_);
  Sort(&theirs_);
  auto mine = ours_.begin();
  auto other = theirs_.begin();
  while (mine != ours_.end() || other != theirs_.end()) {
    bool take_other = mine == ours_.end();
    if (mine != ours_.end() && other != theirs_.end()) {
      const std::size_t there = on_server_.Find(mine->identity);
      take_other = there != Positions::kNone && on_server_.Find(other->identity) < there;
    }
    merged->push_back(std::move(take_other ? (other++)->json : (mine++)->json));
  }
  return Status();
}

void ListOrder::Sort(std::vector<Item>* items) {
  constexpr std::size_t kInsertionSorted = 20;
  if (items->size() > kInsertionSorted) {
    std::sort(items->begin(), items->end(), [](const Item& a, const Item& b) {
      return std::tie(a.position, a.arrival) < std::tie(b.position, b.arrival);
    });
    return;
  }
  const auto unknown = [](const Item& item) { return item.position == Positions::kNone; };
  for (std::size_t i = 1; i < items->size(); ++i) {
    for (std::size_t j = i; j > 0; --j) {
      Item& left = (*items)[j - 1];
      Item& right = (*items)[j];
      if (!unknown(left) && !unknown(right) && left.position <= right.position) break;
      std::swap(left, right);
    }
  }
}

Status CheckOrder(const Json& patch_list, const Json& order, std::string_view key) {
  if (patch_list.array().empty() || order.array().empty()) return Status();
  std::vector<const Json*> kept;
  for (const Json& element : patch_list.array()) {
    if (!key.empty()) {
      if (!element.is_object()) return NotAMap(element);
      const Json* const directive = element.Find(kDirective);
      if (directive != nullptr && IsString(*directive, "delete")) continue;
    }
    kept.push_back(&element);
  }
  std::size_t next = 0;
  std::size_t i = 0;
  // The identity of the element `next`, kept because it may be long and is compared with many
  // others.
  std::optional<std::string> identity;
  while (next < kept.size() && i < order.array().size()) {
    if (kept[next]->Find(kDirective) != nullptr) {
      ++next;
      continue;
    }
    const Json& wanted = order.array()[i];
    const Json* left = kept[next];
    const Json* right = &wanted;
    if (!key.empty()) {
      if (!right->is_object()) return NotAMap(*right);
      left = left->Find(key);
      right = right->Find(key);
      if (left == nullptr) return NoMergeKey(*kept[next], key);
      if (right == nullptr) return NoMergeKey(wanted, key);
    }
    if (left->is_container() && left->type() == right->type()) return Crash();
    if (!left->is_container() && left->type() == right->type()) {
      if (!identity) identity = Identity(*left);
      if (*identity == Identity(*right)) {
        identity.reset();
        ++next;
      }
    }
    ++i;
  }
  if (next == kept.size()) return Status();
  return PlainError("The order in patch list:\n" + GoText(patch_list) + "\n doesn't match " +
                    std::string(kSetOrder) + " list:\n" + GoText(order) + "\n");
}

Status Reorder(Json::Array* merged, const Json::Array& patch_order, const Json::Array& server_order,
               std::string_view key, bool objects) {
  ListOrder order(patch_order, server_order, key);
  if (Status s = order.Split(merged); !s.ok()) return s;
  return order.Interleave(objects, merged);
}

}  // namespace herald::strategic
