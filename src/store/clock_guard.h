#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/thread/mutex.h"
#include "herald/base/clock.h"
#include "herald/base/log.h"

namespace herald::store {

// The clocks of a machine as they stood at one moment. A store on disk keeps one, so that the
// next process can compare.
struct ClockRecord {
  WallTime wall{};
  SteadyTime since_boot{};
  std::string boot_id{};  // which boot `since_boot` counts from; empty: unknown

  bool operator==(const ClockRecord&) const = default;
};

// A ClockGuard decides by which time entries may expire, and whether they may at all.
//
// Expiry deletes for good, and the wall clock decides what. A clock that somebody sets two hours
// ahead would therefore delete every event of the last two hours within a second, and setting it
// back would not bring them back. So each look at the wall clock is compared with the time since
// boot, which nobody can set. Where the two disagree, the wall clock has jumped, forward or
// backward, and expiry is held back:
//
//   running --a jump--> held --kSteady without another jump, or Accept()--> running
//                        ^  |
//                        '--' another jump: the wait begins again
//
// Who sets a wrong clock right within kSteady loses nothing. After it the clock is believed: it
// may have been wrong before.
//
// A suspended machine is no jump, because the time since boot counts the suspension. Slewing, as
// NTP does it, is no jump either.
//
// Across a restart on the same boot, the record of the process before is compared in the same
// way. After a reboot nobody knows how long the machine was off, and the clock may be wrong until
// NTP has set it: expiry is held back for kSteady, too, but that is not counted as a jump, unless
// the wall clock is behind the record.
//
// Thread-safe. The log is called without a lock of this class.
class ClockGuard {
 public:
  // A jump is more than this, plus kSlew of the time that has passed. Leap seconds and small
  // corrections are less, and an event that goes ten seconds early harms nobody.
  static constexpr std::chrono::seconds kTolerance{10};
  // The most that Linux slews a clock by: 500 parts per million, one in 2,000.
  static constexpr int kSlew = 2'000;
  // How long the clock must go without a jump before it is believed again.
  static constexpr std::chrono::minutes kSteady{10};
  // How often the record should be renewed. It need not be recent: that of the last minute tells
  // as much as that of the last second, apart from slewing.
  static constexpr std::chrono::minutes kRecordInterval{1};

  // `last`: what the process before has recorded, if any. The clock is borrowed.
  ClockGuard(const Clock* clock, std::string boot_id, std::optional<ClockRecord> last,
             LogFunction log);

  // Compares the clocks. Returns the wall time by which entries may expire; nothing while expiry
  // is held back. What was read is what was compared, so callers must use it and not ask the
  // clock again.
  std::optional<WallTime> Look() EXCLUDES(mu_);

  // Believes the clock as it is now: the operator says that it is right.
  void Accept() EXCLUDES(mu_);

  // What to keep for the next process, where it is time to do so. Nothing while expiry is held
  // back: the next process must then see the jump as well.
  std::optional<ClockRecord> TakeRecord() EXCLUDES(mu_);

  bool held() const EXCLUDES(mu_);
  std::uint64_t jumps() const EXCLUDES(mu_);  // since the start of the process

 private:
  ClockRecord ReadClocks() const;
  void Say(LogLevel level, std::string_view message, std::chrono::nanoseconds jump) const;

  const Clock& clock_;
  const std::string boot_id_;
  const LogFunction log_;

  mutable Mutex mu_;  // a leaf
  // At the last look, whose clocks the next one is compared with. Before the first one, the
  // record of the process before.
  std::optional<ClockRecord> last_ GUARDED_BY(mu_);
  bool looked_ GUARDED_BY(mu_) = false;                    // last_ is of this process
  std::optional<SteadyTime> held_since_ GUARDED_BY(mu_);   // by the time since boot
  std::optional<SteadyTime> recorded_at_ GUARDED_BY(mu_);  // the same
  std::uint64_t jumps_ GUARDED_BY(mu_) = 0;
};

// Identifies the time from the machine's last boot to its next; empty where it does not say.
std::string ReadBootId();

}  // namespace herald::store
