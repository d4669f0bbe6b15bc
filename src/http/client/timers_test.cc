#include "http/client/timers.h"

#include <gtest/gtest.h>

#include <string>

namespace herald::http {
namespace {

using std::chrono::seconds;
using Time = TimerQueue::Time;

TEST(TimerQueue, RunsDueTasksInOrder) {
  TimerQueue timers;
  std::string log;
  const Time start{};
  EXPECT_EQ(timers.next(), std::nullopt);
  timers.Add(start + seconds(3), [&] { log += 'c'; });
  timers.Add(start + seconds(1), [&] { log += 'a'; });
  timers.Add(start + seconds(1), [&] { log += 'b'; });
  EXPECT_EQ(timers.next(), start + seconds(1));
  timers.RunDue(start);
  EXPECT_EQ(log, "");
  timers.RunDue(start + seconds(2));
  EXPECT_EQ(log, "ab");
  timers.RunDue(start + seconds(3));
  EXPECT_EQ(log, "abc");
  EXPECT_EQ(timers.next(), std::nullopt);
}

TEST(TimerQueue, DoesNotRunCancelledTasks) {
  TimerQueue timers;
  std::string log;
  const TimerQueue::Id first = timers.Add(Time{}, [&] { log += '1'; });
  timers.Cancel({});  // identifies no timer
  TimerQueue::Id third{};
  timers.Add(Time{}, [&] {
    log += '2';
    timers.Cancel(third);  // from within a task, and due now
  });
  third = timers.Add(Time{}, [&] { log += '3'; });
  timers.Cancel(first);
  timers.Cancel(first);
  timers.RunDue(Time{});
  EXPECT_EQ(log, "2");
}

TEST(TimerQueue, RunsTasksAddedByATaskInTheNextCall) {
  TimerQueue timers;
  int runs = 0;
  std::function<void()> again = [&] {
    ++runs;
    timers.Add(Time{}, again);
  };
  timers.Add(Time{}, again);
  timers.RunDue(Time{} + seconds(1));
  EXPECT_EQ(runs, 1) << "a task that adds itself would never end";
  timers.RunDue(Time{} + seconds(1));
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace herald::http
