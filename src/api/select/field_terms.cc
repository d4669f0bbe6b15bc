#include "api/select/field_terms.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "api/quote.h"
#include "fmt/format.h"

namespace herald {
namespace {

Status Invalid(std::string message) {
  return Status(StatusReason::kBadRequest, std::move(message));
}

// The separators, which must be escaped in a value.
constexpr std::string_view kSpecial = "\\,=";

// Splits at commas without a backslash before them. Omits empty pieces.
std::vector<std::string_view> SplitTerms(std::string_view text) {
  std::vector<std::string_view> pieces;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || text[i] == ',') {
      if (i > start) pieces.push_back(text.substr(start, i - start));
      start = i + 1;
    } else if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
    }
  }
  return pieces;
}

struct Halves {
  std::string_view field;
  bool equal = true;
  std::string_view value;  // still escaped
};

// The first operator splits the term, even after a backslash: only values have escapes.
std::optional<Halves> SplitTerm(std::string_view term) {
  const std::size_t at = term.find('=');
  if (at == std::string_view::npos) return std::nullopt;
  if (at > 0 && term[at - 1] == '!') {
    return Halves{term.substr(0, at - 1), false, term.substr(at + 1)};
  }
  const bool doubled = at + 1 < term.size() && term[at + 1] == '=';
  return Halves{term.substr(0, at), true, term.substr(at + (doubled ? 2 : 1))};
}

Result<std::string> Unescape(std::string_view value) {
  // Kubernetes replaces invalid UTF-8 only in values with special characters; others are compared
  // byte for byte (UnescapesValuesAndEscapesThemAgain).
  if (value.find_first_of(kSpecial) == std::string_view::npos) return std::string(value);
  std::string plain;
  plain.reserve(value.size());
  while (!value.empty()) {
    const bool escaped = value.front() == '\\';
    if (escaped) value.remove_prefix(1);
    if (value.empty()) return Invalid("invalid field selector: invalid escape sequence: \\");
    const char32_t c = TakeCodePoint(&value);
    const bool special = c < 0x80 && kSpecial.find(static_cast<char>(c)) != std::string_view::npos;
    if (special && !escaped) {
      return Invalid(fmt::format("invalid field selector: unescaped character in value: {}",
                                 static_cast<std::uint32_t>(c)));
    }
    if (escaped && !special) {
      std::string message = "invalid field selector: invalid escape sequence: \\";
      AppendUtf8(c, &message);
      return Invalid(std::move(message));
    }
    AppendUtf8(c, &plain);
  }
  return plain;
}

}  // namespace

Result<std::vector<FieldTerm>> ParseFieldTerms(std::string_view text) {
  std::vector<std::string_view> pieces = SplitTerms(text);
  std::ranges::sort(pieces);
  std::vector<FieldTerm> terms;
  terms.reserve(pieces.size());
  for (const std::string_view piece : pieces) {
    const std::optional<Halves> halves = SplitTerm(piece);
    if (!halves) {
      return Invalid(fmt::format("invalid selector: '{}'; can't understand '{}'", text, piece));
    }
    Result<std::string> value = Unescape(halves->value);
    if (!value) return value.error();
    // A term without name and value ("=", "!=") is ignored.
    if (halves->field.empty() && value->empty()) continue;
    terms.push_back({halves->field, halves->equal, *std::move(value)});
  }
  return terms;
}

void AppendFieldTerm(std::string_view field, bool equal, std::string_view value, std::string* out) {
  if (!out->empty()) out->push_back(',');
  out->append(field).append(equal ? "=" : "!=");
  for (const char c : value) {
    if (kSpecial.find(c) != std::string_view::npos) out->push_back('\\');
    out->push_back(c);
  }
}

}  // namespace herald
