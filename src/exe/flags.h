#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/status.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace herald {

// The exit codes of heraldd.
inline constexpr int kExitFailed = 1;  // it was asked for something sensible, which failed
inline constexpr int kExitUsage = 2;   // the command line or a file that it names is wrong

// Flags whose values are checked. Each function adds one to `app`; a value that it does not accept
// is reported as `invalid value "x" for --flag: must be ...`, or, in a configuration file, with
// its file and line. Where a flag is given twice, the last one counts. `*target` keeps its value,
// the default, where the flag is not given.

// Returns what the value must be, or an empty string where it is right.
using FlagParser = std::function<std::string(const std::string& value)>;
CLI::Option* AddFlag(CLI::App& app, const std::string& name, FlagParser parse,
                     const std::string& help, const std::string& type,
                     const std::string& default_text = "");

// A whole number from `min` to `max`; "must be a number from 1 to 5", plus `note`.
std::optional<std::int64_t> ParseNumber(std::string_view text);
template <typename T>
CLI::Option* AddNumber(CLI::App& app, const std::string& name, T* target, std::int64_t min,
                       std::int64_t max, const std::string& help);

// A duration in [min, max], which are also given as text.
struct DurationRange {
  std::chrono::nanoseconds min{};
  std::chrono::nanoseconds max{};
  std::string_view text{};       // "from 1s to 365d"
  bool zero_is_allowed = false;  // and means something of its own
};
template <typename T>
CLI::Option* AddDuration(CLI::App& app, const std::string& name, T* target,
                         const DurationRange& range, const std::string& default_text,
                         const std::string& help);
std::string CheckDuration(const std::string& value, const DurationRange& range,
                          std::chrono::nanoseconds* duration);

// Bytes, with a unit if wanted: 4096, 10Gi, 1GB.
std::optional<std::uint64_t> ParseSize(std::string_view text);
CLI::Option* AddSize(CLI::App& app, const std::string& name, std::uint64_t* target,
                     const std::string& help);

// A file or a folder: anything but an empty string.
CLI::Option* AddPath(CLI::App& app, const std::string& name, std::string* target,
                     const std::string& help);

// One of these words.
CLI::Option* AddChoice(CLI::App& app, const std::string& name, std::string* target,
                       std::vector<std::string> choices, const std::string& help);

// Values separated by commas. Replaces the default. `check` is asked about each of them.
CLI::Option* AddList(CLI::App& app, const std::string& name, std::vector<std::string>* target,
                     FlagParser check, const std::string& help);

// Parses the command line. The exit code where the program ends here: after --help, or after an
// error, which has been printed in one sentence.
std::optional<int> ParseCommandLine(CLI::App& app, int argc, const char* const* argv);

// Reads a YAML mapping from flag names to values. Flags given on the command line win.
Status ApplyConfigFile(const std::string& file, CLI::App& app);

// ---- only details follow ----

template <typename T>
CLI::Option* AddNumber(CLI::App& app, const std::string& name, T* target, std::int64_t min,
                       std::int64_t max, const std::string& help) {
  return AddFlag(
      app, name,
      [target, min, max](const std::string& value) -> std::string {
        const std::optional<std::int64_t> number = ParseNumber(value);
        if (!number || *number < min || *number > max)
          return "must be a number from " + std::to_string(min) + " to " + std::to_string(max);
        *target = static_cast<T>(*number);
        return {};
      },
      help, "NUMBER", std::to_string(*target));
}

template <typename T>
CLI::Option* AddDuration(CLI::App& app, const std::string& name, T* target,
                         const DurationRange& range, const std::string& default_text,
                         const std::string& help) {
  return AddFlag(
      app, name,
      [target, range](const std::string& value) {
        std::chrono::nanoseconds duration{};
        std::string wrong = CheckDuration(value, range, &duration);
        if (wrong.empty()) *target = std::chrono::duration_cast<T>(duration);
        return wrong;
      },
      help, "DURATION", default_text);
}

}  // namespace herald
