#include "base/bytes/base64.h"

#include <cstdint>

namespace herald {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kUrlAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

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

std::string Base64UrlEncode(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 4 / 3 + 3);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6) {
      text.push_back(kUrlAlphabet[bits >> (count - 6) & 63]);
    }
  }
  if (count > 0) text.push_back(kUrlAlphabet[bits << (6 - count) & 63]);
  return text;
}

std::optional<std::string> Base64UrlDecode(std::string_view text, std::size_t* bad_at) {
  const auto invalid_at = [bad_at](std::size_t position) {
    if (bad_at != nullptr) *bad_at = position;
    return std::nullopt;
  };
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = kUrlAlphabet.find(text[i]);
    if (digit == std::string_view::npos) {
      return invalid_at(i);
    }
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes.push_back(static_cast<char>(bits >> count & 0xff));
    }
  }
  if (text.size() % 4 == 1) {
    return invalid_at(text.size() - 1);
  }
  return bytes;
}

}  // namespace herald
