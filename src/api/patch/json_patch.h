#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "api/json/document.h"
#include "herald/base/status.h"

namespace herald {

// Applies an RFC 6902 JSON Patch with the habits of the library that kube-apiserver
// uses (evanphx/json-patch v4), several of which the RFC does not know:
//
//   indexes    may be negative and then count from the end; "-" only adds
//   replace    adds a member that is missing, but no element
//   test       takes a missing member for null, and compares scalars as they are
//              written: "a" and "\u0061" differ, and so do 1 and 1.0
//   value      where it is missing it counts as null
//   path ""    is the document for test and replace, and an error for the others
//
// A patch that is none is kBadRequest, one with more than kMaxJsonPatchOperations
// kRequestEntityTooLarge, an operation that fails kInvalid with the library's words.
// The library crashes on some patches; those are kInternalError here, as they are
// when a server survives the crash. One that costs too much work is kTimeout.
//
// `storage` receives the text of what is copied and must live as long as *document.
// With an error *document is in an undefined state.
Status ApplyJsonPatch(const Json& patch, Json* document, std::deque<std::string>* storage);

// What a server that validates fields checks beforehand: the types of op, path and
// from, as kBadRequest; unknown and repeated members are added to `field_errors`.
Status CheckJsonPatch(std::string_view patch, std::vector<std::string>* field_errors);

}  // namespace herald
