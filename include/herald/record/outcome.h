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

// What became of a recorded event. Each event ends in exactly one of these per sink;
// none is lost without being counted.
enum class Outcome : std::uint8_t {
  kWritten,   // the server has it as an object of its own
  kMerged,    // the server has it as one more occurrence of an earlier event
  kFiltered,  // the spam filter held it back
  kDropped,   // a queue was full
  kRejected,  // the server refused it for good
  kGaveUp,    // every try failed
  kLost,      // still waiting when the broadcaster was shut down, or recorded after it
  kInvalid,   // no such event can exist: no reference, no such type, about an event
  kNoSink,    // nobody was there to write it
  kSpooled,   // kept on disk; recorded again when it comes back (SinkOptions::spool)
};
inline constexpr std::size_t kOutcomes = 10;
// A number of events for each outcome.
using OutcomeCounts = std::array<std::uint64_t, kOutcomes>;

// "written", "merged", ...
HERALD_EXPORT std::string_view OutcomeName(Outcome outcome);

// Told about an event once per sink that took it in, or once if none did (a full or
// stopped broadcaster, an invalid event), from any thread and without locks held. Must
// not block. The status says why where the outcome is not a good one. It may record;
// but an event that is recorded from here and cannot even be queued is only counted,
// and told neither to this function nor to the log.
using OutcomeFunction = std::function<void(Outcome, const Status&)>;

// Where the events of one sink have gone. A consistent snapshot:
// recorded == the sum of outcomes + in_flight.
struct SinkStats {
  std::uint64_t recorded = 0;  // since the sink was started, and come back from disk
  OutcomeCounts outcomes{};
  std::uint64_t in_flight = 0;  // queued, being written, or counted but not yet written
  std::uint64_t requests = 0;   // attempts made
  std::uint64_t retries = 0;    // of which repeats
  // Only with a spool, and about events that have ended as kSpooled, in this process or
  // an earlier one.
  std::uint64_t spool_bytes = 0;      // on disk now
  std::uint64_t spool_dropped = 0;    // events that made room for later ones
  std::uint64_t spool_corrupted = 0;  // damaged places on disk that were passed over

  std::uint64_t operator[](Outcome outcome) const {
    return outcomes[static_cast<std::size_t>(outcome)];
  }
  std::uint64_t& operator[](Outcome outcome) { return outcomes[static_cast<std::size_t>(outcome)]; }
};

// Appends the statistics of sinks, by name, in Prometheus' text format, as
// herald_recorder_events_total{sink="…",outcome="…"} and friends.
HERALD_EXPORT void WritePrometheusText(const std::vector<std::pair<std::string, SinkStats>>& sinks,
                                       std::string* out);

}  // namespace herald
