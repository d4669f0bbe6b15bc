#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "herald/api/event.h"
#include "herald/api/patch.h"
#include "herald/base/status.h"

namespace herald {

// What ApplyPatch() promises, for every patch: the event is written as JSON, the
// document patched, and an event made of the result. Short cuts in ApplyPatch() are
// held against it by the tests.
Result<Event> ApplyPatchGenerically(const Event& event, EventApi api, PatchType type,
                                    std::string_view patch, std::vector<std::string>* field_errors);

}  // namespace herald
