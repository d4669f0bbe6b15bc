#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "herald/api/event.h"
#include "herald/api/patch.h"
#include "herald/base/status.h"

namespace herald {

// The reference implementation of ApplyPatch(): encodes the event as JSON, patches the document and
// decodes the result. Tests compare the fast path of ApplyPatch() with it.
Result<Event> ApplyPatchGenerically(const Event& event, EventApi api, PatchType type,
                                    std::string_view patch, std::vector<std::string>* field_errors);

}  // namespace herald
