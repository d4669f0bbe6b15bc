// The client against real etcd processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "store/etcd/etcd_calls.h"
#include "store/etcd/etcd_client.h"
#include "store/etcd/etcd_process.h"

namespace herald::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::unique_ptr<EtcdClient> Connect(EtcdClientOptions options) {
  auto client = EtcdClient::Open(std::move(options));
  HERALD_CHECK(client.has_value());
  return *std::move(client);
}

Bytes Value(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

// One member, shared by all tests that do it no harm; each has keys of its own.
class EtcdTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { cluster_ = std::make_unique<EtcdCluster>(); }
  static void TearDownTestSuite() { cluster_.reset(); }

  void SetUp() override { client_ = Connect({.endpoints = cluster_->endpoints()}); }

  Revision Now() {
    const auto page = Range(*client_, {.start = "none", .count_only = true});
    HERALD_CHECK(page.has_value());
    return page->revision;
  }

  static std::unique_ptr<EtcdCluster> cluster_;
  std::unique_ptr<EtcdClient> client_;
};
std::unique_ptr<EtcdCluster> EtcdTest::cluster_;

TEST_F(EtcdTest, WritesWhereTheKeyIsAsExpected) {
  const auto created = Put(*client_, "w/a", "1", 0);
  ASSERT_TRUE(created) << created.error().ToString();
  EXPECT_TRUE(created->committed);
  EXPECT_FALSE(created->current);

  const auto twice = Put(*client_, "w/a", "2", 0);
  ASSERT_TRUE(twice);
  EXPECT_FALSE(twice->committed);
  EXPECT_EQ(twice->revision, created->revision);
  ASSERT_TRUE(twice->current);
  EXPECT_EQ(twice->current->key, "w/a");
  EXPECT_EQ(*twice->current->value, "1");
  EXPECT_EQ(twice->current->revision, created->revision);

  const auto changed = Put(*client_, "w/a", "3", created->revision);
  ASSERT_TRUE(changed);
  EXPECT_TRUE(changed->committed);
  EXPECT_GT(changed->revision, created->revision);

  const auto stale = Put(*client_, "w/a", "4", created->revision);
  ASSERT_TRUE(stale);
  EXPECT_FALSE(stale->committed);
  EXPECT_EQ(*stale->current->value, "3");

  const auto any = Put(*client_, "w/a", "5");
  ASSERT_TRUE(any);
  EXPECT_TRUE(any->committed);
  EXPECT_EQ(any->revision, changed->revision + 1);

  const auto absent = Put(*client_, "w/none", "1", any->revision);
  ASSERT_TRUE(absent);
  EXPECT_FALSE(absent->committed);
  EXPECT_FALSE(absent->current);
}

TEST_F(EtcdTest, DeletesWhereTheKeyIsAsExpected) {
  const auto nothing = Delete(*client_, "d/a");
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(nothing->committed);
  EXPECT_FALSE(nothing->current);

  const auto put = Put(*client_, "d/a", "1");
  ASSERT_TRUE(put);
  const auto stale = Delete(*client_, "d/a", put->revision - 1);
  ASSERT_TRUE(stale);
  EXPECT_FALSE(stale->committed);
  EXPECT_EQ(*stale->current->value, "1");
  // It must not exist and be deleted: never.
  const auto absurd = Delete(*client_, "d/a", 0);
  ASSERT_TRUE(absurd);
  EXPECT_FALSE(absurd->committed);
  EXPECT_TRUE(absurd->current);

  const auto deleted = Delete(*client_, "d/a", put->revision);
  ASSERT_TRUE(deleted);
  EXPECT_TRUE(deleted->committed);
  EXPECT_EQ(deleted->revision, put->revision + 1);
  EXPECT_FALSE(Delete(*client_, "d/a", 0)->committed);

  ASSERT_TRUE(Put(*client_, "d/a", "2"));
  EXPECT_TRUE(Delete(*client_, "d/a")->committed);
}

TEST_F(EtcdTest, ReadsPagesAtARevision) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(Put(*client_, "r/" + std::to_string(i), "v" + std::to_string(i)));
  }
  const Revision at = Now();
  ASSERT_TRUE(Put(*client_, "r/3", "later"));

  const auto page = Range(*client_, {.start = "r/2", .end = "r0", .at = at, .limit = 3});
  ASSERT_TRUE(page);
  ASSERT_EQ(page->entries.size(), 3u);
  EXPECT_EQ(page->entries[1].key, "r/3");
  EXPECT_EQ(*page->entries[1].value, "v3");
  EXPECT_EQ(page->count, 8);
  EXPECT_TRUE(page->more);
  EXPECT_EQ(page->revision, at + 1);

  const auto keys = Range(*client_, {.start = "r/2", .end = "r0", .keys_only = true});
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->entries.size(), 8u);
  EXPECT_FALSE(keys->more);
  EXPECT_EQ(keys->entries[0].value, nullptr);

  const auto count = Range(*client_, {.start = "r/", .end = "r0", .count_only = true});
  ASSERT_TRUE(count);
  EXPECT_EQ(count->count, 10);
  EXPECT_TRUE(count->entries.empty());

  const auto one = Range(*client_, {.start = "r/7"});
  ASSERT_TRUE(one);
  ASSERT_EQ(one->entries.size(), 1u);
  EXPECT_EQ(one->entries[0].lease, 0);

  const auto everything = Range(*client_, {.end = std::string(1, '\0'), .limit = 1});
  ASSERT_TRUE(everything);
  EXPECT_EQ(everything->entries.size(), 1u);
}

