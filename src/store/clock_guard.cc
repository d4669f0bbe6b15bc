#include "store/clock_guard.h"

#include <fmt/core.h>

#include <utility>

#include "base/bytes/trimmed.h"
#include "base/file.h"

namespace herald::store {
namespace {

using std::chrono::nanoseconds;

// A thread may be stopped between reading the two clocks. A reading that took longer than this is
// repeated, so that the pause does not look like a jump. A few times only, because a false jump
// merely delays expiry.
constexpr std::chrono::seconds kLongestReading{1};
constexpr int kReadings = 5;

}  // namespace

std::string ReadBootId() {
  const Result<std::string> id = ReadFile("/proc/sys/kernel/random/boot_id");
  return id ? std::string(Trimmed(*id)) : std::string();
}

ClockGuard::ClockGuard(const Clock* clock, std::string boot_id, std::optional<ClockRecord> last,
                       LogFunction log)
    : clock_(*clock), boot_id_(std::move(boot_id)), log_(std::move(log)), last_(std::move(last)) {}

ClockRecord ClockGuard::ReadClocks() const {
  ClockRecord record;
  for (int i = 0; i < kReadings; ++i) {
    const SteadyTime before = clock_.SinceBoot();
    record = {clock_.Now(), clock_.SinceBoot(), boot_id_};
    if (record.since_boot - before <= kLongestReading) break;
  }
  return record;
}

std::optional<WallTime> ClockGuard::Look() {
  const ClockRecord now = ReadClocks();
  std::optional<nanoseconds> jump;
  bool rebooted = false;
  bool resumed = false;
  bool held = false;
  {
    MutexLock lock(mu_);
    if (last_) {
      const nanoseconds by_wall = now.wall - last_->wall;
      if (looked_ || (!boot_id_.empty() && last_->boot_id == boot_id_)) {
        const nanoseconds passed = now.since_boot - last_->since_boot;
        if (std::chrono::abs(by_wall - passed) > kTolerance + std::chrono::abs(passed) / kSlew) {
          jump = by_wall - passed;
        }
      } else if (by_wall < -kTolerance) {
        jump = by_wall;
      } else {
        rebooted = true;
      }
    }
    if (jump) ++jumps_;
    if (jump || rebooted) {
      held_since_ = now.since_boot;
      // The record stays as it was before the first jump, and is renewed when expiry resumes.
      recorded_at_.reset();
    } else if (held_since_ && now.since_boot - *held_since_ >= kSteady) {
      held_since_.reset();
      resumed = true;
    }
    held = held_since_.has_value();
    last_ = now;
    looked_ = true;
  }
  if (jump) {
    Log(LogLevel::kWarn,
        "the wall clock has jumped; nothing expires until it has been steady for 10 minutes or an "
        "operator accepts it",
        *jump);
  }
  if (rebooted) {
    Log(LogLevel::kInfo,
        "the machine has been rebooted; nothing expires until the clock has been steady for 10 "
        "minutes or an operator accepts it",
        nanoseconds(0));
  }
  if (resumed) Log(LogLevel::kInfo, "the clock is steady; expiry resumes", nanoseconds(0));
  if (held) return std::nullopt;
  return now.wall;
}

void ClockGuard::Accept() {
  const ClockRecord now = ReadClocks();
  bool resumed = false;
  {
    MutexLock lock(mu_);
    resumed = held_since_.has_value();
    held_since_.reset();
    recorded_at_.reset();
    // This also accepts a jump that Look() has not seen yet.
    last_ = now;
    looked_ = true;
  }
  if (resumed)
    Log(LogLevel::kInfo, "an operator has accepted the clock; expiry resumes", nanoseconds(0));
}

std::optional<ClockRecord> ClockGuard::TakeRecord() {
  MutexLock lock(mu_);
  if (!looked_ || !last_ || held_since_) return std::nullopt;
  if (recorded_at_ && last_->since_boot - *recorded_at_ < kRecordInterval) return std::nullopt;
  recorded_at_ = last_->since_boot;
  return last_;
}

bool ClockGuard::held() const {
  MutexLock lock(mu_);
  return held_since_.has_value();
}

std::uint64_t ClockGuard::jumps() const {
  MutexLock lock(mu_);
  return jumps_;
}

void ClockGuard::Log(LogLevel level, std::string_view message, nanoseconds jump) const {
  if (!log_) return;
  const std::string seconds = fmt::format(
      "{:+.3f}", std::chrono::duration_cast<std::chrono::duration<double>>(jump).count());
  LogEntry entry{level, message, {}};
  if (jump != nanoseconds(0)) entry.fields.emplace_back("jumpSeconds", seconds);
  log_(entry);
}

}  // namespace herald::store
