#pragma once

#include <string>
#include <string_view>

#include "herald/api/event.h"
#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// The type that a document names. Both may be missing, because the URL of a request names it, too.
struct TypeMeta {
  std::string kind;
  std::string api_version;
};

// Whether the document is a Status. The version may be missing.
bool IsStatus(const TypeMeta& type);

// The errors for a body that does not fit its URL, with Kubernetes' messages. All except TooLarge()
// are kBadRequest.

// Checks that the document `body` is a `kind` ("Event", "EventList") of `api`. Missing parts of the
// type are accepted.
Status CheckType(const TypeMeta& type, std::string_view kind, EventApi api, std::string_view body);

// A body of the right kind with invalid content.
HERALD_EXPORT Status CannotBeHandled(std::string_view kind, std::string_view why);

// A body whose kind is unknown. The message has the beginning of the body.
HERALD_EXPORT Status Unrecognized(std::string_view why, std::string_view kind,
                                  std::string_view body);

// A body larger than kMaxRequestBytes: kRequestEntityTooLarge.
Status TooLarge();

}  // namespace herald
