#include "store/rocks/admin.h"

#include <gtest/gtest.h>
#include <rocksdb/env.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes/random.h"
#include "base/testing/temporary_directory.h"
#include "store/rocks/backup.h"
#include "store/rocks/database.h"
#include "store/rocks/revision_mark.h"
#include "store/rocks/store.h"
#include "store/testing/faulty_file_system.h"

namespace herald::store {
namespace {

class AdminTest : public testing::Test {
 protected:
  AdminTest() {
    options_.clock = &clock_;
    options_.background = false;
    options_.watch_window = std::chrono::seconds(100);
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
  // A store with old versions, deletions, expired entries and compaction.
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

TEST_F(AdminTest, FindsNoFaultInAnIntactStore) {
  {
    const auto store = Open(store_);
    EXPECT_TRUE(store);
    Fill(*store);
  }
  const CheckReport report = Check(store_);
  EXPECT_TRUE(report.ok()) << FaultsOf(report);
  EXPECT_EQ(report.entries, 60u);
  EXPECT_GT(report.versions, report.entries) << "old versions count, too";
  EXPECT_LT(report.index_rows, 2 * report.versions) << "an unchanged index entry has one row";
  EXPECT_GT(report.files, 0u);
}

TEST_F(AdminTest, BacksUpAnOpenStoreAtOneMoment) {
  const auto store = Open(store_);
  Fill(*store);
  const auto before = Keys(*store);
  ASSERT_TRUE(store->Backup(directory_.path() / "backup").ok());
  Put(*store, "/later", "v");
  EXPECT_FALSE(store->Backup(directory_.path() / "backup").ok())
      << "an existing backup is not overwritten";

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
    EXPECT_FALSE(CheckStore(store_, options_.schema)) << "the store is open";
  }
  ASSERT_TRUE(BackupStore(store_, directory_.path() / "backup").ok());
  const Status onto = RestoreStore(directory_.path() / "backup", store_);
  EXPECT_TRUE(onto.Is(StatusReason::kInvalid)) << onto.ToString();

  std::filesystem::create_directory(directory_.path() / "empty");
  ASSERT_TRUE(RestoreStore(directory_.path() / "backup", directory_.path() / "empty").ok());
  const auto restored = Open(directory_.path() / "empty");
  EXPECT_EQ(Keys(*restored), before);
}

TEST_F(AdminTest, RestoresToAnEmptyDirectoryUnderAnySpellingOfItsPath) {
  std::vector<std::string> before;
  {
    const auto store = Open(store_);
    Fill(*store);
    before = Keys(*store);
  }
  const std::filesystem::path home = directory_.path() / "home";
  std::filesystem::create_directories(home / "real");
  std::filesystem::create_directories(home / "volume" / "lost+found");
  std::filesystem::create_directory_symlink(home / "real", home / "link");
  ASSERT_TRUE(BackupStore(store_, home / "backup").ok());
  // A relative path with one component.
  const std::filesystem::path before_this = std::filesystem::current_path();
  std::filesystem::current_path(home);
  const Status plain = RestoreStore("backup", "plain");
  std::filesystem::current_path(before_this);
  ASSERT_TRUE(plain.ok()) << plain.ToString();
  EXPECT_EQ(Keys(*Open(home / "plain")), before);
  for (const std::filesystem::path& name :
       {home / "new" / "", home / "sub" / ".." / "dots", home / "link", home / "volume" / "."}) {
    const Status restored = RestoreStore(home / "backup" / "", name);
    ASSERT_TRUE(restored.ok()) << name << ": " << restored.ToString();
    EXPECT_EQ(Keys(*Open(name)), before) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(home / "new" / "copying.tmp"));
  std::ofstream(home / "file") << "x";
  EXPECT_TRUE(RestoreStore(home / "backup", home / "file").Is(StatusReason::kInvalid));
}

TEST_F(AdminTest, ACopyThatFailsLeavesNothing) {
  {
    Fill(*Open(store_));
  }
  const std::filesystem::path target = directory_.path() / "copy";
  const auto removed_meanwhile = [] { return false; };
  EXPECT_FALSE(CopyStore(store_, target, removed_meanwhile).ok());
  EXPECT_FALSE(std::filesystem::exists(target));
  std::filesystem::create_directory(target);
  EXPECT_FALSE(CopyStore(store_, target, removed_meanwhile).ok());
  EXPECT_TRUE(std::filesystem::is_empty(target));

  // The rest of an interrupted copy is removed.
  std::filesystem::create_directory(target / "copying.tmp");
  std::ofstream(target / "copying.tmp" / "CURRENT") << "half";
  EXPECT_TRUE(CopyStore(store_, target).ok());
  EXPECT_TRUE(Check(target).ok());
}

TEST_F(AdminTest, ReportsThatThereIsNoStore) {
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

// Each kind of contradiction between rows is found and named.
TEST_F(AdminTest, FindsRowsThatContradictEachOther) {
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
       "version 3 of \"/b\", which is in the log, is missing"},
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
       "version 3 of \"/b\" is the latest, but the key has no head"},
      {"a head names a later write",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         batch.Put(db.heads(), "/a", EncodeHead(2));
       },
       "the head of \"/a\" names revision 2, which did not create it"},
      {"a head names a write of another key",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         batch.Put(db.heads(), "/b", EncodeHead(1));
       },
       "the head of \"/b\" names revision 1, which did not create it"},
      {"a deleted key has a head",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         batch.Put(db.heads(), "/c", EncodeHead(4));
       },
       "version 5 of \"/c\" is a deletion, but the key has a head"},
      {"a row of the log is missing",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) { batch.Delete(db.log(), LogKey(3)); },
       "the log has no revision 3"},
      {"the end of the log is missing",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) { batch.Delete(db.log(), LogKey(5)); },
       "the log ends at revision 4, but the latest is 5"},
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
       "index 2 has \"all\" for \"/x\" since revision 9, but there is no such version"},
      {"an index row has another value",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         batch.Put(db.index(), IndexKey(1, "else", "/b", 3), "");
       },
       "the index has 8 rows, but the versions need 7"},
      {"an entry has no time to go",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         const std::unique_ptr<rocksdb::Iterator> rows(db.db().NewIterator({}, db.expiry()));
         for (rows->SeekToFirst(); rows->Valid(); rows->Next()) {
           batch.Delete(db.expiry(), rows->key());
         }
       },
       "version 3 of \"/b\" has no row in the expiry index and never expires"},
      {"the counters are wrong",
       [](const RocksDb& db, rocksdb::WriteBatch& batch) {
         State state = db.state();
         ++state.entries;
         batch.Put(db.meta(), ToSlice(kStateKey), EncodeState(state));
       },
       "the store counts 3 entries, but has 2"},
      {"old versions were not compacted",
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

// ---- copies and links ----

std::vector<std::filesystem::path> Tables(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> tables;
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    if (file.path().extension() == ".sst") tables.push_back(file.path());
  }
  EXPECT_FALSE(tables.empty());
  return tables;
}

