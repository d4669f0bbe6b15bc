#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "herald/api/event.h"
#include "herald/base/status.h"

// Parts of the JSON codec for patches, tables and messages.
namespace herald {

// With kind and apiVersion, without a newline at the end.
void AppendEventJson(const Event& event, EventApi api, std::string* out);
void AppendObjectMetaJson(const ObjectMeta& metadata, std::string* out);
void AppendObjectReferenceJson(const ObjectReference& reference, std::string* out);

// Decodes an event over the values of *event. Does not check kind and apiVersion. Errors are
// kBadRequest with the decoder's message.
Status ReadEventJson(std::string_view json, EventApi api, Event* event,
                     std::vector<std::string>* field_errors);

// Applies a simple merge patch to the event: members replace, null clears, objects merge. Returns
// false, and leaves *event in an unspecified state, for all other patches: with lists, unknown or
// duplicate members, values of a wrong type, or a kind or apiVersion, and for invalid JSON.
bool MergeEventJson(std::string_view patch, EventApi api, Event* event);

}  // namespace herald
