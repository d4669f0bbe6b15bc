#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "herald/base/export.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace herald {

// A JsonReader walks through one JSON text from front to back and hands out its
// pieces. It never builds a tree and never copies what its caller does not keep.
//
// It is ours, and not a library, because of what Kubernetes' decoder does where
// the fast parsers do something else, and where every difference would be an
// event refused or stored otherwise than a real API server would: bytes that are
// no UTF-8 and halves of surrogate pairs become U+FFFD instead of errors; numbers
// nobody reads may be of any size; 10,000 levels of nesting are fine; and what is
// skipped is checked as carefully as what is kept, with errors in Go's words.
//
//   for (bool more = reader.BeginObject(); more; more = reader.NextMember()) {
//     std::string_view key = reader.ReadKey();
//     ... read or skip exactly one value ...
//   }
//   if (!reader.Finish()) return reader.error();
//
// After the first error every call returns false, zero or nothing, so a caller
// may look at ok() once, at the end.
//
// Thread-confined. (Exported for client, which may be another shared library.) The text must
// outlive the reader and all views it hands out.
class HERALD_EXPORT JsonReader {
 public:
  enum class Type : std::uint8_t { kObject, kArray, kString, kNumber, kBool, kNull, kError };

  // Go's encoding/json stops here as well, to protect its stack.
  static constexpr int kMaxDepth = 10'000;

  explicit JsonReader(std::string_view text)
      : begin_(text.data()), pos_(text.data()), end_(text.data() + text.size()) {}

  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  // The type of the value that comes next, told by its first character.
  [[gnu::always_inline]] Type Peek() {
    // White space is none of the types, and there is none in what Kubernetes writes.
    const Type type = pos_ == end_ ? Type::kError : kTypes[static_cast<unsigned char>(*pos_)];
    return type == Type::kError ? PeekAnyhow() : type;
  }

  // Steps into an object: true if it has a member, whose key is next.
  // REQUIRES: Peek() == kObject
  bool BeginObject();
  // After a member's value: true if another member follows.
  [[gnu::always_inline]] bool NextMember() {
    // Kubernetes writes no white space, so this is nearly always all there is to see.
    if (end_ - pos_ >= 2 && pos_[0] == ',' && pos_[1] == '"') {
      ++pos_;
      return true;
    }
    if (pos_ != end_ && *pos_ == '}') {
      ++pos_;
      --depth_;
      return false;
    }
    return NextMemberAnyhow();
  }
  // A member's key and the colon behind it. If the key was written with escapes
  // the view dies with the next key or string view, so copy what has to stay.
  std::string_view ReadKey();
  // Steps over the key if it is `expected`, the member that usually comes next;
  // otherwise stays where it is. Cheaper than reading and comparing, where the compiler
  // knows the name; so it has to be inlined, or it does not.
  [[gnu::always_inline]] bool SkipExpectedKey(std::string_view expected) {
    const std::size_t size = expected.size();
    if (static_cast<std::size_t>(end_ - pos_) < size + 3 || pos_[size + 1] != '"' ||
        pos_[size + 2] != ':' || std::memcmp(pos_ + 1, expected.data(), size) != 0) {
      return false;
    }
    pos_ += size + 3;
    return true;
  }

  // Steps into an array: true if it has an element, which is next.
  // REQUIRES: Peek() == kArray
  bool BeginArray();
  // After an element: true if another one follows.
  bool NextElement();

  // REQUIRES: Peek() says so
  void ReadString(std::string* out) {
    const char* const start = pos_ + 1;
    const std::string_view text = ReadStringView();
    if (text.size() > kShortText || left() < kShortText || out->capacity() != kShortText ||
        text.data() != start) {
      return KeepLongText(text, out);
    }
    // Most texts are short. To copy as much as fits takes two moves, and a copy of any other
    // size two calls. What is too much of it belongs to the rest of the document.
    std::destroy_at(out);
    std::construct_at(out, start, kShortText);
    out->erase(text.size());
  }
  // Without a copy unless it was written with escapes; dies as ReadKey()'s does.
  std::string_view ReadStringView() {
    const char* const start = pos_ + 1;
    const char* const end = FindSpecial(start, end_);
    if (end == end_ || *end != '"') return ReadOddString();
    pos_ = end + 1;
    return {start, static_cast<std::size_t>(end - start)};
  }
  std::string_view ReadNumber();  // as it is written
  bool ReadBool();
  void ReadNull() {
    if (left() >= 4 && std::memcmp(pos_, "null", 4) == 0) {
      pos_ += 4;
    } else {
      SkipLiteral("null");
    }
  }

