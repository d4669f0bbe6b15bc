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

// The operators that stand between a key and its values.
struct Spelling {
  std::string_view text;
  Operator op;
  bool takes_set;
};
constexpr auto kSpellings = std::to_array<Spelling>({
    {"in", Operator::kIn, true},
    {"notin", Operator::kNotIn, true},
    {"=", Operator::kEquals, false},
    {"==", Operator::kDoubleEquals, false},
    {"!=", Operator::kNotEquals, false},
    {">", Operator::kGreaterThan, false},
    {"<", Operator::kLessThan, false},
});

Status Refuse(std::string message) { return Status(StatusReason::kBadRequest, std::move(message)); }

Status RefuseToken(std::string_view found, std::string_view expected) {
  return Refuse(fmt::format("found '{}', expected: {}", found, expected));
}

using namespace std::string_view_literals;

constexpr std::string_view kSpaces = " \t\r\n";
constexpr std::string_view kSymbols = "=!(),><";
// What a word ends before, a NUL among them.
constexpr std::string_view kWordEnds = "\0 \t\r\n=!(),><"sv;

constexpr bool IsSymbol(char c) { return kSymbols.find(c) != std::string_view::npos; }

// Reads a selector token by token. A token is a piece of the text: a symbol
// ("(", "!="), a word (anything else between symbols and white space), or nothing
// at the end. Whether the word "in" is an operator or a value is for the reader to
// know.
//
// A NUL ends the text where a token could begin, and elsewhere parts tokens like a
// space: Kubernetes' reader takes it for its own end mark, and we refuse and accept
// what it does.
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

// As Go reads decimal numbers: a sign of either kind, no space, nothing beyond.
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

// "(a,b)". Between commas, and between a comma and a parenthesis, stands an empty
// value; "()" is one as well.
Result<std::vector<std::string>> ParseSet(Lexer* lexer) {
  if (const std::string_view open = lexer->Take(); open != "(") {
    return Refuse(fmt::format("found '{}' expected: '('", open));
  }
  if (lexer->Peek() == ")") {
    lexer->Take();
    return std::vector<std::string>{""};
  }
  if (!IsWord(lexer->Peek()) && lexer->Peek() != ",") {
    return RefuseToken(lexer->Peek(), "',', ')' or identifier");
  }
  std::vector<std::string> values;
  bool after_comma = true;
  for (;;) {
    const std::string_view token = lexer->Take();
    if (IsWord(token)) {
      values.emplace_back(token);
      if (lexer->Peek() != "," && lexer->Peek() != ")") {
        return RefuseToken(lexer->Peek(), "',' or ')'");
      }
      after_comma = false;
    } else if (token == "," || token == ")") {
      if (after_comma) values.emplace_back();
      if (token == ")") return values;
      after_comma = true;
    } else {
      return RefuseToken(token, "',', or identifier");
    }
  }
}

Result<std::vector<std::string>> ParseSingle(Lexer* lexer) {
  if (EndsRequirement(lexer->Peek())) return std::vector<std::string>{""};
  const std::string_view token = lexer->Take();
  if (!IsWord(token)) return RefuseToken(token, "identifier");
  return std::vector<std::string>{std::string(token)};
}

std::string InvalidValue(std::string_view path, std::string_view value, std::string_view detail) {
  return fmt::format("{}: Invalid value: {}: {}", path, Quoted(value), detail);
}

Status CheckKey(std::string_view key) {
  const std::vector<std::string> faults = IsQualifiedName(key);
  if (faults.empty()) return Status();
  // "<nil>" is how Kubernetes prints the path that it has not got here.
  return Refuse(InvalidValue("<nil>", key, fmt::format("{}", fmt::join(faults, "; "))));
}

Status CheckValues(const Requirement& requirement) {
  const bool compares =
      requirement.op == Operator::kGreaterThan || requirement.op == Operator::kLessThan;
  std::vector<std::string> messages;
  std::size_t bytes = 0;
  // As with objects there is an end to what is told: each short value that is wrong
  // costs a long sentence.
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
  if (messages.size() == 1) return Refuse(std::move(messages.front()));
  return Refuse(fmt::format("[{}]", fmt::join(messages, ", ")));
}

Result<Requirement> ParseRequirement(Lexer* lexer) {
  const bool negated = lexer->Peek() == "!";
  if (negated) lexer->Take();
  const std::string_view key = lexer->Take();
  if (!IsWord(key)) return RefuseToken(key, "identifier");
  if (Status status = CheckKey(key); !status.ok()) return status;

  Requirement requirement{.key = std::string(key), .op = Operator::kExists, .values = {}};
  if (negated) requirement.op = Operator::kDoesNotExist;
  if (negated || EndsRequirement(lexer->Peek())) return requirement;

  const std::string_view text = lexer->Take();
  const auto* spelling = std::ranges::find(kSpellings, text, &Spelling::text);
  if (spelling == kSpellings.end()) return RefuseToken(text, "in, notin, =, ==, !=, gt, lt");
  requirement.op = spelling->op;
  Result<std::vector<std::string>> values =
      spelling->takes_set ? ParseSet(lexer) : ParseSingle(lexer);
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
  const auto* spelling = std::ranges::find(kSpellings, requirement.op, &Spelling::op);
  if (spelling == kSpellings.end()) return;
  if (spelling->takes_set) {
    out->append(fmt::format(" {} ({})", spelling->text, fmt::join(requirement.values, ",")));
  } else {
    out->append(spelling->text).append(requirement.values.front());
  }
}

}  // namespace

Result<LabelSelector> LabelSelector::Parse(std::string_view text) {
  // A list, because its sort keeps what has the same key in order; std::stable_sort
  // does too, but clang warns of what libstdc++ 12 makes it from. Kubernetes keeps
  // that order up to 12 requirements, and shuffles beyond.
  std::list<Requirement> requirements;
  Lexer lexer(text);
  while (!lexer.Peek().empty()) {
    if (!StartsRequirement(lexer.Peek())) {
      return RefuseToken(lexer.Peek(), "!, identifier, or 'end of string'");
    }
    Result<Requirement> requirement = ParseRequirement(&lexer);
    if (!requirement) {
      return Refuse("unable to parse requirement: " + requirement.error().message());
    }
    requirements.push_back(*std::move(requirement));

    const std::string_view next = lexer.Take();
    if (next.empty()) break;
    if (next != ",") return RefuseToken(next, "',' or 'end of string'");
    if (!StartsRequirement(lexer.Peek())) {
      return RefuseToken(lexer.Peek(), "identifier after ','");
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
