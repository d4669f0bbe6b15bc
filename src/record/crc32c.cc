#include "record/crc32c.h"

#include <array>
#include <cstddef>

namespace herald {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // bits reversed
constexpr std::size_t kSlices = 8;                 // bytes per step

using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

// tables[k][b] is what byte b contributes when k more bytes follow it.
constexpr Tables MakeTables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < kSlices; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

}  // namespace

std::uint32_t Crc32c(std::string_view data, std::uint32_t crc) {
  crc = ~crc;
  const auto* at = reinterpret_cast<const unsigned char*>(data.data());
  std::size_t left = data.size();
  for (; left >= kSlices; left -= kSlices, at += kSlices) {
    crc ^= at[0] | at[1] << 8 | at[2] << 16 | static_cast<std::uint32_t>(at[3]) << 24;
    crc = kTables[7][crc & 0xff] ^ kTables[6][crc >> 8 & 0xff] ^ kTables[5][crc >> 16 & 0xff] ^
          kTables[4][crc >> 24] ^ kTables[3][at[4]] ^ kTables[2][at[5]] ^ kTables[1][at[6]] ^
          kTables[0][at[7]];
  }
  for (; left > 0; --left, ++at) crc = (crc >> 8) ^ kTables[0][(crc ^ *at) & 0xff];
  return ~crc;
}

}  // namespace herald
