#pragma once

#include <string>
#include <string_view>

#include "herald/api/event.h"
#include "herald/base/clock.h"
#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// How an event points at the object it is about, and what it is called.

// The reference to an object of which kind and metadata are known.
HERALD_EXPORT ObjectReference MakeReference(std::string_view api_version, std::string_view kind,
                                            const ObjectMeta& metadata);

// The reference to an object given as JSON, whatever its kind. A list yields only
// kind, apiVersion and resourceVersion. Refused where kind and apiVersion are both
// missing: nothing here knows a type that its text does not name.
HERALD_EXPORT Result<ObjectReference> ReferenceFromJson(std::string_view object);

// The name for an event about `object_name`: "web-0.18e84d8123e3aa33", the object's
// name and the time in hex nanoseconds, as every Kubernetes component builds it.
// Where that is no valid event name (too long, upper case) it is a random UUID.
HERALD_EXPORT std::string MakeEventName(std::string_view object_name, WallTime time);
// The same into a text that was another before, and whose memory will do again.
HERALD_EXPORT void MakeEventName(std::string_view object_name, WallTime time, std::string* out);

// A name from metadata.generateName as the server makes it up: at most 58 bytes of
// the prefix, then five random characters without vowels, so that none spells a word.
HERALD_EXPORT std::string MakeGeneratedName(std::string_view prefix);

}  // namespace herald
