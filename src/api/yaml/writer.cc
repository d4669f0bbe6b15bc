#include "api/json/writer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "api/json/document.h"
#include "api/yaml/scalar.h"
#include "api/yaml/yaml.h"
#include "base/check.h"

namespace herald {
namespace yaml {
namespace {

// Deeper values are written as JSON, so that the stack is limited.
constexpr int kMaxDepth = 1000;
// The column after which long strings are folded: the library's default.
constexpr std::size_t kBestWidth = 80;
// A longer key is written after a question mark.
constexpr std::size_t kMaxSimpleKeyBytes = 128;
// How many bytes of indentation a document may have: a list below 1,000 levels would need
// gigabytes. Ordinary documents have less than one byte of it per byte of JSON. Values that would
// exceed the limit are written as JSON on one line, which has the same meaning.
constexpr std::size_t kFreeIndentBytes = 16u << 10;
constexpr std::size_t kIndentBytesPerByte = 8;

// [-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?, which other readers of YAML 1.1 take for a number.
bool IsBase60(std::string_view text) {
  if (!Take(&text, '-')) (void)Take(&text, '+');
  if (text.empty() || !IsDigit(text.front())) return false;
  while (!text.empty() && (IsDigit(text.front()) || text.front() == '_')) text.remove_prefix(1);
  int groups = 0;
  while (Take(&text, ':')) {
    const std::string_view before = text;
    const int value = TakeDigits(&text, 1, 2);
    if (value < 0 || (before.size() - text.size() == 2 && value > 59)) return false;
    ++groups;
  }
  if (Take(&text, '.')) {
    while (!text.empty() && (IsDigit(text.front()) || text.front() == '_')) text.remove_prefix(1);
  }
  return groups > 0 && text.empty();
}

std::size_t CharBytes(char lead) {
  const auto c = static_cast<unsigned char>(lead);
  return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

// Printable as the library defines it: without tabs and without all beyond U+FFFF.
bool IsPrintable(std::string_view text, std::size_t i) {
  const auto at = [&](std::size_t k) {
    return k < text.size() ? static_cast<unsigned char>(text[k]) : 0U;
  };
  const unsigned c = at(i);
  if (c == '\n' || (c >= 0x20 && c <= 0x7E)) return true;
  if (c == 0xC2) return at(i + 1) >= 0xA0;
  if (c > 0xC2 && c < 0xED) return true;
  if (c == 0xED) return at(i + 1) < 0xA0;
  if (c == 0xEE) return true;
  if (c != 0xEF) return false;
  const bool mark = at(i + 1) == 0xBB && at(i + 2) == 0xBF;
  const bool none = at(i + 1) == 0xBF && (at(i + 2) == 0xBE || at(i + 2) == 0xBF);
  return !mark && !none;
}

// CR, LF, NEL, LS and PS.
bool IsBreak(std::string_view text, std::size_t i) {
  const std::string_view rest = text.substr(i);
  return rest.starts_with('\r') || rest.starts_with('\n') || rest.starts_with("\xC2\x85") ||
         rest.starts_with("\xE2\x80\xA8") || rest.starts_with("\xE2\x80\xA9");
}

// The styles in which a string can be written.
struct Analysis {
  std::size_t breaks = 0;  // line breaks of all kinds
  bool plain = true;
  bool single_quoted = true;
  bool block = true;
};

Analysis Analyze(std::string_view text) {
  Analysis result;
  if (text.empty()) {
    result.block = false;
    return result;
  }
  bool indicators = text.starts_with("---") || text.starts_with("...");
  bool special = false, break_space = false, space_break = false;
  bool previous_space = false, previous_break = false, after_blank = true;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const std::size_t next = i + CharBytes(c);
    const bool before_blank = next >= text.size() || text[next] == ' ' || text[next] == '\t';
    if (i == 0 && std::string_view("#,[]{}&*!|>'\"%@`").find(c) != std::string_view::npos) {
      indicators = true;
    } else if (i == 0 && (c == '?' || c == ':' || c == '-')) {
      indicators = indicators || before_blank;
    } else if (c == ':') {
      indicators = indicators || before_blank;
    } else if (c == '#') {
      indicators = indicators || after_blank;
    }
    if (!IsPrintable(text, i)) special = true;
    const bool is_break = IsBreak(text, i);
    if (c == ' ') {
      break_space = break_space || previous_break;
    } else if (is_break) {
      ++result.breaks;
      space_break = space_break || previous_space;
    }
    previous_space = c == ' ';
    previous_break = is_break;
    after_blank = c == ' ' || c == '\t' || c == '\0' || is_break;
    i = next;
  }
  const bool edge = text.front() == ' ' || text.back() == ' ' || IsBreak(text, 0) || previous_break;
  result.plain =
      !(edge || break_space || space_break || special || result.breaks > 0 || indicators);
  result.single_quoted = !(break_space || space_break || special);
  result.block = !(text.back() == ' ' || space_break || special);
  return result;
}

bool IsLetter(std::uint32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
}

std::vector<std::uint32_t> Runes(std::string_view text) {
  std::vector<std::uint32_t> runes;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = CharBytes(text[i]);
    auto rune = static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
    if (bytes > 1) rune &= 0xFFU >> (bytes + 1);
    for (std::size_t k = 1; k < bytes && i + k < text.size(); ++k)
      rune = (rune << 6) | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
    runes.push_back(rune);
    i += bytes;
  }
  return runes;
}

// The library's order of keys: digits by their numeric value, letters after everything else. A key
// is given by its code points.
bool KeyLess(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  const auto digit = [](std::uint32_t c) { return c >= '0' && c <= '9'; };
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] == b[i]) continue;
    const bool a_letter = IsLetter(a[i]), b_letter = IsLetter(b[i]);
    if (a_letter && b_letter) return a[i] < b[i];
    if (a_letter || b_letter) return b_letter;
    std::uint64_t a_number = 0, b_number = 0;
    if (a[i] == '0' || b[i] == '0') {
      for (std::size_t j = i; j-- > 0 && digit(a[j]);) {
        if (a[j] == '0') continue;
        a_number = b_number = 1;
        break;
      }
    }
    std::size_t a_end = i, b_end = i;
    for (; a_end < a.size() && digit(a[a_end]); ++a_end)
      a_number = a_number * 10 + (a[a_end] - '0');
    for (; b_end < b.size() && digit(b[b_end]); ++b_end)
      b_number = b_number * 10 + (b[b_end] - '0');
    if (a_number != b_number) return a_number < b_number;
    if (a_end != b_end) return a_end < b_end;
    return a[i] < b[i];
  }
  return a.size() < b.size();
}