TEST_F(EtcdTest, RefusesRevisionsThatAreGoneOrNotThereYet) {
  const auto first = Put(*client_, "c/a", "1");
  const auto second = Put(*client_, "c/a", "2");
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(Compact(*client_, second->revision).ok());
  EXPECT_TRUE(Compact(*client_, first->revision).ok());  // long done
  EXPECT_TRUE(Compact(*client_, second->revision + 1000).Is(StatusReason::kBadRequest));

  const auto gone = Range(*client_, {.start = "c/a", .at = first->revision});
  ASSERT_FALSE(gone);
  EXPECT_TRUE(gone.error().Is(StatusReason::kExpired)) << gone.error().ToString();
  const auto future = Range(*client_, {.start = "c/a", .at = second->revision + 1000});
  ASSERT_FALSE(future);
  EXPECT_TRUE(future.error().Is(StatusReason::kBadRequest)) << future.error().ToString();
}

TEST_F(EtcdTest, LeasesEndTheirKeys) {
  const auto lease = GrantLease(*client_, seconds(1));
  ASSERT_TRUE(lease) << lease.error().ToString();
  EXPECT_NE(lease->id, 0);
  EXPECT_GE(lease->ttl, seconds(1));

  Told told;
  const auto watch = client_->Watch("l/", Now(), told.callback());
  const auto put = Put(*client_, "l/a", "1", 0, lease->id);
  ASSERT_TRUE(put) << put.error().ToString();
  ASSERT_TRUE(put->committed);
  EXPECT_EQ(Range(*client_, {.start = "l/a"})->entries.at(0).lease, lease->id);
  ASSERT_TRUE(told.UntilCount(2));
  EXPECT_TRUE(told.changes()[1]->deleted());

  const auto late = Put(*client_, "l/b", "1", 0, lease->id);
  ASSERT_FALSE(late);
  EXPECT_TRUE(late.error().Is(StatusReason::kNotFound)) << late.error().ToString();
  EXPECT_TRUE(Range(*client_, {.start = "l/b"})->entries.empty());
}

TEST_F(EtcdTest, WatchTellsEachChangeWithWhatWasThereBefore) {
  const Revision before = Now();
  ASSERT_TRUE(Put(*client_, "x/a", "1"));
  Told told;
  const auto watch = client_->Watch("x/", before, told.callback());
  const auto changed = Put(*client_, "x/a", "2");
  ASSERT_TRUE(Put(*client_, "y/a", "not of this watch"));
  const auto deleted = Delete(*client_, "x/a");
  ASSERT_TRUE(changed && deleted);
  ASSERT_TRUE(told.UntilCount(3));

  const auto changes = told.changes();
  EXPECT_EQ(*changes[0]->current().value, "1");
  EXPECT_FALSE(changes[0]->previous());
  EXPECT_FALSE(changes[0]->deleted());
  EXPECT_EQ(changes[1]->revision(), changed->revision);
  EXPECT_EQ(*changes[1]->current().value, "2");
  ASSERT_TRUE(changes[1]->previous());
  EXPECT_EQ(*changes[1]->previous()->value, "1");
  EXPECT_EQ(changes[1]->previous()->revision, changes[0]->revision());
  EXPECT_TRUE(changes[2]->deleted());
  EXPECT_EQ(changes[2]->current().value, nullptr);
  EXPECT_EQ(changes[2]->key(), "x/a");
  EXPECT_EQ(changes[2]->revision(), deleted->revision);
  ASSERT_TRUE(changes[2]->previous());
  EXPECT_EQ(*changes[2]->previous()->value, "2");
  EXPECT_EQ(told.revision(), deleted->revision);
}

TEST_F(EtcdTest, WatchOfWhatWasCompactedExpires) {
  const auto first = Put(*client_, "e/a", "1");
  const auto second = Put(*client_, "e/a", "2");
  const auto third = Put(*client_, "e/a", "3");
  ASSERT_TRUE(first && second && third);
  ASSERT_TRUE(Compact(*client_, third->revision).ok());
  Told told;
  const auto watch = client_->Watch("e/", first->revision, told.callback());
  EXPECT_TRUE(told.UntilError().Is(StatusReason::kExpired));
  EXPECT_TRUE(told.changes().empty());

  // Where everything up to the compaction is known, nothing is missing.
  Told rest;
  const auto goes_on = client_->Watch("e/", third->revision, rest.callback());
  ASSERT_TRUE(Put(*client_, "e/a", "4"));
  EXPECT_TRUE(rest.UntilCount(1));
}

