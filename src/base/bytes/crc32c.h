#pragma once

#include <cstdint>
#include <string_view>

#include "herald/base/export.h"

namespace herald {

// The CRC-32C (Castagnoli) of `bytes`. `crc` is the CRC of the bytes before them: Crc32c(b,
// Crc32c(a)) is the CRC of a + b. Uses the processor's instruction if it has one. It detects every
// error of up to 3 bits and every burst of up to 32 bits in our records; it does not protect
// against deliberate changes.
HERALD_EXPORT std::uint32_t Crc32c(std::string_view bytes, std::uint32_t crc = 0);

// The same without the instruction. Tests compare both.
HERALD_EXPORT std::uint32_t Crc32cPortable(std::string_view bytes, std::uint32_t crc = 0);

}  // namespace herald
