#pragma once

#include <string>

#include "herald/base/log.h"
#include "herald/base/status.h"

namespace herald {

// Sends the log of Herald's parts to standard error: as lines of text for people, or as
// one JSON object a line for machines. Format is "text" or "json", level is "debug", "info",
// "warn" or "error".
Result<LogFunction> MakeLog(const std::string& format, const std::string& level);

}  // namespace herald
