#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "herald/api/event.h"
#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

enum class PatchType : std::uint8_t {
  kStrategicMerge,  // application/strategic-merge-patch+json
  kMerge,           // application/merge-patch+json, RFC 7386
  kJson,            // application/json-patch+json, RFC 6902
};

// The media type that a request names the patch with.
HERALD_EXPORT std::string_view PatchMediaType(PatchType type);

// Kubernetes' bounds, which keep a small body from costing much work.
inline constexpr std::size_t kMaxJsonPatchOperations = 10'000;
inline constexpr std::size_t kMaxJsonPatchCopyBytes = 3 << 20;

// The event that `patch`, written in the spelling of `api`, makes of `event`. As
// with Codec::DecodeEvent(), members that events do not have are passed over and
// reported in `field_errors`. The result is not validated.
HERALD_EXPORT Result<Event> ApplyPatch(const Event& event, EventApi api, PatchType type,
                                       std::string_view patch,
                                       std::vector<std::string>* field_errors = nullptr);

// The same for an event that is not needed as it was, without a copy. With an error
// *event is in an undefined state.
HERALD_EXPORT Status ApplyPatchInPlace(Event* event, EventApi api, PatchType type,
                                       std::string_view patch,
                                       std::vector<std::string>* field_errors = nullptr);

}  // namespace herald
