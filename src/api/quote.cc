#include "api/quote.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace herald {
namespace {

// The code points beyond ASCII at which IsPrintable() changes: true from the first on, false from
// the second on, and so on. Unicode 15 without the categories C (control, format, unassigned) and Z
// (spaces).
constexpr std::uint32_t kPrintableEdges[] = {
#include "api/printable_edges.inc"
};

constexpr std::string_view kHexDigits = "0123456789abcdef";

void AppendHex(char32_t value, int digits, std::string* out) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    out->push_back(kHexDigits[value >> shift & 0xf]);
  }
}

void AppendEscaped(char32_t c, std::string* out) {
  // The seven control characters from \a (7) to \r (13) have letters.
  constexpr std::string_view kLetters = "abtnvfr";
  if (c >= 7 && c <= 13) {
    out->push_back('\\');
    out->push_back(kLetters[c - 7]);
  } else if (c < 0x80) {
    out->append("\\x");
    AppendHex(c, 2, out);
  } else if (c < 0x10000) {
    out->append("\\u");
    AppendHex(c, 4, out);
  } else {
    out->append("\\U");
    AppendHex(c, 8, out);
  }
}

}  // namespace

bool IsPrintable(char32_t c) {
  if (c < 0x80) return c >= ' ' && c < 0x7f;
  const auto* edge = std::upper_bound(std::begin(kPrintableEdges), std::end(kPrintableEdges), c);
  return (edge - std::begin(kPrintableEdges)) % 2 == 1;
}

char32_t TakeCodePoint(std::string_view* text) {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return i < text->size() ? static_cast<unsigned char>((*text)[i]) : 0;
  };
  const std::uint32_t lead = byte(0);
  // The length in the first byte, and the smallest valid value: smaller ones fit into fewer bytes
  // and are invalid, as are surrogates.
  std::size_t length = 1;
  std::uint32_t smallest = 0;
  std::uint32_t c = lead;
  if (lead >= 0xc0 && lead < 0xe0) {
    length = 2, smallest = 0x80, c = lead & 0x1f;
  } else if (lead >= 0xe0 && lead < 0xf0) {
    length = 3, smallest = 0x800, c = lead & 0x0f;
  } else if (lead >= 0xf0 && lead < 0xf8) {
    length = 4, smallest = 0x10000, c = lead & 0x07;
  }
  bool valid = lead < 0x80 || length > 1;
  for (std::size_t i = 1; i < length; ++i) {
    valid = valid && (byte(i) & 0xc0) == 0x80;
    c = c << 6 | (byte(i) & 0x3f);
  }
  if (!valid || c < smallest || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
    text->remove_prefix(1);
    return 0xfffd;
  }
  text->remove_prefix(length);
  return c;
}

void AppendQuoted(std::string_view text, std::string* out) {
  out->push_back('"');
  while (!text.empty()) {
    const std::string_view before = text;
    const char32_t c = TakeCodePoint(&text);
    const std::string_view bytes = before.substr(0, before.size() - text.size());
    if (c == 0xfffd && bytes.size() == 1) {
      out->append("\\x");
      AppendHex(static_cast<unsigned char>(bytes[0]), 2, out);
    } else if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(static_cast<char>(c));
    } else if (IsPrintable(c)) {
      out->append(bytes);
    } else {
      AppendEscaped(c, out);
    }
  }
  out->push_back('"');
}

void AppendUtf8(char32_t c, std::string* out) {
  const auto push = [out](char32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    push(c);
  } else if (c < 0x800) {
    push(0xc0 | c >> 6);
    push(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    push(0xe0 | c >> 12);
    push(0x80 | (c >> 6 & 0x3f));
    push(0x80 | (c & 0x3f));
  } else {
    push(0xf0 | c >> 18);
    push(0x80 | (c >> 12 & 0x3f));
    push(0x80 | (c >> 6 & 0x3f));
    push(0x80 | (c & 0x3f));
  }
}

std::string QuotedByte(unsigned char byte) {
  std::string out = "'";
  if (byte == '\'' || byte == '\\') {
    out.push_back('\\');
    out.push_back(static_cast<char>(byte));
  } else if (IsPrintable(byte)) {
    AppendUtf8(byte, &out);
  } else {
    AppendEscaped(byte, &out);
  }
  out.push_back('\'');
  return out;
}

std::string Quoted(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  AppendQuoted(text, &out);
  return out;
}

}  // namespace herald
