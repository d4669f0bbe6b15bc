#pragma once

#include <string>

#include "herald/api/event.h"
#include "herald/base/log.h"

namespace herald {

// An event as client-go's StartLogging prints it. People grep for this text.
std::string EventText(const Event& event);

// An event as client-go's StartStructuredLogging says it, with the fields of its style.
void LogEvent(const Event& event, const LogFunction& log);

}  // namespace herald
