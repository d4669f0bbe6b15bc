#include "herald/record/broadcaster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "herald/record/fakes.h"

namespace herald {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Longer than any of these takes; only a test that fails waits for its end.
constexpr seconds kPatience{30};

ObjectReference Pod(std::string name = "web-0") {
  return {
      .kind = "Pod", .namespace_ = "ns", .name = std::move(name), .uid = "u1", .api_version = "v1"};
}

std::shared_ptr<const Event> MakeEvent(std::string message) {
  Event event;
  event.metadata.name = "web-0." + message;
  event.metadata.namespace_ = "ns";
  event.involved_object = Pod();
  event.type = kNormal;
  event.reason = "Testing";
  event.message = std::move(message);
  event.count = 1;
  return std::make_shared<const Event>(std::move(event));
}

// What the watcher has now, without waiting.
std::vector<std::string> Drain(Watcher* watcher) {
  std::vector<std::string> messages;
  while (auto item = watcher->TryNext()) messages.push_back(item->event->message);
  return messages;
}

// Until the end.
std::vector<std::string> ReadAll(Watcher* watcher) {
  std::vector<std::string> messages;
  while (auto item = watcher->Next()) messages.push_back(item->event->message);
  return messages;
}

std::size_t ThreadsOfThisProcess() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

// A thread that was joined is for a moment still in /proc.
bool ComesDownTo(std::size_t threads) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (ThreadsOfThisProcess() > threads && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  return ThreadsOfThisProcess() <= threads;
}

std::uint64_t Ended(const SinkStats& stats) {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : stats.outcomes) sum += count;
  return sum;
}

using Strings = std::vector<std::string>;

// Nothing happens by itself: the test runs the executor.
class BroadcasterTest : public ::testing::Test {
 protected:
  void Use(BroadcasterOptions options) {
    options.executor = &executor_;
    options.drain = milliseconds(0);
    broadcaster_ = std::make_unique<Broadcaster>(std::move(options));
    recorder_ = broadcaster_->NewRecorder({.component = "test", .host = "n1"});
  }
  void SetUp() override { Use({}); }

  void Record(const std::string& message) { recorder_.Event(Pod(), kNormal, "Testing", message); }
  void Run() { executor_.RunUntilIdle(); }

  FakeClock clock_{WallTime(seconds(1700000000))};
  Executor executor_{{.threads = 0, .clock = &clock_}};
  std::unique_ptr<Broadcaster> broadcaster_;
  Recorder recorder_;
};

// What client-go's watch.Broadcaster promises (apimachinery pkg/watch/mux_test.go).

TEST_F(BroadcasterTest, EveryWatcherReceivesAllEventsInOrderAndThenEnds) {
  const auto first = *broadcaster_->Watch();
  const auto second = *broadcaster_->Watch();
  const std::vector<WatchType> types = {WatchType::kAdded, WatchType::kAdded, WatchType::kModified,
                                        WatchType::kDeleted};
  std::vector<std::shared_ptr<const Event>> events;
  for (std::size_t i = 0; i < types.size(); ++i) {
    events.push_back(MakeEvent(std::to_string(i)));
    EXPECT_TRUE(broadcaster_->Action(types[i], events.back()).ok());
  }
  broadcaster_->Shutdown(kPatience);
  for (Watcher* watcher : {first.get(), second.get()}) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      const auto item = watcher->Next();
      ASSERT_TRUE(item);
      EXPECT_EQ(item->type, types[i]);
      EXPECT_EQ(item->event, events[i]) << "shared, not copied";
    }
    EXPECT_FALSE(watcher->Next());
    EXPECT_FALSE(watcher->TryNext());
    EXPECT_TRUE(watcher->NextBatch(10).empty());
  }
}

TEST_F(BroadcasterTest, StopEndsOneWatcherAndShutdownTheOther) {
  const auto stopped = *broadcaster_->Watch();
  const auto shut_down = *broadcaster_->Watch();
  Record("a");
  Run();
  stopped->Stop();
  EXPECT_FALSE(stopped->Next()) << "what was queued is thrown away";
  Record("b");
  broadcaster_->Shutdown(kPatience);
  EXPECT_FALSE(stopped->Next());
  EXPECT_EQ(ReadAll(shut_down.get()), (Strings{"a", "b"}));
  stopped->Stop();
  shut_down->Stop();
  shut_down->Stop();
}

TEST_F(BroadcasterTest, StoppingAFullWatcherUnblocksAllOthers) {
  Use({.watcher_events = 1, .when_full = WhenFull::kWait});
  const auto quick = *broadcaster_->Watch();
  const auto stuck = *broadcaster_->Watch();
  for (const char* message : {"a", "b", "c"}) Record(message);
  Run();
  EXPECT_EQ(Drain(quick.get()), Strings{"a"});
  Run();
  EXPECT_EQ(Drain(quick.get()), Strings{"b"}) << "it has room again, but not for the next batch";
  Record("d");
  stuck->Stop();
  Strings rest;
  for (int i = 0; i < 5; ++i) {
    Run();
    for (std::string& message : Drain(quick.get())) rest.push_back(std::move(message));
  }
  EXPECT_EQ(rest, (Strings{"c", "d"}));
  EXPECT_TRUE(broadcaster_->Shutdown(kPatience).complete);
}

