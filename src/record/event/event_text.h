#pragma once

#include <string>

#include "herald/api/event.h"
#include "herald/base/log.h"

namespace herald {

// The line that client-go's StartLogging prints for an event. People search logs for it.
std::string EventText(const Event& event);

// Logs an event as client-go's StartStructuredLogging does, with the fields of its style.
void LogEvent(const Event& event, const LogFunction& log);

}  // namespace herald
