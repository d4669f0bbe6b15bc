#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace herald {

// A duration as Go writes it: "1h30m", "250ms", "-2s". Nothing where it is none, or is
// longer than Go's, which end at 292 years.
std::optional<std::chrono::nanoseconds> ParseGoDuration(std::string_view text);

// The same and with days, "7d", for what Kubernetes never reads.
std::optional<std::chrono::nanoseconds> ParseDuration(std::string_view text);

}  // namespace herald