// Writes a document in block style. Thread-confined, used once.
class YamlMaker {
 public:
  explicit YamlMaker(std::size_t json_bytes)
      : indent_left_(kFreeIndentBytes + kIndentBytesPerByte * json_bytes) {}

  std::string Make(const Json& json) {
    Write(json, Place::kRoot, -1, 0);
    if (out_.empty() || out_.back() != '\n') out_ += '\n';
    return std::move(out_);
  }

 private:
  // What a value follows: nothing, a key or a dash.
  enum class Place : std::uint8_t { kRoot, kKey, kDash };

  void Put(std::string_view text) {
    out_.append(text);
    column_ += text.size();
  }
  void NewLine(int indent) {
    if (!out_.empty() && out_.back() != '\n') out_ += '\n';
    out_.append(static_cast<std::size_t>(std::max(indent, 0)), ' ');
    column_ = static_cast<std::size_t>(std::max(indent, 0));
  }

  // Takes the indentation of `lines` lines from the limit. Returns false if not enough is left.
  bool TakeIndent(std::size_t lines, int indent) {
    const std::size_t bytes = lines * static_cast<std::size_t>(std::max(indent, 0));
    if (bytes > indent_left_) return false;
    indent_left_ -= bytes;
    return true;
  }

  // Writes the value as JSON, which is valid YAML and needs neither stack nor indentation.
  void WriteFlow(const Json& json, Place place) {
    std::string flow;
    AppendJson(json, &flow);
    WriteWord(flow, place);
  }

