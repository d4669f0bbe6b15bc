#pragma once

#include <string_view>
#include <utility>

#include "herald/api/event.h"
#include "herald/base/log.h"
#include "herald/base/status.h"

namespace herald {

// Logs what goes wrong with a write, with the fields "event", "reason" and "err". A log function
// that throws stops nothing. Thread-safe if the function is.
class WriteLog {
 public:
  explicit WriteLog(LogFunction log) : log_(std::move(log)) {}

  void Log(LogLevel level, std::string_view message, const Event& event,
           const Status& status) const;

 private:
  const LogFunction log_;  // null: nothing is logged
};

}  // namespace herald
