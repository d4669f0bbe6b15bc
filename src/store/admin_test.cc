#include "store/admin.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/temporary_directory.h"
#include "store/rocks_db.h"
#include "store/rocks_store.h"

namespace herald::store {
namespace {

class AdminTest : public testing::Test {
 protected:
  AdminTest() {
    options_.clock = &clock_;
    options_.background = false;
    options_.history = std::chrono::seconds(100);
    options_.schema.index = [](std::string_view, std::string_view value) {
      return std::vector<IndexEntry>{{1, std::string(value.substr(0, 4))}, {2, "all"}};
    };
    options_.schema.lifetime = [](std::string_view key, std::string_view) {
      return key.starts_with("/short") ? std::chrono::seconds(10) : std::chrono::hours(1);
    };
  }

  std::unique_ptr<RocksStore> Open(const std::filesystem::path& directory) {
    RocksStoreOptions rocks;
    rocks.db.directory = directory;
    auto store = RocksStore::Open(options_, rocks);
    EXPECT_TRUE(store) << store.error().ToString();
    return store ? std::move(*store) : nullptr;
  }
  static void Put(Store& store, const std::string& key, const std::string& value) {
    Commit(store, {key, std::make_shared<const std::string>(value)});
  }
  static void Commit(Store& store, Write write) {
    std::promise<bool> done;
    store.Commit(std::move(write),
                 [&done](const Result<Written>& w) { done.set_value(w && w->committed); });
    EXPECT_TRUE(done.get_future().get());
  }
  static std::vector<std::string> Keys(Store& store) {
    std::promise<std::vector<std::string>> done;
    store.Read({}, [&done](const Result<Page>& page) {
      std::vector<std::string> keys;
      if (page) {
        for (const Entry& entry : page->entries) keys.push_back(entry.key);
      }
      done.set_value(keys);
    });
    return done.get_future().get();
  }
  // A store with some of everything: history, deletions, expiries, compaction.
  void Fill(Store& store) {
    for (int i = 0; i < 50; ++i) Put(store, "/a/" + std::to_string(i), std::to_string(i % 7));
    for (int i = 0; i < 20; ++i) Put(store, "/short/" + std::to_string(i), "v");
    for (int i = 0; i < 50; i += 2) Put(store, "/a/" + std::to_string(i), "again");
    for (int i = 0; i < 50; i += 5) Commit(store, {"/a/" + std::to_string(i), nullptr});
    clock_.Advance(std::chrono::seconds(60));
    store.Maintain();
    for (int i = 0; i < 10; ++i) Put(store, "/b/" + std::to_string(i), "v");
    clock_.Advance(std::chrono::seconds(60));
    store.Maintain();
    for (int i = 0; i < 50; i += 5) Put(store, "/a/" + std::to_string(i), "back");
  }
  CheckReport Check(const std::filesystem::path& directory) {
    auto report = CheckStore(directory, options_.schema);
    EXPECT_TRUE(report) << report.error().ToString();
    return report ? *report : CheckReport();
  }
  static std::string FaultsOf(const CheckReport& report) {
    std::string all;
    for (const std::string& fault : report.faults) all += fault + "\n";
    return all;
  }

