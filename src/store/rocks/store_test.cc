#include "store/rocks/store.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing/temporary_directory.h"
#include "store/rocks/admin.h"
#include "store/rocks/revision_mark.h"
#include "store/testing/faulty_file_system.h"
#include "store/testing/suite.h"

namespace herald::store {
namespace {

class RocksHarness final : public StoreHarness {
 public:
  StoreCapabilities capabilities() const override { return {.persistent = true}; }
  std::unique_ptr<Store> Open(const StoreOptions& options) override {
    RocksStoreOptions rocks;
    rocks.db.directory = directory_.path() / "store";
    auto store = RocksStore::Open(options, rocks);
    EXPECT_TRUE(store) << store.error().ToString();
    return store ? std::move(*store) : nullptr;
  }

 private:
  TemporaryDirectory directory_;
};

INSTANTIATE_TEST_SUITE_P(Rocks, StoreSuite,
                         testing::Values(StoreBackend{
                             "Rocks", [] { return std::make_unique<RocksHarness>(); }}),
                         StoreBackendName);

class RocksStoreTest : public testing::Test {
 protected:
  RocksStoreTest() {
    options_.clock = &clock_;
    options_.background = false;
    rocks_.db.directory = directory_.path() / "store";
  }

  Result<std::unique_ptr<RocksStore>> TryOpen() { return RocksStore::Open(options_, rocks_); }
  void Open() {
    store_.reset();
    auto store = TryOpen();
    ASSERT_TRUE(store) << store.error().ToString();
    store_ = std::move(*store);
  }
  Result<Written> Put(const std::string& key, const std::string& value,
                      Revision expected = Write::kAny) {
    std::promise<Result<Written>> done;
    store_->Commit({key, std::make_shared<const std::string>(value), expected},
                   [&done](Result<Written> written) { done.set_value(std::move(written)); });
    return done.get_future().get();
  }
  Result<std::optional<Entry>> Get(const std::string& key) {
    std::promise<Result<std::optional<Entry>>> done;
    store_->Get(key, [&done](Result<std::optional<Entry>> e) { done.set_value(std::move(e)); });
    return done.get_future().get();
  }
  Result<Page> Read(Query query) {
    std::promise<Result<Page>> done;
    store_->Read(std::move(query), [&done](Result<Page> page) { done.set_value(std::move(page)); });
    return done.get_future().get();
  }

