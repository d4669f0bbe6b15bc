#include "api/patch/strategic_merge.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "api/fields.h"
#include "api/quote.h"

namespace herald {
namespace {

constexpr std::string_view kDirective = "$patch";
constexpr std::string_view kRetainKeys = "$retainKeys";
constexpr std::string_view kDeleteFrom = "$deleteFromPrimitiveList";
constexpr std::string_view kSetOrder = "$setElementOrder";

// What the merge has to know of a Go type: enough to find the type of a member, and
// Go's words for the complaint if there is none.
struct MergeType {
  enum class Kind : std::uint8_t { kStruct, kMap, kList, kPointer, kScalar };
  struct Member {
    std::string_view name;
    const MergeType* type;
  };
  Kind kind = Kind::kScalar;
  std::string_view go_name = {};
  std::span<const Member> members = {};
  const MergeType* element = nullptr;  // of a list or a pointer
};

template <typename T, EventApi kApi>
struct TypeOf {
  static constexpr MergeType kType = {};
};

template <EventApi kApi>
struct TypeOf<StringMap, kApi> {
  static constexpr MergeType kType = {.kind = MergeType::Kind::kMap};
};

template <typename T, EventApi kApi>
struct TypeOf<std::vector<T>, kApi> {
  static constexpr MergeType kType = {.kind = MergeType::Kind::kList,
                                      .element = &TypeOf<T, kApi>::kType};
};

template <typename T, EventApi kApi>
  requires kMayBeAbsent<T>
struct TypeOf<T, kApi> {
  static constexpr MergeType kType = {.kind = MergeType::Kind::kPointer,
                                      .element = &TypeOf<typename T::value_type, kApi>::kType};
};

template <typename T, EventApi kApi>
  requires requires { Schema<T, kApi>::kGoName; }
struct TypeOf<T, kApi> {
  static constexpr auto kMembers = std::apply(
      [](const auto&... field) {
        return std::array{MergeType::Member{
            field.json,
            &TypeOf<typename std::remove_cvref_t<decltype(field)>::MemberType, kApi>::kType}...};
      },
      Schema<T, kApi>::kFields);
  static constexpr MergeType kType = {
      .kind = MergeType::Kind::kStruct, .go_name = Schema<T, kApi>::kGoName, .members = kMembers};
};

// The lists of an event that are merged. All others are replaced.
struct ListRule {
  std::string_view owner;
  std::string_view list;
  std::string_view key;  // the member that tells elements apart; empty: the element itself
};
constexpr ListRule kMergedLists[] = {
    {"ObjectMeta", "ownerReferences", "uid"},
    {"ObjectMeta", "finalizers", ""},
};

Status Refusal(std::string message) { return Status(StatusReason::kUnknown, std::move(message)); }

Status BadFormat(std::string_view what) {
  return Status(StatusReason::kBadRequest, "invalid patch format of " + std::string(what));
}

// Kubernetes compares or hashes what Go cannot compare, and its handler dies of it.
Status Crash() {
  return Status(StatusReason::kInternalError,
                "Internal error occurred: this patch crashes the Kubernetes API server");
}

std::string GoText(const Json& json) {
  std::string text;
  AppendGoText(json, 'v', &text);
  return text;
}

std::string_view GoTypeName(const Json& json) {
  switch (json.type()) {
    case Json::Type::kBool:
      return "bool";
    case Json::Type::kNumber:
      return std::holds_alternative<double>(json.AsNumber()) ? "float64" : "int64";
    case Json::Type::kString:
      return "string";
    case Json::Type::kArray:
      return "[]interface {}";
    case Json::Type::kObject:
      return "map[string]interface {}";
    case Json::Type::kNull:
      break;
  }
  return "%!s(<nil>)";
}

Status WrongArgument(std::string_view expected, const Json& actual) {
  return Refusal("expected a " + std::string(expected) + ", but received a " +
                 std::string(GoTypeName(actual)));
}
Status NotAList(const Json& actual) { return WrongArgument("[]interface {}", actual); }
Status NotAMap(const Json& actual) { return WrongArgument("map[string]interface {}", actual); }

Status NoMergeKey(const Json& map, std::string_view key) {
  return Refusal("map: " + GoText(map) +
                 " does not contain declared merge key: " + std::string(key));
}

Status UnknownDirective(const Json& directive, const Json& map) {
  std::string message = "unknown patch type: ";
  AppendGoText(directive, 's', &message);
  return Refusal(message + " in map: " + GoText(map));
}

bool IsText(const Json& json, std::string_view text) {
  return json.type() == Json::Type::kString && json.AsString() == text;
}

// Two scalars have the same identity if Go calls them equal.
std::string Identity(const Json& scalar) {
  switch (scalar.type()) {
    case Json::Type::kString:
      return "s" + scalar.AsString();
    case Json::Type::kNumber: {
      const Json::Number number = scalar.AsNumber();
      const auto* const real = std::get_if<double>(&number);
      if (real != nullptr && *real == 0) return "d0";  // which is equal to -0
      std::string text(real != nullptr ? "d" : "i");
      AppendJson(scalar, &text);
      return text;
    }
    default:
      return std::string(scalar.text());
  }
}

// What follows "prefix/" in a directive's name.
std::optional<std::string> ListName(std::string_view directive, std::string_view prefix) {
  const std::size_t slash = directive.find('/');
  if (slash == std::string_view::npos || directive.substr(0, slash) != prefix) return std::nullopt;
  return std::string(directive.substr(slash + 1));
}

bool EqualFold(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [lower](char x, char y) { return lower(x) == lower(y); });
}

// How a list is merged.
struct ListStrategy {
  bool merges = false;
  std::string_view key = {};
  const MergeType* element = nullptr;
};

// The type of a member. Names are compared as Go's decoder once did: in any case,
// if none fits exactly.
Status FindMember(const MergeType& type, std::string_view name, const MergeType::Member** found) {
  const MergeType& owner = type.kind == MergeType::Kind::kPointer ? *type.element : type;
  if (owner.kind != MergeType::Kind::kStruct) {
    const std::string_view kind = owner.kind == MergeType::Kind::kMap    ? "map"
                                  : owner.kind == MergeType::Kind::kList ? "slice"
                                                                         : "string";
    return Refusal("merging an object in json but data type is not struct, instead is: " +
                   std::string(kind));
  }
  *found = nullptr;
  for (const MergeType::Member& member : owner.members) {
    if (member.name == name) {
      *found = &member;
      return Status();
    }
    if (*found == nullptr && EqualFold(member.name, name)) *found = &member;
  }
  if (*found != nullptr) return Status();
  return Refusal("unable to find api field in struct " + std::string(owner.go_name) +
                 " for the json field " + Quoted(name));
}

Status FindList(const MergeType& type, std::string_view name, ListStrategy* strategy) {
  const MergeType::Member* member = nullptr;
  if (Status status = FindMember(type, name, &member); !status.ok()) return status;
  const MergeType::Kind kind = member->type->kind;
  if (kind != MergeType::Kind::kList && kind != MergeType::Kind::kPointer) {
    return Refusal("expected slice or array type, but got: struct");
  }
  strategy->element = member->type->element;
  const MergeType& owner = type.kind == MergeType::Kind::kPointer ? *type.element : type;
  for (const ListRule& rule : kMergedLists) {
    if (rule.owner == owner.go_name && rule.list == member->name) {
      strategy->merges = true;
      strategy->key = rule.key;
    }
  }
  return Status();
}

// Removes objects that are directives, at every level below `json`, which is none.
void RemoveDirectives(Json* json) {
  const auto is_directive = [](const Json& value) { return value.Find(kDirective) != nullptr; };
  std::vector<Json*> pending = {json};
  while (!pending.empty()) {
    Json* const next = pending.back();
    pending.pop_back();
    if (next->is_object()) {
      Json::Object& members = next->mutable_object();
      std::erase_if(members, [&](const auto& member) { return is_directive(member.second); });
      for (auto& [key, value] : members) pending.push_back(&value);
    } else if (next->is_array()) {
      Json::Array& elements = next->mutable_array();
      std::erase_if(elements, is_directive);
      for (Json& element : elements) pending.push_back(&element);
    }
  }
}

// A patch's value as it becomes part of a document that has nothing in its place;
// nothing if it is a directive itself.
std::optional<Json> NewValue(Json* patch_value) {
  DiscardNulls(patch_value);
  if (patch_value->Find(kDirective) != nullptr) return std::nullopt;
  if (patch_value->is_object()) RemoveDirectives(patch_value);
  Json value = patch_value->Clone();
  RemoveDirectives(&value);
  return value;
}

// Whether the elements of both lists are objects. They must be of one type, and no
// lists themselves.
Status HasObjects(const Json::Array& original, const Json::Array& patch, bool* objects) {
  const Json* first = nullptr;
  std::string_view type;  // of the first; reading a number takes as long as the number is
  for (const Json::Array* list : {&original, &patch}) {
    for (const Json& element : *list) {
      if (first == nullptr) {
        if (element.is_null()) return Crash();
        if (element.is_array()) {
          return Status(StatusReason::kInvalid, "lists of lists are not supported");
        }
        first = &element;
        type = GoTypeName(element);
      } else if (type != GoTypeName(element)) {
        std::string message = "list element types are not identical: [";
        const auto append = [&message](const Json::Array& elements) {
          message.push_back('[');
          for (std::size_t i = 0; i < elements.size(); ++i) {
            if (i != 0) message.push_back(' ');
            AppendGoText(elements[i], 'v', &message);
          }
          message.push_back(']');
        };
        append(original);
        message.push_back(' ');
        append(patch);
        return Refusal(message + "]");
      }
    }
  }
  if (first == nullptr) return Refusal("no elements in any of the given slices");
  *objects = first->is_object();
  return Status();
}

// What tells an element apart from others: its merge key's value, or itself.
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

// Where elements stand in a list, by identity. Of elements that are alike the first
// one counts.
class Positions {
 public:
  // Elements without identity have no position.
  Positions(const Json::Array& list, std::string_view key) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      std::string identity;
      if (ElementIdentity(list[i], key, &identity).ok()) {
        by_identity_.try_emplace(std::move(identity), i);
      }
      if (!list[i].is_object() && first_scalar_ == kNone) first_scalar_ = i;
    }
  }

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
  // Sorted: a client chooses the identities, and could choose some with one hash.
  std::map<std::string, std::size_t> by_identity_;
  std::size_t first_scalar_ = kNone;
};