TEST_F(AdminTest, ABackupSharesNoFileWithTheStore) {
  Fill(*Open(store_));
  const std::filesystem::path backup = directory_.path() / "backup";
  ASSERT_TRUE(BackupStore(store_, backup).ok());
  for (const auto& table : Tables(backup)) {
    EXPECT_EQ(std::filesystem::hard_link_count(table), 1u) << table;
  }
  for (const auto& table : Tables(store_)) std::filesystem::resize_file(table, 10);
  const CheckReport report = Check(backup);
  EXPECT_TRUE(report.ok()) << FaultsOf(report);
}

TEST_F(AdminTest, ABackupOfHardLinksSharesOnlyTables) {
  const auto store = Open(store_);
  Fill(*store);
  const auto before = Keys(*store);
  const std::filesystem::path backup = directory_.path() / "backup";
  ASSERT_TRUE(store->Backup(backup, BackupMode::kHardLink).ok());
  for (const auto& file : std::filesystem::directory_iterator(backup)) {
    const bool table = file.path().extension() == ".sst";
    EXPECT_EQ(std::filesystem::hard_link_count(file), table ? 2u : 1u) << file.path();
  }
  Put(*store, "/later", "v");
  const CheckReport report = Check(backup);
  EXPECT_TRUE(report.ok()) << FaultsOf(report);
  EXPECT_EQ(Keys(*Open(backup)), before);
}

TEST_F(AdminTest, ABackupThatFailsLeavesNothingBehind) {
  Fill(*Open(store_));
  Faults faults;
  // Fails one write, so that the backup fails at each of its steps in turn.
  std::atomic<int> writes = 0;
  std::atomic<int> fail_at = 0;
  faults.before_write = [&] { faults.read_only = ++writes == fail_at; };
  const auto env = FaultyFileSystem::MakeEnv(&faults);
  RocksDbOptions options;
  options.directory = store_;
  options.env = env.get();
  const auto rocks = RocksDb::Open(options);
  ASSERT_TRUE(rocks) << rocks.error().ToString();
  const std::filesystem::path backup = directory_.path() / "backup";
  for (int step = 1;; ++step) {
    ASSERT_LT(step, 1'000) << "the backup never succeeds";
    writes = 0;
    fail_at = step;
    const Status status = BackupDatabase(&(*rocks)->db(), backup, BackupMode::kCopy);
    if (status.ok()) break;
    EXPECT_TRUE(status.Is(StatusReason::kServiceUnavailable)) << status.ToString();
    EXPECT_FALSE(std::filesystem::exists(backup));
    EXPECT_FALSE(std::filesystem::exists(directory_.path() / "backup.partial"));
  }
  EXPECT_GT(writes, 10);
  const CheckReport report = Check(backup);
  EXPECT_TRUE(report.ok()) << FaultsOf(report);
}

TEST_F(AdminTest, ABackupCanBeCancelled) {
  const auto store = Open(store_);
  Fill(*store);
  RocksDbOptions options;
  options.directory = directory_.path() / "other";
  const auto rocks = RocksDb::Open(options);
  ASSERT_TRUE(rocks);
  const std::filesystem::path backup = directory_.path() / "backup";
  const Status status =
      BackupDatabase(&(*rocks)->db(), backup, BackupMode::kCopy, [] { return true; });
  EXPECT_TRUE(status.Is(StatusReason::kCancelled)) << status.ToString();
  EXPECT_FALSE(std::filesystem::exists(backup));
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "backup.partial"));
}