  TemporaryDirectory directory_;
  FakeClock clock_{WallTime(std::chrono::hours(500'000))};
  Faults faults_;
  const std::unique_ptr<rocksdb::Env> env_ = FaultyFileSystem::MakeEnv(&faults_);
  StoreOptions options_;
  RocksStoreOptions rocks_;
  std::unique_ptr<RocksStore> store_;
};

// ---- rows ----

// Tests that count rows, of a store with many versions of few keys.
class RocksRowsTest : public RocksStoreTest {
 protected:
  RocksRowsTest() {
    options_.watch_window = std::chrono::seconds(60);
    options_.schema.index = [](std::string_view, std::string_view value) {
      return std::vector<IndexEntry>{{1, std::string(value.substr(0, 1))}, {2, "all"}};
    };
    // "...|5" lives for five seconds.
    options_.schema.lifetime = [](std::string_view, std::string_view value) {
      const std::size_t at = value.find('|');
      return std::chrono::seconds(
          at == std::string_view::npos ? 3600 : std::stoi(std::string(value.substr(at + 1))));
    };
  }

  Revision Delete(const std::string& key) {
    std::promise<Revision> done;
    store_->Commit({key, nullptr}, [&done](const Result<Written>& w) {
      done.set_value(w && w->committed ? w->revision : 0);
    });
    const Revision revision = done.get_future().get();
    EXPECT_NE(revision, 0);
    return revision;
  }
  // All entries at a revision, as "key=value ...".
  std::string List(Query query = {}) {
    const auto page = Read(std::move(query));
    EXPECT_TRUE(page) << page.error().ToString();
    std::string text;
    if (!page) return text;
    for (const Entry& entry : page->entries) text += entry.key + "=" + *entry.value + " ";
    return text;
  }
  std::string ListBy(std::uint8_t index, const std::string& value, Revision at = 0) {
    Query query;
    query.at = at;
    query.by.emplace();
    query.by->index = index;
    query.by->from = value;
    query.by->to = value + '\0';
    return List(std::move(query));
  }
  // Closes the store and opens it again, so that nothing is cached.
  CheckReport Reopen() {
    store_.reset();
    auto report = CheckStore(rocks_.db.directory, options_.schema);
    EXPECT_TRUE(report) << report.error().ToString();
    for (const std::string& fault : report->faults) ADD_FAILURE() << fault;
    Open();
    return *report;
  }
};

TEST_F(RocksRowsTest, ListsTheLatestStateAmongManyOldVersions) {
  Open();
  constexpr int kKeys = 60;
  constexpr int kRounds = 30;
  std::vector<std::pair<Revision, std::string>> states;
  for (int round = 0; round < kRounds; ++round) {
    std::string state;
    Revision revision = 0;
    for (int i = 0; i < kKeys; ++i) {
      const std::string key = "/" + std::to_string(100 + i);
      const std::string value = std::to_string(round * kKeys + i);
      // Some keys are written often, some once, some are created and deleted.
      if (i % 5 == 0 && round > 0) {
        state += key + "=" + std::to_string(i) + " ";
        continue;
      }
      if (i % 7 == 3 && round % 2 == 1) {
        revision = Delete(key);
        continue;
      }
      const auto written = Put(key, value);
      ASSERT_TRUE(written);
      revision = written->revision;
      state += key + "=" + value + " ";
    }
    states.emplace_back(revision, state);
  }
  for (const bool in_memory : {true, false}) {
    if (!in_memory) Reopen();
    EXPECT_EQ(List(), states.back().second);
    for (const auto& [revision, state] : states) EXPECT_EQ(List({.at = revision}), state);
    // In pages, each with the number of remaining entries.
    std::string paged;
    Query query{.limit = 7, .count_remaining = true};
    for (;;) {
      const auto page = Read(query);
      ASSERT_TRUE(page) << page.error().ToString();
      for (const Entry& entry : page->entries) paged += entry.key + "=" + *entry.value + " ";
      if (!page->more) break;
      const std::size_t listed =
          static_cast<std::size_t>(std::count(paged.begin(), paged.end(), '='));
      const std::string& all = states.back().second;
      EXPECT_EQ(listed + static_cast<std::size_t>(page->remaining),
                static_cast<std::size_t>(std::count(all.begin(), all.end(), '=')));
      query.start = page->entries.back().key + '\0';
    }
    EXPECT_EQ(paged, states.back().second);
  }
}

TEST_F(RocksRowsTest, AnIndexHasOneRowPerChangeOfItsValue) {
  Open();
  for (const char* value : {"a1", "a2", "b3", "b4", "a5", "a6"}) ASSERT_TRUE(Put("/k", value));
  EXPECT_EQ(Reopen().index_rows, 4u) << "a, b, a, and one for all six versions";
  EXPECT_EQ(ListBy(1, "a"), "/k=a6 ") << "only once";
  EXPECT_EQ(ListBy(1, "b"), "");
  EXPECT_EQ(ListBy(1, "a", 2), "/k=a2 ");
  EXPECT_EQ(ListBy(1, "a", 3), "");
  EXPECT_EQ(ListBy(1, "b", 4), "/k=b4 ");
  EXPECT_EQ(ListBy(2, "all", 4), "/k=b4 ");

  clock_.Advance(std::chrono::seconds(30));
  ASSERT_TRUE(Put("/k", "c7"));
  clock_.Advance(std::chrono::seconds(31));
  store_->Maintain();
  EXPECT_EQ(Reopen().index_rows, 3u) << "those at the start of the watch window, and later ones";
  EXPECT_EQ(ListBy(1, "a", 6), "/k=a6 ");
  EXPECT_EQ(ListBy(2, "all"), "/k=c7 ");
  Delete("/k");
  ASSERT_TRUE(Put("/k", "a9"));
  clock_.Advance(std::chrono::seconds(61));
  store_->Maintain();
  EXPECT_EQ(Reopen().index_rows, 2u);
  EXPECT_EQ(ListBy(1, "a"), "/k=a9 ");
}

TEST_F(RocksRowsTest, AnEntryThatIsWrittenOftenHasOneExpiryRow) {
  Open();
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(Put("/k", "v|100"));
    clock_.Advance(std::chrono::seconds(10));
    store_->Maintain();
    ASSERT_TRUE(Get("/k")->has_value());
  }
  EXPECT_EQ(Reopen().expiry_rows, 1u);
  clock_.Advance(std::chrono::seconds(89));
  store_->Maintain();
  EXPECT_TRUE(Get("/k")->has_value());
  clock_.Advance(std::chrono::seconds(2));
  store_->Maintain();
  EXPECT_FALSE(Get("/k")->has_value());
  EXPECT_EQ(Reopen().expiry_rows, 0u);
}

TEST_F(RocksRowsTest, AnEntryExpiresByItsLastWriteWhetherEarlierOrLater) {
  struct Scenario {
    const char* name;
    std::vector<std::string> values;  // one each second; empty: a deletion
    int lives;                        // seconds, after the last of them
  };
  const std::vector<Scenario> scenarios = {
      {"later", {"v|5", "v|50"}, 50},
      {"earlier", {"v|50", "v|5"}, 5},
      {"earlier, then later", {"v|50", "v|5", "v|60"}, 60},
      {"later, then earlier", {"v|5", "v|50", "v|7"}, 7},
      {"created again", {"v|5", "", "v|50"}, 50},
      {"created again, with a shorter lifetime", {"v|50", "", "v|5"}, 5},
      {"many", {"v|9", "v|5", "v|8", "v|3", "v|70", "v|20", "v|30"}, 30},
  };
  for (const Scenario& scenario : scenarios) {
    SCOPED_TRACE(scenario.name);
    Open();
    for (const std::string& value : scenario.values) {
      clock_.Advance(std::chrono::seconds(1));
      if (value.empty()) {
        Delete("/k");
      } else {
        ASSERT_TRUE(Put("/k", value));
      }
      store_->Maintain();
    }
    clock_.Advance(std::chrono::milliseconds(1'000 * scenario.lives - 1));
    store_->Maintain();
    EXPECT_TRUE(Get("/k")->has_value());
    clock_.Advance(std::chrono::milliseconds(2));
    store_->Maintain();
    EXPECT_FALSE(Get("/k")->has_value());
    Reopen();
    // Rows that were left behind are deleted when they become due.
    clock_.Advance(std::chrono::seconds(100));
    store_->Maintain();
    EXPECT_EQ(Reopen().expiry_rows, 0u);
  }
}

TEST_F(RocksRowsTest, AWriteAfterAChangeOfRulesExpiresByTheNewRules) {
  std::atomic<int> seconds = 10;
  options_.schema.lifetime = [&seconds](std::string_view, std::string_view) {
    return std::chrono::seconds(seconds.load());
  };
  Open();
  ASSERT_TRUE(Put("/a", "1"));
  ASSERT_TRUE(Put("/b", "1"));
  seconds = 30;
  store_->RefreshLifetimes();
  clock_.Advance(std::chrono::seconds(15));
  store_->Maintain();
  EXPECT_EQ(List(), "/a=1 /b=1 ") << "the new rule applies";
  seconds = 20;
  ASSERT_TRUE(Put("/b", "2"));
  store_->RefreshLifetimes();
  clock_.Advance(std::chrono::seconds(6));
  store_->Maintain();
  EXPECT_EQ(List(), "/b=2 ");
  Reopen();
  clock_.Advance(std::chrono::seconds(15));
  store_->Maintain();
  EXPECT_EQ(List(), "");
}

TEST_F(RocksRowsTest, AnEntryThatIsWrittenWhileItExpiresStillExpiresAtItsTime) {
  int seconds = 100;
  std::function<void()> at_the_look;
  options_.schema.lifetime = [&](std::string_view, std::string_view) {
    const std::chrono::seconds lifetime(seconds);
    if (const auto meanwhile = std::exchange(at_the_look, nullptr)) meanwhile();
    return lifetime;
  };
  Open();
  store_->Maintain();  // so that the next call of the schema is by expiry
  ASSERT_TRUE(Put("/k", "0"));
  clock_.Advance(std::chrono::seconds(50));
  ASSERT_TRUE(Put("/k", "1"));
  clock_.Advance(std::chrono::seconds(51));
  // Its row becomes due and, by the current rule, the entry as well. After that was found, the
  // entry is written under another rule, and relies on the row.
  seconds = 5;
  at_the_look = [&] {
    seconds = 200;
    ASSERT_TRUE(Put("/k", "2"));
  };
  store_->Maintain();
  EXPECT_EQ(List(), "/k=2 ");
  clock_.Advance(std::chrono::seconds(199));
  store_->Maintain();
  EXPECT_EQ(List(), "/k=2 ");
  clock_.Advance(std::chrono::seconds(2));
  store_->Maintain();
  EXPECT_EQ(List(), "");
}

// ---- lagging watches ----

class RocksLogTest : public RocksRowsTest {
 protected:
  // More revisions than the hub keeps without watches, so that a watch from the first one has to
  // read the log. The last one deletes the only key.
  void FillLog() {
    for (int i = 0; i < 1'100; ++i) {
      const auto written = Put("/k", "v");
      ASSERT_TRUE(written) << written.error().ToString();
    }
    Delete("/k");
  }
};

TEST_F(RocksLogTest, ExpiresAWatchWhoseLogIsCompactedDuringTheRead) {
  std::atomic<bool> compact = false;
  rocks_.at_step = [&](std::string_view step) {
    if (step == "before log read" && compact.exchange(false)) store_->Maintain();
  };
  Open();
  FillLog();
  SuiteWatch watch(*store_, "/", 1);
  clock_.Advance(std::chrono::seconds(120));
  compact = true;
  const Status over = watch.TakeError();
  EXPECT_FALSE(compact) << "the watch did not read the log";
  EXPECT_TRUE(over.Is(StatusReason::kExpired)) << over.ToString();
  EXPECT_EQ(store_->Stats().compacted, store_->Stats().revision) << "no row of the log is left";
}

TEST_F(RocksLogTest, EndsAWatchIfTheLastRowsOfTheLogAreMissing) {
  Open();
  FillLog();
  const Revision last = store_->Stats().revision;
  store_.reset();
  {
    auto db = RocksDb::Open(rocks_.db);
    ASSERT_TRUE(db);
    for (Revision revision = 3; revision <= last; ++revision) {
      ASSERT_TRUE((*db)->db().Delete({}, (*db)->log(), LogKey(revision)).ok());
    }
  }
  Open();
  SuiteWatch watch(*store_, "/", 1);
  EXPECT_EQ(watch.Take(1).size(), 1u);
  const Status over = watch.TakeError();
  EXPECT_TRUE(over.Is(StatusReason::kCorruption)) << over.ToString();
  EXPECT_EQ(over.message(), "the log has no revision 3");
}

// ---- opening ----

// ---- rules that change between two processes ----

class RocksRulesTest : public RocksStoreTest {
 protected:
  RocksRulesTest() {
    options_.schema.lifetime = [this](std::string_view, std::string_view) {
      if (at_lifetime_) at_lifetime_();
      return std::chrono::seconds(seconds_.load());
    };
    options_.schema.lifetime_rules = [this] { return static_cast<std::uint64_t>(seconds_.load()); };
  }

  // The rules that all entries of the store on disk follow; 0: there is no such row.
  std::uint64_t RulesOnDisk() {
    store_.reset();
    RocksDbOptions db = rocks_.db;
    db.read_only = true;
    const auto rocks = RocksDb::Open(db);
    EXPECT_TRUE(rocks) << rocks.error().ToString();
    return rocks ? (*rocks)->lifetimes().value_or(0) : 0;
  }

  std::atomic<int> seconds_ = 1000;
  std::function<void()> at_lifetime_;
};

TEST_F(RocksRulesTest, RemembersTheRulesOnlyWhileAllEntriesFollowThem) {
  Open();
  ASSERT_TRUE(Put("/a", "1"));
  EXPECT_EQ(RulesOnDisk(), 0u) << "no refresh has run";
  Open();
  store_->Maintain();
  EXPECT_EQ(RulesOnDisk(), 1000u);
  Open();
  ASSERT_TRUE(Put("/b", "1"));
  EXPECT_EQ(RulesOnDisk(), 1000u);
  Open();
  seconds_ = 2000;
  ASSERT_TRUE(Put("/c", "1"));
  EXPECT_EQ(RulesOnDisk(), 0u) << "one entry follows other rules";
  Open();
  store_->Maintain();
  EXPECT_EQ(RulesOnDisk(), 2000u);
}

TEST_F(RocksRulesTest, AnEntryWrittenUnderRulesThatWereRevertedExpiresByTheOldRules) {
  Open();
  store_->Maintain();
  seconds_ = 5000;
  ASSERT_TRUE(Put("/a", "1"));
  // The process ends before a refresh, and the next one has the old rules.
  store_.reset();
  seconds_ = 1000;
  Open();
  clock_.Advance(std::chrono::seconds(1001));
  store_->Maintain();
  EXPECT_FALSE(Get("/a")->has_value());
}

TEST_F(RocksRulesTest, ARefreshThatWasInterruptedIsDoneAgain) {
  rocks_.db.env = env_.get();
  Open();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Put("/" + std::to_string(i), "1"));
  store_->Maintain();
  clock_.Advance(std::chrono::seconds(100));
  seconds_ = 50;
  store_->RefreshLifetimes();
  // The disk fails when the first entry is refreshed, and the process ends.
  at_lifetime_ = [this] { faults_.read_only = true; };
  store_->Maintain();
  at_lifetime_ = nullptr;
  store_.reset();
  faults_.read_only = false;
  EXPECT_EQ(RulesOnDisk(), 0u);
  Open();
  EXPECT_EQ(Read({})->entries.size(), 10u) << "the refresh was interrupted";
  store_->Maintain();
  EXPECT_EQ(Read({})->entries.size(), 0u);
  EXPECT_EQ(RulesOnDisk(), 50u);
}

TEST_F(RocksRulesTest, AWriteByOldRulesDuringARefreshCausesAnotherRefresh) {
  Open();
  ASSERT_TRUE(Put("/b", "1"));
  store_->Maintain();
  seconds_ = 50;
  store_->RefreshLifetimes();
  // Its lifetime is computed before the rules change, and it is written after the scan has passed.
  at_lifetime_ = [this] {
    at_lifetime_ = nullptr;
    seconds_ = 1000;
    ASSERT_TRUE(Put("/a", "1"));
    seconds_ = 50;
  };
  store_->Maintain();
  EXPECT_EQ(RulesOnDisk(), 0u);
  Open();
  store_->Maintain();
  EXPECT_EQ(RulesOnDisk(), 50u);
  Open();
  clock_.Advance(std::chrono::seconds(51));
  store_->Maintain();
  EXPECT_EQ(Read({})->entries.size(), 0u);
}

TEST_F(RocksStoreTest, RejectsADirectoryThatAnotherStoreHasOpen) {
  Open();
  const auto second = TryOpen();
  ASSERT_FALSE(second);
  EXPECT_TRUE(second.error().Is(StatusReason::kServiceUnavailable));
  EXPECT_EQ(second.error().message(),
            "the data directory " + rocks_.db.directory.string() + " is in use by another process");
}

TEST_F(RocksStoreTest, RejectsADirectoryWithOtherFiles) {
  std::filesystem::create_directories(rocks_.db.directory);
  std::ofstream(rocks_.db.directory / "thesis.txt") << "chapter 1";
  const auto store = TryOpen();
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().message(), "the directory " + rocks_.db.directory.string() +
                                         " is not empty and contains no store");
  EXPECT_FALSE(std::filesystem::exists(rocks_.db.directory / "CURRENT"));
}

TEST_F(RocksStoreTest, RejectsARocksDbDatabaseThatIsNotHeralds) {
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, rocks_.db.directory.string(), &db).ok());
  ASSERT_TRUE(db->Put({}, "someone's", "data").ok());
  delete db;
  const auto store = TryOpen();
  ASSERT_FALSE(store);
  EXPECT_TRUE(store.error().Is(StatusReason::kInvalid)) << store.error().ToString();
}

TEST_F(RocksStoreTest, RejectsALaterFormatAndNamesIt) {
  Open();
  store_.reset();
  {
    auto db = RocksDb::Open(rocks_.db);
    ASSERT_TRUE(db);
    ASSERT_TRUE((*db)->db().Put({}, (*db)->meta(), ToSlice(kFormatKey), EncodeFormat(3)).ok());
  }
  const auto store = TryOpen();
  ASSERT_FALSE(store);
  EXPECT_TRUE(store.error().Is(StatusReason::kInvalid));
  EXPECT_NE(store.error().message().find("has format 3, and this program reads format 2"),
            std::string::npos)
      << store.error().message();
}

TEST_F(RocksStoreTest, ReportsADirectoryThatCannotBeCreated) {
  std::ofstream(directory_.path() / "file") << "";
  rocks_.db.directory = directory_.path() / "file" / "store";
  const auto store = TryOpen();
  ASSERT_FALSE(store);
  EXPECT_TRUE(store.error().Is(StatusReason::kServiceUnavailable)) << store.error().ToString();
}

// ---- the size limit ----

// Clients write as fast as they can, far more than fits.
TEST_F(RocksStoreTest, KeepsTheWholeDirectoryWithinItsSizeLimit) {
  options_.background = true;
  options_.max_bytes = DiskBudget::kSmallestCap;
  std::atomic<std::uint64_t> peak = 0;
  const auto look = [&] {
    const std::uint64_t used = DirectoryBytes(rocks_.db.directory);
    for (std::uint64_t seen = peak; seen < used && !peak.compare_exchange_weak(seen, used);) {
    }
  };
  rocks_.at_step = [&look](std::string_view) { look(); };
  Open();

  Random random(11);
  std::string noise;
  while (noise.size() < 1u << 20) noise += static_cast<char>(random.Next());
  constexpr int kBatch = 256;
  constexpr std::size_t kValue = 4'000;
  std::uint64_t rejected = 0;
  std::uint64_t written = 0;
  while (written < 2 * options_.max_bytes) {
    struct Outcome {
      std::atomic<int> left = kBatch;
      std::atomic<int> committed = 0;
      std::promise<void> all;
    } outcome;
    for (int i = 0; i < kBatch; ++i) {
      const std::size_t at = random.Next() % (noise.size() - kValue);
      store_->Commit({"/" + std::to_string(random.Next() % 1'000'000),
                      std::make_shared<const std::string>(noise.substr(at, kValue))},
                     [&outcome](const Result<Written>& w) {
                       if (w) {
                         ++outcome.committed;
                       } else {
                         EXPECT_TRUE(w.error().Is(StatusReason::kTooManyRequests))
                             << w.error().ToString();
                         EXPECT_GT(w.error().retry_after(), std::chrono::seconds(0));
                       }
                       if (--outcome.left == 0) outcome.all.set_value();
                     });
    }
    outcome.all.get_future().wait();
    written += static_cast<std::uint64_t>(outcome.committed) * kValue;
    if (outcome.committed < kBatch) {
      ++rejected;
      store_->Maintain();  // waits for the one that evicts already
    }
    look();
  }
  EXPECT_LE(peak, options_.max_bytes);
  EXPECT_TRUE(store_->Health().ok());
  const StoreStats stats = store_->Stats();
  EXPECT_GT(stats.evicted, 0u);
  EXPECT_GT(stats.entries * kValue, options_.max_bytes / 3)
      << "much of the directory is used for entries";
  RecordProperty("peak_bytes", std::to_string(peak));
  RecordProperty("batches_rejected", std::to_string(rejected));
  store_.reset();  // may call at_step until it is destroyed
  rocks_.at_step = nullptr;
}

TEST_F(RocksStoreTest, AcceptsDeletionsWhileTheDirectoryIsFull) {
  options_.max_bytes = 2'000'000;
  Open();
  Random random(11);
  const auto noise = [&random] {
    std::string bytes;
    while (bytes.size() < 50'000) bytes += static_cast<char>(random.Next());
    return bytes;
  };
  int i = 0;
  for (; i < 1'000; ++i) {
    const auto written = Put("/" + std::to_string(i), noise());
    if (written) continue;
    EXPECT_TRUE(written.error().Is(StatusReason::kTooManyRequests)) << written.error().ToString();
    break;
  }
  ASSERT_GT(i, 0);
  ASSERT_LT(i, 1'000);
  std::promise<bool> deleted;
  store_->Commit({"/0", nullptr}, [&deleted](const Result<Written>& written) {
    deleted.set_value(written && written->committed);
  });
  EXPECT_TRUE(deleted.get_future().get());
  EXPECT_TRUE(store_->Health().ok()) << "the store works";
  store_->Maintain();
  EXPECT_TRUE(Put("/more", noise()));
}

// ---- disks that fail ----

class RocksStoreFaultTest : public RocksStoreTest, public testing::WithParamInterface<bool> {
 protected:
  RocksStoreFaultTest() { rocks_.db.env = env_.get(); }
  std::atomic<bool>& fault() { return GetParam() ? faults_.disk_full : faults_.read_only; }
};

INSTANTIATE_TEST_SUITE_P(Disk, RocksStoreFaultTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& param) {
                           return std::string(param.param ? "Full" : "ReadOnly");
                         });

TEST_P(RocksStoreFaultTest, RejectsWritesAndContinuesReadingUntilTheDiskWorksAgain) {
  Open();
  auto watch = std::make_unique<SuiteWatch>(*store_, "/", 0);
  ASSERT_TRUE(Put("/before", "1"));
  EXPECT_TRUE(store_->Health().ok());

  fault() = true;
  const auto rejected = Put("/during", "2");
  ASSERT_FALSE(rejected);
  EXPECT_TRUE(rejected.error().Is(StatusReason::kServiceUnavailable))
      << rejected.error().ToString();
  EXPECT_FALSE(store_->Health().ok());
  EXPECT_FALSE(Put("/during", "2")) << "the next one is rejected, too";

  EXPECT_TRUE(Get("/before")->has_value());
  EXPECT_EQ(Read({})->entries.size(), 1u);
  EXPECT_FALSE(Get("/during")->has_value());

  store_->Maintain();
  EXPECT_FALSE(store_->Health().ok()) << "the disk still fails";

  fault() = false;
  store_->Maintain();
  EXPECT_TRUE(store_->Health().ok()) << store_->Health().ToString();
  const auto after = Put("/after", "3");
  ASSERT_TRUE(after) << after.error().ToString();
  EXPECT_EQ(after->revision, 2) << "a rejected write leaves no gap";
  const auto changes = watch->Take(2);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[1]->key(), "/after");
  watch.reset();

  // Writes that were acknowledged after the failure are not after an incomplete record of the log.
  Open();
  EXPECT_TRUE(Get("/before")->has_value());
  EXPECT_TRUE(Get("/after")->has_value());
  EXPECT_FALSE(Get("/during")->has_value());
}

TEST_P(RocksStoreFaultTest, KeepsAllAcknowledgedWritesThroughManyFailures) {
  Open();
  std::vector<std::pair<std::string, Revision>> acknowledged;
  for (int round = 0; round < 8; ++round) {
    for (int i = 0; i < 20; ++i) {
      const std::string key = "/" + std::to_string(round) + "/" + std::to_string(i);
      if (i == 10 + round) fault() = true;
      const auto written = Put(key, std::string(500, 'x'));
      EXPECT_EQ(written.has_value(), !fault());
      if (written) acknowledged.emplace_back(key, written->revision);
    }
    fault() = false;
    store_->Maintain();
    ASSERT_TRUE(store_->Health().ok()) << store_->Health().ToString();
    if (round % 3 == 2) Open();
    Revision expected = 0;
    for (const auto& [key, revision] : acknowledged) {
      EXPECT_EQ(revision, ++expected);
      const auto entry = Get(key);
      ASSERT_TRUE(entry);
      ASSERT_TRUE(entry->has_value()) << key;
      EXPECT_EQ((*entry)->revision, revision);
    }
  }
}

// Lets one thread of a test wait for another.
class Event {
 public:
  void Set() { promise_.set_value(); }
  void Wait() { future_.wait(); }

