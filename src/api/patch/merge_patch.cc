#include "api/patch/merge_patch.h"

#include <utility>

namespace herald {
Status ApplyMergePatch(Json patch, Json* document) {
  if (patch.is_array()) {
    DiscardNulls(&patch);
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
      // A value that replaces an object keeps its nulls, as in Kubernetes.
      if (!member.is_object()) DiscardNulls(&value);
      member = std::move(value);
    }
  }
  return Status();
}

}  // namespace herald
