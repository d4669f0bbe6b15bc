#pragma once

#include "herald/api/event.h"
#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// Whether an API server would take the event, by the rules of the API that the
// request came through: core/v1 checks almost nothing unless event_time is set,
// events.k8s.io/v1 checks nearly everything. A refusal is kInvalid (422) in
// Kubernetes' words, with one cause per field.

// For a new event, after the server has filled in namespace, name and uid.
HERALD_EXPORT Status ValidateEventCreate(const Event& event, EventApi api);

// For a replaced or patched event, after the server has restored what clients
// cannot change (generation, uid, the times of creation and deletion). Through
// core/v1 every member may change, through events.k8s.io/v1 only series and
// metadata.
HERALD_EXPORT Status ValidateEventUpdate(const Event& event, const Event& old, EventApi api);

}  // namespace herald
