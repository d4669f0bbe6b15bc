#pragma once

#include <string_view>

#include "api/json/document.h"

namespace herald::strategic {

// The directives of a strategic merge patch; strategic_merge.h describes them.
inline constexpr std::string_view kDirective = "$patch";
inline constexpr std::string_view kRetainKeys = "$retainKeys";
inline constexpr std::string_view kDeleteFrom = "$deleteFromPrimitiveList";
inline constexpr std::string_view kSetOrder = "$setElementOrder";

inline bool IsString(const Json& json, std::string_view expected) {
  return json.type() == Json::Type::kString && json.AsString() == expected;
}

}  // namespace herald::strategic
