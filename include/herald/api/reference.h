#pragma once

#include <string>
#include <string_view>

#include "herald/api/event.h"
#include "herald/base/clock.h"
#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// References to the object of an event, and names of events.

// A reference to the object with this type and metadata.
HERALD_EXPORT ObjectReference MakeReference(std::string_view api_version, std::string_view kind,
                                            const ObjectMeta& metadata);

// A reference to an object of any kind, given as JSON. For a list it has only kind, apiVersion and
// resourceVersion. kBadRequest if kind and apiVersion are both missing, because the type of the
// object is then unknown.
HERALD_EXPORT Result<ObjectReference> ReferenceFromJson(std::string_view object);

// The name for an event about `object_name`: "web-0.18e84d8123e3aa33", the object's name and the
// time in hexadecimal nanoseconds, as every Kubernetes component builds it. If that is not a valid
// event name (longer than 253 bytes, upper case), the name is a random UUID.
HERALD_EXPORT std::string MakeEventName(std::string_view object_name, WallTime time);
// The same, but replaces *out and reuses its memory.
HERALD_EXPORT void MakeEventName(std::string_view object_name, WallTime time, std::string* out);

// The name that a server creates from metadata.generateName: at most 58 bytes of the prefix and
// five random characters. There are no vowels among them, so that they do not spell words.
HERALD_EXPORT std::string MakeGeneratedName(std::string_view prefix);

}  // namespace herald
