#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "herald/api/time.h"
#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// Where the next page of a list begins. To clients it is an opaque text; what is in it
// is Kubernetes' own form, so that a list may begin at one server and end at another.
struct ContinueToken {
  static constexpr std::int64_t kLatest = -1;

  // The revision that the list is read at; kLatest: whatever is there by now.
  std::int64_t revision = 0;
  // The first key of the page, without what all keys of the list begin with. Pages end
  // with a key, so this is that key and a NUL.
  std::string start{};
  // Only in lists by time, which Kubernetes does not have: the time of that key.
  std::optional<Timestamp> time{};

  bool operator==(const ContinueToken&) const = default;
};

HERALD_EXPORT std::string EncodeContinueToken(const ContinueToken& token);
// A refusal is kBadRequest in Kubernetes' words.
HERALD_EXPORT Result<ContinueToken> DecodeContinueToken(std::string_view text);

}  // namespace herald
