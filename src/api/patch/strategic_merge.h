#pragma once

#include "api/json/document.h"
#include "herald/api/event.h"
#include "herald/base/status.h"

namespace herald {

// Lays a strategic merge patch over an event's document: a merge patch that also
// knows which lists are sets (metadata.finalizers) or are merged element by element
// (metadata.ownerReferences, by uid), and that obeys directives in the patch:
//
//   $patch: replace | delete           this object, or in a list this element
//   $retainKeys: [k...]                this object keeps no members but these
//   $deleteFromPrimitiveList/x: [v...] takes values out of list x
//   $setElementOrder/x: [v...]         how list x is to be ordered
//
// Where Kubernetes goes through the members of a patch in no particular order, we
// go by their names, so the same patch always has the same result.
//
// *patch is left as Kubernetes shows it when it refuses what the patch has made:
// without the directives that were obeyed and the nulls that removed nothing.
//
// Bad directives are kBadRequest; what Kubernetes had no answer for but a plain
// error, like an owner without uid, is kUnknown, hence 500, with the same words.
// With an error *document is in an undefined state.
//
// REQUIRES: both are objects; *document is a whole event in the spelling of `api`
Status ApplyStrategicMergePatch(EventApi api, Json* patch, Json* document);

}  // namespace herald
