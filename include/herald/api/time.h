#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "herald/base/clock.h"
#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// Seconds from the Unix epoch to 0001-01-01T00:00:00Z, Kubernetes' "no time".
inline constexpr std::int64_t kZeroTimeSeconds = -62135596800;

// What Time and MicroTime hold: a point of wall time with the range of Kubernetes'
// protobuf (any int64 of seconds, so nanoseconds since 1970 would not do) and the
// resolution of the clock. The default is the zero time, which JSON writes as
// null; the Unix epoch is an ordinary time.
class HERALD_EXPORT Timestamp {
 public:
  // -292277022400-12-31T23:59:59.999999Z is the longest text there is.
  static constexpr std::size_t kMaxTextBytes = 40;

  constexpr Timestamp() = default;
  // REQUIRES: 0 <= nanos < 1'000'000'000
  constexpr Timestamp(std::int64_t seconds, std::int32_t nanos)
      : seconds_(seconds), nanos_(nanos) {}
  explicit Timestamp(WallTime time);

  constexpr std::int64_t seconds() const { return seconds_; }
  constexpr std::int32_t nanos() const { return nanos_; }
  constexpr bool is_zero() const { return seconds_ == kZeroTimeSeconds && nanos_ == 0; }

  // Clamped to what WallTime can hold (the years 1678 to 2261).
  WallTime ToWallTime() const;

  auto operator<=>(const Timestamp&) const = default;

 private:
  std::int64_t seconds_ = kZeroTimeSeconds;
  std::int32_t nanos_ = 0;
};

// Kubernetes' metav1.Time: written in whole seconds, "2006-01-02T15:04:05Z". The
// fraction lives only in memory.
struct HERALD_EXPORT Time : Timestamp {
  using Timestamp::Timestamp;
  // The text of the wire, without quotes; REQUIRES: !is_zero(), which is null there.
  std::string ToString() const;
  // The same into a buffer with room for kMaxTextBytes; returns the end.
  char* WriteTo(char* out) const;
  // Reads RFC 3339 as Kubernetes does: any offset, a fraction of any length. The
  // message of a refusal is Kubernetes' own.
  static Result<Time> Parse(std::string_view text);
};

// Kubernetes' metav1.MicroTime: written and read with exactly six digits of
// fraction, "2006-01-02T15:04:05.000000Z".
struct HERALD_EXPORT MicroTime : Timestamp {
  using Timestamp::Timestamp;
  std::string ToString() const;
  char* WriteTo(char* out) const;
  static Result<MicroTime> Parse(std::string_view text);
};

}  // namespace herald
