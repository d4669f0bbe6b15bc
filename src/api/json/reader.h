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

// A JsonReader reads a JSON text from front to back. It builds no tree and copies only what the
// caller keeps.
//
// We do not use a library, because Kubernetes' decoder differs from fast parsers, and each
// difference would reject or store an event in another way than an API server does: invalid UTF-8
// and single surrogates become U+FFFD and are not errors; numbers that are skipped may have any
// size; 10,000 levels of nesting are allowed; skipped values are checked like all others; and
// errors are Go's.
//
//   for (bool more = reader.BeginObject(); more; more = reader.NextMember()) {
//     std::string_view key = reader.ReadKey();
//     ... read or skip exactly one value ...
//   }
//   if (!reader.Finish()) return reader.error();
//
// After the first error every call returns false, zero or an empty value, so a caller may check
// ok() once, at the end.
//
// Thread-confined. The text must outlive the reader and all views that it returns. (Exported for
// client, which may be another shared library.)
class HERALD_EXPORT JsonReader {
 public:
  enum class Type : std::uint8_t { kObject, kArray, kString, kNumber, kBool, kNull, kError };

  // The limit of Go's encoding/json, which protects its stack.
  static constexpr int kMaxDepth = 10'000;

  explicit JsonReader(std::string_view text)
      : begin_(text.data()), pos_(text.data()), end_(text.data() + text.size()) {}

  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  // The type of the next value, from its first character.
  [[gnu::always_inline]] Type Peek() {
    // White space has no type. Kubernetes writes none.
    const Type type = pos_ == end_ ? Type::kError : kTypes[static_cast<unsigned char>(*pos_)];
    return type == Type::kError ? PeekSlow() : type;
  }

  // Enters an object. Returns true if it has a member; its key is next.
  // REQUIRES: Peek() == kObject
  bool BeginObject();
  // Called after a member's value. Returns true if another member follows.
  [[gnu::always_inline]] bool NextMember() {
    // The usual case, because Kubernetes writes no white space.
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
  // Reads a member's key and the colon. If the key has escapes, the view is valid only until the
  // next ReadKey() or ReadStringView().
  std::string_view ReadKey();
  // Skips the key if it is `expected`, and reads nothing otherwise. Cheaper than reading and
  // comparing if the compiler knows the name, which requires inlining.
  [[gnu::always_inline]] bool SkipExpectedKey(std::string_view expected) {
    const std::size_t size = expected.size();
    if (static_cast<std::size_t>(end_ - pos_) < size + 3 || pos_[size + 1] != '"' ||
        pos_[size + 2] != ':' || std::memcmp(pos_ + 1, expected.data(), size) != 0) {
      return false;
    }
    pos_ += size + 3;
    return true;
  }

  // Enters an array. Returns true if it has an element, which is next.
  // REQUIRES: Peek() == kArray
  bool BeginArray();
  // Called after an element. Returns true if another one follows.
  bool NextElement();

  // REQUIRES: Peek() returned this type
  void ReadString(std::string* out) {
    const char* const start = pos_ + 1;
    const std::string_view text = ReadStringView();
    if (text.size() > kShortText || left() < kShortText || out->capacity() != kShortText ||
        text.data() != start) {
      return KeepLongText(text, out);
    }
    // Most strings are short. A copy of a fixed size takes two moves, a copy of the exact size two
    // calls. The extra bytes are the following part of the document.
    std::destroy_at(out);
    std::construct_at(out, start, kShortText);
    out->erase(text.size());
  }
  // A view without a copy unless the string has escapes; valid as long as that of ReadKey().
  std::string_view ReadStringView() {
    const char* const start = pos_ + 1;
    const char* const end = FindSpecial(start, end_);
    if (end == end_ || *end != '"') return ReadSpecialString();
    pos_ = end + 1;
    return {start, static_cast<std::size_t>(end - start)};
  }
  std::string_view ReadNumber();  // its original text
  bool ReadBool();
  void ReadNull() {
    if (left() >= 4 && std::memcmp(pos_, "null", 4) == 0) {
      pos_ += 4;
    } else {
      SkipLiteral("null");
    }
  }

  // Checks and skips a value of any type. Returns its original text.
  std::string_view SkipValue();

  // Returns true if there was no error and nothing follows the value.
  bool Finish();

  // The position in the text: after Peek(), the first character of the value; after a value, the
  // first one behind it.
  const char* position() const { return pos_; }
  // The number of bytes after the position.
  std::size_t left() const { return static_cast<std::size_t>(end_ - pos_); }

  bool ok() const { return error_.empty(); }
  // The error message of Go's encoding/json.
  const std::string& error() const { return error_; }

 private:
  // The capacity of libstdc++'s std::string without an allocation.
  static constexpr std::size_t kShortText = 15;

  // Types by the first character of a value.
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

  // Finds the first special character at or after `p`: a quote, a backslash, a control character or
  // a byte beyond ASCII. Compares many bytes at once, because most of an event is inside strings.
  static const char* FindSpecial(const char* p, const char* end) {
#if defined(__SSE2__)
    for (; end - p >= 16; p += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
      const auto equals = [bytes](char c) { return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)); };
      // Bytes beyond ASCII are also less, because they are negative.
      const __m128i controls = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20));
      const __m128i special = _mm_or_si128(_mm_or_si128(equals('"'), equals('\\')), controls);
      const auto hits = static_cast<std::uint32_t>(_mm_movemask_epi8(special));
      if (hits != 0) return p + std::countr_zero(hits);
    }
#endif
    return FindSpecialInFew(p, end);
  }
  // The same for the last few bytes, and for processors without SSE2.
  static const char* FindSpecialInFew(const char* p, const char* end);

  void SkipSpace() {
    while (pos_ != end_ && (*pos_ == ' ' || *pos_ == '\n' || *pos_ == '\t' || *pos_ == '\r')) {
      ++pos_;
    }
  }
  // The slow paths of Peek() and NextMember(), for white space and errors.
  Type PeekSlow();
  bool NextMemberAnyhow();
  // Not inlined, to keep ReadString() short.
  static void KeepLongText(std::string_view text, std::string* out);
  // Reads a string with escapes, bytes beyond ASCII or no end.
  std::string_view ReadSpecialString();
  bool Fail(std::string_view context);
  bool FailInToken(std::string_view context);
  bool Enter();
  bool ExpectAfterValue(char close, std::string_view context);
  void SkipLiteral(std::string_view literal);
  bool ScanNumber();
  bool ScanDigits(std::string_view context);
  // Reads a string after its opening quote. With a null `out` the string is only checked.
  void ScanString(std::string* out);
  bool ScanEscape(std::string* out);
  bool ScanHex4(std::uint32_t* unit);
  // Reads one UTF-8 sequence, or one byte that is not the beginning of one.
  void ScanUtf8(std::string* out);

  const char* const begin_;
  const char* pos_;
  const char* const end_;
  int depth_ = 0;
  std::string scratch_;  // the last string that was unescaped
  std::string error_;
};

}  // namespace herald