TEST(BroadcasterThreadsTest, AWatcherMayBeStoppedWhileTheDistributorWaitsForIt) {
  Broadcaster broadcaster(
      {.incoming_events = 2, .watcher_events = 1, .when_full = WhenFull::kWait});
  auto reader = *broadcaster.Watch();
  auto stuck = *broadcaster.Watch();
  std::thread sender([&] {
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(broadcaster.Action(WatchType::kAdded, MakeEvent(std::to_string(i))).ok());
    }
  });
  EXPECT_EQ(reader->Next()->event->message, "0");
  stuck->Stop();
  for (int i = 1; i < 20; ++i) EXPECT_EQ(reader->Next()->event->message, std::to_string(i));
  sender.join();
  EXPECT_TRUE(broadcaster.Shutdown(kPatience).complete);
}

TEST_F(BroadcasterTest, AFullWatcherMissesTheLatestEvents) {
  Use({.watcher_events = 1, .when_full = WhenFull::kDrop});
  const auto slow = *broadcaster_->Watch();
  const auto quick = *broadcaster_->Watch();
  Record("a");
  Run();
  EXPECT_EQ(Drain(quick.get()), Strings{"a"});
  Record("b");
  Run();
  EXPECT_EQ(Drain(quick.get()), Strings{"b"});
  EXPECT_EQ(Drain(slow.get()), Strings{"a"});
  EXPECT_EQ(slow->dropped(), 1U);
  EXPECT_EQ(quick->dropped(), 0U);
}

TEST_F(BroadcasterTest, WatchFailsAfterShutdown) {
  broadcaster_->Shutdown(kPatience);
  const auto watch = broadcaster_->Watch();
  ASSERT_FALSE(watch);
  EXPECT_EQ(watch.error().message(), "broadcaster already stopped");
  const auto with_prefix = broadcaster_->WatchWithPrefix({{WatchType::kAdded, MakeEvent("a")}});
  ASSERT_FALSE(with_prefix);
  EXPECT_EQ(with_prefix.error().message(), "broadcaster already stopped");
  for (const Status& status : {
           broadcaster_->StartEventWatcher([](const Event&) {}),
           broadcaster_->StartLogging([](std::string_view) {}),
           broadcaster_->StartStructuredLogging([](const LogEntry&) {}),
           broadcaster_->StartRecordingToSink(std::make_shared<MemorySink>()),
       }) {
    EXPECT_EQ(status.message(), "broadcaster already stopped");
  }
}

TEST_F(BroadcasterTest, ActionFailsAfterShutdown) {
  broadcaster_->Shutdown(kPatience);
  EXPECT_EQ(broadcaster_->Action(WatchType::kAdded, MakeEvent("a")).message(),
            "broadcaster already stopped");
  EXPECT_EQ(broadcaster_->ActionOrDrop(WatchType::kAdded, MakeEvent("a")).message(),
            "broadcaster already stopped");
}

TEST(BroadcasterThreadsTest, WatchersMayBeStoppedDuringShutdown) {
  for (int round = 0; round < 50; ++round) {
    Broadcaster broadcaster({.when_full = WhenFull::kWait});
    std::vector<std::unique_ptr<Watcher>> watchers;
    for (int i = 0; i < 8; ++i) watchers.push_back(*broadcaster.Watch());
    std::vector<std::thread> threads;
    for (auto& watcher : watchers) {
      threads.emplace_back([&watcher] {
        watcher->Stop();
        watcher->Stop();
      });
    }
    Recorder recorder = broadcaster.NewRecorder({.component = "test"});
    for (int i = 0; i < 20; ++i) recorder.Event(Pod(), kNormal, "R", "m");
    broadcaster.Shutdown(kPatience);
    for (std::thread& thread : threads) thread.join();
    for (auto& watcher : watchers) EXPECT_FALSE(watcher->Next());
  }
}

// What client-go's event broadcaster promises (tools/record/event_test.go).

TEST(BroadcasterThreadsTest, TheThreadEndsWithTheBroadcaster) {
  const std::size_t before = ThreadsOfThisProcess();
  for (const bool explicitly : {false, true}) {
    std::atomic<int> lines{0};
    {
      Broadcaster broadcaster;
      ASSERT_TRUE(broadcaster.StartStructuredLogging([&](const LogEntry&) { ++lines; }).ok());
      ASSERT_TRUE(broadcaster.StartEventWatcher([](const Event&) {}).ok());
      EXPECT_EQ(ThreadsOfThisProcess(), before + 1) << "one for all its listeners";
      broadcaster.NewRecorder({.component = "test"}).Event(Pod(), kNormal, "R", "m");
      if (explicitly) {
        EXPECT_TRUE(broadcaster.Shutdown(kPatience).complete);
        EXPECT_EQ(lines, 1);
      }
    }
    EXPECT_EQ(lines, 1) << "the destructor waits for it too";
    EXPECT_TRUE(ComesDownTo(before));
  }
}

