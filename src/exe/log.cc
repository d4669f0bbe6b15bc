#include "exe/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "api/json/writer.h"

namespace herald {
namespace {

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// message key="value" ...; fields with empty values are omitted.
std::string AsText(const LogEntry& entry) {
  std::string line(entry.message);
  for (const auto& [key, value] : entry.fields) {
    if (value.empty()) continue;
    line += fmt::format(" {}=", key);
    if (value.find_first_of(" \"\n\t") == std::string_view::npos) {
      line += value;
    } else {
      AppendJsonString(value, &line);
    }
  }
  return line;
}

// "msg":"...","key":"value",... The logger's pattern adds the time and the level.
std::string AsJsonMembers(const LogEntry& entry) {
  std::string line = "\"msg\":";
  AppendJsonString(entry.message, &line);
  for (const auto& [key, value] : entry.fields) {
    line += ',';
    AppendJsonString(key, &line);
    line += ':';
    AppendJsonString(value, &line);
  }
  return line;
}

}  // namespace

Result<LogFunction> MakeLog(const std::string& format, const std::string& level) {
  if (format != "text" && format != "json")
    return Status(
        StatusReason::kBadRequest,
        fmt::format("invalid value \"{}\" for --log-format: must be text or json", format));
  if (level != "debug" && level != "info" && level != "warn" && level != "error")
    return Status(
        StatusReason::kBadRequest,
        fmt::format("invalid value \"{}\" for --log-level: must be debug, info, warn or error",
                    level));
  auto logger = std::make_shared<spdlog::logger>(
      "heraldd", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::debug);
  const bool json = format == "json";
  logger->set_pattern(json ? R"({"ts":"%Y-%m-%dT%H:%M:%S.%fZ","level":"%l",%v})"
                           : "%Y-%m-%d %H:%M:%S.%e %^%-7l%$ %v",
                      json ? spdlog::pattern_time_type::utc : spdlog::pattern_time_type::local);
  return LogFunction([logger, json](const LogEntry& entry) {
    const spdlog::level::level_enum at = SpdlogLevel(entry.level);
    if (!logger->should_log(at)) return;
    logger->log(at, spdlog::string_view_t(json ? AsJsonMembers(entry) : AsText(entry)));
  });
}

}  // namespace herald
