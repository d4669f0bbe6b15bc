#include "store/etcd/cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace herald::store {
namespace {

using namespace std::chrono_literals;

// The test acts as etcd: it answers the lists and sends the batches of the watch.
// Values are "<index>|<written>|<lifetime>" in seconds; all others are unreadable.
class EtcdCacheTest : public testing::Test {
 protected:
  class FakeWatch final : public EtcdWatch {
   public:
    FakeWatch(int* open, int* requests) : open_(open), progress_requests_(requests) { ++*open_; }
    ~FakeWatch() override { --*open_; }
    void RequestProgress() override { ++*progress_requests_; }

   private:
    int* const open_;
    int* const progress_requests_;
  };

  struct Value {
    std::string index;
    int written = 0;
    int lifetime = 0;
  };
  static std::optional<Value> Parse(std::string_view string) {
    Value value;
    const std::size_t first = string.find('|');
    if (first == std::string_view::npos) return std::nullopt;
    value.index = string.substr(0, first);
    const std::string rest(string.substr(first + 1));
    std::sscanf(rest.c_str(), "%d|%d", &value.written, &value.lifetime);
    return value;
  }

  EtcdCacheTest() {
    options_.clock = &clock_;
    options_.executor = &executor_;
    options_.start = "/";
    options_.end = "0";
    options_.replay = 0;
    options_.schema.index = [](std::string_view, std::string_view string) {
      std::vector<IndexEntry> entries;
      if (const auto value = Parse(string)) entries.push_back({1, value->index});
      return entries;
    };
    options_.schema.lifetime = [this](std::string_view, std::string_view string) {
      const auto value = Parse(string);
      return std::chrono::seconds(value ? value->lifetime / lifetime_divisor_ : 1);
    };
    options_.schema.written = [](std::string_view, std::string_view string) {
      const auto value = Parse(string);
      return value ? std::optional<WallTime>(WallTime(std::chrono::seconds(value->written)))
                   : std::nullopt;
    };
  }
  ~EtcdCacheTest() override {
    if (cache_) cache_->Stop();
    EXPECT_EQ(open_watches_, 0);
  }

  void Start() {
    hub_ = std::make_unique<WatchHub>(
        0, 0,
        [](const std::string&, Revision, std::size_t) -> Result<Watch::Batch> {
          return Status(StatusReason::kExpired, "etcd has compacted it");
        },
        WatchHub::Options{.executor = &executor_});
    EtcdCache::Source source;
    source.range = [this](EtcdRange range, std::function<void(Result<EtcdPage>)> done) {
      ranges_.emplace_back(std::move(range), std::move(done));
    };
    source.watch = [this](Revision after, std::function<void(Result<EtcdWatchBatch>)> batch) {
      watched_after_ = after;
      send_ = std::move(batch);
      return std::make_unique<FakeWatch>(&open_watches_, &progress_requests_);
    };
    source.progress_is_sound = [this] { return sound_; };
    cache_ = std::make_unique<EtcdCache>(options_, std::move(source), hub_.get());
    cache_->Start();
  }

  // Answers the last requested page.
  void Answer(Revision revision, const std::vector<std::pair<std::string, std::string>>& entries,
              bool more = false) {
    ASSERT_FALSE(ranges_.empty());
    EtcdPage page;
    page.revision = revision;
    page.more = more;
    for (const auto& [key, value] : entries) {
      page.entries.push_back({key, std::make_shared<const std::string>(value), 5, 0});
    }
    auto done = std::move(ranges_.back().second);
    done(std::move(page));
  }
  static std::shared_ptr<const Change> Put(const std::string& key, const std::string& value,
                                           Revision revision) {
    return std::make_shared<const Change>(
        Entry{key, std::make_shared<const std::string>(value), revision}, std::nullopt, false);
  }
  static std::shared_ptr<const Change> Delete(const std::string& key, Revision revision) {
    return std::make_shared<const Change>(
        Entry{key, nullptr, revision},
        Entry{key, std::make_shared<const std::string>("x"), revision - 1}, true);
  }
  void SendBatch(std::vector<std::shared_ptr<const Change>> changes, Revision revision) {
    send_(EtcdWatchBatch{std::move(changes), revision});
  }

