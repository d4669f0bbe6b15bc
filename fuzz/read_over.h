#pragma once

#include <cstdlib>
#include <string_view>

#include "api/testing/full_event.h"
#include "herald/api/codec.h"

namespace herald::fuzz {

// Decoding a frame into an event with all members set gives the same result as into a new event.
inline void CheckReadOver(const Codec& codec, std::string_view payload, EventApi api) {
  static const Event full = testing::FullEvent();
  WatchEvent fresh;
  WatchEvent used{WatchType::kDeleted, full};
  const Status status = codec.DecodeWatchFrame(payload, api, &fresh);
  if (!(codec.DecodeWatchFrame(payload, api, &used) == status)) std::abort();
  if (status.ok() && !(used == fresh)) std::abort();
}

}  // namespace herald::fuzz
