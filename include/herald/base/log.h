#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace herald {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarn, kError };

// One entry of the log. All views are valid only during the call of the LogFunction.
struct LogEntry {
  LogLevel level = LogLevel::kInfo;
  std::string_view message{};  // a constant sentence, so that entries can be grouped by it
  std::vector<std::pair<std::string_view, std::string_view>> fields{};  // names and values
};

// Receives the log entries of the library, which prints nothing itself. It is called on any of the
// library's threads and without a lock held. An exception that leaves it is caught and ignored.
using LogFunction = std::function<void(const LogEntry&)>;

}  // namespace herald
