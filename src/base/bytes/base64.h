#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "herald/base/export.h"

namespace herald {

// The standard alphabet, padded.
HERALD_EXPORT std::string Base64Encode(std::string_view bytes);

// The opposite; line breaks are passed over, as Go does.
// Nothing where the text is anything else.
HERALD_EXPORT std::optional<std::string> Base64Decode(std::string_view text);

}  // namespace herald
