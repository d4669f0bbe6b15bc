#pragma once

#include <string>
#include <string_view>

#include "herald/api/event.h"
#include "herald/api/patch.h"
#include "herald/base/export.h"

namespace herald {

// What a refusal under fieldValidation=Strict shows of a patch that worked: the document
// that it made of the event, or for a strategic merge the patch itself.
HERALD_EXPORT std::string ShownPatch(const Event& event, EventApi api, PatchType type,
                                     std::string_view patch);

}  // namespace herald