TEST_F(EtcdTest, ManySmallWatchesAndAWatchOfEverything) {
  const Revision before = Now();
  Told all;
  const auto everything = client_->Watch("", before, all.callback());
  Told toward_the_end;
  const auto last = client_->Watch("\xff\xff", before, toward_the_end.callback());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Put(*client_, "m/" + std::to_string(i), "v"));
  ASSERT_TRUE(Put(*client_, "\xff\xff\xff", "v"));
  EXPECT_TRUE(all.UntilCount(101));
  EXPECT_TRUE(toward_the_end.UntilCount(1));
  EXPECT_EQ(toward_the_end.keys().front(), "\xff\xff\xff");
}

TEST_F(EtcdTest, WatchTellsATransactionAsAWhole) {
  const Revision before = Now();
  Told told;
  const auto watch = client_->Watch("t/", before, told.callback());
  // Base64: "t/a" is dC9h, "t/b" is dC9i.
  cluster_->Post(0, "/v3/kv/txn",
                 R"({"success":[{"requestPut":{"key":"dC9h","value":"MQ=="}},)"
                 R"({"requestPut":{"key":"dC9i","value":"Mg=="}}]})");
  ASSERT_TRUE(told.UntilCount(2));
  EXPECT_EQ(told.keys(), (std::vector<std::string>{"t/a", "t/b"}));
  EXPECT_EQ(told.changes()[0]->revision(), told.changes()[1]->revision());
  EXPECT_EQ(told.batches(), 1u);
}

TEST_F(EtcdTest, WatchSaysHowFarItIsWhereEtcdCanBeTrusted) {
  ASSERT_TRUE(Put(*client_, "p/a", "1"));
  const Revision before = Now();
  Told told;
  const auto watch = client_->Watch("p/", before, told.callback());
  const auto elsewhere = Put(*client_, "q/a", "1");
  ASSERT_TRUE(elsewhere);
  if (client_->progress_is_sound()) {
    EXPECT_TRUE(UntilProgress(*watch, told, elsewhere->revision));
    EXPECT_TRUE(told.changes().empty());
  } else {
    // It may be wrong, so it is not handed on.
    watch->RequestProgress();
    const auto here = Put(*client_, "p/a", "2");
    ASSERT_TRUE(here);
    ASSERT_TRUE(told.UntilCount(1));
    EXPECT_EQ(told.batches(), 1u);
    EXPECT_EQ(told.revision(), here->revision);
  }
}

TEST_F(EtcdTest, ListsLargerThanGrpcTakesByDefault) {
  const std::string value(1 << 20, 'x');
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(Put(*client_, "big/" + std::to_string(i), value));
  const Revision end = Now();
  const auto page = Range(*client_, {.start = "big/", .end = "big0"});
  ASSERT_TRUE(page) << page.error().ToString();
  EXPECT_EQ(page->entries.size(), 6u);

  // And watches: what is sent at once is more than one message may hold.
  Told told;
  const auto watch = client_->Watch("big/", page->entries[0].mod_revision - 1, told.callback());
  EXPECT_TRUE(told.UntilRevision(end));
  EXPECT_EQ(told.changes().size(), 6u);
}

TEST_F(EtcdTest, RefusesAValueThatIsTooLarge) {
  const auto refused = Put(*client_, "large", std::string(4 << 20, 'x'));
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().Is(StatusReason::kRequestEntityTooLarge))
      << refused.error().ToString();
}

TEST_F(EtcdTest, TellsItsCondition) {
  const auto condition = GetCondition(*client_);
  ASSERT_TRUE(condition);
  EXPECT_GT(condition->bytes, 0);
  EXPECT_TRUE(condition->has_leader);
  EXPECT_TRUE(condition->alarms.empty());
  EXPECT_TRUE(client_->Health().ok());
}

TEST_F(EtcdTest, ManyCallsAtOnceAllEnd) {
  constexpr int kCalls = 2'000;
  std::atomic<int> committed = 0;
  std::atomic<int> ended = 0;
  std::promise<void> all;
  for (int i = 0; i < kCalls; ++i) {
    client_->Commit({.key = "many/" + std::to_string(i), .value = Value("v"), .expected = 0},
                    [&](Result<Written> written) {
                      if (written && written->committed) ++committed;
                      if (++ended == kCalls) all.set_value();
                    });
  }
  ASSERT_EQ(all.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(committed, kCalls);
  EXPECT_EQ(Range(*client_, {.start = "many/", .end = "many0", .count_only = true})->count, kCalls);
}

}  // namespace
}  // namespace herald::store
