#include "store/memory/entry_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace herald::store {
namespace {

using std::chrono::seconds;

// Tests what the store suite does not reach through MemoryStore: tables that are loaded, and
// revisions that several changes share.
class EntryTableTest : public testing::Test {
 protected:
  static Bytes Value(const std::string& text) { return std::make_shared<const std::string>(text); }
  static WallTime At(int second) { return WallTime(seconds(second)); }
  static EntryTable::Facts Facts(int written, int lifetime, const std::string& index = "") {
    EntryTable::Facts facts;
    if (!index.empty()) facts.index.push_back({1, index});
    facts.written = At(written);
    facts.expires = At(written + lifetime);
    return facts;
  }
  void Put(const std::string& key, Revision revision, EntryTable::Facts facts) {
    table_.Apply(table_.MakeChange(key, Value("v" + std::to_string(revision)), revision),
                 std::move(facts));
  }
  // Deletes all keys at one revision, as the end of a lease of etcd does.
  void DeleteAtOnce(const std::vector<std::string>& keys, Revision revision, int second) {
    std::vector<std::shared_ptr<const Change>> changes;
    for (const std::string& key : keys) {
      changes.push_back(table_.MakeChange(key, nullptr, revision));
    }
    for (auto& change : changes) table_.Apply(std::move(change), Facts(second, 0));
  }
  std::vector<std::string> Keys(Revision at, const std::string& index = "") {
    Query query;
    if (!index.empty()) query.by = IndexRange{.index = 1, .from = index, .to = index + '\0'};
    EntryTable::Cursor cursor;
    std::vector<std::string> keys;
    while (!cursor.done()) {
      for (const auto& found : table_.Read(query, at, cursor)) keys.push_back(found.entry.key);
    }
    return keys;
  }
  using Strings = std::vector<std::string>;

