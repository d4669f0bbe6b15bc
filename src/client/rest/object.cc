#include <string>

#include "herald/client/dynamic.h"

namespace herald {
namespace {

Time TimeOf(const JsonValue& value) { return Time::Parse(value.String()).value_or(Time()); }

StringMap StringsOf(const JsonValue& value) {
  StringMap out;
  for (const auto& [key, string] : value.object()) out.emplace(key, string.String());
  return out;
}

}  // namespace

std::string Object::Key() const {
  return namespace_().empty() ? name() : namespace_() + "/" + name();
}

ObjectMeta Object::metadata() const {
  const JsonValue& meta = json["metadata"];
  ObjectMeta out;
  out.name = meta["name"].String();
  out.generate_name = meta["generateName"].String();
  out.namespace_ = meta["namespace"].String();
  out.uid = meta["uid"].String();
  out.resource_version = meta["resourceVersion"].String();
  out.generation = meta["generation"].Int();
  out.creation_timestamp = TimeOf(meta["creationTimestamp"]);
  if (meta.Has("deletionTimestamp")) out.deletion_timestamp = TimeOf(meta["deletionTimestamp"]);
  if (meta.Has("deletionGracePeriodSeconds")) {
    out.deletion_grace_period_seconds = meta["deletionGracePeriodSeconds"].Int();
  }
  out.labels = StringsOf(meta["labels"]);
  out.annotations = StringsOf(meta["annotations"]);
  for (const JsonValue& owner : meta["ownerReferences"].array()) {
    OwnerReference& reference = out.owner_references.emplace_back();
    reference.api_version = owner["apiVersion"].String();
    reference.kind = owner["kind"].String();
    reference.name = owner["name"].String();
    reference.uid = owner["uid"].String();
    if (owner.Has("controller")) reference.controller = owner["controller"].Bool();
    if (owner.Has("blockOwnerDeletion")) {
      reference.block_owner_deletion = owner["blockOwnerDeletion"].Bool();
    }
  }
  for (const JsonValue& finalizer : meta["finalizers"].array()) {
    out.finalizers.push_back(finalizer.String());
  }
  return out;
}

ObjectReference Object::Reference() const {
  return {.kind = kind(),
          .namespace_ = namespace_(),
          .name = name(),
          .uid = uid(),
          .api_version = api_version(),
          .resource_version = resource_version()};
}

}  // namespace herald