TEST_F(BroadcasterTest, AHandlerIsNotCalledAfterShutdown) {
  // Upstream's watcher must notice that its queue was closed instead of spinning.
  int calls = 0;
  ASSERT_TRUE(broadcaster_->StartEventWatcher([&](const Event&) { ++calls; }).ok());
  Record("a");
  EXPECT_TRUE(broadcaster_->Shutdown(kPatience).complete);
  EXPECT_EQ(calls, 1);
  Record("b");
  EXPECT_EQ(executor_.RunUntilIdle(), 0U) << "and nothing is left that could spin";
  EXPECT_EQ(calls, 1);
}

TEST(BroadcasterThreadsTest, AHandlerThatIsBehindIsNotCalledAfterShutdown) {
  // What it refers to may be gone by then.
  Executor executor({.threads = 1});
  std::promise<void> entered;
  std::promise<void> leave;
  std::shared_future<void> may_leave = leave.get_future().share();
  std::atomic<int> calls{0};
  {
    Broadcaster broadcaster({.executor = &executor, .drain = milliseconds(0)});
    ASSERT_TRUE(broadcaster
                    .StartEventWatcher([&](const Event&) {
                      if (++calls == 1) entered.set_value();
                      may_leave.wait();
                    })
                    .ok());
    Recorder recorder = broadcaster.NewRecorder({.component = "test"});
    for (int i = 0; i < 10; ++i) recorder.Event(Pod(), kNormal, "R", "m");
    entered.get_future().wait();
    std::thread([&] { EXPECT_FALSE(broadcaster.Shutdown(milliseconds(1)).complete); }).join();
  }
  leave.set_value();
  std::promise<void> after;
  executor.Post([&] { after.set_value(); });
  after.get_future().wait();
  executor.Stop();
  EXPECT_EQ(calls, 1);
}

TEST(BroadcasterThreadsTest, ThreadsMayRecordDuringShutdown) {
  for (int round = 0; round < 10; ++round) {
    Broadcaster broadcaster;
    std::atomic<int> seen{0};
    ASSERT_TRUE(broadcaster.StartEventWatcher([&](const Event&) { ++seen; }).ok());
    Recorder recorder = broadcaster.NewRecorder({.component = "test"});
    std::vector<std::thread> threads;
    for (int i = 0; i < 100; ++i) {
      threads.emplace_back(
          [recorder, i]() mutable { recorder.Eventf(Pod(), kNormal, "R", "message {}", i); });
    }
    EXPECT_TRUE(broadcaster.Shutdown(kPatience).complete);
    const int at_the_end = seen;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(seen, at_the_end);
  }
}

// Order, and which events a watcher receives.

TEST_F(BroadcasterTest, AWatcherReceivesEventsOnlyAfterItWasAdded) {
  Record("a");
  const auto early = *broadcaster_->Watch();  // while "a" is still queued
  Record("b");
  Run();
  const auto late = *broadcaster_->Watch();
  Record("c");
  const auto latest = *broadcaster_->Watch();
  Run();
  Record("d");
  Run();
  EXPECT_EQ(Drain(early.get()), (Strings{"b", "c", "d"}));
  EXPECT_EQ(Drain(late.get()), (Strings{"c", "d"}));
  EXPECT_EQ(Drain(latest.get()), Strings{"d"});
}

TEST_F(BroadcasterTest, AWatcherReceivesItsPrefixFirst) {
  Use({.watcher_events = 2});
  Record("before");
  std::vector<Watcher::Item> prefix;
  for (const char* message : {"p", "q", "r"}) {
    prefix.push_back({WatchType::kModified, MakeEvent(message)});
  }
  const auto watcher = *broadcaster_->WatchWithPrefix(std::move(prefix));
  Record("after");
  Record("too much");
  Run();
  EXPECT_EQ(watcher->dropped(), 1U) << "room for the prefix and one more, however small the queue";
  const auto first = watcher->TryNext();
  EXPECT_EQ(first->type, WatchType::kModified);
  EXPECT_EQ(first->event->message, "p");
  EXPECT_EQ(Drain(watcher.get()), (Strings{"q", "r", "after"}));
}

TEST_F(BroadcasterTest, ABatchHasAllQueuedEvents) {
  const auto watcher = *broadcaster_->Watch();
  for (int i = 0; i < 5; ++i) Record(std::to_string(i));
  Run();
  EXPECT_EQ(watcher->NextBatch(3).size(), 3U);
  EXPECT_EQ(watcher->NextBatch(3).size(), 2U);
}

