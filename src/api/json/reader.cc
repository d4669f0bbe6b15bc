#include "api/json/reader.h"

#include <vector>

#include "api/quote.h"
#include "base/bytes/copy_bytes.h"

namespace herald {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

// Only the first error is kept. The position is set to the end, so that all loops of callers end.
bool JsonReader::Fail(std::string_view context) {
  if (pos_ != end_) return FailInToken(context);
  if (ok()) error_ = "unexpected end of JSON input";
  return false;
}

// At the end of the text Go's scanner gets a space. So inside of a literal, a number or an escape,
// Go reports an invalid space.
bool JsonReader::FailInToken(std::string_view context) {
  if (!ok()) return false;
  const char found = pos_ == end_ ? ' ' : *pos_;
  error_ = "invalid character " + QuotedByte(static_cast<unsigned char>(found)) + " ";
  error_.append(context);
  pos_ = end_;
  return false;
}

JsonReader::Type JsonReader::PeekSlow() {
  SkipSpace();
  const Type type = pos_ == end_ ? Type::kError : kTypes[static_cast<unsigned char>(*pos_)];
  if (type == Type::kError) Fail("looking for beginning of value");
  return type;
}

bool JsonReader::Enter() {
  if (depth_ == kMaxDepth) return Fail("exceeded max depth");
  ++depth_;
  ++pos_;
  SkipSpace();
  return true;
}

const char* JsonReader::FindSpecialInFew(const char* p, const char* end) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  constexpr std::uint64_t kHighs = 0x8080808080808080;
  while (end - p >= 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    // One of the terms has a byte's high bit set if the byte is a special character. Borrows can
    // set wrong bits, but only after a right one.
    const std::uint64_t quote = word ^ (kOnes * '"');
    const std::uint64_t backslash = word ^ (kOnes * '\\');
    const std::uint64_t hits =
        ((quote - kOnes) | (backslash - kOnes) | (word - kOnes * 0x20) | word) & kHighs;
    if (hits != 0) {
      if constexpr (std::endian::native != std::endian::little) break;
      return p + std::countr_zero(hits) / 8;
    }
    p += 8;
  }
  while (p < end) {
    const auto c = static_cast<unsigned char>(*p);
    if (c == '"' || c == '\\' || c < 0x20 || c >= 0x80) break;
    ++p;
  }
  return p;
}

bool JsonReader::BeginObject() {
  if (!Enter()) return false;
  if (pos_ != end_ && *pos_ == '}') {
    ++pos_;
    --depth_;
    return false;
  }
  if (pos_ == end_ || *pos_ != '"') return Fail("looking for beginning of object key string");
  return true;
}

bool JsonReader::BeginArray() {
  if (!Enter()) return false;
  if (pos_ != end_ && *pos_ == ']') {
    ++pos_;
    --depth_;
    return false;
  }
  return true;
}

inline bool JsonReader::ExpectAfterValue(char close, std::string_view context) {
  SkipSpace();
  if (pos_ == end_) return Fail(context);
  if (*pos_ == ',') {
    ++pos_;
    SkipSpace();
    return true;
  }
  if (*pos_ != close) return Fail(context);
  ++pos_;
  --depth_;
  return false;
}

bool JsonReader::NextMemberAnyhow() {
  if (!ExpectAfterValue('}', "after object key:value pair")) return false;
  if (pos_ == end_ || *pos_ != '"') return Fail("looking for beginning of object key string");
  return true;
}

bool JsonReader::NextElement() { return ExpectAfterValue(']', "after array element"); }

void JsonReader::KeepLongText(std::string_view text, std::string* out) { KeepText(text, out); }

std::string_view JsonReader::ReadSpecialString() {
  ++pos_;
  scratch_.clear();
  ScanString(&scratch_);
  return scratch_;
}

std::string_view JsonReader::ReadKey() {
  const std::string_view key = ReadStringView();
  SkipSpace();
  if (pos_ == end_ || *pos_ != ':') {
    Fail("after object key");
    return {};
  }
  ++pos_;
  return key;
}

void JsonReader::ScanString(std::string* out) {
  for (;;) {
    const char* const start = pos_;
    pos_ = FindSpecial(pos_, end_);
    if (out != nullptr) out->append(start, static_cast<std::size_t>(pos_ - start));
    if (pos_ == end_) {
      Fail("in string literal");
      return;
    }
    const auto c = static_cast<unsigned char>(*pos_);
    if (c == '"') {
      ++pos_;
      return;
    }
    if (c >= 0x80) {
      ScanUtf8(out);
    } else if (c == '\\') {
      if (!ScanEscape(out)) return;
    } else {
      Fail("in string literal");
      return;
    }
  }
}

void JsonReader::ScanUtf8(std::string* out) {
  std::string_view rest(pos_, static_cast<std::size_t>(end_ - pos_));
  const char32_t c = TakeCodePoint(&rest);
  if (out != nullptr) AppendUtf8(c, out);
  pos_ = rest.data();
}

