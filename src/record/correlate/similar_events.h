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

// What stands before the message of an event that was combined from several.
inline constexpr std::string_view kCombinedPrefix = "(combined from similar events): ";

// SimilarEvents says when it is enough. Events of one group differ in one text alone,
// mostly the message. The first few texts are written each as itself; from the
// `combine_from`-th on, each within `within` of the event before it, the rest of the group
// becomes one combined event, so that a message with a counter in it does not become an
// object per count.
//
// A full group has to forget one of its texts, and upstream forgets any. Here it forgets
// the new one: the first ones go on being counted as themselves, and nothing is allocated
// for the rest.
//
// Thread-confined, as the correlators that have one.
class SimilarEvents {
 public:
  // Of so many groups is known what they said; the least recently used is forgotten first.
  SimilarEvents(std::size_t cache_entries, std::size_t combine_from, std::chrono::seconds within)
      : combine_from_(combine_from), within_(within), groups_(cache_entries) {}

  // Whether the event is one too many in its group. `text` is the hash of its text.
  bool Join(const EventKey& key, std::uint64_t text, SteadyTime steady);

 private:
  struct Group {
    SteadyTime last;
    std::vector<std::uint64_t> texts;  // the different ones so far, in order
  };

  const std::size_t combine_from_;
  const std::chrono::seconds within_;
  KeyCache<Group> groups_;
};

}  // namespace herald
