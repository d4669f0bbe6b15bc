#include "store/clock_guard.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace herald::store {
namespace {

using namespace std::chrono_literals;

class ClockGuardTest : public testing::Test {
 protected:
  // Creates the guard of a process that starts now, in the boot with that id.
  void Start(std::optional<ClockRecord> last, std::string boot_id = "boot-1") {
    guard_ = std::make_unique<ClockGuard>(
        &clock_, std::move(boot_id), std::move(last),
        [this](const LogEntry& entry) { logged_.emplace_back(entry.message); });
  }
  // Advances the clock while the guard looks once a second, as the stores do.
  void Run(std::chrono::seconds how_long) {
    for (auto second = 0s; second < how_long; ++second) {
      clock_.Advance(1s);
      (void)guard_->Look();
    }
  }
  bool Runs() { return guard_->Look().has_value(); }

  FakeClock clock_{WallTime(500'000h)};
  std::unique_ptr<ClockGuard> guard_;
  std::vector<std::string> logged_;
};

TEST_F(ClockGuardTest, ReturnsTheWallTimeWhileTheClocksAgree) {
  Start(std::nullopt);
  EXPECT_EQ(guard_->Look(), clock_.Now());
  clock_.Advance(48h);
  EXPECT_EQ(guard_->Look(), clock_.Now());
  EXPECT_EQ(guard_->jumps(), 0u);
  EXPECT_TRUE(logged_.empty());
}

TEST_F(ClockGuardTest, HoldsAfterAJumpUntilTenMinutesWithoutAnother) {
  for (const auto jump : {std::chrono::nanoseconds(2h), std::chrono::nanoseconds(-2h)}) {
    Start(std::nullopt);
    ASSERT_TRUE(Runs());
    clock_.JumpWallClock(jump);
    EXPECT_FALSE(Runs());
    EXPECT_TRUE(guard_->held());
    EXPECT_EQ(guard_->jumps(), 1u);
    Run(599s);
    EXPECT_FALSE(Runs()) << "not a second early";
    Run(1s);
    EXPECT_TRUE(Runs());
    EXPECT_FALSE(guard_->held());
    EXPECT_EQ(guard_->jumps(), 1u);
  }
  ASSERT_EQ(logged_.size(), 4u);
  EXPECT_EQ(logged_[1], "the clock is steady; expiry resumes");
}

TEST_F(ClockGuardTest, WaitsAgainAfterEachJump) {
  Start(std::nullopt);
  ASSERT_TRUE(Runs());
  clock_.JumpWallClock(2h);
  EXPECT_FALSE(Runs());
  Run(300s);
  clock_.JumpWallClock(-2h);
  Run(599s);
  EXPECT_FALSE(Runs());
  EXPECT_EQ(guard_->jumps(), 2u);
  Run(2s);
  EXPECT_TRUE(Runs());
}

TEST_F(ClockGuardTest, SuspensionSlewingAndSmallCorrectionsAreNotJumps) {
  Start(std::nullopt);
  ASSERT_TRUE(Runs());
  clock_.Suspend(2h);
  EXPECT_TRUE(Runs());
  clock_.JumpWallClock(1s);
  EXPECT_TRUE(Runs());
  clock_.JumpWallClock(-10s);
  EXPECT_TRUE(Runs());
  // 500 ppm for four days, a little at each look.
  for (int i = 0; i < 4 * 24; ++i) {
    clock_.Advance(1h);
    clock_.JumpWallClock(1800ms);
    EXPECT_TRUE(Runs());
  }
  EXPECT_EQ(guard_->jumps(), 0u);
}

TEST_F(ClockGuardTest, ResumesAtOnceWhenTheClockIsAccepted) {
  Start(std::nullopt);
  ASSERT_TRUE(Runs());
  clock_.JumpWallClock(2h);
  EXPECT_FALSE(Runs());
  guard_->Accept();
  EXPECT_TRUE(Runs());
  clock_.JumpWallClock(2h);
  guard_->Accept();
  EXPECT_TRUE(Runs()) << "also without a look in between";
  EXPECT_EQ(guard_->jumps(), 1u);
}

TEST_F(ClockGuardTest, DetectsAJumpAcrossARestart) {
  Start(std::nullopt);
  ASSERT_TRUE(Runs());
  const auto record = guard_->TakeRecord();
  ASSERT_TRUE(record);
  clock_.Advance(3h);
  Start(record);
  EXPECT_TRUE(Runs()) << "both clocks continued to run";

  clock_.JumpWallClock(2h);
  Start(record);
  EXPECT_FALSE(Runs());
  EXPECT_EQ(guard_->jumps(), 1u);
}

TEST_F(ClockGuardTest, AllowsForSlewingSinceTheLastLook) {
  Start(std::nullopt);
  ASSERT_TRUE(Runs());
  const auto record = guard_->TakeRecord();
  clock_.Advance(7 * 24h);
  clock_.JumpWallClock(300s);  // 7 days of 500 ppm are 302 s
  Start(record);
  EXPECT_TRUE(Runs());
}

TEST_F(ClockGuardTest, RecordsNothingWhileItHolds) {
  Start(std::nullopt);
  ASSERT_TRUE(Runs());
  const auto record = guard_->TakeRecord();
  ASSERT_TRUE(record);
  EXPECT_FALSE(guard_->TakeRecord()) << "once a minute";
  Run(60s);
  EXPECT_TRUE(guard_->TakeRecord());

  clock_.JumpWallClock(2h);
  EXPECT_FALSE(Runs());
  Run(120s);
  EXPECT_FALSE(guard_->TakeRecord()) << "a process that starts now must see the jump";
  guard_->Accept();
  EXPECT_TRUE(guard_->TakeRecord()) << "a process that starts now must not see it";
}

TEST_F(ClockGuardTest, HoldsAfterARebootOfUnknownDuration) {
  Start(std::nullopt);
  ASSERT_TRUE(Runs());
  const auto record = guard_->TakeRecord();
  clock_.Advance(2h);
  Start(record, "boot-2");
  EXPECT_FALSE(Runs());
  EXPECT_EQ(guard_->jumps(), 0u) << "it is unknown whether it was one";
  EXPECT_FALSE(guard_->TakeRecord());
  Run(600s);
  EXPECT_TRUE(Runs());
  EXPECT_EQ(guard_->TakeRecord()->boot_id, "boot-2");
}

TEST_F(ClockGuardTest, CountsAJumpIfTheClockIsBehindItsRecordAfterAReboot) {
  Start(std::nullopt);
  ASSERT_TRUE(Runs());
  const auto record = guard_->TakeRecord();
  clock_.JumpWallClock(-1h);
  Start(record, "boot-2");
  EXPECT_FALSE(Runs());
  EXPECT_EQ(guard_->jumps(), 1u);
}

TEST_F(ClockGuardTest, HoldsAtEachStartIfTheBootIdIsUnknown) {
  Start(std::nullopt, "");
  EXPECT_TRUE(Runs()) << "a new store has no record";
  const auto record = guard_->TakeRecord();
  clock_.Advance(1s);
  EXPECT_TRUE(Runs()) << "within one process the boot is the same";
  Start(record, "");
  EXPECT_FALSE(Runs());
}

}  // namespace
}  // namespace herald::store
