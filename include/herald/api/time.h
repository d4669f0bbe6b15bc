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

// Seconds from the Unix epoch to 0001-01-01T00:00:00Z, which means "not set" in Kubernetes.
inline constexpr std::int64_t kZeroTimeSeconds = -62135596800;

// The value of Time and MicroTime: a point of wall time in seconds and nanoseconds. The seconds
// have the range of Kubernetes' protobuf, any int64, which nanoseconds since 1970 could not
// represent. The default is the zero time, which is null in JSON; the Unix epoch is an ordinary
// time.
//
// An immutable value.
class HERALD_EXPORT Timestamp {
 public:
  // The longest string is -292277022400-12-31T23:59:59.999999Z.
  static constexpr std::size_t kMaxTextBytes = 40;

  constexpr Timestamp() = default;
  // REQUIRES: 0 <= nanos < 1'000'000'000
  constexpr Timestamp(std::int64_t seconds, std::int32_t nanos)
      : seconds_(seconds), nanos_(nanos) {}
  explicit Timestamp(WallTime time);

  constexpr std::int64_t seconds() const { return seconds_; }
  constexpr std::int32_t nanos() const { return nanos_; }
  constexpr bool is_zero() const { return seconds_ == kZeroTimeSeconds && nanos_ == 0; }

  // Clamped to the range of WallTime (the years 1678 to 2261).
  WallTime ToWallTime() const;

  auto operator<=>(const Timestamp&) const = default;

 private:
  std::int64_t seconds_ = kZeroTimeSeconds;
  std::int32_t nanos_ = 0;
};

// Kubernetes' metav1.Time: encoded in whole seconds, "2006-01-02T15:04:05Z". The fraction exists
// only in memory.
struct HERALD_EXPORT Time : Timestamp {
  using Timestamp::Timestamp;
  // The string on the wire, without quotes. REQUIRES: !is_zero(), because that is encoded as null
  std::string ToString() const;
  // Writes the same string to a buffer of at least kMaxTextBytes bytes and returns its end.
  char* WriteTo(char* out) const;
  // Parses RFC 3339 as Kubernetes does: any offset, a fraction of any length. Errors have
  // Kubernetes' message.
  static Result<Time> Parse(std::string_view text);
};

// Kubernetes' metav1.MicroTime: encoded with exactly six digits of fraction,
// "2006-01-02T15:04:05.000000Z", and only accepted with six.
struct HERALD_EXPORT MicroTime : Timestamp {
  using Timestamp::Timestamp;
  std::string ToString() const;
  char* WriteTo(char* out) const;
  static Result<MicroTime> Parse(std::string_view text);
};

}  // namespace herald
