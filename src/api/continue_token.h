#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "herald/api/time.h"
#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// The position at which the next page of a list begins. Clients see an opaque string. It has
// Kubernetes' format, so that a client may continue a list at another server.
struct ContinueToken {
  static constexpr std::int64_t kLatest = -1;

  // The revision at which the list is read; kLatest: the latest one.
  std::int64_t revision = 0;
  // The first key of the page, without the common prefix of the list's keys: the last key of the
  // page before, followed by a NUL.
  std::string start{};
  // The time of that key. Only in lists sorted by time, which Kubernetes does not have.
  std::optional<Timestamp> time{};

  bool operator==(const ContinueToken&) const = default;
};

HERALD_EXPORT std::string EncodeContinueToken(const ContinueToken& token);
// An invalid token is kBadRequest, with Kubernetes' message.
HERALD_EXPORT Result<ContinueToken> DecodeContinueToken(std::string_view text);

}  // namespace herald
