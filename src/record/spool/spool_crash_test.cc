#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "herald/record/broadcaster.h"
#include "herald/record/fakes.h"
#include "record/spool/testing/spool_fixture.h"

namespace herald {
namespace {

using std::chrono::seconds;
using Strings = std::vector<std::string>;

// Crashes. A child process appends writes and reports those that are safe. It is killed at its
// n-th step, for every n, and the next process must find all reported writes and no others.

// Runs a function in a child process, which is killed at the n-th call of the hook. Returns the
// lines that it reported. *finished: the function returned before.
Strings RunAndKill(int n, bool* finished,
                   const std::function<void(const Spool::FaultHook&, int tell)>& run) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  EXPECT_GE(child, 0);
  if (child == 0) {
    close(ends[0]);
    int step = 0;
    run(
        [&](std::string_view) {
          if (++step == n) raise(SIGKILL);
        },
        ends[1]);
    _exit(0);
  }
  close(ends[1]);
  std::string output;
  char buffer[4096];
  ssize_t count = 0;
  while ((count = read(ends[0], buffer, sizeof(buffer))) > 0) {
    output.append(buffer, static_cast<std::size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  *finished = WIFEXITED(status);
  EXPECT_TRUE(WIFEXITED(status) || WTERMSIG(status) == SIGKILL);
  Strings lines;
  for (std::size_t begin = 0, end = 0; (end = output.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    lines.push_back(output.substr(begin, end - begin));
  }
  return lines;
}

void ReportLine(int fd, const std::string& line) {
  const std::string text = line + "\n";
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(3);
}

TEST(SpoolCrashTest, AppendedWritesSurviveAKillAtAnyStep) {
  constexpr int kMaxSteps = 1000;
  int n = 1;
  for (bool finished = false; !finished && n < kMaxSteps; ++n) {
    const SpoolDirectory directory;
    // Small, so that segments end and begin in between.
    const SpoolOptions options{.directory = directory.path(), .segment_bytes = 600};
    std::set<std::string> safe;
    for (const std::string& line :
         RunAndKill(n, &finished, [&](const Spool::FaultHook& fault, int tell) {
           auto spool = Spool::Open(options, fault);
           if (!spool) _exit(1);
           for (int i = 0; i < 8; ++i) {
             const std::string name = fmt::format("e{}", i);
             if (!(*spool)->Append(Create(name)).ok()) _exit(2);
             ReportLine(tell, name);
             if (i != 4) continue;
             // In the middle the first segment is delivered and leaves.
             const auto segment = (*spool)->Take();
             for (const std::string& gone : NamesOf(segment->writes)) ReportLine(tell, "-" + gone);
             (*spool)->Release();
           }
         })) {
      if (line[0] == '-') {
        safe.erase(line.substr(1));
      } else {
        safe.insert(line);
      }
    }
    SCOPED_TRACE(n);
    const auto spool = Spool::Open(options);
    ASSERT_TRUE(spool);
    std::set<std::string> found;
    while (const auto segment = (*spool)->Take()) {
      for (const SpooledWrite& write : segment->writes) {
        const std::string& name = write.request.event->metadata.name;
        EXPECT_EQ(*write.request.event, *Create(name).request.event);
        EXPECT_TRUE(found.insert(name).second) << name;
      }
      (*spool)->Release();
    }
    EXPECT_EQ((*spool)->stats().corrupted, 0u);
    for (const std::string& name : safe) EXPECT_TRUE(found.contains(name)) << name;
  }
  EXPECT_GT(n, 30) << "the child has more steps than that";
  EXPECT_LT(n, kMaxSteps);
}

// The whole pipeline, in a process that is killed from outside at some time or other.
TEST(SpoolCrashTest, TheNextProcessDeliversSpooledEvents) {
  const SpoolDirectory directory;
  const SinkOptions options{
      .max_tries = 1, .spool = SpoolOptions{.directory = directory.path(), .segment_bytes = 4096}};
  std::set<std::string> spooled;
  for (int round = 0; round < 20; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(ends[0]);
      FakeClock clock{WallTime(seconds(1'700'000'000 + round * 1000))};
      Executor executor({.threads = 0, .clock = &clock});
      Broadcaster broadcaster({.executor = &executor});
      const auto sink = std::make_shared<MemorySink>();
      sink->SetFault(
          [](const SinkRequest&) { return Status(StatusReason::kUnreachable, "no route"); });
      if (!broadcaster.StartRecordingToSink(sink, options).ok()) _exit(1);
      const Recorder recorder = broadcaster.NewRecorder({.component = "c"});
      for (int i = 0;; ++i) {
        const std::string pod = fmt::format("pod-{}-{}", round, i);
        Recorder(recorder).Record({.kind = "Pod", .namespace_ = "ns", .name = pod},
                                  {.reason = "R",
                                   .on_outcome =
                                       [&](Outcome outcome, const Status&) {
                                         if (outcome == Outcome::kSpooled) ReportLine(ends[1], pod);
                                       }},
                                  "{}", pod);
        executor.RunUntilIdle();
      }
    }
    close(ends[1]);
    std::string output;
    char buffer[256];
    // Killed after a number of reports, in the middle of whatever it does next.
    while (output.size() < static_cast<std::size_t>(100 + 97 * round)) {
      const ssize_t count = read(ends[0], buffer, sizeof(buffer));
      ASSERT_GT(count, 0);
      output.append(buffer, static_cast<std::size_t>(count));
    }
    kill(child, SIGKILL);
    ssize_t count = 0;
    while ((count = read(ends[0], buffer, sizeof(buffer))) > 0) {
      output.append(buffer, static_cast<std::size_t>(count));
    }
    close(ends[0]);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    for (std::size_t begin = 0, end = 0; (end = output.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      spooled.insert(output.substr(begin, end - begin));
    }
  }
  FakeClock clock{WallTime(seconds(1'800'000'000))};
  Executor executor({.threads = 0, .clock = &clock});
  Broadcaster broadcaster({.executor = &executor});
  const auto sink = std::make_shared<MemorySink>();
  ASSERT_TRUE(broadcaster.StartRecordingToSink(sink, options).ok());
  executor.RunUntilIdle();
  std::set<std::string> delivered;
  for (const Event& event : sink->Events()) {
    EXPECT_EQ(event.message, event.involved_object.name);
    delivered.insert(event.involved_object.name);
  }
  for (const std::string& pod : spooled) EXPECT_TRUE(delivered.contains(pod)) << pod;
  EXPECT_EQ(broadcaster.Stats().at(0).spool_corrupted, 0u);
  EXPECT_EQ(broadcaster.Stats().at(0).spool_bytes, 0u);
}

}  // namespace
}  // namespace herald
