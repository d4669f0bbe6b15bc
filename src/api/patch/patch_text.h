#pragma once

#include <string>
#include <string_view>

#include "herald/api/event.h"
#include "herald/api/patch.h"
#include "herald/base/export.h"

namespace herald {

// The text in the error of fieldValidation=Strict for a patch that was applied: the patched
// document, or for a strategic merge the patch itself.
HERALD_EXPORT std::string ShownPatch(const Event& event, EventApi api, PatchType type,
                                     std::string_view patch);

}  // namespace herald
