#pragma once

#include "api/json/document.h"
#include "herald/base/status.h"

namespace herald {

// Lays an RFC 7386 merge patch over a document: members replace, null removes,
// objects merge, lists are taken whole.
//
// As Kubernetes does it: nulls inside of what is newly added vanish, also below
// lists, but not nulls that are elements; a patch that is a list becomes the
// document; any other patch that is no object is kBadRequest.
//
// REQUIRES: *document is an object
Status ApplyMergePatch(Json patch, Json* document);

}  // namespace herald
