#pragma once

#include <cstdint>
#include <string_view>

#include "herald/base/export.h"

namespace herald {

// CRC-32C (Castagnoli) of `bytes`, going on from `crc`, the one of what came before them:
// Crc32c(b, Crc32c(a)) is that of a + b. With the processor's own instruction where it
// has one. It finds every error of up to 3 bits and every burst of up to 32 in
// a record of ours; it is no protection against somebody who wants to deceive.
HERALD_EXPORT std::uint32_t Crc32c(std::string_view bytes, std::uint32_t crc = 0);

// The same without the instruction; what the other is tested against.
HERALD_EXPORT std::uint32_t Crc32cPortable(std::string_view bytes, std::uint32_t crc = 0);

}  // namespace herald
