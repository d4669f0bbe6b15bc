#include "herald/record/outcome.h"

#include <fmt/core.h>

#include <array>
#include <iterator>

namespace herald {
namespace {

// By the enumerator's value.
constexpr std::array<std::string_view, kOutcomes> kNames = {"written", "merged",   "filtered",
                                                            "dropped", "rejected", "gave_up",
                                                            "lost",    "invalid",  "no_sink"};

// Label values are quoted and escaped as Prometheus' text format asks.
std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out.push_back('\\');
    if (c == '\n') {
      out += "\\n";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace

std::string_view OutcomeName(Outcome outcome) { return kNames[static_cast<std::size_t>(outcome)]; }

void WritePrometheusText(const SinkStats& stats, std::string_view sink_name, std::string* out) {
  const std::string sink = Escaped(sink_name);
  auto to = std::back_inserter(*out);
  for (std::size_t i = 0; i < kOutcomes; ++i) {
    fmt::format_to(to, "herald_recorder_events_total{{sink=\"{}\",outcome=\"{}\"}} {}\n", sink,
                   kNames[i], stats.outcomes[i]);
  }
  fmt::format_to(to, "herald_recorder_recorded_total{{sink=\"{}\"}} {}\n", sink, stats.recorded);
  fmt::format_to(to, "herald_recorder_events_in_flight{{sink=\"{}\"}} {}\n", sink, stats.in_flight);
  fmt::format_to(to, "herald_recorder_requests_total{{sink=\"{}\"}} {}\n", sink, stats.requests);
  fmt::format_to(to, "herald_recorder_retries_total{{sink=\"{}\"}} {}\n", sink, stats.retries);
}

}  // namespace herald
