#pragma once

#include "api/json/document.h"
#include "herald/base/status.h"

namespace herald {

// Applies an RFC 7386 merge patch to a document: members replace, null removes, objects merge,
// lists replace.
//
// Like Kubernetes: nulls inside of new values are removed, also below lists, but not nulls that are
// elements of a list; a patch that is a list becomes the document; other patches that are not
// objects are kBadRequest.
//
// REQUIRES: *document is an object
Status ApplyMergePatch(Json patch, Json* document);

}  // namespace herald
