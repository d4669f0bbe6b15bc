#pragma once

#include <cstdlib>
#include <string_view>

#include "api/testing/full_event.h"
#include "herald/api/codec.h"

namespace herald::fuzz {

// Whatever the frame is, it is read over an event that had everything as it is read anew.
inline void CheckReadOver(const Codec& codec, std::string_view payload, EventApi api) {
  static const Event full = testing::FullEvent();
  WatchEvent fresh;
  WatchEvent used{WatchType::kDeleted, full};
  const Status status = codec.DecodeWatchFrame(payload, api, &fresh);
  if (!(codec.DecodeWatchFrame(payload, api, &used) == status)) std::abort();
  if (status.ok() && !(used == fresh)) std::abort();
}

}  // namespace herald::fuzz
