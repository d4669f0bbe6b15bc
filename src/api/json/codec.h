#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "herald/api/event.h"
#include "herald/base/status.h"

// The JSON spellings for whoever works beneath Codec: patches, tables, messages.
namespace herald {

// With kind and apiVersion, and without the newline that ends a response.
void AppendEventJson(const Event& event, EventApi api, std::string* out);
void AppendObjectMetaJson(const ObjectMeta& metadata, std::string* out);
void AppendObjectReferenceJson(const ObjectReference& reference, std::string* out);

// Reads an event over what *event holds already. kind and apiVersion are not looked
// at. A refusal is kBadRequest with the decoder's own words.
Status ReadEventJson(std::string_view json, EventApi api, Event* event,
                     std::vector<std::string>* field_errors);

// Lays a merge patch over the event: members replace, null empties, objects merge.
// False, with *event in an undefined state, where that simple reading does not
// settle what is meant: the patch has lists, unknown or repeated members, values of
// wrong types or a type of its own, or is no JSON at all.
bool MergeEventJson(std::string_view patch, EventApi api, Event* event);

}  // namespace herald