  std::vector<std::string> Keys(const std::optional<Page>& page) {
    std::vector<std::string> keys;
    if (!page) return {"(no table)"};
    for (const Entry& entry : page->entries) keys.push_back(entry.key);
    return keys;
  }
  std::vector<std::string> By(const std::string& index, Revision at = 0) {
    Query query;
    query.by = IndexRange{.index = 1, .from = index, .to = index + '\0'};
    return Keys(cache_->Read(query, at));
  }
  std::shared_ptr<std::optional<bool>> WaitFor(Revision revision) {
    auto answer = std::make_shared<std::optional<bool>>();
    cache_->WaitFor(revision, [answer](bool fresh) { *answer = fresh; });
    executor_.RunUntilIdle();
    return answer;
  }
  void Advance(std::chrono::milliseconds by) {
    clock_.Advance(by);
    executor_.RunUntilIdle();
  }
  std::unique_ptr<Watch> NewWatch(Revision after) {
    auto watch = hub_->NewWatch("/", after, [] {});
    EXPECT_TRUE(watch);
    return watch ? *std::move(watch) : nullptr;
  }
  static std::vector<Revision> Next(Watch& watch) {
    std::vector<Revision> revisions;
    const auto batch = watch.Next(100);
    EXPECT_TRUE(batch) << batch.error().ToString();
    if (batch) {
      for (const auto& change : batch->changes) revisions.push_back(change->revision());
    }
    return revisions;
  }
  using Strings = std::vector<std::string>;
  using Revisions = std::vector<Revision>;

