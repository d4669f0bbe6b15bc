#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace herald {

// Parses a duration in Go's format: "1h30m", "250ms", "-2s". nullopt if it is invalid or longer
// than Go's limit of 292 years.
std::optional<std::chrono::nanoseconds> ParseGoDuration(std::string_view text);

// The same, but also with days, "7d", for values that Kubernetes does not read.
std::optional<std::chrono::nanoseconds> ParseDuration(std::string_view text);

}  // namespace herald
