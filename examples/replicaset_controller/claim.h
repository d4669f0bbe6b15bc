#pragma once

#include <cstdint>

#include "herald/api/selector.h"
#include "replicaset_controller/objects.h"

// Whose pod is it? A ReplicaSet counts the pods whose controller it is. Pods without a controller
// that its selector matches are adopted, pods of its own that the selector no longer matches
// (somebody changed a label to take one out of service and look at it) are released.
namespace replicaset_controller {

enum class Claim : std::uint8_t {
  kNone,     // another's, or of no interest
  kOwned,    // ours, and stays so
  kAdopt,    // to become ours
  kRelease,  // to be let go
};

// Nothing is adopted or released by a set that is being deleted (its pods are the garbage
// collector's), and no pod is adopted that is on its way out.
Claim DecideClaim(const Object& replica_set, const herald::LabelSelector& selector,
                  const Object& pod);

// The reference that makes the set a pod's controller.
JsonValue ControllerReference(const Object& replica_set);

// Strategic merge patches. The uid in them makes the server refuse if a pod of the
// same name has taken this one's place.
JsonValue AdoptionPatch(const Object& replica_set, const Object& pod);
JsonValue ReleasePatch(const Object& replica_set, const Object& pod);

}  // namespace replicaset_controller
