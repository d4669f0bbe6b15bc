#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "herald/base/export.h"

// Base64 as in RFC 4648.
namespace herald {

// The standard alphabet, with padding.
HERALD_EXPORT std::string Base64Encode(std::string_view bytes);

// Decodes the standard alphabet with padding. Line breaks are ignored, as in Go. nullopt if `text`
// is invalid.
HERALD_EXPORT std::optional<std::string> Base64Decode(std::string_view text);

// The alphabet for URLs and file names, without padding.
HERALD_EXPORT std::string Base64UrlEncode(std::string_view bytes);

// Decodes the alphabet for URLs without padding. If `text` is invalid, returns nullopt and sets
// *bad_at, if not null, to the position of the first invalid byte. Like Go's RawURLEncoding, it
// ignores the unused bits of the last character.
HERALD_EXPORT std::optional<std::string> Base64UrlDecode(std::string_view text,
                                                         std::size_t* bad_at = nullptr);

}  // namespace herald
