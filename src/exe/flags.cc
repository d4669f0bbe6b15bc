#include "exe/flags.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <iostream>
#include <limits>
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

// The number of letters that must be inserted, removed or replaced to get from one word to the
// other.
std::size_t Distance(std::string_view a, std::string_view b) {
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

// "; did you mean x?", where one of the words is close enough to be meant.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known) {
  constexpr std::size_t kCompared = 100;  // bytes; longer words are no typing mistakes
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 4) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = Distance(word.substr(0, kCompared), candidate);
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

// The flags of the commands that were given, or of all.
std::vector<std::string> FlagNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const CLI::App* command : app.get_subcommands())
    for (const std::string& name : FlagNames(*command)) names.push_back(name);
  return names;
}

std::string Explain(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const InvalidValue*>(&error) != nullptr) return error.what();
  const std::vector<std::string> extras = app.remaining(true);
  const bool has_command = !app.get_subcommands().empty();
  if (!extras.empty()) {
    std::string word = extras.front();
    if (word.starts_with('-')) {
      word = word.substr(0, word.find('='));
      return fmt::format("unknown flag {}{}", word, DidYouMean(word, FlagNames(app)));
    }
    if (has_command) return fmt::format("unexpected argument \"{}\"", word);
    const std::vector<std::string> commands = CommandNames(app);
    const std::string meant = DidYouMean(word, commands);
    return fmt::format(
        "unknown command \"{}\"{}", word,
        meant.empty() ? fmt::format("; the commands are {}", fmt::join(commands, ", ")) : meant);
  }
  if (!has_command)
    return fmt::format("a command is required: {}", fmt::join(CommandNames(app), ", "));
  const std::string what = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return fmt::format("{} needs a value", what.substr(0, what.find(':')));
  return what;
}

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

CLI::Option* AddFlag(CLI::App& app, const std::string& name, FlagParser parse,
                     const std::string& help, const std::string& type,
                     const std::string& default_text) {
  CLI::Option* const option = app.add_option_function<std::string>(
      name,
      [name, parse = std::move(parse)](const std::string& value) {
        std::string rule = parse(value);
        if (!rule.empty()) throw InvalidValue(name, value, std::move(rule));
      },
      help);
  option->type_name(type)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  if (!default_text.empty()) option->default_str(default_text);
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
      help, "WORD", *target);
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
      // One word each time, so that the next argument is not taken for another value.
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("LIST")
      ->default_str(fmt::format("{}", fmt::join(*target, ",")));
}

std::optional<int> ParseCommandLine(CLI::App& app, int argc, const char* const* argv) {
  // CLI11 takes the argument after "--flag=" for its value, so that an empty variable in
  // "--flag=$x --other" would swallow --other.
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    const bool empty_value =
        argument.starts_with("--") && argument.find('=') + 1 == argument.size();
    if (empty_value) argument.pop_back();
    arguments.push_back(std::move(argument));
    if (empty_value) arguments.emplace_back();
  }
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
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
        document.Refuse(name, "unknown flag" + meant);
        continue;
      }
      const std::vector<std::string> values = document.StringOrStrings(name);
      // A name without a value leaves the default, and the command line wins.
      if (values.empty() || option->count() > 0) continue;
      try {
        for (const std::string& value : values) option->add_result(value);
        option->run_callback();
      } catch (const InvalidValue& error) {
        document.Refuse(name, fmt::format("invalid value \"{}\": {}", error.value(), error.rule()));
      } catch (const CLI::Error& error) {
        document.Refuse(name, error.what());
      }
    }
    if (Status status = document.Finish(); !status.ok()) return status;
  }
  return {};
}

}  // namespace herald
