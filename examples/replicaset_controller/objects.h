#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "herald/api/object_meta.h"
#include "herald/api/selector.h"
#include "herald/api/time.h"
#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "herald/client/dynamic.h"
#include "herald/client/json_value.h"

// Reads members of ReplicaSets and Pods, which the client returns as JSON. Pure functions.
namespace replicaset_controller {

using herald::JsonValue;
using herald::Object;

// As informers return them: shared and immutable.
using ObjectPtr = std::shared_ptr<const Object>;
using Pods = std::vector<ObjectPtr>;

// -- any object ---------------------------------------------------------------

// The owner reference with controller: true; null if there is none. The API server ensures that an
// object has at most one.
const JsonValue* ControllerOf(const Object& object);
bool IsControlledBy(const Object& object, const Object& owner);
bool IsBeingDeleted(const Object& object);
herald::StringMap LabelsOf(const Object& object);

// -- ReplicaSets --------------------------------------------------------------

int WantedReplicas(const Object& replica_set);
int MinReadySeconds(const Object& replica_set);
// The selector for its pods. An error if there is no selector, or an invalid one that the server
// should have rejected: such a set has no pods.
herald::Result<herald::LabelSelector> SelectorOf(const Object& replica_set);

// -- Pods ---------------------------------------------------------------------

// Whether the pod counts as a replica: it has not finished and is not being deleted.
bool IsActive(const Object& pod);
bool IsReady(const Object& pod);
// When the pod became ready; the zero time if it is not ready or the time is missing.
herald::Time ReadySince(const Object& pod);
// Whether the pod has been ready for at least `min_ready_seconds`.
bool IsAvailable(const Object& pod, int min_ready_seconds, herald::WallTime now);

// The time until the first pod that is ready but not yet available becomes available; nothing if
// there is no such pod.
std::optional<std::chrono::nanoseconds> NextAvailable(const Pods& pods, int min_ready_seconds,
                                                      herald::WallTime now);

}  // namespace replicaset_controller