  // `indent` is the indentation of the container that holds the value; -1 at the root.
  void Write(const Json& json, Place place, int indent, int depth) {
    if (depth > kMaxDepth && json.is_container()) return WriteFlow(json, place);
    switch (json.type()) {
      case Json::Type::kObject:
        if (!json.object().empty()) return WriteMap(json, place, indent, depth);
        return WriteWord("{}", place);
      case Json::Type::kArray:
        if (!json.array().empty()) return WriteList(json, place, indent, depth);
        return WriteWord("[]", place);
      case Json::Type::kString:
        return WriteString(json.AsString(), place, indent, false);
      case Json::Type::kNumber: {
        const Scalar number = Resolve(json.text());
        if (const auto* d = std::get_if<double>(&number)) return WriteWord(FormatG(*d), place);
        if (const auto* i = std::get_if<std::int64_t>(&number))
          return WriteWord(std::to_string(*i), place);
        // Exceeds the range of a double: upstream reads it as a string and writes it as one.
        if (std::holds_alternative<std::string>(number))
          return WriteString(std::string(json.text()), place, indent, false);
        return WriteWord(json.text(), place);
      }
      case Json::Type::kBool:
        return WriteWord(json.AsBool() ? "true" : "false", place);
      case Json::Type::kNull:
        return WriteWord("null", place);
    }
  }

  void WriteWord(std::string_view word, Place place) {
    if (place != Place::kRoot) Put(" ");
    Put(word);
  }

  void WriteMap(const Json& json, Place place, int indent, int depth) {
    const int inner = indent < 0 ? 0 : indent + 2;
    // A key after a question mark takes two lines.
    if (!TakeIndent(2 * json.object().size(), inner)) return WriteFlow(json, place);
    struct Member {
      std::vector<std::uint32_t> runes;
      const std::string* key;
      const Json* value;
    };
    std::vector<Member> members;
    members.reserve(json.object().size());
    for (const auto& [key, value] : json.object()) members.push_back({Runes(key), &key, &value});
    std::sort(members.begin(), members.end(),
              [](const Member& a, const Member& b) { return KeyLess(a.runes, b.runes); });
    bool first = true;
    for (const Member& member : members) {
      const std::string& key = *member.key;
      // The first member of a map in a list is on the line of the dash.
      if (first && place == Place::kDash) {
        Put(" ");
      } else {
        NewLine(inner);
      }
      first = false;
      if (Analyze(key).breaks == 0 && key.size() <= kMaxSimpleKeyBytes) {
        WriteString(key, Place::kRoot, inner, true);
        Put(":");
      } else {
        Put("?");
        WriteString(key, Place::kKey, inner, false);
        NewLine(inner);
        Put(":");
      }
      Write(*member.value, Place::kKey, inner, depth + 1);
    }
  }

  void WriteList(const Json& json, Place place, int indent, int depth) {
    // A list after a key has the indentation of the key.
    const int inner = indent < 0 ? 0 : place == Place::kKey ? indent : indent + 2;
    if (!TakeIndent(json.array().size(), inner)) return WriteFlow(json, place);
    bool first = true;
    for (const Json& element : json.array()) {
      if (first && place == Place::kDash) {
        Put(" ");
      } else {
        NewLine(inner);
      }
      first = false;
      Put("-");
      Write(element, Place::kDash, inner, depth + 1);
    }
  }

  void WriteString(const std::string& text, Place place, int indent, bool key) {
    if (place != Place::kRoot) Put(" ");
    const Analysis can = Analyze(text);
    const int inner = std::max(indent, 0) + 2;
    const bool has_newline = text.find('\n') != std::string::npos;
    if (has_newline && can.block && !key && TakeIndent(can.breaks + 1, inner))
      return WriteLiteral(text, inner);
    const bool meant = std::holds_alternative<std::string>(Resolve(text)) && !IsBase60(text);
    if (!has_newline && meant) {
      if (can.plain) return WriteFolded(text, "", inner, key);
      if (can.single_quoted && TakeIndent(can.breaks, inner))
        return WriteFolded(text, "'", inner, key);
    }
    WriteDoubleQuoted(text, inner, key);
  }

