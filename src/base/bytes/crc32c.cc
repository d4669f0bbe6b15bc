#include "base/bytes/crc32c.h"

#include <array>
#include <cstddef>
#include <cstring>

namespace herald {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // Castagnoli, bits reversed

constexpr std::array<std::uint32_t, 256> MakeTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kTable = MakeTable();

#if defined(__x86_64__)
[[gnu::target("sse4.2")]] std::uint32_t Crc32cSse42(std::string_view bytes, std::uint32_t crc) {
  std::uint64_t state = ~crc;
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    state = __builtin_ia32_crc32di(state, word);
    bytes.remove_prefix(8);
  }
  auto narrow = static_cast<std::uint32_t>(state);
  for (const char byte : bytes) {
    narrow = __builtin_ia32_crc32qi(narrow, static_cast<unsigned char>(byte));
  }
  return ~narrow;
}
#endif

}  // namespace

std::uint32_t Crc32cPortable(std::string_view bytes, std::uint32_t crc) {
  crc = ~crc;
  for (const char byte : bytes) {
    crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ (crc >> 8);
  }
  return ~crc;
}

std::uint32_t Crc32c(std::string_view bytes, std::uint32_t crc) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return Crc32cSse42(bytes, crc);
#endif
  return Crc32cPortable(bytes, crc);
}

}  // namespace herald
