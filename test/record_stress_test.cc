// Stress test: many threads record, watchers start and stop, others flush, the sink fails in every
// way, the API is chosen repeatedly, and the broadcaster is shut down in the middle. Each event
// must have exactly one outcome, and spooled events must be recovered.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing/temporary_directory.h"
#include "herald/base/executor.h"
#include "herald/record/broadcaster.h"
#include "herald/record/fakes.h"

namespace herald {
namespace {

using std::chrono::milliseconds;

constexpr int kRounds = 20;
constexpr int kRecorders = 16;
constexpr int kEventsEach = 200;
constexpr int kWatchers = 8;
constexpr std::uint64_t kEvents = kRecorders * kEventsEach;

// The annotation with the number of the event within its thread, which watchers check.
constexpr std::string_view kSequence = "sequence";

// A sink on other threads whose requests succeed or fail at random. With `silent` it sometimes
// never calls back.
class UnreliableSink final : public Sink {
 public:
  UnreliableSink(unsigned seed, bool silent) : silent_(silent), random_(seed) {}

  void Send(SinkRequest request, Completion done) override {
    const int dice = Roll();
    if (dice < 2) throw std::runtime_error("thrown by the sink");
    if (silent_ && dice < 3) return;
    executor_.Post([this, dice, request = std::move(request), done = std::move(done)] {
      Answer(dice, request, done);
    });
  }

 private:
  int Roll() {
    const std::lock_guard lock(mu_);
    return std::uniform_int_distribution<int>(0, 99)(random_);
  }

  void Answer(int dice, const SinkRequest& request, const Completion& done) {
    const auto fail = [&](StatusReason reason, Status::Origin origin) {
      done(Status({.reason = reason, .message = "at random", .origin = origin}));
    };
    if (dice < 10) return fail(StatusReason::kUnreachable, Status::Origin::kLocal);
    if (dice < 15) return fail(StatusReason::kTooManyRequests, Status::Origin::kServer);
    if (dice < 20) return fail(StatusReason::kInternalError, Status::Origin::kServer);
    if (dice < 23) return fail(StatusReason::kForbidden, Status::Origin::kServer);
    if (dice < 26) return fail(StatusReason::kAlreadyExists, Status::Origin::kServer);
    if (dice < 30) return fail(StatusReason::kNotFound, Status::Origin::kServer);
    server_.Send(request, done);
    // Sometimes calls back a second time, later.
    if (dice < 35) {
      executor_.Post([done, event = *request.event] { done(event); });
    }
  }

  const bool silent_;
  std::mutex mu_;
  std::mt19937 random_;  // guarded by mu_
  MemorySink server_;
  Executor executor_{{.threads = 2}};
};

std::uint64_t Ended(const SinkStats& stats) {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : stats.outcomes) sum += count;
  return sum;
}

// Number of callbacks by outcome.
using OutcomeCounts = std::array<std::atomic<std::uint64_t>, kOutcomes>;

class Round {
 public:
  explicit Round(int number)
      : seed_(static_cast<unsigned>(number)),
        shared_(number % 2 == 0 ? std::make_unique<Executor>(Executor::Options{.threads = 3})
                                : nullptr),
        broadcaster_(std::make_unique<Broadcaster>(
            BroadcasterOptions{.incoming_events = 512,
                               .watcher_events = 128,
                               .when_full = number % 4 == 3 ? WhenFull::kWait : WhenFull::kDrop,
                               .executor = shared_.get(),
                               .drain = milliseconds(0)})) {}

  void Run() {
    const bool silent = seed_ % 3 == 0;
    SinkOptions options{.max_tries = 3,
                        .retry_after = milliseconds(1),
                        .prefer_warnings = seed_ % 2 == 0,
                        .self = ObjectReference{.kind = "Node", .name = "n1"}};
    if (seed_ % 5 < 2) options.spool = SpoolOptions{.directory = directory_.path() / "spool"};
    ASSERT_TRUE(
        broadcaster_->StartRecordingToSink(std::make_shared<UnreliableSink>(seed_, silent), options)
            .ok());
    std::vector<std::thread> threads;
    for (int i = 0; i < kRecorders; ++i) threads.emplace_back([this, i] { Record(i); });
    for (int i = 0; i < kWatchers; ++i) threads.emplace_back([this] { Watch(); });
    threads.emplace_back([this] { CheckAccounts(); });
    threads.emplace_back([this] {
      while (!done_) broadcaster_->Flush(milliseconds(2));
    });

    // At a random time, and in some rounds at the end.
    const std::uint64_t middle = kEvents * (1 + seed_ % 4) / 4;
    while (recorded_ < middle / 2) std::this_thread::yield();
    choice_->Set(EventApi::kEventsV1);
    while (recorded_ < middle) std::this_thread::yield();
    choice_->Set(EventApi::kCoreV1);
    broadcaster_->Shutdown(milliseconds(seed_ % 5 * 10));
    done_ = true;
    for (std::thread& thread : threads) thread.join();
    broadcaster_->Shutdown(milliseconds(0));

    const SinkStats stats = broadcaster_->Stats().at(0);
    EXPECT_EQ(stats.recorded, kEvents);
    EXPECT_EQ(stats.in_flight, 0U);
    EXPECT_EQ(Ended(stats), kEvents);
    EXPECT_EQ(stats[Outcome::kInvalid], kEvents / 100);
    EXPECT_EQ(broadcaster_->without_sink(), 0U);
    broadcaster_.reset();
    for (std::size_t i = 0; i < kOutcomes; ++i) {
      EXPECT_EQ(outcome_counts_[i], stats.outcomes[i]) << OutcomeName(static_cast<Outcome>(i));
    }
    if (options.spool) DeliverTheRest(options, stats[Outcome::kSpooled]);
  }

