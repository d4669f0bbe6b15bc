#include "api/json/writer.h"

#include <algorithm>
#include <array>
#include <bit>

#include "api/quote.h"

namespace herald {
namespace {

// The longest escape, \u2028, for one byte.
constexpr std::size_t kMaxEscape = 6;

// The escapes of ASCII characters: 0 for none, 'u' for \u00xx, other letters follow a backslash.
constexpr std::array<char, 128> kEscapes = [] {
  std::array<char, 128> escapes{};
  for (int c = 0; c < 0x20; ++c) escapes[static_cast<std::size_t>(c)] = 'u';
  escapes['\b'] = 'b';
  escapes['\f'] = 'f';
  escapes['\n'] = 'n';
  escapes['\r'] = 'r';
  escapes['\t'] = 't';
  escapes['"'] = '"';
  escapes['\\'] = '\\';
  escapes['<'] = escapes['>'] = escapes['&'] = 'u';
  return escapes;
}();

bool IsPlain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x80 && kEscapes[byte] == 0;
}

char* PutUnicodeEscape(std::uint32_t unit, char* to) {
  *to++ = '\\';
  *to++ = 'u';
  for (int shift = 12; shift >= 0; shift -= 4) *to++ = "0123456789abcdef"[unit >> shift & 0xf];
  return to;
}

char* PutEscape(unsigned char c, char* to) {
  if (kEscapes[c] == 'u') return PutUnicodeEscape(c, to);
  *to++ = '\\';
  *to++ = kEscapes[c];
  return to;
}

// Sets the high bit of each byte that is not plain. Only the first such bit is reliable, because
// borrows can set bits after it.
std::uint64_t FindNotPlain(std::uint64_t word) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  constexpr std::uint64_t kHighs = 0x8080808080808080;
  const auto equals = [word](char c) {
    return (word ^ (kOnes * static_cast<unsigned char>(c))) - kOnes;
  };
  // '<' and '>' differ in one bit, so one test finds both.
  const std::uint64_t angles = ((word | kOnes * 2) ^ (kOnes * '>')) - kOnes;
  return (equals('"') | equals('\\') | equals('&') | angles | (word - kOnes * 0x20) | word) &
         kHighs;
}

// Copies characters that need no escape and returns the end of the copied part of `from`. May write
// up to seven bytes more than it copies.
const char* CopyPlain(const char* from, const char* end, char** to) {
  char* out = *to;
  while (end - from >= 8) {
    std::uint64_t word;
    std::memcpy(&word, from, 8);
    std::memcpy(out, &word, 8);
    const std::uint64_t hits = FindNotPlain(word);
    if (hits != 0) {
      if constexpr (std::endian::native != std::endian::little) break;
      const int plain = std::countr_zero(hits) / 8;
      *to = out + plain;
      return from + plain;
    }
    from += 8;
    out += 8;
  }
  while (from != end && IsPlain(*from)) *out++ = *from++;
  *to = out;
  return from;
}

char* PutString(std::string_view text, char* to) {
  const char* from = text.data();
  const char* const end = from + text.size();
  *to++ = '"';
  for (;;) {
    from = CopyPlain(from, end, &to);
    if (from == end) break;
    const auto byte = static_cast<unsigned char>(*from);
    if (byte < 0x80) {
      to = PutEscape(byte, to);
      ++from;
      continue;
    }
    std::string_view rest(from, static_cast<std::size_t>(end - from));
    const char32_t c = TakeCodePoint(&rest);
    const std::size_t length = static_cast<std::size_t>(rest.data() - from);
    const bool repaired = c == 0xfffd && length == 1;
    if (repaired || c == 0x2028 || c == 0x2029) {
      to = PutUnicodeEscape(c, to);
    } else {
      std::memcpy(to, from, length);
      to += length;
    }
    from += length;
  }
  *to++ = '"';
  return to;
}

}  // namespace

void JsonWriter::Grow(std::size_t bytes) {
  const std::size_t used = size();
  const std::size_t capacity = std::max(used + bytes, 2 * static_cast<std::size_t>(end_ - begin_));
  auto larger = std::make_unique_for_overwrite<char[]>(capacity);
  std::memcpy(larger.get(), begin_, used);
  heap_ = std::move(larger);
  begin_ = heap_.get();
  pos_ = begin_ + used;
  end_ = begin_ + capacity;
}

void JsonWriter::String(std::string_view text) {
  Ensure(kMaxEscape * text.size() + 2 + 8);
  pos_ = PutString(text, pos_);
}

void AppendJsonString(std::string_view text, std::string* out) {
  JsonWriter writer;
  writer.String(text);
  out->append(writer.text());
}

void AppendCompactJson(std::string_view json, std::string* out) {
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '<' || c == '>' || c == '&') {
      char escape[kMaxEscape];
      PutUnicodeEscape(static_cast<unsigned char>(c), escape);
      out->append(escape, kMaxEscape);
    } else if (json.substr(i, 2) == "\xe2\x80" && i + 2 < json.size() &&
               (json[i + 2] == '\xa8' || json[i + 2] == '\xa9')) {
      out->append(json[i + 2] == '\xa8' ? "\\u2028" : "\\u2029");
      i += 2;
    } else if (in_string || (c != ' ' && c != '\n' && c != '\t' && c != '\r')) {
      out->push_back(c);
    }
    if (in_string && c == '\\') {
      out->push_back(json[++i]);
    } else if (c == '"') {
      in_string = !in_string;
    }
  }
}

}  // namespace herald
