#include "record/delivery/write_log.h"

#include <string>

namespace herald {

void WriteLog::Log(LogLevel level, std::string_view message, const Event& event,
                   const Status& status) const {
  if (!log_) return;
  const std::string name = event.metadata.namespace_ + "/" + event.metadata.name;
  const std::string error = status.ToString();
  try {
    log_({.level = level,
          .message = message,
          .fields = {{"event", name}, {"reason", event.reason}, {"err", error}}});
  } catch (...) {  // NOLINT(bugprone-empty-catch): see the class
  }
}

}  // namespace herald