  // Checks a value of any type and steps over it; returns its text, untouched.
  std::string_view SkipValue();

  // Whether the text ended, and well, after the value that was read.
  bool Finish();

  // Where in the text the reader stands: after Peek() at the first character of a
  // value, after a value right behind it.
  const char* position() const { return pos_; }
  // How many bytes of the text come after that.
  std::size_t left() const { return static_cast<std::size_t>(end_ - pos_); }

  bool ok() const { return error_.empty(); }
  // Why the text is no JSON, as Go's encoding/json says it.
  const std::string& error() const { return error_; }

 private:
  // What a std::string of libstdc++ holds without memory of its own.
  static constexpr std::size_t kShortText = 15;

  // By the first character of a value.
  static constexpr std::array<Type, 256> kTypes = [] {
    std::array<Type, 256> types{};
    types.fill(Type::kError);
    for (unsigned char c = '0'; c <= '9'; ++c) types[c] = Type::kNumber;
    types['-'] = Type::kNumber;
    types['"'] = Type::kString;
    types['{'] = Type::kObject;
    types['['] = Type::kArray;
    types['t'] = types['f'] = Type::kBool;
    types['n'] = Type::kNull;
    return types;
  }();

  // Where the run of plain characters that starts at `p` ends: at a quote, a
  // backslash, a control character or a byte beyond ASCII. Many bytes at a time,
  // because most of an event is inside strings.
  static const char* FindSpecial(const char* p, const char* end) {
#if defined(__SSE2__)
    for (; end - p >= 16; p += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
      const auto equals = [bytes](char c) { return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)); };
      // Bytes beyond ASCII are less as well: they count as negative.
      const __m128i controls = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20));
      const __m128i special = _mm_or_si128(_mm_or_si128(equals('"'), equals('\\')), controls);
      const auto hits = static_cast<std::uint32_t>(_mm_movemask_epi8(special));
      if (hits != 0) return p + std::countr_zero(hits);
    }
#endif
    return FindSpecialInFew(p, end);
  }
  // The same for the last few bytes, and for processors without instructions for it.
  static const char* FindSpecialInFew(const char* p, const char* end);

  void SkipSpace() {
    while (pos_ != end_ && (*pos_ == ' ' || *pos_ == '\n' || *pos_ == '\t' || *pos_ == '\r')) {
      ++pos_;
    }
  }
  // What the calls of these names do where white space or an error is next.
  Type PeekAnyhow();
  bool NextMemberAnyhow();
  // Not inlined, to keep ReadString() short.
  static void KeepLongText(std::string_view text, std::string* out);
  // A string with escapes, bytes beyond ASCII or no end.
  std::string_view ReadOddString();
  bool Fail(std::string_view context);
  bool FailInToken(std::string_view context);
  bool Enter();
  bool ExpectAfterValue(char close, std::string_view context);
  void SkipLiteral(std::string_view literal);
  bool ScanNumber();
  bool ScanDigits(std::string_view context);
  // Reads a string whose opening quote has been passed. With `out` null it is only
  // checked.
  void ScanString(std::string* out);
  bool ScanEscape(std::string* out);
  bool ScanHex4(std::uint32_t* unit);
  // Steps over one UTF-8 sequence, or one byte that begins none.
  void ScanUtf8(std::string* out);

  const char* const begin_;
  const char* pos_;
  const char* const end_;
  int depth_ = 0;
  std::string scratch_;  // the last view that had to be unescaped
  std::string error_;
};

}  // namespace herald
