#include "herald/base/clock.h"

#include <ctime>

#include "base/check.h"

namespace herald {
namespace {

class MachineClock final : public Clock {
 public:
  WallTime Now() const override { return std::chrono::system_clock::now(); }
  SteadyTime Steady() const override { return std::chrono::steady_clock::now(); }
  SteadyTime SinceBoot() const override {
    timespec time{};
    clock_gettime(CLOCK_BOOTTIME, &time);
    return SteadyTime(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }
};

// Where a fake steady clock begins: a machine that was started an hour ago. Not
// zero, because code that takes "now - 10 min" or that uses SteadyTime{} for
// "never" would then be tested on a time that no real machine shows.
constexpr SteadyTime kFakeSteadyStart{std::chrono::hours(1)};

}  // namespace

const Clock& SystemClock() {
  // Leaked on purpose: a recorder in another static object may ask for the time
  // after this file's statics would have been destroyed.
  static const Clock& clock = *new MachineClock;
  return clock;
}

FakeClock::FakeClock(WallTime start) : start_(start) {}

WallTime FakeClock::Now() const {
  std::lock_guard lock(mu_);
  return start_ + elapsed_ + suspended_ + jumped_;
}

SteadyTime FakeClock::Steady() const {
  std::lock_guard lock(mu_);
  return kFakeSteadyStart + elapsed_;
}

SteadyTime FakeClock::SinceBoot() const {
  std::lock_guard lock(mu_);
  return kFakeSteadyStart + elapsed_ + suspended_;
}

void FakeClock::Advance(std::chrono::nanoseconds by) {
  HERALD_CHECK(by >= std::chrono::nanoseconds(0), "time does not run backwards");
  std::lock_guard lock(mu_);
  elapsed_ += by;
}

void FakeClock::JumpWallClock(std::chrono::nanoseconds by) {
  std::lock_guard lock(mu_);
  jumped_ += by;
}

void FakeClock::Suspend(std::chrono::nanoseconds by) {
  HERALD_CHECK(by >= std::chrono::nanoseconds(0), "time does not run backwards");
  std::lock_guard lock(mu_);
  suspended_ += by;
}

}  // namespace herald
