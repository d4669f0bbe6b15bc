#pragma once

#include <string>
#include <string_view>

#include "herald/api/event.h"
#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// What a document says it is. Both may be missing: the URL of a request tells as well.
struct TypeMeta {
  std::string kind;
  std::string api_version;
};

// Whether the document is a Status. Some leave out which version.
bool IsStatus(const TypeMeta& type);

// How a server answers when a body is not what its URL asks for, in Kubernetes'
// words. All but the last are kBadRequest.

// Whether the document `body` is a `kind` ("Event", "EventList") of `api`; what it
// leaves open counts as right.
Status CheckType(const TypeMeta& type, std::string_view kind, EventApi api, std::string_view body);

// A body of the right kind whose content was refused.
HERALD_EXPORT Status CannotBeHandled(std::string_view kind, std::string_view why);

// A body that does not even tell its kind; the answer shows how it begins.
HERALD_EXPORT Status Unrecognized(std::string_view why, std::string_view kind,
                                  std::string_view body);

// A body beyond kMaxRequestBytes, kRequestEntityTooLarge.
Status TooLarge();

}  // namespace herald
