#pragma once

#include <cstdint>
#include <string_view>

namespace herald::store {

// CRC-32C (Castagnoli) of `bytes`, going on from `crc`, the one of what came before them:
// Crc32c(b, Crc32c(a)) is that of a + b. With the processor's own instruction where it
// has one. Thread-safe.
std::uint32_t Crc32c(std::string_view bytes, std::uint32_t crc = 0);

// The same without the instruction; what the other is tested against.
std::uint32_t Crc32cPortable(std::string_view bytes, std::uint32_t crc = 0);

}  // namespace herald::store