 private:
  std::promise<void> promise_;
  std::future<void> future_ = promise_.get_future();
};

// A write that was queued before an outage is executed when the database is open again, but before
// Health() reports it.
TEST_F(RocksStoreTest, FailsAWriteThatIsRejectedWhileTheStoreRecovers) {
  Event reopened;
  Event rejected;
  Event recovered;
  std::promise<Result<Written>> second;
  std::thread maintenance;
  bool fail = false;  // used by the committer's thread only
  rocks_.db.env = env_.get();
  rocks_.log = [&](const LogEntry& entry) {
    if (entry.message == "the store can write again") recovered.Set();
  };
  rocks_.at_step = [&](std::string_view step) {
    if (step == "before write" && std::exchange(fail, false)) {
      store_->Commit({"/second", std::make_shared<const std::string>("2")},
                     [&](Result<Written> written) { second.set_value(std::move(written)); });
      faults_.read_only = true;
    } else if (step == "reopened") {
      reopened.Set();
      rejected.Wait();
    } else if (step == "rejected") {
      rejected.Set();
      recovered.Wait();
    }
  };
  Open();
  std::promise<void> started;
  fail = true;
  store_->Commit({"/first", std::make_shared<const std::string>("1")},
                 [&](const Result<Written>& written) {
                   EXPECT_FALSE(written);
                   faults_.read_only = false;
                   maintenance = std::thread([&] { store_->Maintain(); });
                   reopened.Wait();
                   started.set_value();
                 });
  started.get_future().wait();
  const auto written = second.get_future().get();
  maintenance.join();
  EXPECT_TRUE(store_->Health().ok());
  const bool there = Get("/second")->has_value();
  EXPECT_EQ(written.has_value(), there) << "an acknowledged write is lost";
  EXPECT_FALSE(written);
}

// The database fails in the background when a batch is written but not yet published.
TEST_F(RocksStoreTest, ReopensOnlyAfterAWrittenBatchIsPublished) {
  std::promise<void> unhealthy;
  std::promise<void> reopening;  // or waits to reopen
  std::atomic<bool> reached = false;
  std::thread maintenance;
  bool fail = false;  // used by the committer's thread only
  rocks_.db.env = env_.get();
  rocks_.log = [&](const LogEntry& entry) {
    if (entry.message == "the store cannot write") unhealthy.set_value();
  };
  rocks_.at_step = [&](std::string_view step) {
    if (step == "committed" && std::exchange(fail, false)) {
      faults_.read_only = true;
      EXPECT_FALSE(store_->Backup(directory_.path() / "backup").ok()) << "a backup flushes";
      unhealthy.get_future().wait();
      faults_.read_only = false;
      maintenance = std::thread([&] { store_->Maintain(); });
      reopening.get_future().wait();
    } else if (step == "waiting to reopen" || step == "reopened") {
      if (!reached.exchange(true)) reopening.set_value();
    }
  };
  Open();
  auto watch = std::make_unique<SuiteWatch>(*store_, "/", 0);
  ASSERT_TRUE(Put("/before", "1"));
  fail = true;
  const auto written = Put("/during", "2");
  ASSERT_TRUE(written) << written.error().ToString();
  maintenance.join();
  ASSERT_TRUE(store_->Health().ok()) << store_->Health().ToString();
  const auto after = Put("/after", "3");
  ASSERT_TRUE(after) << after.error().ToString();
  EXPECT_EQ(after->revision, 3);
  std::string seen;
  for (const auto& change : watch->Take(3)) seen += change->key() + " ";
  EXPECT_EQ(seen, "/before /during /after ") << "each once";
  watch.reset();
  EXPECT_TRUE(Get("/during")->has_value());
}

TEST_F(RocksStoreTest, FailsToOpenOnAFullDiskAndWorksLater) {
  rocks_.db.env = env_.get();
  faults_.disk_full = true;
  const auto store = TryOpen();
  ASSERT_FALSE(store);
  EXPECT_TRUE(store.error().Is(StatusReason::kServiceUnavailable)) << store.error().ToString();
  faults_.disk_full = false;
  Open();
  EXPECT_TRUE(Put("/a", "1"));
}

// ---- damage ----

// Changes one byte in the middle of each file with that ending. Returns the names of the files.
std::vector<std::string> Damage(const std::filesystem::path& directory, const std::string& ending,
                                const std::string& inside) {
  std::vector<std::string> damaged;
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    if (!file.path().string().ends_with(ending)) continue;
    std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(bytes), {}};
    const std::size_t at = all.find(inside);
    if (at == std::string::npos) continue;
    bytes.seekp(static_cast<std::streamoff>(at));
    bytes.put(static_cast<char>(all[at] ^ 1));
    damaged.push_back(file.path().filename().string());
  }
  return damaged;
}

