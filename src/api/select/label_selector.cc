#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/quote.h"
#include "api/validation/object_meta.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "herald/api/selector.h"

namespace herald {
namespace {

using Operator = LabelSelector::Operator;
using Requirement = LabelSelector::Requirement;

// The operators between a key and its values.
struct OperatorText {
  std::string_view text;
  Operator op;
  bool takes_set;
};
constexpr auto kOperators = std::to_array<OperatorText>({
    {"in", Operator::kIn, true},
    {"notin", Operator::kNotIn, true},
    {"=", Operator::kEquals, false},
    {"==", Operator::kDoubleEquals, false},
    {"!=", Operator::kNotEquals, false},
    {">", Operator::kGreaterThan, false},
    {"<", Operator::kLessThan, false},
});

Status Invalid(std::string message) {
  return Status(StatusReason::kBadRequest, std::move(message));
}

Status InvalidToken(std::string_view found, std::string_view expected) {
  return Invalid(fmt::format("found '{}', expected: {}", found, expected));
}

using namespace std::string_view_literals;

constexpr std::string_view kSpaces = " \t\r\n";
constexpr std::string_view kSymbols = "=!(),><";
// The characters that end a word, including NUL.
constexpr std::string_view kWordEnds = "\0 \t\r\n=!(),><"sv;

constexpr bool IsSymbol(char c) { return kSymbols.find(c) != std::string_view::npos; }

// Reads a selector token by token. A token is a part of the text: a symbol ("(", "!="), a word
// (anything else between symbols and white space), or empty at the end. The parser decides whether
// the word "in" is an operator or a value.
//
// A NUL ends the text where a token could begin, and separates tokens elsewhere, because
// Kubernetes' lexer uses it as its end mark.
//
// Thread-confined.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : rest_(text), token_(Scan()) {}

  std::string_view Peek() const { return token_; }
  std::string_view Take() { return std::exchange(token_, Scan()); }

 private:
  std::string_view Scan() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kSpaces), rest_.size()));
    if (rest_.empty() || rest_.front() == '\0') return rest_ = {};
    const std::string_view token =
        rest_.substr(0, IsSymbol(rest_.front()) ? SymbolLength() : rest_.find_first_of(kWordEnds));
    rest_.remove_prefix(token.size());
    if (!rest_.empty() && rest_.front() == '\0') rest_.remove_prefix(1);
    return token;
  }
  // Only "==" and "!=" are longer than one character.
  std::size_t SymbolLength() const {
    return rest_.starts_with("==") || rest_.starts_with("!=") ? 2 : 1;
  }

  std::string_view rest_;
  std::string_view token_;
};

bool IsWord(std::string_view token) { return !token.empty() && !IsSymbol(token.front()); }
bool StartsRequirement(std::string_view token) { return IsWord(token) || token == "!"; }
bool EndsRequirement(std::string_view token) { return token.empty() || token == ","; }

