#include "api/watch_type.h"

#include <fmt/core.h>

#include <array>
#include <cstddef>
#include <utility>

#include "api/quote.h"

namespace herald {
namespace {

// By the enumerator's value.
constexpr std::array<std::string_view, 5> kNames = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK",
                                                    "ERROR"};

}  // namespace

std::string_view WatchTypeName(WatchType type) { return kNames[static_cast<std::size_t>(type)]; }

Status FrameTooLarge() {
  return Status(StatusReason::kBadRequest,
                fmt::format("watch frame is larger than {} bytes", Codec::kMaxFrameBytes));
}

Result<WatchEvent> MakeWatchEvent(const Codec& codec, std::string_view type_name,
                                  std::string_view object, EventApi api) {
  std::size_t i = 0;
  while (i < kNames.size() && kNames[i] != type_name) ++i;
  if (i == kNames.size()) {
    return Status(StatusReason::kBadRequest,
                  "got invalid watch event type: " + std::string(type_name));
  }
  const auto type = static_cast<WatchType>(i);
  if (type == WatchType::kError) {
    std::optional<Status> status = codec.DecodeStatus(object);
    if (!status) {
      return Status(StatusReason::kBadRequest, "the object of a watch error is not a Status");
    }
    return WatchEvent{type, std::move(*status)};
  }
  Result<Event> event = codec.DecodeEvent(object, api);
  if (!event) return event.error();
  return WatchEvent{type, std::move(*event)};
}

}  // namespace herald