// A value that cannot be compressed, so that it is in the file as it is.
std::string Noise() {
  Random random(99);
  std::string bytes;
  while (bytes.size() < 4'000) bytes += static_cast<char>(random.Next());
  return bytes;
}

TEST_F(RocksStoreTest, NeverReturnsDataOfADamagedFile) {
  Open();
  ASSERT_TRUE(Put("/damaged", Noise()));
  Open();  // the entry is in a table file now
  store_.reset();
  const auto files = Damage(rocks_.db.directory, ".sst", Noise().substr(1'000, 40));
  ASSERT_EQ(files.size(), 1u);
  Open();
  const auto entry = Get("/damaged");
  ASSERT_FALSE(entry);
  EXPECT_TRUE(entry.error().Is(StatusReason::kCorruption)) << entry.error().ToString();
  EXPECT_NE(entry.error().message().find(files[0]), std::string::npos)
      << "names the file: " << entry.error().message();
  const auto page = Read({});
  ASSERT_FALSE(page);
  EXPECT_TRUE(page.error().Is(StatusReason::kCorruption)) << page.error().ToString();
}

TEST_F(RocksStoreTest, DoesNotOpenALogThatIsDamagedInTheMiddle) {
  {
    // A process that is killed leaves its write-ahead log.
    Open();
    ASSERT_TRUE(Put("/a", "first"));
    ASSERT_TRUE(Put("/b", Noise()));
    ASSERT_TRUE(Put("/c", "last"));
    std::filesystem::copy(rocks_.db.directory, directory_.path() / "killed");
    store_.reset();
  }
  rocks_.db.directory = directory_.path() / "killed";
  const auto files = Damage(rocks_.db.directory, ".log", Noise().substr(1'000, 40));
  ASSERT_EQ(files.size(), 1u);
  const auto store = TryOpen();
  ASSERT_FALSE(store) << "acknowledged writes would be silently missing";
  EXPECT_TRUE(store.error().Is(StatusReason::kCorruption)) << store.error().ToString();
  EXPECT_NE(store.error().message().find(files[0]), std::string::npos)
      << "names the file: " << store.error().message();
}

TEST_F(RocksStoreTest, OpensALogWithAnIncompleteLastRecord) {
  Open();
  ASSERT_TRUE(Put("/a", "first"));
  ASSERT_TRUE(Put("/b", Noise()));
  std::filesystem::copy(rocks_.db.directory, directory_.path() / "killed");
  store_.reset();
  rocks_.db.directory = directory_.path() / "killed";
  std::filesystem::path log;
  for (const auto& file : std::filesystem::directory_iterator(rocks_.db.directory)) {
    if (file.path().extension() == ".log") log = file.path();
  }
  std::filesystem::resize_file(log, std::filesystem::file_size(log) - 100);
  Open();
  EXPECT_TRUE(Get("/a")->has_value());
  EXPECT_FALSE(Get("/b")->has_value()) << "its write was never acknowledged";
}

TEST_F(RocksStoreTest, DetectsARowThatIsStoredUnderAnotherKey) {
  Open();
  ASSERT_TRUE(Put("/a", "of a"));
  ASSERT_TRUE(Put("/b", "of b"));
  store_.reset();
  {
    auto db = RocksDb::Open(rocks_.db);
    ASSERT_TRUE(db);
    std::string row;
    ASSERT_TRUE((*db)->db().Get({}, (*db)->versions(), VersionKey("/a", 1), &row).ok());
    ASSERT_TRUE((*db)->db().Put({}, (*db)->versions(), VersionKey("/b", 2), row).ok());
  }
  Open();
  EXPECT_TRUE(Get("/a"));
  const auto entry = Get("/b");
  ASSERT_FALSE(entry);
  EXPECT_TRUE(entry.error().Is(StatusReason::kCorruption));
  EXPECT_NE(entry.error().message().find("\"/b\""), std::string::npos) << entry.error().message();
}

// ---- the mark of the latest acknowledged revision ----

class RocksMarkTest : public RocksStoreTest {
 protected:
  RocksMarkTest() { rocks_.db.env = env_.get(); }
  Revision Mark() {
    const auto mark = ReadRevisionMark(env_.get(), rocks_.db.directory);
    EXPECT_TRUE(mark) << mark.error().ToString();
    return mark ? mark->value_or(0) : 0;
  }
};

TEST_F(RocksMarkTest, MaintenanceMarksTheLatestAcknowledgedRevision) {
  Open();
  ASSERT_TRUE(Put("/a", "1"));
  EXPECT_EQ(Mark(), 0);
  store_->Maintain();
  EXPECT_EQ(Mark(), 1);
  ASSERT_TRUE(Put("/a", "2"));
  store_.reset();
  EXPECT_EQ(Mark(), 2) << "closing the store marks the latest revision";
}

TEST_F(RocksMarkTest, TheCommitterMarksWhenANewLogBegins) {
  rocks_.db.budget.write_buffer_bytes = 1u << 20;
  Open();
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(Put("/" + std::to_string(i), std::string(100'000, 'x')));
  ASSERT_TRUE(Put("/last", "x"));
  EXPECT_GT(Mark(), 0) << "marked without maintenance";
}

TEST_F(RocksMarkTest, TheCommitterMarksWhileMaintenanceIsBusy) {
  Open();
  ASSERT_TRUE(Put("/a", "1"));
  clock_.Advance(std::chrono::seconds(5));
  ASSERT_TRUE(Put("/b", "2"));
  // The mark is written after the completion of its write, and before the next write.
  ASSERT_TRUE(Put("/c", "3"));
  EXPECT_EQ(Mark(), 2);
}

TEST_F(RocksMarkTest, AMarkThatCannotBeWrittenIsLoggedOnceAndWrittenLater) {
  std::vector<std::string> log;
  rocks_.log = [&log](const LogEntry& entry) { log.emplace_back(entry.message); };
  Open();
  store_->Maintain();  // so that the mark is the only thing to write below
  ASSERT_TRUE(Put("/a", "1"));
  faults_.read_only = true;
  for (int i = 0; i < 3; ++i) store_->Maintain();
  faults_.read_only = false;
  EXPECT_EQ(log, std::vector<std::string>{"cannot mark the latest acknowledged revision"});
  EXPECT_TRUE(store_->Health().ok()) << store_->Health().ToString();
  store_->Maintain();
  EXPECT_EQ(Mark(), 1);
}

TEST_F(RocksMarkTest, MarksTheRecoveredRevisionAfterAFailure) {
  Open();
  ASSERT_TRUE(Put("/a", "1"));
  faults_.disk_full = true;
  EXPECT_FALSE(Put("/b", "2"));
  store_->Maintain();
  EXPECT_EQ(Mark(), 0);
  faults_.disk_full = false;
  store_->Maintain();
  ASSERT_TRUE(store_->Health().ok());
  EXPECT_EQ(Mark(), 1) << "a write that was not acknowledged is not marked";
}

// ---- slices ----

// Writes many entries in few batches.
class RocksReadTest : public RocksStoreTest {
 protected:
  void Fill(int count) {
    std::latch written(count);
    for (int i = 0; i < count; ++i) {
      store_->Commit({.key = "/k" + std::to_string(10'000 + i),
                      .value = std::make_shared<const std::string>("v"),
                      .expected = 0},
                     [&written](const Result<Written>& result) {
                       EXPECT_TRUE(result && result->committed);
                       written.count_down();
                     });
    }
    written.wait();
  }
};

TEST_F(RocksReadTest, AShortReadDoesNotWaitForALongOneOfAnotherFlow) {
  rocks_.read_threads = 1;
  Open();
  Fill(3'000);
  std::string order;
  std::latch both(2);
  std::atomic<bool> asked = false;
  Query other;
  other.flow = 2;
  other.limit = 1;
  other.background = true;  // so that it does not run on the calling thread
  Query all;
  all.flow = 1;
  all.background = true;
  all.filter = [&](const Entry&) {
    if (!asked.exchange(true)) {
      store_->Read(other, [&](const Result<Page>& page) {
        EXPECT_EQ(page->entries.size(), 1u);
        order += "short ";
        both.count_down();
      });
    }
    return true;
  };
  store_->Read(all, [&](const Result<Page>& page) {
    EXPECT_EQ(page->entries.size(), 3'000u);
    order += "long ";
    both.count_down();
  });
  both.wait();
  EXPECT_EQ(order, "short long ");
}

TEST_F(RocksReadTest, ReadsLargeValuesOnThePool) {
  options_.schema.index = [](std::string_view, std::string_view) {
    return std::vector<IndexEntry>{{1, "all"}};
  };
  Open();
  ASSERT_TRUE(Put("/a", "small"));
  Query listed;
  Query filtered;
  filtered.filter = [](const Entry&) { return true; };
  Query indexed;
  indexed.by = Query::By{.index = 1, .from = "all", .to = std::string("all\0", 4)};
  for (const bool is_large : {false, true}) {
    if (is_large) {
      ASSERT_TRUE(Put("/b", std::string(1'000'000, 'x')));
    }
    for (const Query& query : {listed, filtered, indexed}) {
      std::promise<std::thread::id> thread;
      store_->Read(query, [&](const Result<Page>& page) {
        EXPECT_TRUE(page) << page.error().ToString();
        EXPECT_EQ(page ? page->entries.size() : 0, is_large ? 2u : 1u);
        thread.set_value(std::this_thread::get_id());
      });
      EXPECT_EQ(thread.get_future().get() == std::this_thread::get_id(), !is_large);
    }
  }
}

TEST_F(RocksReadTest, ALongReadReturnsOneRevision) {
  rocks_.read_threads = 1;
  Open();
  Fill(3'000);
  std::atomic<int> seen = 0;
  Query all;
  all.filter = [&](const Entry&) {
    if (++seen == 1'000) {
      // Writes between two slices or within one must not be seen.
      std::latch written(2);
      for (const char* key : {"/k12999", "/k12000a"}) {
        store_->Commit({.key = key, .value = std::make_shared<const std::string>("new")},
                       [&](const Result<Written>&) { written.count_down(); });
      }
      written.wait();
    }
    return true;
  };
  const auto page = Read(all);
  ASSERT_TRUE(page);
  ASSERT_EQ(page->entries.size(), 3'000u);
  for (const Entry& entry : page->entries) ASSERT_EQ(*entry.value, "v") << entry.key;
}

TEST_F(RocksReadTest, StopsBetweenSlicesWhenItIsCancelled) {
  Open();
  Fill(3'000);
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  std::atomic<int> seen = 0;
  Query all;
  all.cancelled = cancelled;
  all.filter = [&](const Entry&) {
    ++seen;
    cancelled->store(true);
    return true;
  };
  const auto page = Read(all);
  ASSERT_FALSE(page);
  EXPECT_TRUE(page.error().Is(StatusReason::kCancelled)) << page.error().ToString();
  EXPECT_LT(seen, 3'000);
}

TEST_F(RocksReadTest, StopsCountingRemainingEntriesAtTheLimit) {
  Open();
  Fill(static_cast<int>(Query::kMaxCounted) + 11);
  for (const Revision at : {Revision{0}, store_->Stats().revision}) {
    Query query{.at = at, .limit = 11, .count_remaining = true};
    const auto exact = Read(query);
    ASSERT_TRUE(exact);
    EXPECT_EQ(exact->remaining, Query::kMaxCounted);
    query.limit = 10;
    const auto many = Read(query);
    ASSERT_TRUE(many);
    EXPECT_EQ(many->entries.size(), 10u);
    EXPECT_TRUE(many->more);
    EXPECT_EQ(many->remaining, Page::kManyRemain);
  }
}

// ---- threads ----

TEST_F(RocksStoreTest, CompletesLongAndShortReadsWhileItWritesAndCompacts) {
  options_.watch_window = std::chrono::seconds(0);
  options_.schema.index = [](std::string_view, std::string_view value) {
    return std::vector<IndexEntry>{{1, std::string(value)}};
  };
  Open();
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(Put("/fixed/" + std::to_string(i), "same"));
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) ASSERT_TRUE(Put("/moving/" + std::to_string(i % 10), "other"));
  });
  std::thread compactor([&] {
    while (!stop) {
      clock_.Advance(std::chrono::milliseconds(1));
      store_->Maintain();
    }
  });
  for (int i = 0; i < 100; ++i) {
    Query by;
    by.by.emplace();
    by.by->index = 1;
    by.by->from = "same";
    by.by->to = "samf";
    const auto found = Read(std::move(by));
    ASSERT_TRUE(found) << found.error().ToString();
    EXPECT_EQ(found->entries.size(), 500u);
    Query range;
    range.start = "/fixed/";
    range.end = "/fixed0";
    const auto page = Read(std::move(range));
    ASSERT_TRUE(page) << page.error().ToString();
    EXPECT_EQ(page->entries.size(), 500u);
    const auto entry = Get("/fixed/" + std::to_string(i));
    ASSERT_TRUE(entry) << entry.error().ToString();
    EXPECT_TRUE(entry->has_value());
  }
  stop = true;
  writer.join();
  compactor.join();
}

}  // namespace
}  // namespace herald::store