// ---- a log that is missing ----

class LostLogTest : public AdminTest {
 protected:
  // A store as a killed process leaves it: all data is in the write-ahead log, and marked. It has
  // the keys /1 to /9 at revisions 1 to 9.
  void MakeKilled() {
    const auto store = Open(store_);
    store->Maintain();  // writes the rules and the clock, so that the last write is the key /9
    for (int i = 1; i <= 9; ++i) Put(*store, "/" + std::to_string(i), "v");
    store->Maintain();
    std::filesystem::copy(store_, killed_);
  }
  std::filesystem::path Log() const {
    std::filesystem::path log;
    for (const auto& file : std::filesystem::directory_iterator(killed_)) {
      if (file.path().extension() == ".log") log = file.path();
    }
    return log;
  }
  Status OpenKilled() {
    RocksStoreOptions rocks;
    rocks.db.directory = killed_;
    const auto store = RocksStore::Open(options_, rocks);
    return store ? Status() : store.error();
  }
  std::string Sentence(Revision recovered) const {
    return "the data directory " + killed_.string() + " ends at revision " +
           std::to_string(recovered) +
           ", but revision 9 was acknowledged, so a write-ahead log was deleted or truncated: "
           "put it back, restore a backup, or run `heraldd accept-loss` to continue without the "
           "lost "
           "events";
  }

  const std::filesystem::path killed_ = directory_.path() / "killed";
};

TEST_F(LostLogTest, OpensWithItsLog) {
  MakeKilled();
  EXPECT_TRUE(OpenKilled().ok()) << OpenKilled().ToString();
  const CheckReport report = Check(killed_);
  EXPECT_TRUE(report.ok()) << FaultsOf(report);
}

TEST_F(LostLogTest, RejectsAStoreWhoseLogWasDeletedUntilTheLogIsBack) {
  MakeKilled();
  const std::filesystem::path log = Log();
  std::filesystem::rename(log, directory_.path() / "moved");
  for (int tries = 0; tries < 2; ++tries) {
    const Status refused = OpenKilled();
    EXPECT_TRUE(refused.Is(StatusReason::kCorruption)) << refused.ToString();
    EXPECT_EQ(refused.message(), Sentence(0));
  }
  const CheckReport report = Check(killed_);
  EXPECT_FALSE(report.ok());
  EXPECT_NE(FaultsOf(report).find(Sentence(0)), std::string::npos) << FaultsOf(report);
  const Status backed_up = BackupStore(killed_, directory_.path() / "backup");
  EXPECT_EQ(backed_up.message(), Sentence(0)) << "the backup would look complete";
  const Status restored = RestoreStore(killed_, directory_.path() / "restored");
  EXPECT_TRUE(restored.Is(StatusReason::kCorruption)) << restored.ToString();

  // None of these has changed the directory.
  std::filesystem::rename(directory_.path() / "moved", log);
  EXPECT_EQ(Keys(*Open(killed_)).size(), 9u);
}

TEST_F(LostLogTest, RejectsAStoreWhoseLogWasTruncated) {
  MakeKilled();
  // Records have more than 100 bytes each: the last one or two are lost.
  std::filesystem::resize_file(Log(), std::filesystem::file_size(Log()) - 100);
  const Status refused = OpenKilled();
  EXPECT_TRUE(refused.Is(StatusReason::kCorruption)) << refused.ToString();
  EXPECT_EQ(refused.message(), Sentence(8));
  EXPECT_NE(FaultsOf(Check(killed_)).find(Sentence(8)), std::string::npos);
}

