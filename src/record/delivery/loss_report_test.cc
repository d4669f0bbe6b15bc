#include "record/delivery/loss_report.h"

#include <gtest/gtest.h>

#include <chrono>

namespace herald {
namespace {

using std::chrono::seconds;

class LossReportTest : public ::testing::Test {
 protected:
  void Lose(Outcome outcome, std::uint64_t events) {
    outcomes_[static_cast<std::size_t>(outcome)] += events;
  }
  LossReport::Result Check() {
    return report_.Check(outcomes_, WallTime(seconds(1'700'000'000)), steady_);
  }

  OutcomeCounts outcomes_{};
  SteadyTime steady_{seconds(1000)};
  LossReport report_{{.kind = "Pod", .namespace_ = "ns", .name = "agent"}};
};

TEST_F(LossReportTest, ReportsOnlyWhatAReaderWouldMiss) {
  Lose(Outcome::kWritten, 5);
  Lose(Outcome::kMerged, 5);
  Lose(Outcome::kFiltered, 5);
  Lose(Outcome::kSpooled, 5);
  EXPECT_EQ(Check().event, nullptr);
  Lose(Outcome::kDropped, 3);
  Lose(Outcome::kRejected, 2);
  Lose(Outcome::kGaveUp, 1);
  const auto event = Check().event;
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->message, "6 events were lost: 3 dropped, 2 rejected, 1 gave_up");
  EXPECT_EQ(event->reason, "EventsLost");
  EXPECT_EQ(event->type, kWarning);
  EXPECT_EQ(event->metadata.namespace_, "ns");
  EXPECT_EQ(event->involved_object.name, "agent");
}

TEST_F(LossReportTest, ReportsOncePerMinuteAndTheRestAtTheEndOfTheMinute) {
  Lose(Outcome::kDropped, 1);
  const SteadyTime first = steady_;
  EXPECT_EQ(Check().event->message, "1 event was lost: 1 dropped");
  EXPECT_EQ(Check().check_again, std::nullopt) << "all is reported";
  steady_ += seconds(59);
  Lose(Outcome::kDropped, 2);
  const LossReport::Result result = Check();
  EXPECT_EQ(result.event, nullptr);
  EXPECT_EQ(result.check_again, first + seconds(60));
  steady_ += seconds(1);
  EXPECT_EQ(Check().event->message, "2 events were lost: 2 dropped");
}

TEST_F(LossReportTest, AnObjectWithoutNamespaceIsReportedInDefault) {
  LossReport report({.kind = "Node", .name = "n1"});
  Lose(Outcome::kDropped, 1);
  EXPECT_EQ(report.Check(outcomes_, WallTime(), steady_).event->metadata.namespace_, "default");
}

}  // namespace
}  // namespace herald
