#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "herald/api/event.h"

namespace herald {

// How repeats of an event are merged before they reach the API server. The defaults
// are client-go's, and as there a number that is zero means its default.

// For events in the old style, which are counted (client-go tools/record).
struct CountOptions {
  // Which events are "similar": they share the first key and differ in the second.
  struct AggregateKey {
    std::string group{};
    std::string local{};
  };

  // How many objects each of the three caches remembers; the least recently used is
  // forgotten first.
  std::size_t cache_entries = 4096;

  // The spam filter lets so many events of one source about one object through at
  // once, and then so many per second.
  int spam_burst = 25;
  float spam_qps = 1.0f / 300;
  // client-go's filter has one budget for all that a source says about an object, so a
  // chatty reason silences the others: after 25 "Unhealthy" nobody hears of "Killing".
  // With this, each reason has a budget of its own, and what would be a new event (the
  // first with its message, the first combined one) always passes: only repeats are held
  // back. How many are new is bounded by aggregation, below. Not with upstream_exact.
  bool fair_filter = false;

  // So many similar events, each within this time of the last one, and the rest is
  // written as one combined event.
  std::size_t aggregate_after = 10;
  std::chrono::seconds aggregate_within{600};

  // Null means client-go's: by source, object, type and reason; the message.
  std::function<AggregateKey(const Event&)> aggregate_key = nullptr;
  // The message of a combined event. Null: "(combined from similar events): " + message.
  std::function<std::string(const Event&)> aggregate_message = nullptr;
  // Null means client-go's: by source, object and type (and reason, with fair_filter).
  std::function<std::string(const Event&)> spam_key = nullptr;
};

// For events in the new style, which form series (client-go tools/events).
struct SeriesOptions {
  // A series that was silent for so long has ended; its last count is written.
  std::chrono::seconds finish_after{6 * 60};
  // The count of a series that goes on is written at least this often.
  std::chrono::seconds refresh_every{30 * 60};
  // How many series are remembered. client-go's cache has no bound.
  std::size_t cache_entries = 4096;
  // Events that differ in their note alone are different events, as those of the old
  // style are. From so many on, each within this time of the last one, the rest becomes
  // one combined series. Not with upstream_exact: client-go lets the first note stand for
  // all, and the others are lost.
  std::size_t aggregate_after = 10;
  std::chrono::seconds aggregate_within{600};
};

}  // namespace herald
