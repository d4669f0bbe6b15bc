#include "base/bytes/base64.h"

#include <cstdint>

namespace herald {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string Base64Encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += i + k <= bytes.size() ? kAlphabet[group >> (18 - 6 * k) & 0x3FU] : '=';
    }
  }
  return out;
}

std::optional<std::string> Base64Decode(std::string_view text) {
  std::string out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t group = 0;
  int letters = 0, padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r') continue;
    if (c == '=') {
      if (letters + ++padding > 4 || letters < 2) return std::nullopt;
      continue;
    }
    const std::size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos || padding > 0) return std::nullopt;
    group = group << 6 | static_cast<std::uint32_t>(value);
    if (++letters < 4) continue;
    out += static_cast<char>(group >> 16);
    out += static_cast<char>(group >> 8 & 0xFFU);
    out += static_cast<char>(group & 0xFFU);
    letters = 0;
    group = 0;
  }
  if (letters == 0 && padding == 0) return out;
  if (letters + padding != 4) return std::nullopt;
  group <<= 6 * padding;
  out += static_cast<char>(group >> 16);
  if (letters == 3) out += static_cast<char>(group >> 8 & 0xFFU);
  return out;
}

}  // namespace herald