bool JsonReader::ScanHex4(std::uint32_t* unit) {
  *unit = 0;
  for (int i = 0; i < 4; ++i, ++pos_) {
    const char c = pos_ == end_ ? ' ' : *pos_;
    std::uint32_t digit;
    if (IsDigit(c)) {
      digit = static_cast<std::uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<std::uint32_t>(c - 'a' + 10);
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<std::uint32_t>(c - 'A' + 10);
    } else {
      return FailInToken("in \\u hexadecimal character escape");
    }
    *unit = *unit << 4 | digit;
  }
  return true;
}

bool JsonReader::ScanEscape(std::string* out) {
  ++pos_;
  if (pos_ == end_) return FailInToken("in string escape code");
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (const std::size_t i = kLetters.find(*pos_); i != std::string_view::npos) {
    ++pos_;
    if (out != nullptr) out->push_back(kMeanings[i]);
    return true;
  }
  if (*pos_ != 'u') return FailInToken("in string escape code");
  ++pos_;
  std::uint32_t unit;
  if (!ScanHex4(&unit)) return false;
  char32_t rune = unit;
  if (unit >= 0xd800 && unit < 0xe000) {
    // Half of a surrogate pair. It becomes U+FFFD unless the other half follows.
    rune = 0xfffd;
    const char* const after_first = pos_;
    if (unit < 0xdc00 && end_ - pos_ >= 2 && pos_[0] == '\\' && pos_[1] == 'u') {
      pos_ += 2;
      std::uint32_t low;
      if (!ScanHex4(&low)) return false;
      if (low >= 0xdc00 && low < 0xe000) {
        rune = 0x10000 + ((unit - 0xd800) << 10 | (low - 0xdc00));
      } else {
        pos_ = after_first;
      }
    }
  }
  if (out != nullptr) AppendUtf8(rune, out);
  return true;
}

bool JsonReader::ScanDigits(std::string_view context) {
  if (pos_ == end_ || !IsDigit(*pos_)) return FailInToken(context);
  while (pos_ != end_ && IsDigit(*pos_)) ++pos_;
  return true;
}

bool JsonReader::ScanNumber() {
  if (*pos_ == '-') ++pos_;
  if (pos_ != end_ && *pos_ == '0') {
    ++pos_;  // the number ends after a leading zero, even if a digit follows
  } else if (!ScanDigits("in numeric literal")) {
    return false;
  }
  if (pos_ != end_ && *pos_ == '.') {
    ++pos_;
    if (!ScanDigits("after decimal point in numeric literal")) return false;
  }
  if (pos_ != end_ && (*pos_ == 'e' || *pos_ == 'E')) {
    ++pos_;
    if (pos_ != end_ && (*pos_ == '+' || *pos_ == '-')) ++pos_;
    if (!ScanDigits("in exponent of numeric literal")) return false;
  }
  return true;
}

std::string_view JsonReader::ReadNumber() {
  const char* const start = pos_;
  if (!ScanNumber()) return {};
  return {start, static_cast<std::size_t>(pos_ - start)};
}

void JsonReader::SkipLiteral(std::string_view literal) {
  for (std::size_t i = 0; i < literal.size(); ++i, ++pos_) {
    if (pos_ != end_ && *pos_ == literal[i]) continue;
    FailInToken(std::string("in literal ").append(literal).append(" (expecting '") + literal[i] +
                "')");
    return;
  }
}

bool JsonReader::ReadBool() {
  const bool value = *pos_ == 't';
  SkipLiteral(value ? "true" : "false");
  return value && ok();
}

std::string_view JsonReader::SkipValue() {
  SkipSpace();
  const char* const start = pos_;
  // The open containers. No recursion, because a body may have 10,000 levels and threads have small
  // stacks.
  std::vector<Type> open;
  for (;;) {
    const Type type = Peek();
    bool inside = false;
    switch (type) {
      case Type::kObject:
        inside = BeginObject();
        if (inside) ReadKey();
        break;
      case Type::kArray:
        inside = BeginArray();
        break;
      case Type::kString:
        ++pos_;
        ScanString(nullptr);
        break;
      case Type::kNumber:
        ScanNumber();
        break;
      case Type::kBool:
        ReadBool();
        break;
      case Type::kNull:
        ReadNull();
        break;
      case Type::kError:
        break;
    }
    if (!ok()) return {};
    if (inside) {
      open.push_back(type);
      continue;
    }
    while (!open.empty()) {
      if (open.back() == Type::kArray ? NextElement() : NextMember()) {
        if (open.back() == Type::kObject) ReadKey();
        break;
      }
      if (!ok()) return {};
      open.pop_back();
    }
    if (open.empty()) return {start, static_cast<std::size_t>(pos_ - start)};
  }
}

bool JsonReader::Finish() {
  SkipSpace();
  if (ok() && pos_ != end_) Fail("after top-level value");
  return ok();
}

}  // namespace herald