  void WriteLiteral(std::string_view text, int indent) {
    Put("|");
    if (text.front() == ' ' || IsBreak(text, 0)) Put("2");
    if (text.back() != '\n') {
      Put("-");
    } else if (text.size() == 1 || text[text.size() - 2] == '\n') {
      Put("+");
    }
    out_ += '\n';
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t end = std::min(text.find('\n', i), text.size());
      if (end > i) {
        out_.append(static_cast<std::size_t>(indent), ' ');
        out_.append(text.substr(i, end - i));
      }
      out_ += '\n';
      i = end + 1;
    }
    column_ = 0;
  }

  // Writes a string plain or in single quotes. REQUIRES: it contains no \n
  void WriteFolded(std::string_view text, std::string_view quote, int indent, bool key) {
    Put(quote);
    bool after_space = false, after_break = false;
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t bytes = std::min(CharBytes(text[i]), text.size() - i);
      if (IsBreak(text, i)) {  // CR, NEL, LS or PS: written unchanged
        out_.append(text.substr(i, bytes));
        column_ = 0;
        after_break = true;
      } else if (text[i] == ' ') {
        const bool last = i + 1 >= text.size();
        const bool inside = quote.empty() || (i > 0 && !last);
        if (!key && !after_space && column_ > kBestWidth && inside &&
            (last || text[i + 1] != ' ') && TakeIndent(1, indent)) {
          NewLine(indent);
        } else {
          Put(" ");
        }
        after_space = true;
      } else {
        if (after_break) Put(std::string(static_cast<std::size_t>(indent), ' '));
        after_break = false;
        if (!quote.empty() && text[i] == '\'') Put("'");
        out_.append(text.substr(i, bytes));
        ++column_;
        after_space = false;
      }
      i += bytes;
    }
    Put(quote);
  }

  void WriteDoubleQuoted(std::string_view text, int indent, bool key) {
    Put("\"");
    bool after_space = false;
    for (std::size_t i = 0; i < text.size();) {
      const char c = text[i];
      const std::size_t bytes = std::min(CharBytes(c), text.size() - i);
      if (!IsPrintable(text, i) || text.starts_with("\xEF\xBB\xBF") || IsBreak(text, i) ||
          c == '"' || c == '\\') {
        WriteEscape(Runes(text.substr(i, bytes)).front());
        after_space = false;
      } else if (c == ' ') {
        if (!key && !after_space && column_ > kBestWidth && i > 0 && i + 1 < text.size() &&
            TakeIndent(1, indent)) {
          NewLine(indent);
          if (text[i + 1] == ' ') Put("\\");
        } else {
          Put(" ");
        }
        after_space = true;
      } else {
        out_.append(text.substr(i, bytes));
        ++column_;
        after_space = false;
      }
      i += bytes;
    }
    Put("\"");
  }

  void WriteEscape(std::uint32_t rune) {
    static constexpr std::array<std::pair<std::uint32_t, char>, 15> kNamed = {{{0x00, '0'},
                                                                               {0x07, 'a'},
                                                                               {0x08, 'b'},
                                                                               {0x09, 't'},
                                                                               {0x0A, 'n'},
                                                                               {0x0B, 'v'},
                                                                               {0x0C, 'f'},
                                                                               {0x0D, 'r'},
                                                                               {0x1B, 'e'},
                                                                               {0x22, '"'},
                                                                               {0x5C, '\\'},
                                                                               {0x85, 'N'},
                                                                               {0xA0, '_'},
                                                                               {0x2028, 'L'},
                                                                               {0x2029, 'P'}}};
    Put("\\");
    for (const auto& [known, letter] : kNamed) {
      if (rune == known) return Put({&letter, 1});
    }
    const int digits = rune <= 0xFF ? 2 : rune <= 0xFFFF ? 4 : 8;
    Put(digits == 2 ? "x" : digits == 4 ? "u" : "U");
    for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) {
      const char digit = "0123456789ABCDEF"[(rune >> shift) & 0xFU];
      Put({&digit, 1});
    }
  }

  std::string out_;
  std::size_t column_ = 0;  // characters since the last line break
  std::size_t indent_left_;
};

}  // namespace
}  // namespace yaml

std::string JsonToYaml(std::string_view json) {
  const Result<Json> document = ParseJson(json);
  HERALD_CHECK(document.has_value());
  return yaml::YamlMaker(json.size()).Make(*document);
}

}  // namespace herald
