#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "herald/base/clock.h"
#include "record/correlate/event_key.h"
#include "record/correlate/key_cache.h"

namespace herald {

// The prefix of the message of a combined event.
inline constexpr std::string_view kCombinedPrefix = "(combined from similar events): ";

// SimilarEvents decides when the events of a group are combined. Events of a group differ in one
// string, usually the message. The first strings are written as separate events. From the
// `combine_from`-th string on, each within `within` of the event before it, all other events of the
// group become one combined event, so a message that contains a counter does not become an object
// per count.
//
// A full group must forget one of its strings. client-go forgets any; this forgets the new one, so
// the first strings are still counted separately, and nothing is allocated for the others.
//
// Thread-confined: each correlator owns one.
class SimilarEvents {
 public:
  // `capacity` is the number of groups whose strings are remembered. The least recently used group
  // is forgotten first.
  SimilarEvents(std::size_t cache_entries, std::size_t combine_from, std::chrono::seconds within)
      : combine_from_(combine_from), within_(within), groups_(cache_entries) {}

  // Whether the event must be combined. `text` is the hash of its string.
  bool Join(const EventKey& key, std::uint64_t text, SteadyTime steady);

 private:
  struct Group {
    SteadyTime last;
    std::vector<std::uint64_t> texts;  // the hashes of different strings so far, in order
  };

  const std::size_t combine_from_;
  const std::chrono::seconds within_;
  KeyCache<Group> groups_;
};

}  // namespace herald
