#pragma once

#include <string_view>

#include "herald/api/codec.h"

// What the watch streams of both formats have in common.
namespace herald {

Status FrameTooLarge();

// The event that a frame's type and object, encoded by `codec`, stand for.
Result<WatchEvent> MakeWatchEvent(const Codec& codec, std::string_view type_name,
                                  std::string_view object, EventApi api);

}  // namespace herald
