#include "herald/record/outcome.h"

#include <fmt/core.h>

#include <array>

namespace herald {
namespace {

// By the enumerator's value.
constexpr std::array<std::string_view, kOutcomes> kNames = {
    "written", "merged", "filtered", "dropped", "rejected",
    "gave_up", "lost",   "invalid",  "no_sink", "spooled"};

// Quotes and escapes a label value as Prometheus' text format requires.
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

// The format requires that all lines of a metric are together, for all sinks.
void WritePrometheusText(const std::vector<std::pair<std::string, SinkStats>>& sinks,
                         std::string* out) {
  auto to = std::back_inserter(*out);
  const auto head = [&](std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(to, "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  };
  constexpr std::string_view kEvents = "herald_recorder_events_total";
  head(kEvents, "counter", "Events by sink and outcome.");
  for (const auto& [sink, stats] : sinks) {
    for (std::size_t i = 0; i < kOutcomes; ++i) {
      fmt::format_to(to, "{}{{sink=\"{}\",outcome=\"{}\"}} {}\n", kEvents, Escaped(sink), kNames[i],
                     stats.outcomes[i]);
    }
  }
  const auto write = [&](std::string_view name, std::string_view type, std::string_view help,
                         std::uint64_t SinkStats::* member) {
    head(name, type, help);
    for (const auto& [sink, stats] : sinks) {
      fmt::format_to(to, "{}{{sink=\"{}\"}} {}\n", name, Escaped(sink), stats.*member);
    }
  };
  write("herald_recorder_recorded_total", "counter", "Events recorded since the sink was started.",
        &SinkStats::recorded);
  write("herald_recorder_events_in_flight", "gauge", "Events that have no outcome yet.",
        &SinkStats::in_flight);
  write("herald_recorder_requests_total", "counter", "Requests to the sink.", &SinkStats::requests);
  write("herald_recorder_retries_total", "counter", "Requests that were retries.",
        &SinkStats::retries);
  write("herald_recorder_spool_bytes", "gauge", "Bytes of the spool on disk.",
        &SinkStats::spool_bytes);
  write("herald_recorder_spool_dropped_total", "counter",
        "Spooled events dropped to make room for later ones.", &SinkStats::spool_dropped);
  write("herald_recorder_spool_corrupted_total", "counter",
        "Damaged places of the spool that were skipped.", &SinkStats::spool_corrupted);
}

}  // namespace herald
