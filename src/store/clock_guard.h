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

// The clocks of a machine at one moment. A store on disk keeps a record, so that the next process
// can compare. A value.
struct ClockRecord {
  WallTime wall{};
  SteadyTime since_boot{};
  std::string boot_id{};  // which boot `since_boot` counts from; empty: unknown

  bool operator==(const ClockRecord&) const = default;
};

// A ClockGuard decides by which time entries may expire, and whether they may at all.
//
// Expiry deletes by the wall clock, and cannot be undone. A clock that is set two hours ahead would
// delete every event of the last two hours within a second. So each reading of the wall clock is
// compared with the time since boot, which cannot be set. If the two disagree, the wall clock has
// jumped, forward or backward, and expiry is held back:
//
//   running --a jump--> held --kSteady without another jump, or Accept()--> running
//                        ^  |
//                        '--' another jump: the wait begins again
//
// If a wrong clock is corrected within kSteady, nothing is lost. After kSteady the clock is
// trusted: it may have been wrong before the jump.
//
// The suspension of a machine does not count as a jump, because the time since boot includes it.
// Neither does slewing, as NTP does it.
//
// After a restart within the same boot, the record of the previous process is compared in the same
// way. After a reboot it is unknown how long the machine was off, and the clock may be wrong until
// NTP has set it. So expiry is held back for kSteady, too, but that is not counted as a jump,
// unless the wall clock is before the record.
//
// Thread-safe. Logs without a lock held.
class ClockGuard {
 public:
  // A difference of more than this, plus one part in kSlew of the time that has passed, is a jump.
  // Leap seconds and small corrections are less, and an event that expires ten seconds early does
  // no harm.
  static constexpr std::chrono::seconds kTolerance{10};
  // Linux slews a clock by 500 parts per million at most: one part in 2,000.
  static constexpr int kSlew = 2'000;
  // How long the clock must run without a jump before it is trusted again.
  static constexpr std::chrono::minutes kSteady{10};
  // How often the record is renewed. It does not have to be recent: apart from slewing, a record
  // of the last minute is as good as one of the last second.
  static constexpr std::chrono::minutes kRecordInterval{1};

  // `last`: the record of the previous process, if any. The clock is borrowed.
  ClockGuard(const Clock* clock, std::string boot_id, std::optional<ClockRecord> last,
             LogFunction log);

  // Compares the clocks. Returns the wall time by which entries may expire; nothing while expiry is
  // held back. Callers must use this time and not read the clock again, because only this reading
  // was compared.
  std::optional<WallTime> Look() EXCLUDES(mu_);

  // Trusts the clock as it is now: an operator has confirmed it.
  void Accept() EXCLUDES(mu_);

  // The record to keep for the next process, if it is time to renew it. Nothing while expiry is
  // held back: the next process must then see the jump as well.
  std::optional<ClockRecord> TakeRecord() EXCLUDES(mu_);

  bool held() const EXCLUDES(mu_);
  std::uint64_t jumps() const EXCLUDES(mu_);  // since the start of the process

 private:
  ClockRecord ReadClocks() const;
  void Log(LogLevel level, std::string_view message, std::chrono::nanoseconds jump) const;

  const Clock& clock_;
  const std::string boot_id_;
  const LogFunction log_;

  mutable Mutex mu_;  // a leaf
  // The clocks at the last Look(), which the next one compares with. Before the first Look(), the
  // record of the previous process.
  std::optional<ClockRecord> last_ GUARDED_BY(mu_);
  bool looked_ GUARDED_BY(mu_) = false;                    // last_ is of this process
  std::optional<SteadyTime> held_since_ GUARDED_BY(mu_);   // by the time since boot
  std::optional<SteadyTime> recorded_at_ GUARDED_BY(mu_);  // the same
  std::uint64_t jumps_ GUARDED_BY(mu_) = 0;
};

// Identifies the current boot of the machine; empty if it is unknown.
std::string ReadBootId();

}  // namespace herald::store
