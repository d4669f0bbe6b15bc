#include "api/watch_type.h"

#include <fmt/core.h>

#include <array>
#include <cstddef>

namespace herald {
namespace {

// Indexed by WatchType.
constexpr std::array<std::string_view, 5> kNames = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK",
                                                    "ERROR"};

}  // namespace

std::string_view WatchTypeName(WatchType type) { return kNames[static_cast<std::size_t>(type)]; }

Status FrameTooLarge() {
  return Status(StatusReason::kBadRequest,
                fmt::format("watch frame is larger than {} bytes", Codec::kMaxFrameBytes));
}

std::optional<WatchType> WatchTypeFromName(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<WatchType>(i);
  }
  return std::nullopt;
}

}  // namespace herald
