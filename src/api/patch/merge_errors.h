#pragma once

#include <string>
#include <string_view>

#include "api/json/document.h"
#include "herald/base/status.h"

// The errors of a strategic merge. All messages except Crash()'s are Kubernetes' own.
namespace herald::strategic {

// Kubernetes returns these as plain errors, which its handler turns into 500: kUnknown.
Status PlainError(std::string message);
Status NotAList(const Json& actual);
Status NotAMap(const Json& actual);
Status NoMergeKey(const Json& map, std::string_view key);
Status UnknownDirective(const Json& directive, const Json& map);

// A directive with a value of the wrong type: kBadRequest.
Status BadFormat(std::string_view what);

// Kubernetes compares or hashes a value that Go cannot compare, and its handler panics:
// kInternalError.
Status Crash();

// The value as Go's %v prints it.
std::string GoText(const Json& json);

}  // namespace herald::strategic
