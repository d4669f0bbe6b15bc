#include "api/patch/strategic_merge.h"

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/json/type_names.h"
#include "api/patch/directives.h"
#include "api/patch/list_order.h"
#include "api/patch/merge_errors.h"
#include "api/patch/merge_types.h"

namespace herald {
namespace strategic {
namespace {

// The part of a directive's name after "prefix/".
std::optional<std::string> ListName(std::string_view directive, std::string_view prefix) {
  const std::size_t slash = directive.find('/');
  if (slash == std::string_view::npos || directive.substr(0, slash) != prefix) return std::nullopt;
  return std::string(directive.substr(slash + 1));
}

// Removes the objects that are directives, at every level below `json`. REQUIRES: json is not a
// directive
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

// The value that a patch adds where the document has none; nullopt if it is a directive.
std::optional<Json> NewValue(Json* patch_value) {
  DiscardNulls(patch_value);
  if (patch_value->Find(kDirective) != nullptr) return std::nullopt;
  if (patch_value->is_object()) RemoveDirectives(patch_value);
  Json value = patch_value->Clone();
  RemoveDirectives(&value);
  return value;
}

// Whether the elements of both lists are objects. All must have the same type and must not be
// lists.
Status HasObjects(const Json::Array& original, const Json::Array& patch, bool* objects) {
  const Json* first = nullptr;
  std::string_view type;  // of the first; kept because finding the type of a long number takes time
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
        return PlainError(message + "]");
      }
    }
  }
  if (first == nullptr) return PlainError("no elements in any of the given slices");
  *objects = first->is_object();
  return Status();
}

Status MergeMap(Json* original, Json* patch, const MergeType& type);

// Merges two sets.
void MergeScalars(const Json::Array& original, const Json::Array& patch, Json::Array* merged) {
  std::set<std::string> seen;
  for (const Json::Array* list : {&original, &patch}) {
    for (const Json& element : *list) {
      if (seen.insert(Identity(element)).second) merged->push_back(element.Clone());
    }
  }
}

void DeleteScalars(const Json::Array& original, const Json::Array& removed, Json::Array* merged) {
  std::set<std::string> identities;
  for (const Json& element : removed) identities.insert(Identity(element));
  for (const Json& element : original) {
    if (!identities.contains(Identity(element))) merged->push_back(element.Clone());
  }
}

// Applies the directives among the elements of a patch, which delete elements of the original.
// `plain` receives the other elements of the patch.
Status ApplyElementDirectives(Json::Array* original, Json::Array* patch, std::string_view key,
                              std::vector<Json*>* plain, bool* replace) {
  std::set<std::string> deleted;
  for (Json& element : *patch) {
    const Json* const directive = element.Find(kDirective);
    if (directive == nullptr) {
      plain->push_back(&element);
    } else if (IsString(*directive, "delete")) {
      const Json* const value = element.Find(key);
      if (value == nullptr) return NoMergeKey(element, key);
      // No element has a list or a map as its key, so there is nothing to delete.
      if (!value->is_container()) deleted.insert(Identity(*value));
    } else if (IsString(*directive, "replace")) {
      *replace = true;
    } else if (IsString(*directive, "merge")) {
      return PlainError("merging lists cannot yet be specified in the patch");
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
      // Different from all others. Upstream panics when it sorts the list.
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
    // A null as key removes the key.
    if (target.Find(strategy.key) == nullptr) positions.Remove(identity);
  }
  return Status();
}

// Merges a list into *original. `server_order` receives the original after deletions and before
// additions.
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
    return PlainError(std::string("cannot merge lists without merge key for ") +
                      (is_struct ? "struct" : "string"));
  }
  bool replace = false;
  std::vector<Json*> plain;
  if (Status s = ApplyElementDirectives(original, patch, strategy.key, &plain, &replace); !s.ok())
    return s;
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

// Applies one $setElementOrder and the patch of the list that it names.
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
  if (Status s = list_order.Interleave(objects, &merged); !s.ok()) return s;
  members.insert_or_assign(*name, Json(std::move(merged)));
  if (change != changes.end()) changes.erase(change);
  return Status();
}

// Merges one member of a patch into an object that has this member.
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

// Recurses only along the type, a few levels at most.
Status MergeMap(Json* original, Json* patch, const MergeType& type) {
  if (const Json* directive = patch->Find(kDirective)) {
    if (IsString(*directive, "replace")) {
      patch->mutable_object().erase(patch->mutable_object().find(kDirective));
      *original = patch->Clone();
      return Status();
    }
    if (IsString(*directive, "delete")) {
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
}  // namespace strategic

Status ApplyStrategicMergePatch(EventApi api, Json* patch, Json* document) {
  return strategic::MergeMap(document, patch, strategic::EventMergeType(api));
}

}  // namespace herald