TEST(BroadcasterThreadsTest, AllWatchersReceiveTheSameOrderWhichKeepsThatOfEachThread) {
  constexpr int kThreads = 8;
  constexpr int kEach = 500;
  Broadcaster broadcaster({.watcher_events = 100, .when_full = WhenFull::kWait});
  std::vector<std::unique_ptr<Watcher>> watchers;
  for (int i = 0; i < 3; ++i) watchers.push_back(*broadcaster.Watch());
  std::vector<std::future<Strings>> seen;
  for (auto& watcher : watchers) {
    seen.push_back(std::async(std::launch::async, [&] { return ReadAll(watcher.get()); }));
  }
  std::future<Strings> latecomer;
  std::unique_ptr<Watcher> late;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const std::string message = std::to_string(t) + " " + std::to_string(i);
        EXPECT_TRUE(broadcaster.Action(WatchType::kAdded, MakeEvent(message)).ok());
        if (t == 0 && i == kEach / 2) {
          late = *broadcaster.Watch();
          latecomer = std::async(std::launch::async, [&] { return ReadAll(late.get()); });
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(broadcaster.Shutdown(kPatience).complete);

  const Strings all = seen[0].get();
  ASSERT_EQ(all.size(), static_cast<std::size_t>(kThreads * kEach));
  for (std::size_t i = 1; i < seen.size(); ++i) EXPECT_EQ(seen[i].get(), all);
  std::map<std::string, int> next;
  for (const std::string& message : all) {
    const std::string thread = message.substr(0, message.find(' '));
    EXPECT_EQ(message, thread + " " + std::to_string(next[thread]++));
  }
  const Strings rest = latecomer.get();
  ASSERT_LE(rest.size(), all.size());
  EXPECT_GE(rest.size(), static_cast<std::size_t>(kEach / 2 - 1))
      << "all that its thread sent after";
  EXPECT_TRUE(std::equal(rest.rbegin(), rest.rend(), all.rbegin())) << "no gap";
}

// Full queues.

TEST_F(BroadcasterTest, ActionOrDropReturnsAnErrorWhenTheQueueIsFull) {
  Use({.incoming_events = 2});
  const auto watcher = *broadcaster_->Watch();
  EXPECT_TRUE(broadcaster_->ActionOrDrop(WatchType::kAdded, MakeEvent("a")).ok());
  EXPECT_TRUE(broadcaster_->ActionOrDrop(WatchType::kAdded, MakeEvent("b")).ok());
  EXPECT_EQ(broadcaster_->ActionOrDrop(WatchType::kAdded, MakeEvent("c")).reason(),
            StatusReason::kTooManyRequests);
  Run();
  EXPECT_TRUE(broadcaster_->ActionOrDrop(WatchType::kAdded, MakeEvent("d")).ok());
  Run();
  EXPECT_EQ(Drain(watcher.get()), (Strings{"a", "b", "d"}));
}

TEST_F(BroadcasterTest, QueuesAreLimitedByBytes) {
  Use({.queue_bytes = 10'000});
  const auto watcher = *broadcaster_->Watch();
  const std::string large(3000, 'x');
  int taken = 0;
  while (broadcaster_->ActionOrDrop(WatchType::kAdded, MakeEvent(large)).ok()) ++taken;
  EXPECT_GE(taken, 1);
  EXPECT_LE(taken, 3);
  Run();
  // Now the watcher's own queue is nearly full.
  EXPECT_TRUE(broadcaster_->ActionOrDrop(WatchType::kAdded, MakeEvent(large)).ok());
  Run();
  EXPECT_EQ(watcher->dropped(), 1U);
  EXPECT_EQ(Drain(watcher.get()).size(), static_cast<std::size_t>(taken));
  // One that is too large on its own is let through an empty queue.
  EXPECT_TRUE(
      broadcaster_->ActionOrDrop(WatchType::kAdded, MakeEvent(std::string(1 << 20, 'x'))).ok());
  Run();
  EXPECT_EQ(Drain(watcher.get()).size(), 1U);
}

TEST_F(BroadcasterTest, NoWatcherMissesEventsUnderWait) {
  Use({.watcher_events = 2, .when_full = WhenFull::kWait});
  const auto quick = *broadcaster_->Watch();
  const auto slow = *broadcaster_->Watch();
  Strings sent;
  Strings quick_saw;
  Strings slow_saw;
  for (int i = 0; i < 10; ++i) {
    sent.push_back(std::to_string(i));
    Record(sent.back());
  }
  for (int i = 0; i < 20; ++i) {
    Run();
    for (std::string& message : Drain(quick.get())) quick_saw.push_back(std::move(message));
    if (const auto item = slow->TryNext()) slow_saw.push_back(item->event->message);
  }
  EXPECT_EQ(quick_saw, sent);
  EXPECT_EQ(slow_saw, sent);
  EXPECT_EQ(slow->dropped() + quick->dropped(), 0U);
}

TEST(BroadcasterThreadsTest, ActionWaitsForRoomOrShutdown) {
  Broadcaster broadcaster(
      {.incoming_events = 1, .watcher_events = 1, .when_full = WhenFull::kWait});
  const auto watcher = *broadcaster.Watch();
  std::atomic<int> sent{0};
  std::thread sender([&] {
    while (broadcaster.Action(WatchType::kAdded, MakeEvent("m")).ok()) ++sent;
  });
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(watcher->Next());
  // Now it waits again, or soon will; the end wakes it.
  broadcaster.Shutdown(milliseconds(10));
  sender.join();
  EXPECT_GE(sent, 10);
}

TEST(BroadcasterThreadsTest, NoEventIsLostUnderWaitForAnyQueueSize) {
  constexpr int kSenders = 3;
  constexpr int kEach = 200;
  for (const std::size_t size : {1, 2, 3, 4, 5, 7, 25}) {
    Broadcaster broadcaster(
        {.incoming_events = size, .watcher_events = size, .when_full = WhenFull::kWait});
    const auto watcher = *broadcaster.Watch();
    auto seen = std::async(std::launch::async, [&] { return ReadAll(watcher.get()); });
    std::vector<std::thread> senders;
    for (int t = 0; t < kSenders; ++t) {
      senders.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          const std::string message = std::to_string(t) + " " + std::to_string(i);
          EXPECT_TRUE(broadcaster.Action(WatchType::kAdded, MakeEvent(message)).ok());
        }
      });
    }
    for (std::thread& sender : senders) sender.join();
    EXPECT_TRUE(broadcaster.Shutdown(kPatience).complete);
    std::map<std::string, int> next;
    for (const std::string& message : seen.get()) {
      const std::string thread = message.substr(0, message.find(' '));
      EXPECT_EQ(message, thread + " " + std::to_string(next[thread]++)) << size;
    }
    for (const auto& [thread, count] : next) EXPECT_EQ(count, kEach) << thread << " " << size;
    EXPECT_EQ(next.size(), static_cast<std::size_t>(kSenders)) << size;
  }
}

