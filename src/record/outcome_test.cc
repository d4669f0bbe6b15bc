#include "herald/record/outcome.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace herald {
namespace {

TEST(OutcomeTest, EachOutcomeHasAName) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kOutcomes; ++i) names.insert(OutcomeName(static_cast<Outcome>(i)));
  EXPECT_EQ(names.size(), kOutcomes);
  EXPECT_EQ(OutcomeName(Outcome::kWritten), "written");
  EXPECT_EQ(OutcomeName(Outcome::kGaveUp), "gave_up");
  EXPECT_EQ(OutcomeName(Outcome::kNoSink), "no_sink");
  EXPECT_EQ(OutcomeName(Outcome::kSpooled), "spooled");
}

TEST(OutcomeTest, StatsAreIndexedByOutcome) {
  SinkStats stats;
  ++stats[Outcome::kMerged];
  EXPECT_EQ(stats.outcomes[1], 1U);
  const SinkStats& same = stats;
  EXPECT_EQ(same[Outcome::kMerged], 1U);
  EXPECT_EQ(same[Outcome::kWritten], 0U);
}

TEST(OutcomeTest, WritesPrometheusTextFormat) {
  SinkStats stats;
  stats.recorded = 12;
  stats[Outcome::kWritten] = 7;
  stats[Outcome::kGaveUp] = 3;
  stats.in_flight = 2;
  stats.requests = 20;
  stats.retries = 5;
  stats.spool_bytes = 4096;
  stats.spool_dropped = 2;
  stats.spool_corrupted = 1;
  std::string text = "before\n";
  WritePrometheusText({{"default", stats}}, &text);
  EXPECT_EQ(text,
            "before\n"
            "# HELP herald_recorder_events_total Events by sink and outcome.\n"
            "# TYPE herald_recorder_events_total counter\n"
            "herald_recorder_events_total{sink=\"default\",outcome=\"written\"} 7\n"
            "herald_recorder_events_total{sink=\"default\",outcome=\"merged\"} 0\n"
            "herald_recorder_events_total{sink=\"default\",outcome=\"filtered\"} 0\n"
            "herald_recorder_events_total{sink=\"default\",outcome=\"dropped\"} 0\n"
            "herald_recorder_events_total{sink=\"default\",outcome=\"rejected\"} 0\n"
            "herald_recorder_events_total{sink=\"default\",outcome=\"gave_up\"} 3\n"
            "herald_recorder_events_total{sink=\"default\",outcome=\"lost\"} 0\n"
            "herald_recorder_events_total{sink=\"default\",outcome=\"invalid\"} 0\n"
            "herald_recorder_events_total{sink=\"default\",outcome=\"no_sink\"} 0\n"
            "herald_recorder_events_total{sink=\"default\",outcome=\"spooled\"} 0\n"
            "# HELP herald_recorder_recorded_total Events recorded since the sink was started.\n"
            "# TYPE herald_recorder_recorded_total counter\n"
            "herald_recorder_recorded_total{sink=\"default\"} 12\n"
            "# HELP herald_recorder_events_in_flight Events that have no outcome yet.\n"
            "# TYPE herald_recorder_events_in_flight gauge\n"
            "herald_recorder_events_in_flight{sink=\"default\"} 2\n"
            "# HELP herald_recorder_requests_total Requests to the sink.\n"
            "# TYPE herald_recorder_requests_total counter\n"
            "herald_recorder_requests_total{sink=\"default\"} 20\n"
            "# HELP herald_recorder_retries_total Requests that were retries.\n"
            "# TYPE herald_recorder_retries_total counter\n"
            "herald_recorder_retries_total{sink=\"default\"} 5\n"
            "# HELP herald_recorder_spool_bytes Bytes of the spool on disk.\n"
            "# TYPE herald_recorder_spool_bytes gauge\n"
            "herald_recorder_spool_bytes{sink=\"default\"} 4096\n"
            "# HELP herald_recorder_spool_dropped_total Spooled events dropped to make room for "
            "later ones.\n"
            "# TYPE herald_recorder_spool_dropped_total counter\n"
            "herald_recorder_spool_dropped_total{sink=\"default\"} 2\n"
            "# HELP herald_recorder_spool_corrupted_total Damaged places of the spool that were "
            "skipped.\n"
            "# TYPE herald_recorder_spool_corrupted_total counter\n"
            "herald_recorder_spool_corrupted_total{sink=\"default\"} 1\n");
}

TEST(OutcomeTest, KeepsTheLinesOfAMetricTogether) {
  std::string text;
  WritePrometheusText({{"a", SinkStats()}, {"b", SinkStats()}}, &text);
  std::istringstream lines(text);
  std::set<std::string> ended;
  std::string current;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE")) continue;
    const std::string metric = line.starts_with("# HELP ") ? line.substr(7, line.find(' ', 7) - 7)
                                                           : line.substr(0, line.find('{'));
    if (metric == current) continue;
    EXPECT_TRUE(line.starts_with("# HELP ")) << line;
    EXPECT_TRUE(ended.insert(std::exchange(current, metric)).second) << line;
  }
  EXPECT_EQ(ended.size(), 8U) << "eight metrics, and what was before the first";
}

TEST(OutcomeTest, EscapesNamesForPrometheus) {
  std::string text;
  WritePrometheusText({{"a\"b\\c\nd", SinkStats()}}, &text);
  EXPECT_NE(text.find(R"(herald_recorder_events_total{sink="a\"b\\c\nd",)"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace herald
