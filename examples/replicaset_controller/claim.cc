#include "replicaset_controller/claim.h"

namespace replicaset_controller {

Claim DecideClaim(const Object& replica_set, const herald::LabelSelector& selector,
                  const Object& pod) {
  if (const JsonValue* const controller = ControllerOf(pod); controller != nullptr) {
    if ((*controller)["uid"].String() != replica_set.uid()) return Claim::kNone;
    if (selector.Matches(LabelsOf(pod))) return Claim::kOwned;
    return IsBeingDeleted(replica_set) ? Claim::kNone : Claim::kRelease;
  }
  if (IsBeingDeleted(replica_set) || IsBeingDeleted(pod)) return Claim::kNone;
  if (pod.namespace_() != replica_set.namespace_()) return Claim::kNone;
  return selector.Matches(LabelsOf(pod)) ? Claim::kAdopt : Claim::kNone;
}

JsonValue ControllerReference(const Object& replica_set) {
  JsonValue reference;
  reference.Member("apiVersion") = "apps/v1";
  reference.Member("kind") = "ReplicaSet";
  reference.Member("name") = replica_set.name();
  reference.Member("uid") = replica_set.uid();
  reference.Member("controller") = true;
  reference.Member("blockOwnerDeletion") = true;
  return reference;
}

JsonValue AdoptionPatch(const Object& replica_set, const Object& pod) {
  JsonValue patch;
  JsonValue& metadata = patch.Member("metadata");
  metadata.Member("uid") = pod.uid();
  metadata.Member("ownerReferences").MutableArray().push_back(ControllerReference(replica_set));
  return patch;
}

JsonValue ReleasePatch(const Object& replica_set, const Object& pod) {
  JsonValue removal;
  removal.Member("$patch") = "delete";
  removal.Member("uid") = replica_set.uid();
  JsonValue patch;
  JsonValue& metadata = patch.Member("metadata");
  metadata.Member("uid") = pod.uid();
  metadata.Member("ownerReferences").MutableArray().push_back(std::move(removal));
  return patch;
}

}  // namespace replicaset_controller
