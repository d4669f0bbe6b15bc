#include "api/merge_patch.h"

#include <utility>
#include <vector>

namespace herald {
namespace {

// Removes members that are null, at every level.
void PruneNulls(Json* json) {
  std::vector<Json*> pending = {json};
  while (!pending.empty()) {
    Json* const next = pending.back();
    pending.pop_back();
    if (next->is_object()) {
      Json::Object& members = next->mutable_object();
      std::erase_if(members, [](const auto& member) { return member.second.is_null(); });
      for (auto& [key, value] : members) pending.push_back(&value);
    } else if (next->is_array()) {
      for (Json& element : next->mutable_array()) pending.push_back(&element);
    }
  }
}

}  // namespace

Status ApplyMergePatch(Json patch, Json* document) {
  if (patch.is_array()) {
    PruneNulls(&patch);
    *document = std::move(patch);
    return Status();
  }
  if (!patch.is_object()) return Status(StatusReason::kBadRequest, "Invalid JSON Patch");

  std::vector<std::pair<Json*, Json*>> pending = {{document, &patch}};
  while (!pending.empty()) {
    const auto [target, source] = pending.back();
    pending.pop_back();
    Json::Object& members = target->mutable_object();
    for (auto& [key, value] : source->mutable_object()) {
      if (value.is_null()) {
        members.erase(key);
        continue;
      }
      Json& member = members[key];
      if (member.is_object() && value.is_object()) {
        pending.emplace_back(&member, &value);
        continue;
      }
      // What takes an object's place keeps its nulls: an oddity of Kubernetes.
      if (!member.is_object()) PruneNulls(&value);
      member = std::move(value);
    }
  }
  return Status();
}

}  // namespace herald
