#pragma once

#include <string>

#include "herald/base/log.h"
#include "herald/base/status.h"

namespace herald {

// Returns a log function that writes to standard error. `format` is "text" (for people) or "json"
// (one object per line). `level` is "debug", "info", "warn" or "error". The function is
// thread-safe.
Result<LogFunction> MakeLog(const std::string& format, const std::string& level);

}  // namespace herald