TEST_F(BroadcasterTest, OnlyTheWatcherOwnsAnEvent) {
  const auto watcher = *broadcaster_->Watch();
  Record("one");
  Run();
  const std::optional<Watcher::Item> item = watcher->TryNext();
  ASSERT_TRUE(item);
  EXPECT_EQ(item->event.use_count(), 1);
}

// Handlers.

TEST_F(BroadcasterTest, AHandlerThatThrowsDoesNotAffectOthers) {
  int calls = 0;
  Strings others;
  ASSERT_TRUE(broadcaster_
                  ->StartEventWatcher([&](const Event&) {
                    ++calls;
                    throw std::runtime_error("handler");
                  })
                  .ok());
  ASSERT_TRUE(broadcaster_->StartEventWatcher([](const Event&) { throw 7; }).ok());
  ASSERT_TRUE(broadcaster_->StartLogging([](std::string_view) { throw 7; }).ok());
  ASSERT_TRUE(broadcaster_->StartStructuredLogging([](const LogEntry&) { throw 7; }).ok());
  ASSERT_TRUE(broadcaster_->StartLogging(nullptr).ok());
  ASSERT_TRUE(
      broadcaster_->StartEventWatcher([&](const Event& e) { others.push_back(e.message); }).ok());
  Record("a");
  Record("b");
  Run();
  EXPECT_EQ(calls, 2) << "nor itself: it is called again";
  EXPECT_EQ(others, (Strings{"a", "b"}));
  EXPECT_TRUE(broadcaster_->Shutdown(kPatience).complete);
}

TEST(BroadcasterThreadsTest, ASlowHandlerDoesNotDelayOthers) {
  Executor executor({.threads = 2});
  Broadcaster broadcaster({.watcher_events = 4, .executor = &executor});
  std::promise<void> leave;
  std::shared_future<void> may_leave = leave.get_future().share();
  std::atomic<int> calls{0};
  ASSERT_TRUE(broadcaster
                  .StartEventWatcher([&](const Event&) {
                    ++calls;
                    may_leave.wait();
                  })
                  .ok());
  const auto watcher = *broadcaster.Watch();
  Recorder recorder = broadcaster.NewRecorder({.component = "test"});
  for (int i = 0; i < 100; ++i) {
    recorder.Eventf(Pod(), kNormal, "R", "{}", i);
    EXPECT_EQ(watcher->Next()->event->message, std::to_string(i));
  }
  leave.set_value();
  EXPECT_TRUE(broadcaster.Shutdown(kPatience).complete);
  EXPECT_LT(calls, 100) << "it missed what its queue could not hold";
}

TEST_F(BroadcasterTest, AHandlerThatKeepsUpMissesNothing) {
  constexpr int kQueue = 1000;  // of the broadcaster, and of the handler again
  int handled = 0;
  ASSERT_TRUE(broadcaster_
                  ->StartEventWatcher([&](const Event&) {
                    if (handled++ > 0) return;
                    for (int i = 0; i < kQueue; ++i) Record("during");
                  })
                  .ok());
  for (int i = 0; i < kQueue; ++i) Record("before");
  Run();
  EXPECT_EQ(handled, 2 * kQueue);
}

TEST_F(BroadcasterTest, ASlowHandlerGivesWayToOtherTasks) {
  constexpr int kEvents = 500;
  std::string calls;
  ASSERT_TRUE(broadcaster_
                  ->StartEventWatcher([&](const Event&) {
                    clock_.Advance(milliseconds(1));
                    calls += 's';
                  })
                  .ok());
  ASSERT_TRUE(broadcaster_->StartEventWatcher([&](const Event&) { calls += 'q'; }).ok());
  for (int i = 0; i < kEvents; ++i) Record("event");
  Run();
  EXPECT_EQ(calls.size(), 2U * kEvents);
  EXPECT_LT(calls.find('q'), calls.size() / 4);
}

TEST_F(BroadcasterTest, AHandlerMayRecord) {
  Strings seen;
  ASSERT_TRUE(broadcaster_
                  ->StartEventWatcher([&](const Event& event) {
                    seen.push_back(event.message);
                    if (event.message.size() < 5) Record(event.message + "!");
                  })
                  .ok());
  Record("a");
  EXPECT_TRUE(broadcaster_->Flush(kPatience).complete);
  EXPECT_EQ(seen, (Strings{"a", "a!", "a!!", "a!!!", "a!!!!"}));
}

