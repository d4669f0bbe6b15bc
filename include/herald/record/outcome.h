#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// The outcome of a recorded event. Each event has exactly one outcome per sink, and every
// outcome is counted.
enum class Outcome : std::uint8_t {
  kWritten,   // the server has it as an object of its own
  kMerged,    // the server has it as one more occurrence of an earlier event
  kFiltered,  // the spam filter suppressed it
  kDropped,   // a queue was full
  kRejected,  // the server rejected it, and a retry would not help
  kGaveUp,    // all tries failed
  kLost,      // had no outcome when the broadcaster was shut down, or was recorded afterwards
  kInvalid,   // not a valid event: no reference, an unknown type, or about an event
  kNoSink,    // there was no sink
  kSpooled,   // kept on disk; counted as recorded again when it is retried (SinkOptions::spool)
};
inline constexpr std::size_t kOutcomes = 10;
// A number of events for each outcome.
using OutcomeCounts = std::array<std::uint64_t, kOutcomes>;

// "written", "merged", ...
HERALD_EXPORT std::string_view OutcomeName(Outcome outcome);

// Called with the outcome of an event: once per sink, or once if the event did not reach any
// sink (the broadcaster was full or stopped, there was no sink, or the event was invalid). Called
// from any thread, without locks held. Must not block. The status is the reason if the outcome
// is a failure. The function may record events; but if such an event cannot be queued, it is only
// counted, and neither this function nor the log is called for it.
using OutcomeFunction = std::function<void(Outcome, const Status&)>;

// The statistics of one sink. They are consistent: recorded == sum of outcomes + in_flight.
struct SinkStats {
  std::uint64_t recorded = 0;  // since the sink was started, including those back from disk
  OutcomeCounts outcomes{};
  std::uint64_t in_flight = 0;  // queued, being written, or counted but not yet written
  std::uint64_t requests = 0;   // requests to the sink
  std::uint64_t retries = 0;    // requests that were retries
  // With a spool. These are about events with the outcome kSpooled, of this process or an
  // earlier one.
  std::uint64_t spool_bytes = 0;      // on disk now
  std::uint64_t spool_dropped = 0;    // events that were dropped to make room for later ones
  std::uint64_t spool_corrupted = 0;  // damaged places on disk that were skipped

  std::uint64_t operator[](Outcome outcome) const {
    return outcomes[static_cast<std::size_t>(outcome)];
  }
  std::uint64_t& operator[](Outcome outcome) { return outcomes[static_cast<std::size_t>(outcome)]; }
};

// Appends the statistics of sinks, each with its name, in Prometheus' text format:
// herald_recorder_events_total{sink="…",outcome="…"} and the other metrics of SinkStats.
HERALD_EXPORT void WritePrometheusText(const std::vector<std::pair<std::string, SinkStats>>& sinks,
                                       std::string* out);

}  // namespace herald
