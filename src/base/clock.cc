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

// The start of the fake steady clock: an hour after boot. Not zero, because code that computes "now
// - 10 min" or uses SteadyTime{} for "never" would then be tested with a time that no real machine
// has.
constexpr SteadyTime kFakeSteadyStart{std::chrono::hours(1)};

}  // namespace

const Clock& SystemClock() {
  // Never destroyed: a recorder in another static object may use the clock after the statics of
  // this file would be destroyed.
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
  HERALD_CHECK(by >= std::chrono::nanoseconds(0), "the clock must not go backwards");
  std::lock_guard lock(mu_);
  elapsed_ += by;
}

void FakeClock::JumpWallClock(std::chrono::nanoseconds by) {
  std::lock_guard lock(mu_);
  jumped_ += by;
}

void FakeClock::Suspend(std::chrono::nanoseconds by) {
  HERALD_CHECK(by >= std::chrono::nanoseconds(0), "the clock must not go backwards");
  std::lock_guard lock(mu_);
  suspended_ += by;
}

}  // namespace herald