// Parses a decimal number as Go does: with an optional sign, without spaces.
std::optional<std::int64_t> ParseInteger(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Parses "(a,b)". There is an empty value between two commas and between a comma and a parenthesis;
// "()" has one empty value, too.
Result<std::vector<std::string>> ParseSet(Lexer* lexer) {
  if (const std::string_view open = lexer->Take(); open != "(") {
    return Invalid(fmt::format("found '{}' expected: '('", open));
  }
  if (lexer->Peek() == ")") {
    lexer->Take();
    return std::vector<std::string>{""};
  }
  if (!IsWord(lexer->Peek()) && lexer->Peek() != ",") {
    return InvalidToken(lexer->Peek(), "',', ')' or identifier");
  }
  std::vector<std::string> values;
  bool after_comma = true;
  for (;;) {
    const std::string_view token = lexer->Take();
    if (IsWord(token)) {
      values.emplace_back(token);
      if (lexer->Peek() != "," && lexer->Peek() != ")") {
        return InvalidToken(lexer->Peek(), "',' or ')'");
      }
      after_comma = false;
    } else if (token == "," || token == ")") {
      if (after_comma) values.emplace_back();
      if (token == ")") return values;
      after_comma = true;
    } else {
      return InvalidToken(token, "',', or identifier");
    }
  }
}

Result<std::vector<std::string>> ParseSingle(Lexer* lexer) {
  if (EndsRequirement(lexer->Peek())) return std::vector<std::string>{""};
  const std::string_view token = lexer->Take();
  if (!IsWord(token)) return InvalidToken(token, "identifier");
  return std::vector<std::string>{std::string(token)};
}

std::string InvalidValue(std::string_view path, std::string_view value, std::string_view detail) {
  return fmt::format("{}: Invalid value: {}: {}", path, Quoted(value), detail);
}

Status CheckKey(std::string_view key) {
  const std::vector<std::string> faults = IsQualifiedName(key);
  if (faults.empty()) return Status();
  // Kubernetes has no path here and prints "<nil>".
  return Invalid(InvalidValue("<nil>", key, fmt::format("{}", fmt::join(faults, "; "))));
}

Status CheckValues(const Requirement& requirement) {
  const bool compares =
      requirement.op == Operator::kGreaterThan || requirement.op == Operator::kLessThan;
  std::vector<std::string> messages;
  std::size_t bytes = 0;
  // Limited as for objects, because each short invalid value adds a long message.
  for (std::size_t i = 0; i < requirement.values.size() && bytes <= FieldErrors::kMaxBytes; ++i) {
    const std::string& value = requirement.values[i];
    if (compares && !ParseInteger(value)) {
      messages.push_back(InvalidValue(fmt::format("values[{}]", i), value,
                                      "for 'Gt', 'Lt' operators, the value must be an integer"));
    }
    const std::vector<std::string> faults = IsValidLabelValue(value);
    if (!faults.empty()) {
      messages.push_back(InvalidValue(fmt::format("values[{}][{}]", i, requirement.key), value,
                                      fmt::format("{}", fmt::join(faults, "; "))));
      bytes += messages.back().size();
    }
  }
  if (messages.empty()) return Status();
  if (messages.size() == 1) return Invalid(std::move(messages.front()));
  return Invalid(fmt::format("[{}]", fmt::join(messages, ", ")));
}

Result<Requirement> ParseRequirement(Lexer* lexer) {
  const bool negated = lexer->Peek() == "!";
  if (negated) lexer->Take();
  const std::string_view key = lexer->Take();
  if (!IsWord(key)) return InvalidToken(key, "identifier");
  if (Status status = CheckKey(key); !status.ok()) return status;

  Requirement requirement{.key = std::string(key), .op = Operator::kExists, .values = {}};
  if (negated) requirement.op = Operator::kDoesNotExist;
  if (negated || EndsRequirement(lexer->Peek())) return requirement;

  const std::string_view text = lexer->Take();
  const auto* known = std::ranges::find(kOperators, text, &OperatorText::text);
  if (known == kOperators.end()) return InvalidToken(text, "in, notin, =, ==, !=, gt, lt");
  requirement.op = known->op;
  Result<std::vector<std::string>> values = known->takes_set ? ParseSet(lexer) : ParseSingle(lexer);
  if (!values) return values.error();

  requirement.values = *std::move(values);
  std::ranges::sort(requirement.values);
  const auto repeats = std::ranges::unique(requirement.values);
  requirement.values.erase(repeats.begin(), repeats.end());
  if (Status status = CheckValues(requirement); !status.ok()) return status;
  return requirement;
}

bool MatchesRequirement(const Requirement& requirement, const StringMap& labels) {
  const auto label = labels.find(requirement.key);
  const bool present = label != labels.end();
  const auto is_listed = [&] {
    return std::ranges::binary_search(requirement.values, label->second);
  };
  switch (requirement.op) {
    case Operator::kExists:
      return present;
    case Operator::kDoesNotExist:
      return !present;
    case Operator::kEquals:
    case Operator::kDoubleEquals:
    case Operator::kIn:
      return present && is_listed();
    case Operator::kNotEquals:
    case Operator::kNotIn:
      return !present || !is_listed();
    case Operator::kGreaterThan:
    case Operator::kLessThan:
      break;
  }
  const auto actual = present ? ParseInteger(label->second) : std::nullopt;
  const auto bound = ParseInteger(requirement.values.front());
  if (!actual || !bound) return false;
  return requirement.op == Operator::kGreaterThan ? *actual > *bound : *actual < *bound;
}

void AppendRequirement(const Requirement& requirement, std::string* out) {
  if (requirement.op == Operator::kDoesNotExist) out->push_back('!');
  out->append(requirement.key);
  const auto* known = std::ranges::find(kOperators, requirement.op, &OperatorText::op);
  if (known == kOperators.end()) return;
  if (known->takes_set) {
    out->append(fmt::format(" {} ({})", known->text, fmt::join(requirement.values, ",")));
  } else {
    out->append(known->text).append(requirement.values.front());
  }
}

}  // namespace

Result<LabelSelector> LabelSelector::Parse(std::string_view text) {
  // A list, because its sort is stable; std::stable_sort is stable, too, but clang warns about its
  // implementation in libstdc++ 12. Kubernetes' order is stable only for up to 12 requirements.
  std::list<Requirement> requirements;
  Lexer lexer(text);
  while (!lexer.Peek().empty()) {
    if (!StartsRequirement(lexer.Peek())) {
      return InvalidToken(lexer.Peek(), "!, identifier, or 'end of string'");
    }
    Result<Requirement> requirement = ParseRequirement(&lexer);
    if (!requirement) {
      return Invalid("unable to parse requirement: " + requirement.error().message());
    }
    requirements.push_back(*std::move(requirement));

    const std::string_view next = lexer.Take();
    if (next.empty()) break;
    if (next != ",") return InvalidToken(next, "',' or 'end of string'");
    if (!StartsRequirement(lexer.Peek())) {
      return InvalidToken(lexer.Peek(), "identifier after ','");
    }
  }
  requirements.sort([](const Requirement& a, const Requirement& b) { return a.key < b.key; });
  LabelSelector selector;
  selector.requirements_.assign(std::move_iterator(requirements.begin()),
                                std::move_iterator(requirements.end()));
  return selector;
}

bool LabelSelector::Matches(const StringMap& labels) const {
  return std::ranges::all_of(requirements_, [&](const Requirement& requirement) {
    return MatchesRequirement(requirement, labels);
  });
}

std::string LabelSelector::ToString() const {
  std::string text;
  for (const Requirement& requirement : requirements_) {
    if (!text.empty()) text.push_back(',');
    AppendRequirement(requirement, &text);
  }
  return text;
}

}  // namespace herald
