#include "record/delivery/flush_tracker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

namespace herald {
namespace {

class FlushTrackerTest : public ::testing::Test {
 protected:
  std::shared_ptr<std::atomic<bool>> Add(std::uint32_t epoch) {
    auto done = std::make_shared<std::atomic<bool>>(false);
    tracker_.Add(epoch, done);
    return done;
  }
  // As the sequencer does after each step.
  bool Check(bool all_taken = true) {
    const bool wants_counts = tracker_.WantsCounts(all_taken);
    tracker_.CompleteDone();
    return wants_counts;
  }

  FlushTracker tracker_;
};

TEST_F(FlushTrackerTest, AFlushOfNothingIsDoneAtOnce) {
  const auto done = Add(0);
  EXPECT_FALSE(tracker_.empty());
  EXPECT_FALSE(Check());
  EXPECT_TRUE(*done);
  EXPECT_TRUE(tracker_.empty());
}

TEST_F(FlushTrackerTest, WaitsForTheWorkOfItsEpochAndOfNoLaterOne) {
  tracker_.BeginTaken(0);
  tracker_.BeginTaken(1);
  const auto first = Add(0);
  const auto second = Add(1);
  Check();
  EXPECT_FALSE(*first);
  tracker_.EndWork(0);
  Check();
  EXPECT_TRUE(*first);
  EXPECT_FALSE(*second);
  tracker_.EndWork(1);
  Check();
  EXPECT_TRUE(*second);
}

TEST_F(FlushTrackerTest, WaitsForEventsThatAreStillInTheChannel) {
  const auto done = Add(0);
  Check(/*all_taken=*/false);
  EXPECT_FALSE(*done);
  tracker_.BeginTaken(1);  // later than all of the flush
  Check(/*all_taken=*/false);
  EXPECT_TRUE(*done);
}

TEST_F(FlushTrackerTest, AsksOnceForCountsAndWaitsForTheirWrites) {
  tracker_.BeginTaken(0);
  tracker_.BeginTaken(0);
  tracker_.WorkBecomesCounted(0);
  const auto done = Add(0);
  EXPECT_FALSE(Check()) << "work is open";
  tracker_.EndWork(0);
  EXPECT_TRUE(Check());
  EXPECT_FALSE(Check());
  EXPECT_FALSE(*done);
  tracker_.EndCounted({.count = 1, .by_epoch = {{0, 1}}});
  Check();
  EXPECT_TRUE(*done);
}

TEST_F(FlushTrackerTest, OtherWorkIsOfTheLatestEpochSoThatNoEarlierFlushWaitsForIt) {
  const auto done = Add(4);
  EXPECT_EQ(tracker_.BeginOther(2), 5u);
  Check();
  EXPECT_TRUE(*done);
  const auto later = Add(5);
  tracker_.EndWork(5);
  Check();
  EXPECT_FALSE(*later);
  tracker_.EndWork(5);
  Check();
  EXPECT_TRUE(*later);
}

TEST_F(FlushTrackerTest, CompletesAllAtTheEnd) {
  tracker_.BeginTaken(0);
  const auto done = Add(0);
  tracker_.CompleteAll();
  EXPECT_TRUE(*done);
  EXPECT_TRUE(tracker_.empty());
}

}  // namespace
}  // namespace herald
