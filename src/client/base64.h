#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace herald {

std::string Base64Encode(std::string_view bytes);

// The standard alphabet with its padding; line breaks are passed over, as Go does.
// Nothing where the text is anything else.
std::optional<std::string> Base64Decode(std::string_view text);

}  // namespace herald
