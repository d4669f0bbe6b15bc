#include "exe/flags.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <iostream>
#include <limits>
#include <memory>
#include <utility>

#include "base/duration.h"
#include "server/daemon/config_file.h"

namespace herald {
namespace {

using server::ConfigNode;

class InvalidValue : public CLI::ValidationError {
 public:
  InvalidValue(const std::string& name, std::string value, std::string rule)
      : CLI::ValidationError(fmt::format("invalid value \"{}\" for {}: {}", value, name, rule)),
        value_(std::move(value)),
        rule_(std::move(rule)) {}

  const std::string& value() const { return value_; }
  const std::string& rule() const { return rule_; }

 private:
  std::string value_;
  std::string rule_;
};

// The Levenshtein distance: the number of characters to insert, remove or replace to turn one word
// into the other.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// "; did you mean x?", or an empty string if no known word is similar.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known) {
  constexpr std::size_t kMaxCompared = 100;  // bytes; bounds the time for long arguments
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 4) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = EditDistance(word.substr(0, kMaxCompared), candidate);
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best.empty() ? std::string() : fmt::format("; did you mean {}?", best);
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// The flags of `app` and of the subcommands that were given.
std::vector<std::string> FlagNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const CLI::App* command : app.get_subcommands())
    for (const std::string& name : FlagNames(*command)) names.push_back(name);
  return names;
}

// The last command that was given: `accept` of "heraldd clock accept".
const CLI::App& InnermostCommand(const CLI::App& app) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  return given.empty() ? app : InnermostCommand(*given.front());
}

std::string Explain(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const InvalidValue*>(&error) != nullptr) return error.what();
  const std::vector<std::string> extras = app.remaining(true);
  const std::vector<std::string> commands = CommandNames(InnermostCommand(app));
  if (!extras.empty()) {
    std::string word = extras.front();
    if (word.starts_with('-')) {
      word = word.substr(0, word.find('='));
      return fmt::format("unknown flag {}{}", word, DidYouMean(word, FlagNames(app)));
    }
    if (commands.empty()) return fmt::format("unexpected argument \"{}\"", word);
    const std::string meant = DidYouMean(word, commands);
    return fmt::format(
        "unknown command \"{}\"{}", word,
        meant.empty() ? fmt::format("; the commands are {}", fmt::join(commands, ", ")) : meant);
  }
  if (!commands.empty()) return fmt::format("a command is required: {}", fmt::join(commands, ", "));
  const std::string what = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return fmt::format("{} requires a value", what.substr(0, what.find(':')));
  return what;
}

// Breaks text between words into lines of at most `width` characters.
std::string Wrapped(std::string_view text, std::size_t width) {
  std::string out;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (column > 0) {
      const bool fits = column + 1 + word.size() <= width;
      out += fits ? ' ' : '\n';
      column = fits ? column + 1 : 0;
    }
    out += word;
    column += word.size();
  }
  return out;
}

// Help with wrapped lines, and with defaults as kube-apiserver prints them: "(default 1h)".
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override {
    return Wrapped(app->get_description(), kLineWidth) + "\n";
  }
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    // CLI11 calls its default group "Options".
    return CLI::Formatter::make_group(group == "Options" ? "Flags" : std::move(group),
                                      is_positional, std::move(options));
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    return Row(sub->get_name(), sub->get_description());
  }
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return Row(make_option_name(option, is_positional) + make_option_opts(option),
               make_option_desc(option));
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const bool has_value = option->get_type_size() > 0 && !option->get_type_name().empty();
    return has_value ? " " + option->get_type_name() : "";
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    if (option->get_required()) text += " Required.";
    if (!option->get_default_str().empty())
      text += fmt::format(" (default {})", option->get_default_str());
    return text;
  }

 private:
  static constexpr std::size_t kLineWidth = 100;
  static constexpr std::size_t kIndent = 6;

  // The description is below the name: many names are too long for a column of their own.
  static std::string Row(const std::string& name, const std::string& description) {
    std::string out = fmt::format("  {}\n{:{}}", name, "", kIndent);
    for (const char c : Wrapped(description, kLineWidth - kIndent)) {
      out += c;
      if (c == '\n') out.append(kIndent, ' ');
    }
    return out + '\n';
  }
};

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array<Unit, 14> kUnits = {{{"", 1},
                                          {"b", 1},
                                          {"k", 1000},
                                          {"kb", 1000},
                                          {"m", 1'000'000},
                                          {"mb", 1'000'000},
                                          {"g", 1'000'000'000},
                                          {"gb", 1'000'000'000},
                                          {"t", 1'000'000'000'000},
                                          {"tb", 1'000'000'000'000},
                                          {"ki", 1ull << 10},
                                          {"mi", 1ull << 20},
                                          {"gi", 1ull << 30},
                                          {"ti", 1ull << 40}}};

}  // namespace

void UseHelpFormatter(CLI::App& app) {
  auto formatter = std::make_shared<HelpFormatter>();
  formatter->label("SUBCOMMAND", "COMMAND");
  formatter->label("OPTIONS", "FLAGS");
  app.formatter(std::move(formatter));
}

CLI::Option* AddFlag(CLI::App& app, const std::string& name, FlagParser parse,
                     const std::string& help, const std::string& type,
                     const std::string& default_value) {
  CLI::Option* const option = app.add_option_function<std::string>(
      name,
      [name, parse = std::move(parse)](const std::string& value) {
        std::string rule = parse(value);
        if (!rule.empty()) throw InvalidValue(name, value, std::move(rule));
      },
      help);
  option->type_name(type)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  if (!default_value.empty()) option->default_str(default_value);
  return option;
}

std::optional<std::int64_t> ParseNumber(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string CheckDuration(const std::string& value, const DurationRange& range,
                          std::chrono::nanoseconds* duration) {
  const std::optional<std::chrono::nanoseconds> parsed = ParseDuration(value);
  if (!parsed) return fmt::format("must be a duration {}, such as 90s, 1h30m or 7d", range.text);
  const bool zero = parsed->count() == 0 && range.zero_is_allowed;
  if (!zero && (*parsed < range.min || *parsed > range.max))
    return fmt::format("must be a duration {}", range.text);
  *duration = *parsed;
  return {};
}

std::optional<std::uint64_t> ParseSize(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  std::string unit(end, text.data() + text.size());
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (unit.size() == 3 && unit.ends_with("ib")) unit.pop_back();  // GiB is Gi
  const auto* const found =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == unit; });
  if (found == kUnits.end() || number > std::numeric_limits<std::int64_t>::max() / found->bytes)
    return std::nullopt;
  return number * found->bytes;
}

