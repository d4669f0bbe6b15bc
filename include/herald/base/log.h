#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace herald {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarn, kError };

// One thing worth telling the host program. All views live only as long as the
// call that carries them.
struct LogEntry {
  LogLevel level = LogLevel::kInfo;
  std::string_view message{};  // a constant sentence, so that logs can be grouped by it
  std::vector<std::pair<std::string_view, std::string_view>> fields{};  // what varies
};

// Where the library's log goes. Herald prints nothing by itself: a library does
// not own its host's log. Called from any of the library's threads, never while
// a lock is held; an exception that leaves it is caught and dropped.
using LogFunction = std::function<void(const LogEntry&)>;

}  // namespace herald