TEST(BroadcasterThreadsTest, AHandlerThatAlwaysRecordsEndsAtShutdown) {
  Broadcaster broadcaster;
  Recorder recorder = broadcaster.NewRecorder({.component = "test"});
  std::atomic<int> calls{0};
  ASSERT_TRUE(broadcaster
                  .StartEventWatcher([&, recorder](const Event& event) mutable {
                    ++calls;
                    recorder.Event(event.involved_object, kNormal, "Again", "m");
                  })
                  .ok());
  recorder.Event(Pod(), kNormal, "R", "m");
  EXPECT_TRUE(broadcaster.Shutdown(kPatience).complete);
  EXPECT_GE(calls, 1);
}

TEST_F(BroadcasterTest, ShutdownReleasesAHandlerThatOwnsARecorder) {
  auto token = std::make_shared<int>(0);
  ASSERT_TRUE(broadcaster_->StartEventWatcher([token, recorder = recorder_](const Event&) {}).ok());
  Record("a");
  broadcaster_->Shutdown(kPatience);
  EXPECT_EQ(token.use_count(), 1);
}

TEST_F(BroadcasterTest, LogsEachEventAsClientGoDoes) {
  Strings lines;
  Strings structured;
  ASSERT_TRUE(
      broadcaster_->StartLogging([&](std::string_view line) { lines.emplace_back(line); }).ok());
  ASSERT_TRUE(broadcaster_
                  ->StartStructuredLogging([&](const LogEntry& entry) {
                    structured.push_back(std::string(entry.message) + " " +
                                         std::string(entry.fields[0].second));
                  })
                  .ok());
  Record("hello");
  Run();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0],
            R"(Event(v1.ObjectReference{Kind:"Pod", Namespace:"ns", Name:"web-0", UID:"u1", )"
            R"(APIVersion:"v1", ResourceVersion:"", FieldPath:""}): type: 'Normal' reason: )"
            R"('Testing' hello)");
  EXPECT_EQ(structured, Strings{"Event occurred ns/web-0"});
}

// Many in one process.

TEST(BroadcasterThreadsTest, ThousandsShareAnExecutorWithoutThreads) {
  constexpr std::size_t kBroadcasters = 2000;
  Executor executor({.threads = 2});
  const std::size_t before = ThreadsOfThisProcess();
  std::vector<std::unique_ptr<Broadcaster>> broadcasters;
  const auto sink = std::make_shared<MemorySink>();
  std::atomic<std::size_t> handled{0};
  for (std::size_t i = 0; i < kBroadcasters; ++i) {
    broadcasters.push_back(
        std::make_unique<Broadcaster>(BroadcasterOptions{.executor = &executor}));
    ASSERT_TRUE(broadcasters.back()->StartRecordingToSink(sink).ok());
    ASSERT_TRUE(broadcasters.back()->StartEventWatcher([&](const Event&) { ++handled; }).ok());
    broadcasters.back()
        ->NewRecorder({.component = "c" + std::to_string(i)})
        .Event(Pod("pod-" + std::to_string(i)), kNormal, "R", "m");
  }
  EXPECT_LE(ThreadsOfThisProcess(), before);
  for (const auto& broadcaster : broadcasters) {
    EXPECT_TRUE(broadcaster->Shutdown(kPatience).complete);
    EXPECT_EQ(broadcaster->Stats()[0][Outcome::kWritten], 1U);
  }
  EXPECT_EQ(sink->Events().size(), kBroadcasters);
  EXPECT_EQ(handled, kBroadcasters);
  broadcasters.clear();
}

// Bad input.

TEST_F(BroadcasterTest, RejectsANullEventAndANullSink) {
  EXPECT_EQ(broadcaster_->Action(WatchType::kAdded, nullptr).reason(), StatusReason::kInvalid);
  EXPECT_EQ(broadcaster_->ActionOrDrop(WatchType::kAdded, nullptr).reason(),
            StatusReason::kInvalid);
  EXPECT_FALSE(broadcaster_->WatchWithPrefix({{WatchType::kAdded, nullptr}}));
  EXPECT_EQ(broadcaster_->StartRecordingToSink(nullptr).reason(), StatusReason::kInvalid);
  EXPECT_TRUE(broadcaster_->Stats().empty());
}

// Sinks, as far as the broadcaster is concerned; delivery_test.cc has the rest.

TEST_F(BroadcasterTest, CountsEventsRecordedWithoutASink) {
  std::vector<Outcome> outcomes;
  Recorder recorder = broadcaster_->NewRecorder(
      {.component = "test",
       .on_outcome = [&](Outcome outcome, const Status&) { outcomes.push_back(outcome); }});
  recorder.Event(Pod(), kNormal, "R", "handed out before");
  Run();
  EXPECT_EQ(broadcaster_->without_sink(), 1U);
  // Recorded before the sink was added and distributed afterwards: it is not written.
  recorder.Event(Pod(), kNormal, "R", "queued before");
  const auto sink = std::make_shared<MemorySink>();
  ASSERT_TRUE(broadcaster_->StartRecordingToSink(sink).ok());
  recorder.Event(Pod(), kNormal, "R", "recorded after");
  Run();
  EXPECT_EQ(broadcaster_->without_sink(), 2U);
  EXPECT_EQ(outcomes,
            (std::vector<Outcome>{Outcome::kNoSink, Outcome::kNoSink, Outcome::kWritten}));
  const SinkStats stats = broadcaster_->Stats()[0];
  EXPECT_EQ(stats.recorded, 1U);
  EXPECT_EQ(stats[Outcome::kWritten], 1U);
  ASSERT_EQ(sink->Events().size(), 1U);
  EXPECT_EQ(sink->Events()[0].message, "recorded after");
}