CLI::Option* AddSize(CLI::App& app, const std::string& name, std::uint64_t* target,
                     const std::string& help) {
  return AddFlag(
      app, name,
      [target](const std::string& value) -> std::string {
        const std::optional<std::uint64_t> size = ParseSize(value);
        if (!size) return "must be a number of bytes, such as 500Mi or 10Gi";
        *target = *size;
        return {};
      },
      help, "SIZE");
}

CLI::Option* AddPath(CLI::App& app, const std::string& name, std::string* target,
                     const std::string& help) {
  return AddFlag(
      app, name,
      [target](const std::string& value) -> std::string {
        if (value.empty()) return "must be a path";
        *target = value;
        return {};
      },
      help, "PATH", *target);
}

CLI::Option* AddChoice(CLI::App& app, const std::string& name, std::string* target,
                       std::vector<std::string> choices, const std::string& help) {
  return AddFlag(
      app, name,
      [target, choices = std::move(choices)](const std::string& value) -> std::string {
        if (std::find(choices.begin(), choices.end(), value) == choices.end())
          return fmt::format("must be {} or {}",
                             fmt::join(choices.begin(), choices.end() - 1, ", "), choices.back());
        *target = value;
        return {};
      },
      help, "STRING", *target);
}

CLI::Option* AddList(CLI::App& app, const std::string& name, std::vector<std::string>* target,
                     FlagParser check, const std::string& help) {
  return app
      .add_option_function<std::vector<std::string>>(
          name,
          [name, target, check = std::move(check)](const std::vector<std::string>& values) {
            for (const std::string& value : values) {
              std::string rule = value.empty() ? "must not be empty" : check(value);
              if (!rule.empty()) throw InvalidValue(name, value, std::move(rule));
            }
            *target = values;
          },
          help)
      ->delimiter(',')
      // One argument per flag, so that CLI11 does not take the next argument for another value.
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("LIST")
      ->default_str(fmt::format("{}", fmt::join(*target, ",")));
}

std::optional<int> ParseCommandLine(CLI::App& app, int argc, const char* const* argv) {
  // CLI11 takes the argument after "--flag=" as the value of the flag. With an empty variable in
  // "--flag=$x --other", that would be --other. So "--flag=" is split into "--flag" and "".
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    const bool empty_value =
        argument.starts_with("--") && argument.find('=') + 1 == argument.size();
    if (empty_value) argument.pop_back();
    arguments.push_back(std::move(argument));
    if (empty_value) arguments.emplace_back();
  }
  std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 expects
  try {
    app.parse(std::move(arguments));
    return std::nullopt;
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    std::cerr << fmt::format("heraldd: {}\n", Explain(app, error));
    return kExitUsage;
  }
}

Status ApplyConfigFile(const std::string& file, CLI::App& app) {
  Result<std::vector<ConfigNode>> documents = ConfigNode::Load(file);
  if (!documents) return documents.error();
  for (ConfigNode& document : *documents) {
    for (const std::string& name : document.Members()) {
      CLI::Option* const option = app.get_option_no_throw("--" + name);
      if (option == nullptr || name == "config" || name == "help") {
        std::string meant = DidYouMean("--" + name, FlagNames(app));
        if (const std::size_t dashes = meant.find("--"); dashes != std::string::npos)
          meant.erase(dashes, 2);
        document.Reject(name, "unknown flag" + meant);
        continue;
      }
      const std::vector<std::string> values = document.StringOrStrings(name);
      // A key without a value keeps the default. The command line takes precedence.
      if (values.empty() || option->count() > 0) continue;
      try {
        for (const std::string& value : values) option->add_result(value);
        option->run_callback();
      } catch (const InvalidValue& error) {
        document.Reject(name, fmt::format("invalid value \"{}\": {}", error.value(), error.rule()));
      } catch (const CLI::Error& error) {
        document.Reject(name, error.what());
      }
    }
    if (Status status = document.Finish(); !status.ok()) return status;
  }
  return {};
}

}  // namespace herald
