#pragma once

#include <cstdint>

#include "herald/api/selector.h"
#include "replicaset_controller/objects.h"

// Decides which pods belong to a ReplicaSet. A ReplicaSet counts the pods whose controller it is.
// It adopts pods without a controller that its selector matches. It releases its pods that the
// selector does not match any more, for example because a user changed a label to debug a pod.
namespace replicaset_controller {

enum class Claim : std::uint8_t {
  kNone,     // the pod does not belong to the set
  kOwned,    // the pod belongs to the set
  kAdopt,    // the set should adopt the pod
  kRelease,  // the set should release the pod
};

// A set that is being deleted adopts and releases nothing: the garbage collector deletes its pods.
// A pod that is being deleted is not adopted.
Claim DecideClaim(const Object& replica_set, const herald::LabelSelector& selector,
                  const Object& pod);

// The reference that makes the set a pod's controller.
JsonValue ControllerReference(const Object& replica_set);

// Strategic merge patches. They contain the uid of the pod, so that the server rejects them if
// there is now another pod with the same name.
JsonValue AdoptionPatch(const Object& replica_set, const Object& pod);
JsonValue ReleasePatch(const Object& replica_set, const Object& pod);

}  // namespace replicaset_controller
