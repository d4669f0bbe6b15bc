#include "store/watch_hub.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "herald/base/clock.h"

namespace herald::store {
namespace {

// A hub with a ring of four changes, over a log that the test owns.
class WatchHubTest : public testing::Test {
 protected:
  explicit WatchHubTest(bool with_executor = true, std::size_t unwatched = 4) {
    WatchHub::Options options;
    options.max_changes = 4;
    options.max_unwatched_changes = unwatched;
    options.executor = with_executor ? &executor_ : nullptr;
    hub_ = std::make_unique<WatchHub>(
        0, 0,
        [this](const std::string& prefix, Revision after, std::size_t max) {
          return ReadLog(prefix, after, max);
        },
        options);
  }

  void Write(const std::string& key) {
    log_.push_back(std::make_shared<const Change>(
        Entry{key, std::make_shared<const std::string>("v"), ++revision_}, std::nullopt, false));
    WatchHub::Wake(hub_->Append({log_.back()}, revision_));
  }
  void WriteAtOnce(const std::vector<std::string>& keys) {
    ++revision_;
    std::vector<std::shared_ptr<const Change>> changes;
    for (const std::string& key : keys) {
      changes.push_back(
          std::make_shared<const Change>(Entry{key, nullptr, revision_}, std::nullopt, true));
    }
    log_.insert(log_.end(), changes.begin(), changes.end());
    WatchHub::Wake(hub_->Append(changes, revision_));
  }
  void LogOnly(const std::string& key) {
    log_.push_back(std::make_shared<const Change>(
        Entry{key, std::make_shared<const std::string>("v"), ++revision_}, std::nullopt, false));
  }
  // Returns two revisions of the log at a time, so that a lagging watch needs several reads.
  Result<Watch::Batch> ReadLog(const std::string& prefix, Revision after, std::size_t max) {
    ++log_reads_;
    Watch::Batch batch;
    batch.revision = after;
    if (after < log_compacted_) return Status(StatusReason::kExpired, "compacted");
    if (const auto meanwhile = std::exchange(during_read_, nullptr)) meanwhile();
    for (const auto& change : log_) {
      if (change->revision() <= after) continue;
      if (change->revision() > after + 2) break;
      if (batch.changes.size() >= max && change->revision() != batch.revision) break;
      batch.revision = change->revision();
      if (change->key().starts_with(prefix)) batch.changes.push_back(change);
    }
    return batch;
  }
  std::unique_ptr<Watch> NewWatch(const std::string& prefix, Revision after) {
    auto watch = hub_->NewWatch(prefix, after, [this] { ++ready_; });
    EXPECT_TRUE(watch);
    return watch ? std::move(*watch) : nullptr;
  }
  static std::vector<Revision> Next(Watch& watch, std::size_t max = 100) {
    std::vector<Revision> revisions;
    auto batch = watch.Next(max);
    EXPECT_TRUE(batch) << batch.error().ToString();
    if (batch) {
      for (const auto& change : batch->changes) revisions.push_back(change->revision());
    }
    return revisions;
  }
  using Revisions = std::vector<Revision>;

