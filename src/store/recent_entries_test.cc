#include "store/recent_entries.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

namespace herald::store {
namespace {

using Keys = RecentEntries::Standings;

RocksReader::Standing At(Revision revision) {
  return {.revision = revision, .value = std::make_shared<const std::string>("v")};
}

Revision RevisionOf(const RecentEntries& recent, const std::string& key) {
  const std::optional<RocksReader::Standing> found = recent.Find(key);
  return found ? found->revision : 0;
}

TEST(RecentEntriesTest, KnowsWhatWasWrittenLast) {
  RecentEntries recent(10);
  recent.Remember(Keys{{"a", At(1)}});
  recent.Forget(Keys{{"a", At(2)}});
  EXPECT_FALSE(recent.Find("a")) << "while it is being written, nobody knows";
  recent.Remember(Keys{{"a", At(2)}, {"b", At(3)}});
  EXPECT_EQ(RevisionOf(recent, "a"), 2);
  EXPECT_EQ(RevisionOf(recent, "b"), 3);
  recent.Forget(Keys{{"a", {}}});
  recent.Remember(Keys{{"a", {}}});
  EXPECT_FALSE(recent.Find("a")) << "it was deleted";
}

TEST(RecentEntriesTest, TheOldestGoesUnlessItWasWrittenAgain) {
  RecentEntries recent(3);
  for (Revision revision = 1; revision <= 3; ++revision) {
    recent.Remember(Keys{{"k" + std::to_string(revision), At(revision)}});
  }
  recent.Remember(Keys{{"k1", At(4)}});
  EXPECT_EQ(RevisionOf(recent, "k1"), 4);
  recent.Remember(Keys{{"k5", At(5)}});
  EXPECT_FALSE(recent.Find("k2"));
  EXPECT_EQ(RevisionOf(recent, "k3"), 3);
  EXPECT_EQ(RevisionOf(recent, "k1"), 4);
  EXPECT_EQ(RevisionOf(recent, "k5"), 5);
}

TEST(RecentEntriesTest, KeysThatComeAndGoLeaveNothingBehind) {
  RecentEntries recent(2);
  for (Revision revision = 1; revision <= 100; ++revision) {
    recent.Remember(Keys{{"same", At(revision)}});
  }
  EXPECT_EQ(RevisionOf(recent, "same"), 100);
  recent.Clear();
  EXPECT_FALSE(recent.Find("same"));
}

}  // namespace
}  // namespace herald::store
