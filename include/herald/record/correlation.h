#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "herald/api/event.h"

namespace herald {

// How repeats of an event are merged before they are sent to the API server. The defaults are
// client-go's. A number that is zero means the default, as in client-go.

// For old-style events, which are counted (client-go tools/record).
struct CountOptions {
  // Similar events have the same `group` and differ in `local`.
  struct AggregateKey {
    std::string group{};
    std::string local{};
  };

  // The capacity of each of the three caches. The least recently used entry is evicted first.
  std::size_t cache_entries = 4096;

  // The spam filter is a token bucket per source and object: it passes spam_burst events at
  // once, and then spam_qps events per second.
  int spam_burst = 25;
  float spam_qps = 1.0f / 300;
  // client-go's filter has one budget for all events of a source about an object, so a frequent
  // reason suppresses the others: after 25 "Unhealthy" events, "Killing" is not written. With
  // fair_filter each reason has its own budget, and an event that would be a new object (the
  // first with its message, or the first combined one) always passes, so only repeats are
  // suppressed. Aggregation, below, limits the number of new objects. Ignored with
  // upstream_exact.
  bool fair_filter = false;

  // From the aggregate_after-th similar event on, each within aggregate_within of the one
  // before, similar events are written as one combined event.
  std::size_t aggregate_after = 10;
  std::chrono::seconds aggregate_within{600};

  // Null: as client-go, grouped by source, object, type and reason; `local` is the message.
  std::function<AggregateKey(const Event&)> aggregate_key = nullptr;
  // The message of a combined event. Null: "(combined from similar events): " + message.
  std::function<std::string(const Event&)> aggregate_message = nullptr;
  // Which events share a budget of the spam filter. Null: as client-go, those with the same
  // source, object and type (and reason, with fair_filter).
  std::function<std::string(const Event&)> spam_key = nullptr;
};

// For new-style events, which form series (client-go tools/events).
struct SeriesOptions {
  // A series ends when there was no event for this time. Its last count is written then.
  std::chrono::seconds finish_after{6 * 60};
  // The count of an open series is written at least this often.
  std::chrono::seconds refresh_every{30 * 60};
  // How many series are remembered. client-go's cache has no limit.
  std::size_t cache_entries = 4096;
  // Events that differ only in their note are different events, as in the old style. From the
  // aggregate_after-th note on, each within aggregate_within of the one before, they become one
  // combined series. Ignored with upstream_exact: client-go keeps the first note and loses the
  // others.
  std::size_t aggregate_after = 10;
  std::chrono::seconds aggregate_within{600};
};

}  // namespace herald
