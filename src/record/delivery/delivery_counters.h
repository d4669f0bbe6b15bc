#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "herald/record/outcome.h"

namespace herald {

// The statistics of one sink. Thread-safe.
class DeliveryCounters {
 public:
  void CountOutcome(Outcome outcome, std::uint64_t events = 1) {
    outcomes_[static_cast<std::size_t>(outcome)] += events;
  }
  void CountRequest(bool is_retry) {
    ++requests_;
    if (is_retry) ++retries_;
  }
  // Events that came back from the spool. To be called before their outcomes are counted.
  void CountReplayed(std::uint64_t events) { replayed_ += events; }

  OutcomeCounts Outcomes() const {
    OutcomeCounts counts{};
    for (std::size_t i = 0; i < kOutcomes; ++i) counts[i] = outcomes_[i];
    return counts;
  }

  // `recorded` contains only the events that came back from the spool.
  SinkStats Stats() const {
    SinkStats stats;
    stats.outcomes = Outcomes();
    stats.requests = requests_;
    stats.retries = retries_;
    stats.recorded = replayed_;  // after the outcomes, so that none exceeds its events
    return stats;
  }

 private:
  std::array<std::atomic<std::uint64_t>, kOutcomes> outcomes_{};
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> retries_{0};
  std::atomic<std::uint64_t> replayed_{0};
};

}  // namespace herald
