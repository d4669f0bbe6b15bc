#pragma once

#include "api/json/document.h"
#include "herald/api/event.h"
#include "herald/base/status.h"

namespace herald {

// Applies a strategic merge patch to an event's document: a merge patch that merges
// metadata.finalizers as a set and metadata.ownerReferences by uid, and that may have directives:
//
//   $patch: replace | delete           this object, or in a list this element
//   $retainKeys: [k...]                removes all other members of this object
//   $deleteFromPrimitiveList/x: [v...] removes values from the list x
//   $setElementOrder/x: [v...]         the order of the list x
//
// Kubernetes processes the members of a patch in random order. We sort them by name, so that the
// same patch always has the same result.
//
// *patch is changed as Kubernetes shows it if it rejects the result: without the directives that
// were applied and without the nulls that removed nothing.
//
// Invalid directives are kBadRequest. Where Kubernetes returns a plain error, for example for an
// owner without uid, the error is kUnknown (500), with the same message. After an error the state
// of *document is unspecified.
//
// REQUIRES: both are objects; *document is a whole event in the spelling of `api`
Status ApplyStrategicMergePatch(EventApi api, Json* patch, Json* document);

}  // namespace herald
