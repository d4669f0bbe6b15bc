#pragma once

#include "herald/api/event.h"
#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// The API server's validation of events. The rules depend on the API of the request: core/v1
// validates little unless event_time is set, events.k8s.io/v1 validates nearly all fields. event.h
// and object_meta.h name the limits. Errors are kInvalid (422), with Kubernetes' messages and one
// cause per field.

// Validates a new event, after the server has set namespace, name and uid.
HERALD_EXPORT Status ValidateEventCreate(const Event& event, EventApi api);

// Validates an updated or patched event, after the server has restored the fields that clients
// cannot change (generation, uid, the times of creation and deletion). core/v1 allows changes of
// all fields, events.k8s.io/v1 only of series and metadata.
HERALD_EXPORT Status ValidateEventUpdate(const Event& event, const Event& old, EventApi api);

}  // namespace herald
