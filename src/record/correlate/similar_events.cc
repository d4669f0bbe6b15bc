#include "record/correlate/similar_events.h"

#include <algorithm>

namespace herald {

bool SimilarEvents::Join(const EventKey& key, std::uint64_t text, SteadyTime steady) {
  const auto [group, is_new] = groups_.Obtain(key);
  if (is_new || steady - group.last > within_) group.texts.clear();
  group.last = steady;
  const auto place = std::ranges::lower_bound(group.texts, text);
  if (place != group.texts.end() && *place == text) return false;
  if (group.texts.size() + 1 >= combine_from_) return true;
  group.texts.insert(place, text);
  return false;
}

}  // namespace herald