TEST_F(LostLogTest, ContinuesBeyondTheLostRevisionsOnceTheLossIsAccepted) {
  MakeKilled();
  std::filesystem::resize_file(Log(), std::filesystem::file_size(Log()) - 100);
  const auto loss = AcceptLoss(killed_, options_.schema);
  ASSERT_TRUE(loss) << loss.error().ToString();
  EXPECT_EQ(loss->recovered, 8);
  EXPECT_EQ(loss->acknowledged, 9);
  EXPECT_EQ(loss->continues_at, 1'000'009);
  {
    const auto store = Open(killed_);
    EXPECT_EQ(Keys(*store).size(), 8u);
    for (const Revision seen : {8, 9, 10}) {
      const auto watch = store->NewWatch("/", seen, [] {});
      ASSERT_FALSE(watch) << seen;
      EXPECT_TRUE(watch.error().Is(StatusReason::kExpired)) << watch.error().ToString();
    }
    auto watch = store->NewWatch("/", loss->continues_at, [] {});
    ASSERT_TRUE(watch) << watch.error().ToString();
    Put(*store, "/9", "again");
    const auto batch = (*watch)->Next(10);
    ASSERT_TRUE(batch);
    ASSERT_EQ(batch->changes.size(), 1u);
    EXPECT_EQ(batch->changes[0]->revision(), 1'000'010);
    watch->reset();
  }
  const CheckReport report = Check(killed_);
  EXPECT_TRUE(report.ok()) << FaultsOf(report);
  const auto again = AcceptLoss(killed_, options_.schema);
  ASSERT_FALSE(again);
  EXPECT_TRUE(again.error().Is(StatusReason::kInvalid)) << again.error().ToString();
}

TEST_F(LostLogTest, AcceptsTheLossOfEverything) {
  MakeKilled();
  std::filesystem::remove(Log());
  const auto loss = AcceptLoss(killed_, options_.schema);
  ASSERT_TRUE(loss) << loss.error().ToString();
  EXPECT_EQ(loss->recovered, 0);
  EXPECT_TRUE(Keys(*Open(killed_)).empty());
  EXPECT_TRUE(Check(killed_).ok());
}

TEST_F(LostLogTest, RejectsADamagedMarkUntilTheLossIsAccepted) {
  MakeKilled();
  std::ofstream(killed_ / kRevisionMarkFile) << "acknowledged revision 5 crc32c 00000000\n";
  const std::string sentence = "the file " + (killed_ / kRevisionMarkFile).string() +
                               " is damaged, so it is unknown whether acknowledged events are "
                               "missing after revision 9: restore a backup, or run `heraldd "
                               "accept-loss` to continue with what is there";
  EXPECT_EQ(OpenKilled().message(), sentence);
  EXPECT_NE(FaultsOf(Check(killed_)).find(sentence), std::string::npos);
  const auto loss = AcceptLoss(killed_, options_.schema);
  ASSERT_TRUE(loss) << loss.error().ToString();
  EXPECT_EQ(loss->continues_at, 1'000'009);
  EXPECT_EQ(Keys(*Open(killed_)).size(), 9u);
}

TEST_F(LostLogTest, OpensAndMarksAStoreOfAVersionWithoutMarks) {
  MakeKilled();
  std::filesystem::remove(killed_ / kRevisionMarkFile);
  EXPECT_TRUE(Check(killed_).ok());
  {
    const auto store = Open(killed_);
    EXPECT_EQ(Keys(*store).size(), 9u);
    store->Maintain();
    const auto mark = ReadRevisionMark(rocksdb::Env::Default(), killed_);
    ASSERT_TRUE(mark);
    EXPECT_EQ(*mark, 9);
  }
  std::filesystem::remove(killed_ / kRevisionMarkFile);
  ASSERT_TRUE(RestoreStore(killed_, directory_.path() / "restored").ok()) << "an old backup";
  EXPECT_EQ(Keys(*Open(directory_.path() / "restored")).size(), 9u);
}

TEST_F(LostLogTest, ABackupHasAMarkOfItsOwn) {
  const auto store = Open(store_);
  Put(*store, "/a", "v");
  store->Maintain();
  Put(*store, "/b", "v");
  for (const BackupMode mode : {BackupMode::kCopy, BackupMode::kHardLink}) {
    const std::filesystem::path backup =
        directory_.path() / (mode == BackupMode::kCopy ? "copy" : "links");
    ASSERT_TRUE(store->Backup(backup, mode).ok());
    const auto mark = ReadRevisionMark(rocksdb::Env::Default(), backup);
    ASSERT_TRUE(mark);
    EXPECT_EQ(*mark, 2);
    const std::filesystem::path restored = backup.string() + "-restored";
    ASSERT_TRUE(RestoreStore(backup, restored).ok());
    EXPECT_EQ(*ReadRevisionMark(rocksdb::Env::Default(), restored), 2);
  }
}

}  // namespace
}  // namespace herald::store