  EntryTable table_{10};
};

TEST_F(EntryTableTest, KeepsRevisionsFromTheLoadedOneOn) {
  table_.Load({"/a", Value("v"), 3}, Facts(0, 60, "x"));
  table_.Load({"/b", Value("v"), 7}, Facts(0, 60, "x"));
  EXPECT_EQ(table_.entries(), 2u);
  EXPECT_EQ(table_.revision(), 10);
  EXPECT_TRUE(table_.CheckRevision(9).Is(StatusReason::kExpired));
  EXPECT_TRUE(table_.CheckRevision(11).Is(StatusReason::kBadRequest));
  EXPECT_EQ(Keys(10, "x"), (Strings{"/a", "/b"}));
  EXPECT_TRUE(table_.ReadLog("", 9, 10).error().Is(StatusReason::kExpired));
  table_.Advance(12);
  EXPECT_TRUE(table_.CheckRevision(12).ok());
  const auto log = table_.ReadLog("", 10, 10);
  ASSERT_TRUE(log);
  EXPECT_TRUE(log->changes.empty());
  EXPECT_EQ(log->revision, 12);
}

TEST_F(EntryTableTest, AppliesSeveralChangesOfOneRevision) {
  Put("/a", 11, Facts(0, 60, "x"));
  Put("/b", 12, Facts(0, 60, "x"));
  Put("/c", 13, Facts(0, 60, "x"));
  DeleteAtOnce({"/a", "/b"}, 14, 1);
  EXPECT_EQ(Keys(13, "x"), (Strings{"/a", "/b", "/c"}));
  EXPECT_EQ(Keys(14, "x"), Strings{"/c"});
  EXPECT_EQ(table_.entries(), 1u);

  // Neither a limit on changes nor compaction separates them.
  const auto log = table_.ReadLog("", 13, 1);
  ASSERT_TRUE(log);
  EXPECT_EQ(log->changes.size(), 2u);
  EXPECT_EQ(log->revision, 14);
}

TEST_F(EntryTableTest, CompactsOldVersionsButNotThoseThatAReadNeeds) {
  table_.Load({"/a", Value("v"), 3}, Facts(0, 60));
  Put("/a", 11, Facts(1, 60));
  Put("/a", 12, Facts(2, 60));
  table_.Pin(10);
  EXPECT_TRUE(table_.Compact(At(100), 1 << 20).empty());
  table_.Unpin(10);
  table_.Pin(11);
  EXPECT_EQ(table_.Compact(At(100), 1 << 20).size(), 1u);
  EXPECT_EQ(table_.compacted(), 11);
  table_.Unpin(11);
  EXPECT_EQ(table_.Compact(At(100), 1 << 20).size(), 1u);
  EXPECT_EQ(table_.watch_window_bytes(), 0u);
  EXPECT_EQ(Keys(12), Strings{"/a"});
}

TEST_F(EntryTableTest, FindsAKeyOnceByItsIndexEntriesAtARevision) {
  EntryTable::Facts twice = Facts(0, 60, "x");
  twice.index.push_back(twice.index.front());
  Put("/a", 11, twice);
  Put("/a", 12, Facts(1, 60, "y"));
  DeleteAtOnce({"/a"}, 13, 2);
  Put("/a", 14, Facts(3, 60, "x"));
  EXPECT_EQ(Keys(11, "x"), Strings{"/a"});
  EXPECT_EQ(Keys(12, "x"), Strings{});
  EXPECT_EQ(Keys(12, "y"), Strings{"/a"});
  EXPECT_EQ(Keys(13, "y"), Strings{});
  EXPECT_EQ(Keys(14, "x"), Strings{"/a"});
  // Compaction deletes the rows of old versions, and none of the new version.
  EXPECT_EQ(table_.Compact(At(3), 1 << 20).size(), 3u);
  EXPECT_EQ(Keys(14, "x"), Strings{"/a"});
  EXPECT_EQ(Keys(14, "y"), Strings{});
  EXPECT_EQ(table_.Due(At(63), 10).size(), 1u);
}

TEST_F(EntryTableTest, IgnoresTheDeletionOfAMissingKey) {
  table_.Apply(std::make_shared<const Change>(Entry{"/a", nullptr, 11}, std::nullopt, true),
               Facts(0, 0));
  EXPECT_EQ(table_.revision(), 11);
  EXPECT_EQ(table_.entries(), 0u);
  EXPECT_TRUE(Keys(11).empty());
}

TEST_F(EntryTableTest, ReturnsDueEntriesAlsoAfterAChangeOfExpiry) {
  Put("/late", 11, Facts(0, 60));
  Put("/soon", 12, Facts(0, 10));
  ASSERT_EQ(table_.Due(At(59), 10).size(), 1u);
  EXPECT_EQ(table_.Due(At(59), 10)[0].key, "/soon");
  EXPECT_EQ(table_.Due(At(60), 10).size(), 2u);
  EXPECT_EQ(table_.Due(At(60), 1).size(), 1u);
  table_.SetExpiry("/late", 11, At(5));
  table_.SetExpiry("/soon", 11, At(5));  // of a version that was replaced
  ASSERT_EQ(table_.Due(At(5), 10).size(), 1u);
  EXPECT_EQ(table_.Due(At(5), 10)[0].key, "/late");
}

TEST_F(EntryTableTest, ReportsItsMemoryAsItGrowsAndShrinks) {
  const std::uint64_t before = table_.memory_bytes();
  Put("/a", 11, Facts(0, 60));
  const std::uint64_t with = table_.memory_bytes();
  EXPECT_GT(with, before);
  DeleteAtOnce({"/a"}, 12, 1);
  while (!table_.Compact(At(100), 0).empty()) {
  }
  EXPECT_EQ(table_.memory_bytes(), before);
}

TEST(PageMakerTest, StopsCountingRemainingEntriesAtTheLimit) {
  const Query query{.limit = 1, .count_remaining = true};
  for (const std::int64_t more : {Query::kMaxCounted, Query::kMaxCounted + 1}) {
    PageMaker maker(query, 7);
    const auto value = std::make_shared<const std::string>("v");
    bool wants_more = true;
    for (std::int64_t i = 0; i <= more; ++i) wants_more = maker.Take({"/a", value, 1});
    EXPECT_EQ(wants_more, more == Query::kMaxCounted);
    const Page page = maker.Finish();
    EXPECT_TRUE(page.more);
    EXPECT_EQ(page.remaining, wants_more ? Query::kMaxCounted : Page::kManyRemain);
  }
}

}  // namespace
}  // namespace herald::store
