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

// The media type of a request with such a patch.
HERALD_EXPORT std::string_view PatchMediaType(PatchType type);

// Kubernetes' limits for a JSON patch. They keep a small body from causing much work.
inline constexpr std::size_t kMaxJsonPatchOperations = 10'000;
inline constexpr std::size_t kMaxJsonPatchCopyBytes = 3 << 20;  // of all copy operations together

// Applies `patch`, which is in the spelling of `api`, to a copy of `event` and returns it. Unknown
// fields are ignored and reported in `field_errors`, as in Codec::DecodeEvent(). The result is not
// validated.
HERALD_EXPORT Result<Event> ApplyPatch(const Event& event, EventApi api, PatchType type,
                                       std::string_view patch,
                                       std::vector<std::string>* field_errors = nullptr);

// The same without the copy. After an error the value of *event is unspecified.
HERALD_EXPORT Status ApplyPatchInPlace(Event* event, EventApi api, PatchType type,
                                       std::string_view patch,
                                       std::vector<std::string>* field_errors = nullptr);

}  // namespace herald