  TemporaryDirectory directory_;
  const std::filesystem::path store_ = directory_.path() / "store";
  FakeClock clock_{WallTime(std::chrono::hours(500'000))};
  StoreOptions options_;
};

TEST_F(AdminTest, FindsAWholeStoreWhole) {
  {
    const auto store = Open(store_);
    EXPECT_TRUE(store);
    Fill(*store);
  }
  const CheckReport report = Check(store_);
  EXPECT_TRUE(report.ok()) << FaultsOf(report);
  EXPECT_EQ(report.entries, 60u);
  EXPECT_GT(report.versions, report.entries) << "history counts, too";
  EXPECT_LT(report.index_rows, 2 * report.versions) << "what did not change stands there once";
  EXPECT_GT(report.files, 0u);
}

TEST_F(AdminTest, BacksUpAnOpenStoreAtOneMoment) {
  const auto store = Open(store_);
  Fill(*store);
  const auto before = Keys(*store);
  ASSERT_TRUE(store->Backup(directory_.path() / "backup").ok());
  Put(*store, "/later", "v");
  EXPECT_FALSE(store->Backup(directory_.path() / "backup").ok()) << "never over another one";

  const CheckReport report = Check(directory_.path() / "backup");
  EXPECT_TRUE(report.ok()) << FaultsOf(report);
  ASSERT_TRUE(RestoreStore(directory_.path() / "backup", directory_.path() / "restored").ok());
  const auto restored = Open(directory_.path() / "restored");
  EXPECT_EQ(Keys(*restored), before);
  Put(*restored, "/works", "v");
}

TEST_F(AdminTest, BacksUpAClosedStoreAndRestoresItIntoAnEmptyDirectoryOnly) {
  std::vector<std::string> before;
  {
    const auto store = Open(store_);
    Fill(*store);
    before = Keys(*store);
    const Status in_use = BackupStore(store_, directory_.path() / "backup");
    EXPECT_TRUE(in_use.Is(StatusReason::kServiceUnavailable)) << in_use.ToString();
    EXPECT_FALSE(CheckStore(store_, options_.schema)) << "someone is writing to it";
  }
  ASSERT_TRUE(BackupStore(store_, directory_.path() / "backup").ok());
  const Status onto = RestoreStore(directory_.path() / "backup", store_);
  EXPECT_TRUE(onto.Is(StatusReason::kInvalid)) << onto.ToString();

  std::filesystem::create_directory(directory_.path() / "empty");
  ASSERT_TRUE(RestoreStore(directory_.path() / "backup", directory_.path() / "empty").ok());
  const auto restored = Open(directory_.path() / "empty");
  EXPECT_EQ(Keys(*restored), before);
}

TEST_F(AdminTest, SaysThatThereIsNoStore) {
  EXPECT_TRUE(CheckStore(directory_.path(), {}).error().Is(StatusReason::kNotFound));
  EXPECT_TRUE(BackupStore(directory_.path() / "none", directory_.path() / "backup")
                  .Is(StatusReason::kNotFound));
  EXPECT_TRUE(RestoreStore(directory_.path() / "none", directory_.path() / "restored")
                  .Is(StatusReason::kNotFound));
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "restored"));
}

TEST_F(AdminTest, NamesTheDamagedFileAndDoesNotRestoreIt) {
  Random random(5);
  std::string noise;
  while (noise.size() < 4'000) noise += static_cast<char>(random.Next());
  {
    const auto store = Open(store_);
    Fill(*store);
    Put(*store, "/noise", noise);
  }
  ASSERT_TRUE(BackupStore(store_, directory_.path() / "backup").ok());
  std::string damaged;
  for (const auto& file : std::filesystem::directory_iterator(directory_.path() / "backup")) {
    std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(bytes), {}};
    const std::size_t at = all.find(noise.substr(500, 30));
    if (file.path().extension() != ".sst" || at == std::string::npos) continue;
    bytes.seekp(static_cast<std::streamoff>(at));
    bytes.put(static_cast<char>(all[at] ^ 1));
    damaged = file.path().filename().string();
  }
  ASSERT_FALSE(damaged.empty());
  const CheckReport report = Check(directory_.path() / "backup");
  EXPECT_FALSE(report.ok());
  EXPECT_NE(FaultsOf(report).find(damaged), std::string::npos) << FaultsOf(report);
  const Status restored =
      RestoreStore(directory_.path() / "backup", directory_.path() / "restored");
  EXPECT_TRUE(restored.Is(StatusReason::kCorruption)) << restored.ToString();
  EXPECT_NE(restored.message().find(damaged), std::string::npos) << restored.message();
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "restored"));
}

// Each way in which rows can contradict one another is found and named.
TEST_F(AdminTest, FindsRowsThatContradictOneAnother) {
  struct Scenario {
    const char* name;
    std::function<void(const RocksDb&, rocksdb::WriteBatch&)> damage;
    const char* says;
  };
  // The store below: /a at 2 (1 replaced), /b at 3, /c deleted at 5 (4 replaced).
  const std::vector<Scenario> scenarios = {
      {"a version is missing",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         batch.Delete(db.versions(), VersionKey("/b", 3));
       },
       "version 3 of \"/b\", which the log knows, is missing"},
      {"a version was changed",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         batch.Put(db.versions(), VersionKey("/b", 3),
                   EncodeVersion(VersionKey("/a", 3), {false, WallTime(), WallTime::max(), "b"}));
       },
       "version 3 of \"/b\" is damaged"},
      {"a replaced version is missing",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         batch.Delete(db.versions(), VersionKey("/a", 1));
       },
       "version 1 of \"/a\", which revision 2 replaced, is missing"},
      {"a head is missing",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) { batch.Delete(db.heads(), "/b"); },
       "version 3 of \"/b\" is the newest, but there is no head"},
      {"a head says a later write",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         batch.Put(db.heads(), "/a", EncodeHead(2));
       },
       "the head of \"/a\" says 2, which did not create it"},
      {"a head says a write of another key",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         batch.Put(db.heads(), "/b", EncodeHead(1));
       },
       "the head of \"/b\" says 1, which did not create it"},
      {"a deleted key has a head",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         batch.Put(db.heads(), "/c", EncodeHead(4));
       },
       "version 5 of \"/c\" is a deletion, yet it has a head"},
      {"a row of the log is missing",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) { batch.Delete(db.log(), LogKey(3)); },
       "the log has no revision 3"},
      {"the end of the log is missing",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) { batch.Delete(db.log(), LogKey(5)); },
       "the log ends at revision 4, and the latest is 5"},
      {"a row of the log was changed",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         batch.Put(db.log(), LogKey(3), EncodeLog(LogKey(4), {false, WallTime(), 0, "/b"}));
       },
       "the row 3 of the log is damaged"},
      {"an index row is missing",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         batch.Delete(db.index(), IndexKey(2, "all", "/b", 3));
       },
       "version 3 of \"/b\" is not in index 2"},
      {"an index row is left over",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         batch.Put(db.index(), IndexKey(2, "all", "/x", 9), "");
       },
       "index 2 has \"all\" for \"/x\" since revision 9, and no such version exists"},
      {"an index row says something else",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         batch.Put(db.index(), IndexKey(1, "else", "/b", 3), "");
       },
       "the index has 8 rows, and the versions ask for 7"},
      {"an entry has no time to go",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         const std::unique_ptr<rocksdb::Iterator> rows(db.db().NewIterator({}, db.expiry()));
         for (rows->SeekToFirst(); rows->Valid(); rows->Next()) {
           batch.Delete(db.expiry(), rows->key());
         }
       },
       "version 3 of \"/b\" will never expire"},
      {"the counters are wrong",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         State state = db.state();
         ++state.entries;
         batch.Put(db.meta(), ToSlice(kStateKey), EncodeState(state));
       },
       "the store counts 3 entries and has 2"},
      {"history was not compacted",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         State state = db.state();
         state.compacted = 2;
         batch.Put(db.meta(), ToSlice(kStateKey), EncodeState(state));
       },
       "version 1 of \"/a\" should have been compacted"},
  };
  for (const Scenario& scenario : scenarios) {
    SCOPED_TRACE(scenario.name);
    std::filesystem::remove_all(store_);
    {
      const auto store = Open(store_);
      Put(*store, "/a", "1");
      Put(*store, "/a", "2");
      Put(*store, "/b", "3");
      Put(*store, "/c", "4");
      Commit(*store, {"/c", nullptr});
    }
    EXPECT_TRUE(Check(store_).ok());
    {
      RocksDbOptions options;
      options.directory = store_;
      auto rocks = RocksDb::Open(options);
      ASSERT_TRUE(rocks);
      rocksdb::WriteBatch batch;
      scenario.damage(**rocks, batch);
      ASSERT_TRUE((*rocks)->db().Write({}, &batch).ok());
    }
    const CheckReport report = Check(store_);
    EXPECT_NE(FaultsOf(report).find(scenario.says), std::string::npos) << FaultsOf(report);
  }
}

}  // namespace
}  // namespace herald::store