TEST_F(BroadcasterTest, EachSinkHasItsOwnStatistics) {
  const auto good = std::make_shared<MemorySink>();
  const auto bad = std::make_shared<MemorySink>();
  bad->SetFault([](const SinkRequest&) {
    return Status({.reason = StatusReason::kForbidden, .origin = Status::Origin::kServer});
  });
  ASSERT_TRUE(broadcaster_->StartRecordingToSink(good, {.name = "good"}).ok());
  Record("a");
  ASSERT_TRUE(broadcaster_->StartRecordingToSink(bad, {.name = "bad"}).ok());
  Record("b");
  Run();
  const std::vector<SinkStats> stats = broadcaster_->Stats();
  ASSERT_EQ(stats.size(), 2U);
  EXPECT_EQ(stats[0].recorded, 2U);
  EXPECT_EQ(stats[0][Outcome::kWritten], 2U);
  EXPECT_EQ(stats[1].recorded, 1U);
  EXPECT_EQ(stats[1][Outcome::kRejected], 1U);

  std::string text;
  broadcaster_->WritePrometheusText(&text);
  EXPECT_NE(text.find("# TYPE herald_recorder_events_total counter\n"), std::string::npos);
  EXPECT_NE(text.find("{sink=\"good\",outcome=\"written\"} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("{sink=\"bad\",outcome=\"rejected\"} 1\n"), std::string::npos) << text;
}

TEST_F(BroadcasterTest, ShutdownCountsEventsThatAFullWatcherHeldBack) {
  // Under kWait the sink never got these: they never left the incoming queue.
  Use({.watcher_events = 1, .when_full = WhenFull::kWait});
  const auto sink = std::make_shared<MemorySink>();
  ASSERT_TRUE(broadcaster_->StartRecordingToSink(sink).ok());
  const auto stuck = *broadcaster_->Watch();
  Record("fills the watcher's queue");
  Record("waits for it");
  Run();
  for (int i = 0; i < 9; ++i) Record("waits behind");
  const DrainReport report = broadcaster_->Shutdown(seconds(1));
  EXPECT_FALSE(report.complete);
  EXPECT_GT(report.in_flight, 0U);
  const SinkStats stats = broadcaster_->Stats()[0];
  EXPECT_EQ(stats.recorded, 11U);
  EXPECT_EQ(stats.in_flight, 0U);
  EXPECT_EQ(stats[Outcome::kLost], report.in_flight);
  EXPECT_EQ(Ended(stats), 11U);
}

TEST_F(BroadcasterTest, ShutdownIsIdempotent) {
  const auto sink = std::make_shared<MemorySink>();
  ASSERT_TRUE(broadcaster_->StartRecordingToSink(sink).ok());
  Record("a");
  EXPECT_TRUE(broadcaster_->Shutdown(kPatience).complete);
  Record("b");
  const DrainReport again = broadcaster_->Shutdown(kPatience);
  EXPECT_TRUE(again.complete);
  EXPECT_EQ(again.in_flight, 0U);
  EXPECT_EQ(broadcaster_->Stats()[0][Outcome::kWritten], 1U);
  EXPECT_EQ(broadcaster_->Stats()[0][Outcome::kLost], 1U);
  EXPECT_TRUE(broadcaster_->Flush(kPatience).complete);
}

TEST(BroadcasterThreadsTest, ThreadsMayCallShutdownConcurrently) {
  const auto sink = std::make_shared<MemorySink>();
  Broadcaster broadcaster;
  ASSERT_TRUE(broadcaster.StartRecordingToSink(sink).ok());
  Recorder recorder = broadcaster.NewRecorder({.component = "test"});
  for (int i = 0; i < 100; ++i) recorder.Event(Pod(std::to_string(i)), kNormal, "R", "m");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { broadcaster.Shutdown(kPatience); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Ended(broadcaster.Stats()[0]), 100U);
  EXPECT_EQ(broadcaster.Stats()[0][Outcome::kWritten], 100U);
}

TEST(BroadcasterThreadsTest, AWatcherMayOutliveTheBroadcaster) {
  std::unique_ptr<Watcher> watcher;
  {
    Broadcaster broadcaster;
    watcher = *broadcaster.Watch();
    broadcaster.NewRecorder({.component = "test"}).Event(Pod(), kNormal, "R", "m");
  }
  EXPECT_EQ(ReadAll(watcher.get()), Strings{"m"});
  watcher->Stop();
  EXPECT_EQ(watcher->dropped(), 0U);
}

TEST(BroadcasterDeathTest, TheClockMustBeThatOfTheExecutor) {
  FakeClock clock{WallTime(seconds(1'700'000'000))};
  Executor executor({.threads = 0, .clock = &clock});
  for (const Clock* given :
       {static_cast<const Clock*>(nullptr), static_cast<const Clock*>(&clock)}) {
    Broadcaster broadcaster({.executor = &executor, .clock = given});
    const auto watcher = *broadcaster.Watch();
    broadcaster.NewRecorder({.component = "test"}).Event(Pod(), kNormal, "R", "m");
    executor.RunUntilIdle();
    EXPECT_EQ(watcher->TryNext()->event->first_timestamp.seconds(), 1'700'000'000);
  }
  // Its timers would run by one clock and be set by the other.
  EXPECT_DEATH(Broadcaster({.executor = &executor, .clock = &SystemClock()}),
               "not the clock of the executor");
}

TEST(BroadcasterClockTest, AClockWithoutAnExecutorIsUsedByTheOwnThread) {
  const FakeClock clock{WallTime(seconds(1'700'000'000))};
  Broadcaster broadcaster({.clock = &clock});
  const auto watcher = *broadcaster.Watch();
  broadcaster.NewRecorder({.component = "test"}).Event(Pod(), kNormal, "R", "m");
  EXPECT_EQ(watcher->Next()->event->first_timestamp.seconds(), 1'700'000'000);
}

// Keeps its requests until the test answers them. Thread-safe.
class KeepingSink final : public Sink {
 public:
  void Send(SinkRequest /*request*/, Completion done) override {
    const std::lock_guard lock(mu_);
    open_.push_back(std::move(done));
  }
  std::size_t size() {
    const std::lock_guard lock(mu_);
    return open_.size();
  }
  void FailAll() {
    std::vector<Completion> open;
    {
      const std::lock_guard lock(mu_);
      open.swap(open_);
    }
    for (const Completion& done : open) done(Status(StatusReason::kUnreachable, "no route"));
  }

 private:
  std::mutex mu_;
  std::vector<Completion> open_;
};

// What outlives a broadcaster must not use the executor and the clock of the caller, which need
// not. ASan sees whether it does.
TEST(BroadcasterLifetimeTest, RecordersAndWatchersOutliveExecutorAndClock) {
  for (const int threads : {0, 2}) {
    Recorder recorder;
    std::unique_ptr<Watcher> watcher;
    std::vector<Outcome> outcomes;
    {
      const auto clock = std::make_unique<FakeClock>(WallTime(seconds(1'700'000'000)));
      Executor executor({.threads = threads, .clock = clock.get()});
      Broadcaster broadcaster({.watcher_events = 1,
                               .when_full = WhenFull::kWait,
                               .executor = &executor,
                               .drain = std::chrono::milliseconds(0)});
      watcher = std::move(broadcaster.Watch()).value();
      recorder = broadcaster.NewRecorder(
          {.component = "agent",
           .on_outcome = [&](Outcome outcome, const Status&) { outcomes.push_back(outcome); }});
      recorder.Event({.kind = "Pod", .name = "a"}, kNormal, "R", "m");
      recorder.Event({.kind = "Pod", .name = "b"}, kNormal, "R", "m");
    }
    outcomes.clear();
    recorder.Event({.kind = "Pod", .name = "c"}, kNormal, "R", "m");
    EXPECT_EQ(outcomes, std::vector<Outcome>{Outcome::kLost});
    while (watcher->Next()) {
    }
    watcher.reset();
  }
}

TEST(BroadcasterLifetimeTest, ASinkAnswersAfterTheExecutorIsDestroyed) {
  for (const int threads : {0, 2}) {
    const auto sink = std::make_shared<KeepingSink>();
    Recorder recorder;
    {
      Executor executor({.threads = threads});
      Broadcaster broadcaster({.executor = &executor, .drain = std::chrono::milliseconds(0)});
      ASSERT_TRUE(broadcaster.StartRecordingToSink(sink).ok());
      recorder = broadcaster.NewRecorder({.component = "agent"});
      recorder.Event({.kind = "Pod", .name = "a"}, kNormal, "R", "m");
      while (sink->size() == 0) {
        if (threads == 0) executor.RunUntilIdle();
        std::this_thread::yield();
      }
    }
    sink->FailAll();
  }
}

// Threads that record and answer while the broadcaster and its executor end.
TEST(BroadcasterLifetimeTest, EndsWhileOthersRecordAndAnswer) {
  for (int round = 0; round < 20; ++round) {
    const auto sink = std::make_shared<KeepingSink>();
    std::atomic<bool> end = false;
    std::vector<std::thread> threads;
    {
      Executor executor({.threads = 2});
      Broadcaster broadcaster({.executor = &executor, .drain = std::chrono::milliseconds(0)});
      ASSERT_TRUE(broadcaster.StartRecordingToSink(sink).ok());
      std::atomic<int> started = 0;
      for (int t = 0; t < 2; ++t) {
        threads.emplace_back([&, recorder = broadcaster.NewRecorder({.component = "c"})]() mutable {
          ++started;
          for (int i = 0; !end; ++i) {
            recorder.Event({.kind = "Pod", .name = std::to_string(i % 10)}, kNormal, "R", "m");
          }
        });
        threads.emplace_back([&] {
          ++started;
          while (!end) sink->FailAll();
        });
      }
      while (started < 4 || broadcaster.Stats()[0].requests == 0) std::this_thread::yield();
    }
    end = true;
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace herald