 private:
  void Record(int thread) {
    Recorder recorder =
        broadcaster_->NewRecorder({.component = "recorder-" + std::to_string(thread),
                                   .host = "n1",
                                   .api = thread % 2 == 0 ? EventApi::kCoreV1 : EventApi::kEventsV1,
                                   .api_choice = thread % 4 == 3 ? choice_ : nullptr,
                                   .on_outcome = [this](Outcome outcome, const Status&) {
                                     ++outcome_counts_[static_cast<std::size_t>(outcome)];
                                   }});
    for (int i = 0; i < kEventsEach; ++i) {
      const ObjectReference pod{.kind = "Pod",
                                .namespace_ = "ns",
                                .name = "pod-" + std::to_string(i % 20),
                                .api_version = "v1"};
      const std::string_view type = i % 100 == 99 ? "odd" : i % 3 == 0 ? kWarning : kNormal;
      recorder.AnnotatedEventf(pod, {{std::string(kSequence), std::to_string(i)}}, type, "Stress",
                               "message {}", i % 3);
      ++recorded_;
    }
  }

  // Starts and stops watches until the broadcaster is shut down. Checks that the events of each
  // thread are in order, with gaps.
  void Watch() {
    for (int visit = 0; !done_; ++visit) {
      const Result<std::unique_ptr<Watcher>> watcher = broadcaster_->Watch();
      if (!watcher) return;
      std::map<std::string, int> last;
      for (int i = 0; i < 5 + visit % 7; ++i) {
        const std::vector<Watcher::Item> items = (*watcher)->NextBatch(50);
        if (items.empty()) break;
        for (const Watcher::Item& item : items) {
          const int sequence = std::stoi(item.event->metadata.annotations.find(kSequence)->second);
          const auto [entry, is_new] = last.try_emplace(item.event->reporting_controller, sequence);
          if (is_new) continue;
          EXPECT_LT(entry->second, sequence) << item.event->reporting_controller;
          entry->second = sequence;
        }
      }
      if (visit % 2 == 0) (*watcher)->Stop();
    }
  }

  // Simulates the next process, with a server that works.
  void DeliverTheRest(SinkOptions options, std::uint64_t spooled) {
    const auto server = std::make_shared<MemorySink>();
    Broadcaster next;
    ASSERT_TRUE(next.StartRecordingToSink(server, std::move(options)).ok());
    while (next.Stats().at(0).spool_bytes > 0) std::this_thread::yield();
    EXPECT_TRUE(next.Shutdown(std::chrono::seconds(30)).complete);
    const SinkStats stats = next.Stats().at(0);
    EXPECT_EQ(stats.recorded, spooled);
    EXPECT_EQ(stats[Outcome::kWritten] + stats[Outcome::kMerged], spooled);
    EXPECT_EQ(stats.spool_corrupted, 0U);
  }

  void CheckAccounts() {
    SinkStats before;
    while (!done_) {
      const SinkStats stats = broadcaster_->Stats().at(0);
      ASSERT_EQ(stats.recorded, Ended(stats) + stats.in_flight);
      ASSERT_LE(stats.in_flight, kEvents) << "fell below zero";
      ASSERT_GE(stats.recorded, before.recorded);
      for (std::size_t i = 0; i < kOutcomes; ++i) {
        ASSERT_GE(stats.outcomes[i], before.outcomes[i]);
      }
      before = stats;
    }
  }

  const unsigned seed_;
  const TemporaryDirectory directory_;
  const std::shared_ptr<ApiChoice> choice_ = std::make_shared<ApiChoice>();
  OutcomeCounts outcome_counts_{};
  std::atomic<std::uint64_t> recorded_{0};
  std::atomic<bool> done_{false};
  const std::unique_ptr<Executor> shared_;  // null: the broadcaster creates its own thread
  std::unique_ptr<Broadcaster> broadcaster_;
};

TEST(RecordStressTest, EveryEventHasExactlyOneOutcome) {
  for (int number = 0; number < kRounds; ++number) {
    SCOPED_TRACE("round " + std::to_string(number));
    Round(number).Run();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace herald
