#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "api/json/document.h"
#include "herald/base/status.h"

namespace herald {

// Applies an RFC 6902 JSON patch like kube-apiserver's library (evanphx/json-patch v4), which
// differs from the RFC:
//
//   indexes    may be negative and count from the end; "-" is valid only in add
//   replace    adds a missing member, but not a missing element
//   test       a missing member equals null; scalars are compared by their text, so
//              that "a" and "\u0061" are different, and 1 and 1.0 are, too
//   value      counts as null if it is missing
//   path ""    is the document for test and replace, and an error for the others
//
// Errors: kBadRequest if it is not a JSON patch, kRequestEntityTooLarge for more than
// kMaxJsonPatchOperations, kInvalid with the library's message if an operation fails, kTimeout if
// it needs too much work, and kInternalError for patches on which the library panics, as a server
// responds then.
//
// `storage` receives the text of copied values and must outlive *document. After an error the state
// of *document is unspecified.
Status ApplyJsonPatch(const Json& patch, Json* document, std::deque<std::string>* storage);

// The check of a server with field validation before it applies the patch: op, path and from of a
// wrong type are kBadRequest; unknown and duplicate members are appended to `field_errors`.
Status CheckJsonPatch(std::string_view patch, std::vector<std::string>* field_errors);

}  // namespace herald
