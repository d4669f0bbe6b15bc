#pragma once

#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "replicaset_controller/objects.h"

namespace replicaset_controller {

// Returns the status that the set should have: the number of its replicas, how many of them have
// all labels of the template, are ready, and are available; and the condition ReplicaFailure as
// long as pods cannot be created or deleted. `error` is the result of creating and deleting pods,
// and `active` are the set's pods before that. observedGeneration is not changed.
//
// As the server does, it omits counts of 0. A pure function.
JsonValue CalculateStatus(const Object& replica_set, const Pods& active,
                          const herald::Status& error, herald::WallTime now);

// Whether the set already has that status for its current generation, so that no update is needed.
bool HasStatus(const Object& replica_set, const JsonValue& status);

}  // namespace replicaset_controller
