#pragma once

#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "replicaset_controller/objects.h"

namespace replicaset_controller {

// What status the set should have: how many replicas there are, how many of them have all
// labels of the template, are ready, are available; and the condition ReplicaFailure for as
// long as pods cannot be created or deleted. `active` are the set's pods as they were when
// `error` (of creating or deleting) came about. observedGeneration stays as it is.
//
// Written as the server writes it, where counts of 0 are left out. Pure.
JsonValue CalculateStatus(const Object& replica_set, const Pods& active,
                          const herald::Status& error, herald::WallTime now);

// Whether the server has that status already, for this generation of the set: then nothing
// needs to be written.
bool HasStatus(const Object& replica_set, const JsonValue& status);

}  // namespace replicaset_controller