  FakeClock clock_{WallTime(1000s)};
  Executor executor_{{.threads = 0, .clock = &clock_}};
  EtcdCache::Options options_;
  int lifetime_divisor_ = 1;
  bool sound_ = true;
  int open_watches_ = 0;
  int progress_requests_ = 0;
  std::vector<std::pair<EtcdRange, std::function<void(Result<EtcdPage>)>>> ranges_;
  Revision watched_after_ = 0;
  std::function<void(Result<EtcdWatchBatch>)> send_;
  std::unique_ptr<WatchHub> hub_;
  std::unique_ptr<EtcdCache> cache_;
};

TEST_F(EtcdCacheTest, ListsPageByPageAtOneRevisionAndThenWatches) {
  Start();
  EXPECT_EQ(cache_->revision(), 0);
  EXPECT_EQ(By("x"), Strings{"(no table)"});
  Answer(10, {{"/a", "x|0|60"}, {"/b", "y|0|60"}}, /*more=*/true);
  ASSERT_EQ(ranges_.size(), 2u);
  EXPECT_EQ(ranges_[1].first.at, 10);
  EXPECT_EQ(ranges_[1].first.start, std::string("/b") + '\0');
  EXPECT_EQ(cache_->revision(), 0) << "the list is incomplete";
  EXPECT_EQ(hub_->head(), 10) << "but watches can start";

  Answer(12, {{"/c", "x|0|60"}});
  EXPECT_EQ(watched_after_, 10);
  EXPECT_EQ(cache_->revision(), 10) << "the revision of the first page";
  EXPECT_EQ(By("x"), (Strings{"/a", "/c"}));

  const auto watch = NewWatch(10);
  SendBatch({Put("/d", "x|0|60", 11), Delete("/a", 12)}, 12);
  EXPECT_EQ(By("x"), (Strings{"/c", "/d"}));
  EXPECT_EQ(By("x", 11), (Strings{"/a", "/c", "/d"})) << "an older revision";
  EXPECT_EQ(Next(*watch), (Revisions{11, 12}));
  EXPECT_EQ(cache_->stats().entries, 3u);
}

TEST_F(EtcdCacheTest, AReadInSlicesIsAtOneRevision) {
  Start();
  std::vector<std::pair<std::string, std::string>> entries;
  for (int i = 0; i < 1'000; ++i) entries.emplace_back("/" + std::to_string(1'000 + i), "x|0|60");
  Answer(10, entries);
  const Query query;
  const std::unique_ptr<EtcdCache::Reader> reader = cache_->NewReader(query, 0);
  ASSERT_TRUE(reader);
  EXPECT_FALSE(reader->Continue(1)) << "there are more rows";
  SendBatch({Delete("/1999", 11), Put("/1500a", "x|0|60", 12)}, 12);
  Advance(1h);
  cache_->Maintain();  // must keep the reader's revision
  std::optional<Page> page;
  int slices = 1;
  for (; !page; ++slices) page = reader->Continue(1);
  EXPECT_GT(slices, 2);
  EXPECT_EQ(page->revision, 10);
  ASSERT_EQ(page->entries.size(), 1'000u);
  EXPECT_EQ(page->entries.back().key, "/1999");
  EXPECT_EQ(Keys(cache_->Read(query, 0)).size(), 1'000u) << "one created, one deleted";
}

TEST_F(EtcdCacheTest, PreviousValuesOfChangesAreThoseOfTheTable) {
  Start();
  Answer(10, {{"/a", "x|0|60"}});
  const Bytes first = (*cache_->Get("/a"))->value;
  const auto watch = NewWatch(10);
  SendBatch({Put("/a", "y|0|60", 11), Put("/b", "x|0|60", 12)}, 12);  // etcd had compacted it
  const Bytes second = (*cache_->Get("/a"))->value;
  SendBatch({Delete("/a", 13)}, 13);
  const auto batch = watch->Next(10);
  ASSERT_TRUE(batch);
  ASSERT_EQ(batch->changes.size(), 3u);
  ASSERT_TRUE(batch->changes[0]->previous());
  EXPECT_EQ(batch->changes[0]->previous()->value, first) << "the same object, not a copy";
  EXPECT_EQ(batch->changes[0]->previous()->revision, 5);
  EXPECT_FALSE(batch->changes[1]->previous());
  ASSERT_TRUE(batch->changes[2]->previous());
  EXPECT_EQ(batch->changes[2]->previous()->value, second);
  EXPECT_TRUE(batch->changes[2]->deleted());
}

TEST_F(EtcdCacheTest, RetriesAFailedListAfterADelay) {
  Start();
  ranges_.back().second(Status(StatusReason::kServiceUnavailable, "no leader"));
  EXPECT_EQ(ranges_.size(), 1u);
  Advance(300ms);
  ASSERT_EQ(ranges_.size(), 2u);
  Answer(10, {{"/a", "x|0|60"}}, /*more=*/true);
  ranges_.back().second(Status(StatusReason::kExpired, "compacted meanwhile"));
  Advance(1s);
  ASSERT_EQ(ranges_.size(), 4u);
  EXPECT_EQ(ranges_.back().first.at, 0);
  Answer(20, {{"/b", "x|0|60"}});
  EXPECT_EQ(By("x"), Strings{"/b"});
  EXPECT_EQ(watched_after_, 10) << "watches since the first list miss no changes";
  const auto watch = NewWatch(10);
  SendBatch({Delete("/a", 15), Put("/b", "x|0|60", 19), Put("/c", "x|0|60", 21)}, 21);
  EXPECT_EQ(Next(*watch), (Revisions{15, 19, 21}));
  EXPECT_EQ(By("x"), (Strings{"/b", "/c"})) << "the list already had the first two changes";
}

TEST_F(EtcdCacheTest, StartsItsWatchBeforeTheListForClientsThatReconnect) {
  options_.replay = 100;
  Start();
  Answer(1000, {{"/a", "x|0|60"}});
  EXPECT_EQ(watched_after_, 900);
  EXPECT_EQ(cache_->revision(), 1000);
  const auto back = NewWatch(950);
  SendBatch({Put("/b", "x|0|60", 940), Delete("/b", 960)}, 960);
  EXPECT_EQ(By("x"), Strings{"/a"}) << "the list is newer";
  EXPECT_EQ(*WaitFor(1001), false) << "reads do not wait for the replay";
  EXPECT_EQ(*WaitFor(1001), false);
  EXPECT_EQ(progress_requests_, 1) << "but progress is requested";
  Advance(50ms);
  EXPECT_EQ(*WaitFor(1001), false);
  EXPECT_EQ(progress_requests_, 2);
  SendBatch({}, 1000);
  EXPECT_EQ(*WaitFor(1001), std::nullopt);
  EXPECT_EQ(Next(*back), Revisions{960});
  SendBatch({Put("/c", "x|0|60", 1001)}, 1001);
  EXPECT_EQ(By("x"), (Strings{"/a", "/c"}));
  EXPECT_EQ(Next(*back), Revisions{1001});
}

TEST_F(EtcdCacheTest, StartsItsWatchCloserToTheListIfEtcdHasCompactedTheStart) {
  options_.replay = 100;
  Start();
  Answer(1000, {{"/a", "x|0|60"}});
  for (const Revision after : {988, 999, 1000}) {
    send_(Status(StatusReason::kExpired, "compacted"));
    executor_.RunUntilIdle();
    EXPECT_EQ(watched_after_, after);
    EXPECT_EQ(open_watches_, 1);
  }
  EXPECT_EQ(ranges_.size(), 1u) << "one list is enough";
  const auto watch = NewWatch(1000);
  SendBatch({Put("/c", "x|0|60", 1001)}, 1001);
  EXPECT_EQ(Next(*watch), Revisions{1001});
  send_(Status(StatusReason::kExpired, "compacted"));
  executor_.RunUntilIdle();
  EXPECT_EQ(ranges_.size(), 2u) << "now it has missed changes";
}

TEST_F(EtcdCacheTest, WaitForSucceedsWhenTheRevisionIsReached) {
  Start();
  Answer(10, {});
  EXPECT_EQ(*WaitFor(10), true);
  EXPECT_EQ(progress_requests_, 0);

  const auto by_change = WaitFor(11);
  const auto by_progress = WaitFor(13);
  EXPECT_EQ(*by_change, std::nullopt);
  EXPECT_EQ(progress_requests_, 1) << "once for all waiters";
  SendBatch({Put("/a", "x|0|60", 11)}, 11);
  EXPECT_EQ(*by_change, true);
  EXPECT_EQ(*by_progress, std::nullopt);
  SendBatch({}, 12);
  executor_.RunUntilIdle();
  EXPECT_EQ(progress_requests_, 2) << "the first request was too early";
  EXPECT_EQ(*by_progress, std::nullopt);
  SendBatch({}, 13);
  EXPECT_EQ(*by_progress, true);
  EXPECT_EQ(cache_->revision(), 13);
}

TEST_F(EtcdCacheTest, RequestsProgressAgainIfEtcdDoesNotAnswer) {
  Start();
  Answer(10, {});
  const auto answer = WaitFor(11);
  EXPECT_EQ(progress_requests_, 1);
  Advance(50ms);
  EXPECT_EQ(progress_requests_, 2);
  SendBatch({}, 11);
  EXPECT_EQ(*answer, true);
  Advance(50ms);
  Advance(50ms);
  EXPECT_EQ(progress_requests_, 2) << "there are no waiters any more";
}

TEST_F(EtcdCacheTest, AfterATimeoutWaitForFailsAtOnceUntilTheNextBatch) {
  Start();
  Answer(10, {});
  const auto first = WaitFor(11);
  Advance(2900ms);
  EXPECT_EQ(*first, std::nullopt);
  Advance(100ms);
  EXPECT_EQ(*first, false);
  EXPECT_EQ(*WaitFor(11), false) << "at once";
  EXPECT_EQ(*WaitFor(10), true);
  SendBatch({}, 10);
  EXPECT_EQ(*WaitFor(11), std::nullopt) << "it waits again";
}

TEST_F(EtcdCacheTest, DoesNotWaitIfProgressNotificationsCannotBeTrusted) {
  sound_ = false;
  Start();
  Answer(10, {});
  EXPECT_EQ(*WaitFor(11), false);
  SendBatch({Put("/a", "x|0|60", 11)}, 11);
  EXPECT_EQ(*WaitFor(11), true) << "a change can be trusted";
  EXPECT_EQ(progress_requests_, 0);
}

TEST_F(EtcdCacheTest, ListsAgainAfterACompactionAndEndsOnlyWatchesThatMissedChanges) {
  Start();
  Answer(10, {{"/a", "x|0|60"}});
  SendBatch({Put("/b", "x|0|60", 11)}, 11);
  const auto behind = NewWatch(10);
  const auto waiting = NewWatch(11);
  EXPECT_EQ(Next(*waiting), Revisions{});
  const auto ahead = NewWatch(40);  // a revision from another replica

  send_(Status(StatusReason::kExpired, "compacted"));
  EXPECT_EQ(By("x"), Strings{"(no table)"}) << "the table lacks unknown changes";
  executor_.RunUntilIdle();
  EXPECT_EQ(open_watches_, 0);
  Answer(30, {{"/c", "x|0|60"}});
  EXPECT_EQ(watched_after_, 30);
  EXPECT_EQ(By("x"), Strings{"/c"});
  EXPECT_TRUE(behind->Next(1).error().Is(StatusReason::kExpired));
  EXPECT_TRUE(waiting->Next(1).error().Is(StatusReason::kExpired));
  EXPECT_EQ(Next(*ahead), Revisions{});
  SendBatch({Put("/d", "x|0|60", 40), Put("/e", "x|0|60", 41)}, 41);
  EXPECT_EQ(Next(*ahead), Revisions{41});
  EXPECT_EQ(cache_->stats().lists, 2u);
}

TEST_F(EtcdCacheTest, DropsATableThatIsTooLargeAndStillServesWatches) {
  options_.max_bytes = 20'000;
  Start();
  Answer(10, {{"/a", "x|0|60"}});
  EXPECT_EQ(By("x"), Strings{"/a"});
  const auto watch = NewWatch(10);
  Revision revision = 10;
  while (cache_->revision() > 0) {
    ++revision;
    ASSERT_LT(revision, 100);
    SendBatch({Put("/b" + std::to_string(revision), "x|0|60" + std::string(1'000, ' '), revision)},
              revision);
  }
  EXPECT_EQ(*WaitFor(revision), false);
  EXPECT_FALSE(cache_->stats().entries);
  EXPECT_EQ(Next(*watch).size(), static_cast<std::size_t>(revision - 10));

  cache_->Maintain();
  EXPECT_EQ(ranges_.size(), 1u) << "not at once";
  Advance(10min);
  cache_->Maintain();
  ASSERT_EQ(ranges_.size(), 2u);
  EXPECT_EQ(open_watches_, 0);
  Answer(200, {{"/c", "x|0|60"}});
  EXPECT_EQ(By("x"), Strings{"/c"});
  EXPECT_EQ(watched_after_, revision) << "watches continue";
}

TEST_F(EtcdCacheTest, TrimsTheWatchWindowBeforeItDropsTheTable) {
  options_.max_bytes = 20'000;
  Start();
  Answer(10, {});
  for (Revision revision = 11; revision < 200; ++revision) {
    SendBatch({Put("/a", "x|0|60" + std::string(1'000, ' '), revision)}, revision);
  }
  EXPECT_EQ(By("x"), Strings{"/a"});
  EXPECT_EQ(By("x", 11), Strings{"(no table)"}) << "etcd may still have it";
}

TEST_F(EtcdCacheTest, ComputesExpiryFromTheWatchedWriteOrElseFromTheValue) {
  Start();
  Answer(10, {{"/listed", "x|900|60"},   // expires at 960
              {"/future", "x|5000|60"},  // the clock of its recorder is wrong
              {"/unreadable", "k8s:enc:aescbc"}});
  SendBatch({Put("/old clock", "x|100|60", 11), Put("/unreadable too", "k8s:enc:aescbc", 12)}, 12);
  const auto overdue = [this](int second) {
    Strings keys;
    const auto entries = cache_->Overdue(WallTime(std::chrono::seconds(second)), 10);
    for (const Entry& entry : entries.value()) keys.push_back(entry.key);
    return keys;
  };
  EXPECT_EQ(overdue(959), Strings{});
  EXPECT_EQ(overdue(960), Strings{"/listed"});
  EXPECT_EQ(overdue(1059), Strings{"/listed"});
  EXPECT_EQ(overdue(1060), (Strings{"/listed", "/future", "/old clock"}))
      << "60 s after they were seen";
  EXPECT_EQ(overdue(100'000).size(), 3u) << "unreadable entries never expire";
}

TEST_F(EtcdCacheTest, FindsEntriesThatExpireByNewRules) {
  Start();
  Answer(10, {{"/expired already", "x|900|60"}, {"/a", "x|990|60"}, {"/b", "x|990|600"}});
  lifetime_divisor_ = 10;
  const auto expired = cache_->RefreshLifetimes(clock_.Now());
  ASSERT_TRUE(expired);
  ASSERT_EQ(expired->size(), 1u) << "its lease deletes the entry that had expired before";
  EXPECT_EQ(expired->front().key, "/a");
  EXPECT_EQ(cache_->Overdue(WallTime(1050s), 10)->size(), 3u) << "/b has its new expiry";
}

TEST_F(EtcdCacheTest, CountsExpiredEntries) {
  Start();
  Answer(10, {{"/a", "x|990|60"}, {"/b", "x|990|600"}});
  Advance(60s);
  SendBatch({Delete("/a", 11), Delete("/b", 11)}, 11);
  EXPECT_EQ(cache_->stats().expired, 1u) << "a client deleted the other one";
}

TEST_F(EtcdCacheTest, AdvancesQuietWatches) {
  Start();
  Answer(10, {});
  const auto quiet = NewWatch(10);
  EXPECT_EQ(Next(*quiet), Revisions{});
  cache_->Maintain();
  EXPECT_EQ(progress_requests_, 1);
  SendBatch({}, 500);
  EXPECT_EQ(quiet->Next(1)->revision, 500);
}

TEST_F(EtcdCacheTest, FailsWaitersWhenItStops) {
  Start();
  Answer(10, {});
  const auto answer = WaitFor(11);
  cache_->Stop();
  EXPECT_EQ(*answer, false);
  EXPECT_EQ(open_watches_, 0);
}

}  // namespace
}  // namespace herald::store
