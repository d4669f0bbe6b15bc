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
inline constexpr int kExitFailed = 1;  // the command line is valid, but the operation failed
inline constexpr int kExitUsage = 2;   // the command line or a file that it names is invalid

// Makes `app`, and subcommands that are added later, print their help in our layout.
void UseHelpFormatter(CLI::App& app);

// The functions below each add a flag to `app`. An invalid value is reported as
// `invalid value "x" for --flag: must be ...`, or with file and line if it is in the configuration
// file. If a flag is given twice, the last value is used. The initial value of `*target` is the
// default.

// Returns an empty string if the value is valid, and otherwise what it must be: "must be ...".
using FlagParser = std::function<std::string(const std::string& value)>;
CLI::Option* AddFlag(CLI::App& app, const std::string& name, FlagParser parse,
                     const std::string& help, const std::string& type,
                     const std::string& default_value = "");

// An integer from `min` to `max`.
std::optional<std::int64_t> ParseNumber(std::string_view text);
template <typename T>
CLI::Option* AddNumber(CLI::App& app, const std::string& name, T* target, std::int64_t min,
                       std::int64_t max, const std::string& help);

// A duration in [min, max].
struct DurationRange {
  std::chrono::nanoseconds min{};
  std::chrono::nanoseconds max{};
  std::string_view text{};       // the range, for messages: "from 1s to 365d"
  bool zero_is_allowed = false;  // in addition to the range
};
template <typename T>
CLI::Option* AddDuration(CLI::App& app, const std::string& name, T* target,
                         const DurationRange& range, const std::string& default_value,
                         const std::string& help);
std::string CheckDuration(const std::string& value, const DurationRange& range,
                          std::chrono::nanoseconds* duration);

// A number of bytes with an optional unit: 4096, 10Gi, 1GB.
std::optional<std::uint64_t> ParseSize(std::string_view text);
CLI::Option* AddSize(CLI::App& app, const std::string& name, std::uint64_t* target,
                     const std::string& help);

// The path of a file or directory: any string that is not empty.
CLI::Option* AddPath(CLI::App& app, const std::string& name, std::string* target,
                     const std::string& help);

// One of `choices`.
CLI::Option* AddChoice(CLI::App& app, const std::string& name, std::string* target,
                       std::vector<std::string> choices, const std::string& help);

// Values separated by commas, each checked with `check`. They replace the default.
CLI::Option* AddList(CLI::App& app, const std::string& name, std::vector<std::string>* target,
                     FlagParser check, const std::string& help);

// Parses the command line. Returns the exit code if the program must exit: after it printed the
// help, the version or an error message of one sentence.
std::optional<int> ParseCommandLine(CLI::App& app, int argc, const char* const* argv);

// Reads a YAML mapping from flag names to values. Flags on the command line take precedence.
Status ApplyConfigFile(const std::string& file, CLI::App& app);

// ---- implementation of the templates ----

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
                         const DurationRange& range, const std::string& default_value,
                         const std::string& help) {
  return AddFlag(
      app, name,
      [target, range](const std::string& value) {
        std::chrono::nanoseconds duration{};
        std::string error = CheckDuration(value, range, &duration);
        if (error.empty()) *target = std::chrono::duration_cast<T>(duration);
        return error;
      },
      help, "DURATION", default_value);
}

}  // namespace herald
