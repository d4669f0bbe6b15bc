#include "store/rocks/recent_entries.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

namespace herald::store {
namespace {

using Keys = KeyStates;

constexpr RecentEntries::Limits kThree{.created = 3, .rewritten = 3, .bytes = 1'000};

// The state after a write that was not the first one of its key.
KeyState At(Revision revision, const std::string& value = "v") {
  return {.revision = revision, .value = std::make_shared<const std::string>(value)};
}
KeyState CreatedAt(Revision revision) {
  KeyState state = At(revision);
  state.created = revision;
  return state;
}

Revision RevisionOf(const RecentEntries& recent, const std::string& key) {
  const std::optional<KeyState> found = recent.Find(key);
  return found ? found->revision : 0;
}

TEST(RecentEntriesTest, ReturnsTheLastWrittenState) {
  RecentEntries recent(kThree);
  recent.Remember(Keys{{"a", At(1)}});
  recent.Forget(Keys{{"a", At(2)}});
  EXPECT_FALSE(recent.Find("a")) << "unknown while it is being written";
  recent.Remember(Keys{{"a", At(2)}, {"b", At(3)}});
  EXPECT_EQ(RevisionOf(recent, "a"), 2);
  EXPECT_EQ(RevisionOf(recent, "b"), 3);
  recent.Forget(Keys{{"a", {}}});
  recent.Remember(Keys{{"a", {}}});
  EXPECT_FALSE(recent.Find("a")) << "it was deleted";
}

TEST(RecentEntriesTest, FindsManyAtOnceInTheirOrder) {
  RecentEntries recent(kThree);
  recent.Remember(Keys{{"a", At(1)}, {"c", At(3)}});
  const auto found = recent.Find({{"c", nullptr, 0}, {"b", nullptr, 0}, {"a", nullptr, 0}});
  ASSERT_EQ(found.size(), 3U);
  ASSERT_TRUE(found[0]);
  EXPECT_EQ(found[0]->revision, 3);
  EXPECT_FALSE(found[1]);
  ASSERT_TRUE(found[2]);
  EXPECT_EQ(found[2]->revision, 1);
}

TEST(RecentEntriesTest, DropsTheOldestKeyUnlessItWasWrittenAgain) {
  RecentEntries recent(kThree);
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

TEST(RecentEntriesTest, NewKeysDoNotDisplaceRewrittenKeys) {
  RecentEntries recent(kThree);
  recent.Remember(Keys{{"again", At(1)}});
  for (Revision revision = 2; revision <= 20; ++revision) {
    recent.Remember(Keys{{"new" + std::to_string(revision), CreatedAt(revision)}});
  }
  EXPECT_EQ(RevisionOf(recent, "again"), 1);
  EXPECT_FALSE(recent.Find("new17"));
  EXPECT_EQ(RevisionOf(recent, "new18"), 18);
  recent.Remember(Keys{{"new18", At(21)}});
  for (Revision revision = 22; revision <= 30; ++revision) {
    recent.Remember(Keys{{"new" + std::to_string(revision), CreatedAt(revision)}});
  }
  EXPECT_EQ(RevisionOf(recent, "new18"), 21) << "it was written again";
}

TEST(RecentEntriesTest, KeepsNoMoreThanTheLimitOfBytes) {
  RecentEntries recent(kThree);
  const std::string large(400, 'x');
  recent.Remember(Keys{{"a", At(1, large)}});
  recent.Remember(Keys{{"b", At(2, large)}});
  recent.Remember(Keys{{"b", At(3, large)}});
  EXPECT_EQ(RevisionOf(recent, "a"), 1) << "a replaced value does not count";
  recent.Remember(Keys{{"c", At(4, large)}});
  EXPECT_FALSE(recent.Find("a"));
  EXPECT_EQ(RevisionOf(recent, "b"), 3);
  EXPECT_EQ(RevisionOf(recent, "c"), 4);
  recent.Remember(Keys{{"d", At(5, large + large + large)}});
  EXPECT_FALSE(recent.Find("c"));
  EXPECT_FALSE(recent.Find("d")) << "larger than the limit";
}

TEST(RecentEntriesTest, CreatedAndDeletedKeysUseNoMemory) {
  RecentEntries recent(kThree);
  for (Revision revision = 1; revision <= 100; ++revision) {
    recent.Remember(Keys{{"same", At(revision)}});
  }
  EXPECT_EQ(RevisionOf(recent, "same"), 100);
  recent.Clear();
  EXPECT_FALSE(recent.Find("same"));
}

}  // namespace
}  // namespace herald::store
