#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "herald/record/fakes.h"
#include "node_agent/event_setup.h"
#include "node_agent/node.h"

namespace node_agent {
namespace {

using namespace std::chrono_literals;

// Runs a node for ten minutes of fake time and returns the lines of a FakeRecorder.
std::vector<std::string> Story(const NodeOptions& options, bool storm = false) {
  herald::FakeRecorder fake({.max_events = 100'000});
  herald::SteadyTime now(1h);
  Node node(options, fake.recorder(), fake.recorder(), now);
  const herald::SteadyTime end = now + 10min;
  bool stormed = false;
  while (now < end) {
    const herald::SteadyTime next = node.Step(now);
    EXPECT_GT(next, now);
    now = next;
    if (storm && !stormed && now > herald::SteadyTime(1h + 5min)) {
      node.Storm();
      stormed = true;
    }
  }
  std::vector<std::string> lines;
  while (std::optional<std::string> line = fake.Next()) lines.push_back(*std::move(line));
  return lines;
}

std::map<std::string, int> CountReasons(const std::vector<std::string>& lines) {
  std::map<std::string, int> reasons;
  for (const std::string& line : lines) {
    const std::size_t begin = line.find(' ') + 1;
    ++reasons[line.substr(begin, line.find(' ', begin) - begin)];
  }
  return reasons;
}

TEST(Node, RecordsTheSameEventsForTheSameSeed) {
  NodeOptions options;
  ASSERT_TRUE(Faults::Parse("few", &options.faults));
  const std::vector<std::string> first = Story(options);
  EXPECT_EQ(Story(options), first);
  options.seed = 2;
  EXPECT_NE(Story(options), first);
}

TEST(Node, DoesNotScheduleRunningPodsAgain) {
  NodeOptions options;
  options.pod_lifetime = 10h;
  options.pods_run_already = true;
  const std::map<std::string, int> reasons = CountReasons(Story(options));
  EXPECT_EQ(reasons, (std::map<std::string, int>{{"NodeReady", 1}, {"Starting", 1}}));
}

TEST(Node, StartsContainersAgainAfterAStorm) {
  NodeOptions options;
  options.pod_lifetime = 10h;
  options.pods_run_already = true;
  herald::FakeRecorder fake({.max_events = 100'000});
  herald::SteadyTime now(1h);
  Node node(options, fake.recorder(), fake.recorder(), now);
  const auto pass = [&](std::chrono::minutes time) {
    for (const herald::SteadyTime end = now + time; now < end;) now = node.Step(now);
    std::vector<std::string> lines;
    while (std::optional<std::string> line = fake.Next()) lines.push_back(*std::move(line));
    return CountReasons(lines);
  };
  pass(1min);
  node.Storm();
  EXPECT_GE(pass(1min)["BackOff"], options.pods);
  node.Calm();
  EXPECT_EQ(pass(1min), (std::map<std::string, int>{{"Created", 5}, {"Started", 5}}));
}

TEST(Node, RecordsNoWarningsWithoutFaults) {
  const std::vector<std::string> lines = Story({});
  const std::map<std::string, int> reasons = CountReasons(lines);
  for (const char* reason :
       {"Starting", "NodeReady", "Scheduled", "Pulling", "Pulled", "Created", "Started", "Killing"})
    EXPECT_TRUE(reasons.contains(reason)) << reason;
  for (const std::string& line : lines) EXPECT_TRUE(line.starts_with("Normal ")) << line;
  EXPECT_EQ(reasons.at("Pulling"), reasons.at("Pulled"));
}

TEST(Node, RecordsFaultsAsTheKubeletDoes) {
  NodeOptions options;
  options.pods = 20;
  ASSERT_TRUE(Faults::Parse("many", &options.faults));
  const std::map<std::string, int> reasons = CountReasons(Story(options));
  for (const char* reason : {"BackOff", "Unhealthy", "FailedMount", "Failed", "ImageGCFailed"})
    EXPECT_TRUE(reasons.contains(reason)) << reason;
}

TEST(Node, RecordsSeveralTimesAsManyEventsInAStorm) {
  NodeOptions options;
  options.pods = 20;
  options.pod_lifetime = 1h;
  EXPECT_GT(Story(options, true).size(), 3 * Story(options).size());
}

TEST(Faults, HasThreeProfiles) {
  Faults faults;
  EXPECT_TRUE(Faults::Parse("none", &faults));
  EXPECT_FALSE(Faults::Parse("some", &faults));
}

TEST(MakeEventRecorder, KeepsAnExistingRecorder) {
  herald::FakeRecorder fake;
  Dependencies dependencies{.recorder = fake.recorder()};
  EXPECT_EQ(MakeEventRecorder(&dependencies, "kubelet", "n"), nullptr);
  dependencies.recorder->Event({.kind = "Node", .name = "n"}, herald::kNormal, "R", "m");
  EXPECT_EQ(fake.Next(), "Normal R m");
}

TEST(MakeEventRecorder, LogsAWarningAndNoEventsWithoutAServer) {
  std::vector<std::string> log;
  Dependencies dependencies;
  dependencies.log = [&](const herald::LogEntry& entry) { log.emplace_back(entry.message); };
  auto broadcaster = MakeEventRecorder(&dependencies, "kubelet", "n");
  ASSERT_NE(broadcaster, nullptr);
  dependencies.recorder->Event({.kind = "Node", .name = "n"}, herald::kNormal, "R", "m");
  broadcaster->Shutdown(5s);
  EXPECT_EQ(log,
            (std::vector<std::string>{"No API server: events are only logged", "Event occurred"}));
}

TEST(MakeEventRecorder, RecordsForTheComponentOnTheNode) {
  auto sink = std::make_shared<herald::MemorySink>();
  Dependencies dependencies{.sink = sink};
  auto broadcaster = MakeEventRecorder(&dependencies, "kubelet", "node-7");
  dependencies.recorder->Event({.kind = "Node", .name = "node-7"}, herald::kNormal, "R", "m");
  EXPECT_TRUE(broadcaster->Shutdown(5s).complete);
  ASSERT_EQ(sink->Events().size(), 1U);
  EXPECT_EQ(sink->Events()[0].source.component, "kubelet");
  EXPECT_EQ(sink->Events()[0].source.host, "node-7");
}

}  // namespace
}  // namespace node_agent