  FakeClock clock_{WallTime()};
  Executor executor_{{.threads = 0, .clock = &clock_}};
  Revision revision_ = 0;
  Revision log_compacted_ = 0;
  std::vector<std::shared_ptr<const Change>> log_;
  std::unique_ptr<WatchHub> hub_;
  int ready_ = 0;
  int log_reads_ = 0;
  std::function<void()> during_read_;  // called once, after the revision was checked
};

class UnwatchedHubTest : public WatchHubTest {
 protected:
  UnwatchedHubTest() : WatchHubTest(true, 2) {}
};

TEST_F(UnwatchedHubTest, KeepsFewerChangesWithoutWatches) {
  for (int i = 0; i < 4; ++i) Write("a");
  const auto late = NewWatch("a", 1);
  EXPECT_TRUE(Next(*late).empty()) << "it has to read the log";
  executor_.RunUntilIdle();
  EXPECT_EQ(Next(*late), (std::vector<Revision>{2, 3}));
  EXPECT_EQ(Next(*late), (std::vector<Revision>{4}));
  EXPECT_EQ(log_reads_, 1);

  for (int i = 0; i < 4; ++i) Write("a");
  EXPECT_EQ(Next(*late), (std::vector<Revision>{5, 6, 7, 8})) << "all four are in the ring";
  EXPECT_EQ(log_reads_, 1);
}

TEST_F(WatchHubTest, ServesAWatchThatKeepsUpFromTheRing) {
  const auto watch = NewWatch("/", 0);
  for (int i = 0; i < 3; ++i) Write("/a");
  EXPECT_EQ(Next(*watch), (Revisions{1, 2, 3}));
  EXPECT_EQ(Next(*watch), Revisions{});
  Write("/a");
  EXPECT_EQ(ready_, 1);
  EXPECT_EQ(Next(*watch), Revisions{4});
  EXPECT_EQ(log_reads_, 0);
}

TEST_F(WatchHubTest, ReadsTheLogForALaggingWatchOnTheExecutorUntilItHasCaughtUp) {
  const auto watch = NewWatch("/", 0);
  for (int i = 0; i < 9; ++i) Write("/a");
  EXPECT_EQ(Next(*watch), Revisions{}) << "nothing is read from disk inside Next()";
  EXPECT_EQ(log_reads_, 0);
  Revisions seen;
  while (seen.size() < 9) {
    const int before = ready_;
    executor_.RunUntilIdle();
    if (seen.size() < 5) {
      EXPECT_EQ(ready_, before + 1);
    }
    for (Revisions more = Next(*watch); !more.empty(); more = Next(*watch)) {
      seen.insert(seen.end(), more.begin(), more.end());
    }
  }
  EXPECT_EQ(seen, (Revisions{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(log_reads_, 3) << "the log up to the ring: 1-2, 3-4, 5-6";
  Write("/a");
  EXPECT_EQ(Next(*watch), Revisions{10});
}

TEST_F(WatchHubTest, DoesNotWakeALaggingWatchWithoutChangesInTheLog) {
  const auto watch = NewWatch("/mine", 0);
  for (int i = 0; i < 9; ++i) Write("/a");
  EXPECT_EQ(Next(*watch), Revisions{});
  executor_.RunUntilIdle();
  EXPECT_EQ(ready_, 0);
  Write("/mine");
  EXPECT_EQ(ready_, 1);
  EXPECT_EQ(Next(*watch), Revisions{10});
}

TEST_F(WatchHubTest, AWaitingWatchNeitherLagsNorExpires) {
  const auto watch = NewWatch("/mine", 0);
  EXPECT_EQ(Next(*watch), Revisions{});
  for (int i = 0; i < 20; ++i) Write("/other");
  hub_->Compacted(20);
  log_compacted_ = 20;
  Write("/mine");
  EXPECT_EQ(Next(*watch), Revisions{21});
  EXPECT_EQ(log_reads_, 0);
}

TEST_F(WatchHubTest, ExpiresALaggingWatchThatCompactionOvertook) {
  const auto before_the_read = NewWatch("/", 0);
  const auto during_the_read = NewWatch("/", 0);
  for (int i = 0; i < 9; ++i) Write("/a");
  EXPECT_EQ(Next(*during_the_read), Revisions{});
  hub_->Compacted(3);
  log_compacted_ = 3;
  for (int asked = 0; asked < 2; ++asked) {
    const auto batch = before_the_read->Next(1);
    ASSERT_FALSE(batch);
    EXPECT_TRUE(batch.error().Is(StatusReason::kExpired));
  }
  executor_.RunUntilIdle();
  EXPECT_EQ(ready_, 1) << "so that Next() returns the error";
  const auto batch = during_the_read->Next(1);
  ASSERT_FALSE(batch);
  EXPECT_TRUE(batch.error().Is(StatusReason::kExpired));

  EXPECT_FALSE(hub_->NewWatch("/", 2, [] {}));
  EXPECT_TRUE(hub_->NewWatch("/", 3, [] {}));
}

TEST_F(WatchHubTest, ExpiresAWatchWhoseLogIsCompactedDuringTheRead) {
  const auto watch = NewWatch("/", 0);
  for (int i = 0; i < 9; ++i) Write("/a");
  during_read_ = [this] {
    hub_->Compacted(9);
    log_.clear();
  };
  EXPECT_EQ(Next(*watch), Revisions{});
  executor_.RunUntilIdle();
  EXPECT_EQ(ready_, 1);
  const auto batch = watch->Next(1);
  ASSERT_FALSE(batch);
  EXPECT_TRUE(batch.error().Is(StatusReason::kExpired)) << batch.error().ToString();
}

TEST_F(WatchHubTest, ExpiresAWatchThatCompactionOvertakesBetweenTwoReads) {
  const auto watch = NewWatch("/mine", 0);
  for (int i = 0; i < 9; ++i) Write("/a");
  // The first read skips two changes of other prefixes, and there must not be a second one.
  during_read_ = [this] { hub_->Compacted(5); };
  EXPECT_EQ(Next(*watch), Revisions{});
  executor_.RunUntilIdle();
  EXPECT_EQ(log_reads_, 1);
  EXPECT_EQ(ready_, 1);
  EXPECT_TRUE(watch->Next(1).error().Is(StatusReason::kExpired));
}

TEST_F(WatchHubTest, DropsAWatchThatIsDestroyedDuringItsRead) {
  auto watch = NewWatch("/", 0);
  for (int i = 0; i < 9; ++i) Write("/a");
  EXPECT_EQ(Next(*watch), Revisions{});
  watch.reset();
  executor_.RunUntilIdle();
  EXPECT_EQ(ready_, 0);
  EXPECT_EQ(hub_->watches(), 0u);
}

TEST_F(WatchHubTest, WakesOnlyTheWatchesOfTheChangedPrefix) {
  std::vector<std::unique_ptr<Watch>> watches;
  std::vector<int> calls(200);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    auto watch = hub_->NewWatch("/ns" + std::to_string(i) + "/", 0, [&calls, i] { ++calls[i]; });
    ASSERT_TRUE(watch);
    EXPECT_TRUE(Next(**watch).empty());
    watches.push_back(std::move(*watch));
  }
  Write("/ns1/a");
  Write("/ns17/a");
  Write("/ns17/b");
  Write("/ns");
  for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(calls[i], i == 1 || i == 17 ? 1 : 0);
}

// As when the end of a lease deletes all its keys.
TEST_F(WatchHubTest, ReportsARevisionOnlyWithTheLastOfItsChanges) {
  const auto watch = NewWatch("/", 0);
  Write("/a");
  WriteAtOnce({"/b", "/c", "/d"});
  struct Step {
    Revisions revisions;
    Revision given_out;
  };
  for (const Step& step : {Step{{1, 2}, 1}, Step{{2, 2}, 2}, Step{{}, 2}}) {
    const auto batch = watch->Next(2);
    ASSERT_TRUE(batch);
    Revisions revisions;
    for (const auto& change : batch->changes) revisions.push_back(change->revision());
    EXPECT_EQ(revisions, step.revisions);
    EXPECT_EQ(batch->revision, step.given_out);
  }
}

TEST_F(WatchHubTest, ReadsAllChangesOfARevisionFromTheLog) {
  const auto watch = NewWatch("/", 0);
  WriteAtOnce({"/a", "/b", "/c"});
  for (int i = 0; i < 6; ++i) Write("/x");
  Revisions seen;
  while (seen.size() < 9) {
    executor_.RunUntilIdle();
    const Revisions more = Next(*watch, 2);
    seen.insert(seen.end(), more.begin(), more.end());
  }
  EXPECT_EQ(seen, (Revisions{1, 1, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_GT(log_reads_, 0) << "the ring has only four changes";
}

TEST_F(WatchHubTest, ReadsSkippedChangesFromTheLog) {
  const auto reading = NewWatch("/", 0);
  const auto waiting = NewWatch("/", 0);
  const auto future = NewWatch("/", 3);
  EXPECT_EQ(Next(*waiting), Revisions{});
  EXPECT_EQ(Next(*future), Revisions{});
  // The changes are added to the log only.
  for (int i = 0; i < 3; ++i) LogOnly("/a");
  WatchHub::Wake(hub_->Skip(3));
  EXPECT_EQ(ready_, 1) << "only the watch that waited for them";
  for (Watch* watch : {reading.get(), waiting.get()}) {
    Revisions seen;
    while (seen.size() < 3) {
      const Revisions more = Next(*watch);
      seen.insert(seen.end(), more.begin(), more.end());
      executor_.RunUntilIdle();
    }
    EXPECT_EQ(seen, (Revisions{1, 2, 3}));
  }
  Write("/b");
  EXPECT_EQ(Next(*future), Revisions{4});
  EXPECT_EQ(Next(*reading), Revisions{4});
}

TEST_F(WatchHubTest, ExpiresWatchesWhoseSkippedChangesWereCompacted) {
  const auto waiting = NewWatch("/", 0);
  EXPECT_EQ(Next(*waiting), Revisions{});
  const auto future = NewWatch("/", 2);
  WatchHub::Wake(hub_->Skip(2));
  hub_->Compacted(1);
  revision_ = 2;
  EXPECT_EQ(ready_, 1);
  EXPECT_TRUE(waiting->Next(1).error().Is(StatusReason::kExpired));
  Write("/a");
  EXPECT_EQ(Next(*future), Revisions{3});
}

TEST_F(WatchHubTest, AdvancesWithoutChangesAcrossGapsInRevisions) {
  const auto watch = NewWatch("/", 0);
  WatchHub::Wake(hub_->Append({}, 40));
  const auto batch = watch->Next(1);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->revision, 40);
  revision_ = 50;
  Write("/a");
  EXPECT_EQ(Next(*watch), Revisions{51});
}

class InlineWatchHubTest : public WatchHubTest {
 protected:
  InlineWatchHubTest() : WatchHubTest(/*with_executor=*/false) {}
};

TEST_F(InlineWatchHubTest, ReadsTheLogInsideNextIfItIsInMemory) {
  const auto watch = NewWatch("/b", 0);
  for (int i = 0; i < 4; ++i) Write("/a");
  for (int i = 0; i < 8; ++i) Write("/b");
  EXPECT_EQ(Next(*watch), (Revisions{5, 6}));
  EXPECT_EQ(Next(*watch), (Revisions{7, 8}));
  EXPECT_EQ(Next(*watch), (Revisions{9, 10, 11, 12}));
  EXPECT_EQ(Next(*watch), Revisions{});
}

TEST_F(InlineWatchHubTest, ExpiresAWatchWhoseLogIsCompactedDuringTheRead) {
  const auto watch = NewWatch("/", 0);
  for (int i = 0; i < 9; ++i) Write("/a");
  during_read_ = [this] {
    hub_->Compacted(9);
    log_.clear();
  };
  const auto batch = watch->Next(1);
  ASSERT_FALSE(batch);
  EXPECT_TRUE(batch.error().Is(StatusReason::kExpired)) << batch.error().ToString();
}

}  // namespace
}  // namespace herald::store
