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

// What this controller reads of ReplicaSets and Pods, which are plain JSON to the client.
// Pure functions.
namespace replicaset_controller {

using herald::JsonValue;
using herald::Object;

// As informers hand them out: shared, never changed.
using ObjectPtr = std::shared_ptr<const Object>;
using Pods = std::vector<ObjectPtr>;

// -- any object ---------------------------------------------------------------

// The owner reference with controller: true; null where there is none. An object has at
// most one, which the API server makes sure of.
const JsonValue* ControllerOf(const Object& object);
bool IsControlledBy(const Object& object, const Object& owner);
bool IsBeingDeleted(const Object& object);
herald::StringMap LabelsOf(const Object& object);

// -- ReplicaSets --------------------------------------------------------------

int WantedReplicas(const Object& replica_set);
int MinReadySeconds(const Object& replica_set);
// Which pods it is about. An error where there is no selector, or one that the server
// should not have let through: such a set picks no pod.
herald::Result<herald::LabelSelector> SelectorOf(const Object& replica_set);

// -- Pods ---------------------------------------------------------------------

// Neither finished nor being deleted: it counts as a replica.
bool IsActive(const Object& pod);
bool IsReady(const Object& pod);
// Since when; the zero time where it is not ready, or does not say.
herald::Time ReadySince(const Object& pod);
// Ready for at least so long.
bool IsAvailable(const Object& pod, int min_ready_seconds, herald::WallTime now);

// How long until the first of the pods that are ready, and not available yet, becomes
// available; nothing where none will by itself.
std::optional<std::chrono::nanoseconds> NextAvailable(const Pods& pods, int min_ready_seconds,
                                                      herald::WallTime now);

}  // namespace replicaset_controller