// Every element needs its merge key.
Status CheckKeys(const Json::Array& list, std::string_view key) {
  for (const Json& element : list) {
    if (!element.is_object()) return NotAMap(element);
    if (element.Find(key) == nullptr) return NoMergeKey(element, key);
  }
  return Status();
}

// A merged list on its way into order: what the patch speaks of goes as the patch has
// it, the rest as the server has it, and both are woven together so that the
// server's order holds wherever it says something.
class ListOrder {
 public:
  ListOrder(const Json::Array& patch_order, const Json::Array& server_order, std::string_view key)
      : patch_order_(patch_order),
        server_order_(server_order),
        key_(key),
        in_patch_(patch_order, key),
        on_server_(server_order, key) {}

  // Takes the elements out of *merged.
  Status Split(Json::Array* merged) {
    // Go hashes elements that have no key, which it cannot do with lists and maps.
    if (key_.empty() && (HasContainer(patch_order_) || HasContainer(*merged))) return Crash();
    for (Json& element : *merged) {
      Item item;
      if (Status s = ElementIdentity(element, key_, &item.identity); !s.ok()) return s;
      const std::size_t position = in_patch_.Find(item.identity);
      if (!key_.empty() && in_patch_.first_scalar() < position) {
        return Refusal("value for key " + std::to_string(in_patch_.first_scalar()) +
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

  // Puts them back, in order. `objects` is what HasObjects() found.
  Status Weave(bool objects, Json::Array* merged) {
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

 private:
  struct Item {
    std::string identity;
    std::size_t position = 0;  // in the order that counts for it
    std::size_t arrival = 0;   // in the list as it was merged
    Json json;
  };

  // Only an empty $setElementOrder leaves elements that are new without a position.
  // Upstream's comparison then says "before" both ways round, and what its sort makes
  // of that depends on the algorithm: insertion, up to 20 elements. Of more than that
  // those without position go last.
  static void Sort(std::vector<Item>* items) {
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

  static bool HasContainer(const Json::Array& list) {
    return std::any_of(list.begin(), list.end(), [](const Json& j) { return j.is_container(); });
  }

  const Json::Array& patch_order_;
  const Json::Array& server_order_;
  const std::string_view key_;
  const Positions in_patch_;
  const Positions on_server_;
  std::vector<Item> ours_, theirs_;
};

// Whether the patch's list agrees with the order that the patch asks for.
Status CheckOrder(const Json& patch_list, const Json& order, std::string_view key) {
  if (patch_list.array().empty() || order.array().empty()) return Status();
  std::vector<const Json*> kept;
  for (const Json& element : patch_list.array()) {
    if (!key.empty()) {
      if (!element.is_object()) return NotAMap(element);
      const Json* const directive = element.Find(kDirective);
      if (directive != nullptr && IsText(*directive, "delete")) continue;
    }
    kept.push_back(&element);
  }
  std::size_t next = 0;
  std::size_t i = 0;
  // Of the element that is `next`: it is compared with many, and may be long.
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
  return Refusal("The order in patch list:\n" + GoText(patch_list) + "\n doesn't match " +
                 std::string(kSetOrder) + " list:\n" + GoText(order) + "\n");
}

Status Reorder(Json::Array* merged, const Json::Array& patch_order, const Json::Array& server_order,
               std::string_view key, bool objects) {
  ListOrder order(patch_order, server_order, key);
  if (Status s = order.Split(merged); !s.ok()) return s;
  return order.Weave(objects, merged);
}

Status MergeMap(Json* original, Json* patch, const MergeType& type);

// A set: what is in either list, once.
void MergeScalars(const Json::Array& original, const Json::Array& patch, Json::Array* merged) {
  std::set<std::string> seen;
  for (const Json::Array* list : {&original, &patch}) {
    for (const Json& element : *list) {
      if (seen.insert(Identity(element)).second) merged->push_back(element.Clone());
    }
  }
}

void DeleteScalars(const Json::Array& original, const Json::Array& doomed, Json::Array* merged) {
  std::set<std::string> identities;
  for (const Json& element : doomed) identities.insert(Identity(element));
  for (const Json& element : original) {
    if (!identities.contains(Identity(element))) merged->push_back(element.Clone());
  }
}

// Obeys the directives among the elements of a patch: some elements of the original
// go, and `plain` receives those of the patch that are left to merge.
Status ObeyElements(Json::Array* original, Json::Array* patch, std::string_view key,
                    std::vector<Json*>* plain, bool* replace) {
  std::set<std::string> deleted;
  for (Json& element : *patch) {
    const Json* const directive = element.Find(kDirective);
    if (directive == nullptr) {
      plain->push_back(&element);
    } else if (IsText(*directive, "delete")) {
      const Json* const value = element.Find(key);
      if (value == nullptr) return NoMergeKey(element, key);
      // A list or a map is no element's key, so there is nothing to delete.
      if (!value->is_container()) deleted.insert(Identity(*value));
    } else if (IsText(*directive, "replace")) {
      *replace = true;
    } else if (IsText(*directive, "merge")) {
      return Refusal("merging lists cannot yet be specified in the patch");
    } else {
      return UnknownDirective(*directive, element);
    }
  }
  std::erase_if(*original, [&](const Json& element) {
    std::string identity;
    return ElementIdentity(element, key, &identity).ok() && deleted.contains(identity);
  });
  return Status();
}

// Merges elements with the same key, and appends those that are new.
Status MergeElements(const std::vector<Json*>& patch, const ListStrategy& strategy,
                     Json::Array* original) {
  Positions positions(*original, strategy.key);
  for (Json* element : patch) {
    const Json* const value = element->Find(strategy.key);
    if (value == nullptr) return NoMergeKey(*element, strategy.key);
    if (value->is_container()) {
      // Like no other, until the list is put in order and the server crashes.
      original->push_back(element->Clone());
      continue;
    }
    const std::string identity = Identity(*value);
    const std::size_t position = positions.Find(identity);
    if (position == Positions::kNone) {
      positions.Add(identity, original->size());
      original->push_back(element->Clone());
      continue;
    }
    Json& target = (*original)[position];
    if (Status s = MergeMap(&target, element, *strategy.element); !s.ok()) return s;
    // A null as key removes the key it was merged by.
    if (target.Find(strategy.key) == nullptr) positions.Remove(identity);
  }
  return Status();
}

// Merges a list into *original. `server_order` receives what the original has become
// before anything was added to it.
Status MergeList(Json::Array* original, Json::Array* patch, const ListStrategy& strategy,
                 bool is_delete_list, Json::Array* server_order) {
  if (original->empty() && patch->empty()) return Status();
  bool objects = false;
  if (Status s = HasObjects(*original, *patch, &objects); !s.ok()) return s;

  const auto clone = [](const Json::Array& from, Json::Array* to) {
    for (const Json& element : from) to->push_back(element.Clone());
  };
  Json::Array merged;
  if (!objects) {
    if (is_delete_list) {
      DeleteScalars(*original, *patch, &merged);
      *original = std::move(merged);
      return Status();
    }
    MergeScalars(*original, *patch, &merged);
    clone(*original, server_order);
    if (Status s = Reorder(&merged, *patch, *original, strategy.key, objects); !s.ok()) return s;
    *original = std::move(merged);
    return Status();
  }

  if (strategy.key.empty()) {
    const bool is_struct = strategy.element->kind == MergeType::Kind::kStruct;
    return Refusal(std::string("cannot merge lists without merge key for ") +
                   (is_struct ? "struct" : "string"));
  }
  bool replace = false;
  std::vector<Json*> plain;
  if (Status s = ObeyElements(original, patch, strategy.key, &plain, &replace); !s.ok()) return s;
  clone(*original, server_order);
  Json::Array added;
  if (replace) {
    for (const Json* element : plain) merged.push_back(element->Clone());
    clone(merged, &added);
    const Json::Array nothing;
    if (Status s = Reorder(&merged, nothing, added, strategy.key, objects); !s.ok()) return s;
  } else {
    for (const Json* element : plain) added.push_back(element->Clone());
    merged = std::move(*original);
    if (Status s = MergeElements(plain, strategy, &merged); !s.ok()) return s;
    if (Status s = Reorder(&merged, added, *server_order, strategy.key, objects); !s.ok()) return s;
  }
  *original = std::move(merged);
  return Status();
}

Status ApplyRetainKeys(Json* original, Json* patch) {
  Json::Object& members = patch->mutable_object();
  const auto it = members.find(kRetainKeys);
  if (it == members.end()) return Status();
  const Json list = std::move(it->second);
  members.erase(it);
  if (!list.is_array()) return BadFormat("retainKeys");
  std::set<std::string, std::less<>> retained;
  for (const Json& key : list.array()) {
    if (key.is_container()) return Crash();
    if (key.type() == Json::Type::kString) retained.insert(key.AsString());
  }
  for (const auto& [key, value] : members) {
    const bool exempt =
        value.is_null() || key.starts_with(kDeleteFrom) || key.starts_with(kSetOrder);
    if (!exempt && !retained.contains(key)) return BadFormat("retainKeys");
  }
  std::erase_if(original->mutable_object(),
                [&](const auto& member) { return !retained.contains(member.first); });
  return Status();
}

// Obeys one $setElementOrder, together with the patch's list that it speaks of.
Status ApplyOrder(const std::string& directive, Json* original, Json* patch,
                  const MergeType& type) {
  Json::Object& changes = patch->mutable_object();
  const Json order = std::move(changes.find(directive)->second);
  changes.erase(directive);
  if (!order.is_array()) return NotAList(order);
  const std::optional<std::string> name = ListName(directive, kSetOrder);
  if (!name) return BadFormat("setElementOrder list");

  Json::Object& members = original->mutable_object();
  const auto found = members.find(*name);
  const auto change = changes.find(*name);
  if (found != members.end() && !found->second.is_array()) return NotAList(found->second);
  if (change != changes.end() && !change->second.is_array()) return NotAList(change->second);
  ListStrategy strategy;
  if (Status s = FindList(type, *name, &strategy); !s.ok()) return s;
  if (change != changes.end()) {
    if (Status s = CheckOrder(change->second, order, strategy.key); !s.ok()) return s;
  } else if (found == members.end()) {
    return Status();
  }

  const Json empty{Json::Array()};
  const Json was = found != members.end() ? found->second.Clone() : empty.Clone();
  const Json wish = change != changes.end() ? change->second.Clone() : empty.Clone();
  Json::Array merged, server_order;
  for (const Json& element : was.array()) server_order.push_back(element.Clone());
  if (found == members.end()) {
    RemoveDirectives(&change->second);
    merged = std::move(change->second.mutable_array());
  } else if (change == changes.end()) {
    merged = std::move(found->second.mutable_array());
  } else if (!strategy.merges) {
    merged = std::move(change->second.mutable_array());
  } else {
    merged = std::move(found->second.mutable_array());
    server_order.clear();
    if (Status s =
            MergeList(&merged, &change->second.mutable_array(), strategy, false, &server_order);
        !s.ok()) {
      return s;
    }
  }
  ListOrder list_order(order.array(), server_order, strategy.key);
  if (Status s = list_order.Split(&merged); !s.ok()) return s;
  bool objects = false;
  if (Status s = HasObjects(was.array(), wish.array(), &objects); !s.ok()) return s;
  if (Status s = list_order.Weave(objects, &merged); !s.ok()) return s;
  members.insert_or_assign(*name, Json(std::move(merged)));
  if (change != changes.end()) changes.erase(change);
  return Status();
}

// Merges one member of a patch into an object that has it already.
Status MergeMember(const std::string& name, Json* value, Json* change, bool is_delete_list,
                   const MergeType& type, bool* keep) {
  if (value->is_object() && change->is_object()) {
    const MergeType::Member* member = nullptr;
    if (Status s = FindMember(type, name, &member); !s.ok()) return s;
    return MergeMap(value, change, *member->type);
  }
  if (value->is_array() && change->is_array()) {
    ListStrategy strategy;
    if (Status s = FindList(type, name, &strategy); !s.ok()) return s;
    if (strategy.merges || is_delete_list) {
      Json::Array server_order;
      return MergeList(&value->mutable_array(), &change->mutable_array(), strategy, is_delete_list,
                       &server_order);
    }
    *value = change->Clone();
    return Status();
  }
  if (is_delete_list && GoTypeName(*value) != GoTypeName(*change)) return Status();
  std::optional<Json> replacement = NewValue(change);
  *keep = replacement.has_value();
  if (replacement) *value = *std::move(replacement);
  return Status();
}

// Recurses only where the type does, a few levels at most.
Status MergeMap(Json* original, Json* patch, const MergeType& type) {
  if (const Json* directive = patch->Find(kDirective)) {
    if (IsText(*directive, "replace")) {
      patch->mutable_object().erase(patch->mutable_object().find(kDirective));
      *original = patch->Clone();
      return Status();
    }
    if (IsText(*directive, "delete")) {
      *original = Json(Json::Object());
      return Status();
    }
    return UnknownDirective(*directive, *patch);
  }
  if (Status s = ApplyRetainKeys(original, patch); !s.ok()) return s;

  std::vector<std::string> orders;
  for (const auto& [key, value] : patch->object()) {
    if (key.starts_with(kSetOrder)) orders.push_back(key);
  }
  for (const std::string& directive : orders) {
    if (Status s = ApplyOrder(directive, original, patch, type); !s.ok()) return s;
  }

  Json::Object& members = original->mutable_object();
  for (auto& [key, change] : patch->mutable_object()) {
    std::string name = key;
    const bool is_delete_list = key.starts_with(kDeleteFrom);
    if (is_delete_list) {
      const std::optional<std::string> list = ListName(key, kDeleteFrom);
      if (!list) return BadFormat("primitive list");
      if (!list->empty()) name = *list;
    }
    const auto found = members.find(name);
    if (change.is_null()) {
      if (found != members.end()) members.erase(found);
    } else if (found != members.end()) {
      bool keep = true;
      if (Status s = MergeMember(name, &found->second, &change, is_delete_list, type, &keep);
          !s.ok()) {
        return s;
      }
      if (!keep) members.erase(found);
    } else if (!is_delete_list) {
      if (std::optional<Json> value = NewValue(&change)) members.emplace(name, *std::move(value));
    }
  }
  return Status();
}

}  // namespace

Status ApplyStrategicMergePatch(EventApi api, Json* patch, Json* document) {
  return MergeMap(document, patch,
                  api == EventApi::kCoreV1 ? TypeOf<Event, EventApi::kCoreV1>::kType
                                           : TypeOf<Event, EventApi::kEventsV1>::kType);
}

}  // namespace herald
