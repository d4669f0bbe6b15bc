// The client against real etcd processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/testing/temporary_directory.h"
#include "store/etcd/client.h"
#include "store/etcd/testing/calls.h"
#include "store/etcd/testing/process.h"
#include "store/etcd/testing/test_authority.h"

namespace herald::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Bytes Value(std::string string) { return std::make_shared<const std::string>(std::move(string)); }

// One member, shared by all tests that do not disturb it; each test has its own keys.
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

TEST_F(EtcdTest, WritesIfTheKeyHasTheExpectedRevision) {
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

TEST_F(EtcdTest, DeletesIfTheKeyHasTheExpectedRevision) {
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
  // The key must not exist and must be deleted: impossible.
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

TEST_F(EtcdTest, RejectsCompactedAndFutureRevisions) {
  const auto first = Put(*client_, "c/a", "1");
  const auto second = Put(*client_, "c/a", "2");
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(Compact(*client_, second->revision).ok());
  EXPECT_TRUE(Compact(*client_, first->revision).ok());  // already compacted
  EXPECT_TRUE(Compact(*client_, second->revision + 1000).Is(StatusReason::kBadRequest));

  const auto gone = Range(*client_, {.start = "c/a", .at = first->revision});
  ASSERT_FALSE(gone);
  EXPECT_TRUE(gone.error().Is(StatusReason::kExpired)) << gone.error().ToString();
  const auto future = Range(*client_, {.start = "c/a", .at = second->revision + 1000});
  ASSERT_FALSE(future);
  EXPECT_TRUE(future.error().Is(StatusReason::kBadRequest)) << future.error().ToString();
}

TEST_F(EtcdTest, LeasesDeleteTheirKeys) {
  const auto lease = GrantLease(*client_, seconds(1));
  ASSERT_TRUE(lease) << lease.error().ToString();
  EXPECT_NE(lease->id, 0);
  EXPECT_GE(lease->ttl, seconds(1));

  WatchRecorder recorder;
  const auto watch = client_->Watch("l/", Now(), recorder.callback());
  const auto put = Put(*client_, "l/a", "1", 0, lease->id);
  ASSERT_TRUE(put) << put.error().ToString();
  ASSERT_TRUE(put->committed);
  EXPECT_EQ(Range(*client_, {.start = "l/a"})->entries.at(0).lease, lease->id);
  ASSERT_TRUE(recorder.WaitForCount(2));
  EXPECT_TRUE(recorder.changes()[1]->deleted());

  const auto late = Put(*client_, "l/b", "1", 0, lease->id);
  ASSERT_FALSE(late);
  EXPECT_TRUE(late.error().Is(StatusReason::kNotFound)) << late.error().ToString();
  EXPECT_TRUE(Range(*client_, {.start = "l/b"})->entries.empty());
}

TEST_F(EtcdTest, WatchDeliversEachChangeWithItsPreviousValue) {
  const Revision before = Now();
  ASSERT_TRUE(Put(*client_, "x/a", "1"));
  WatchRecorder recorder;
  const auto watch = client_->Watch("x/", before, recorder.callback());
  const auto changed = Put(*client_, "x/a", "2");
  ASSERT_TRUE(Put(*client_, "y/a", "not of this watch"));
  const auto deleted = Delete(*client_, "x/a");
  ASSERT_TRUE(changed && deleted);
  ASSERT_TRUE(recorder.WaitForCount(3));

  const auto changes = recorder.changes();
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
  EXPECT_EQ(recorder.revision(), deleted->revision);
}

TEST_F(EtcdTest, WatchOfACompactedRevisionExpires) {
  const auto first = Put(*client_, "e/a", "1");
  const auto second = Put(*client_, "e/a", "2");
  const auto third = Put(*client_, "e/a", "3");
  ASSERT_TRUE(first && second && third);
  ASSERT_TRUE(Compact(*client_, third->revision).ok());
  WatchRecorder recorder;
  const auto watch = client_->Watch("e/", first->revision, recorder.callback());
  EXPECT_TRUE(recorder.WaitForError().Is(StatusReason::kExpired));
  EXPECT_TRUE(recorder.changes().empty());

  // A watch after the compacted revision misses no changes.
  WatchRecorder rest;
  const auto goes_on = client_->Watch("e/", third->revision, rest.callback());
  ASSERT_TRUE(Put(*client_, "e/a", "4"));
  EXPECT_TRUE(rest.WaitForCount(1));
}

TEST_F(EtcdTest, WatchesOfAllKeysAndOfTheLastKeys) {
  const Revision before = Now();
  WatchRecorder all;
  const auto everything = client_->Watch("", before, all.callback());
  WatchRecorder last_keys;
  const auto last = client_->Watch("\xff\xff", before, last_keys.callback());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Put(*client_, "m/" + std::to_string(i), "v"));
  ASSERT_TRUE(Put(*client_, "\xff\xff\xff", "v"));
  EXPECT_TRUE(all.WaitForCount(101));
  EXPECT_TRUE(last_keys.WaitForCount(1));
  EXPECT_EQ(last_keys.keys().front(), "\xff\xff\xff");
}

TEST_F(EtcdTest, WatchDeliversATransactionInOneBatch) {
  const Revision before = Now();
  WatchRecorder recorder;
  const auto watch = client_->Watch("t/", before, recorder.callback());
  // Base64: "t/a" is dC9h, "t/b" is dC9i.
  cluster_->Post(0, "/v3/kv/txn",
                 R"({"success":[{"requestPut":{"key":"dC9h","value":"MQ=="}},)"
                 R"({"requestPut":{"key":"dC9i","value":"Mg=="}}]})");
  ASSERT_TRUE(recorder.WaitForCount(2));
  EXPECT_EQ(recorder.keys(), (std::vector<std::string>{"t/a", "t/b"}));
  EXPECT_EQ(recorder.changes()[0]->revision(), recorder.changes()[1]->revision());
  EXPECT_EQ(recorder.batches(), 1u);
}

TEST_F(EtcdTest, WatchDeliversProgressIfItIsSound) {
  ASSERT_TRUE(Put(*client_, "p/a", "1"));
  const Revision before = Now();
  WatchRecorder recorder;
  const auto watch = client_->Watch("p/", before, recorder.callback());
  const auto elsewhere = Put(*client_, "q/a", "1");
  ASSERT_TRUE(elsewhere);
  if (client_->progress_is_sound()) {
    EXPECT_TRUE(WaitForProgress(*watch, recorder, elsewhere->revision));
    EXPECT_TRUE(recorder.changes().empty());
  } else {
    // It may be wrong, so it is not delivered.
    watch->RequestProgress();
    const auto here = Put(*client_, "p/a", "2");
    ASSERT_TRUE(here);
    ASSERT_TRUE(recorder.WaitForCount(1));
    EXPECT_EQ(recorder.batches(), 1u);
    EXPECT_EQ(recorder.revision(), here->revision);
  }
}

TEST_F(EtcdTest, ReadsListsAboveTheDefaultLimitOfGrpc) {
  const std::string value(1 << 20, 'x');
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(Put(*client_, "big/" + std::to_string(i), value));
  const Revision end = Now();
  const auto page = Range(*client_, {.start = "big/", .end = "big0"});
  ASSERT_TRUE(page) << page.error().ToString();
  EXPECT_EQ(page->entries.size(), 6u);

  // The changes of the watch do not fit into one message of the default size either.
  WatchRecorder recorder;
  const auto watch = client_->Watch("big/", page->entries[0].mod_revision - 1, recorder.callback());
  EXPECT_TRUE(recorder.WaitForRevision(end));
  EXPECT_EQ(recorder.changes().size(), 6u);
}

TEST_F(EtcdTest, RejectsAValueThatIsTooLarge) {
  const auto rejected = Put(*client_, "large", std::string(4 << 20, 'x'));
  ASSERT_FALSE(rejected);
  EXPECT_TRUE(rejected.error().Is(StatusReason::kRequestEntityTooLarge))
      << rejected.error().ToString();
}

TEST_F(EtcdTest, ReturnsTheConditionOfEtcd) {
  const auto condition = GetCondition(*client_);
  ASSERT_TRUE(condition);
  EXPECT_GT(condition->bytes, 0);
  EXPECT_TRUE(condition->has_leader);
  EXPECT_TRUE(condition->alarms.empty());
  EXPECT_TRUE(client_->Health().ok());
}

TEST_F(EtcdTest, ManyConcurrentCallsAllEnd) {
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
  ASSERT_EQ(all.get_future().wait_for(kTestTimeout), std::future_status::ready);
  EXPECT_EQ(committed, kCalls);
  EXPECT_EQ(Range(*client_, {.start = "many/", .end = "many0", .count_only = true})->count, kCalls);
}

// --- three members --------------------------------------------------------------------------

class EtcdThreeTest : public testing::Test {
 protected:
  EtcdCluster cluster_{{.members = 3}};
};

// Writes k/0, k/1, ... one after the other, and retries each until it exists.
class Writer {
 public:
  explicit Writer(EtcdClient* client) : client_(client) {}
  void Write(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string key = "k/" + std::to_string(written_);
      // If it is unknown whether the write was applied, the next attempt shows it.
      ASSERT_TRUE(Eventually([&] { return Put(*client_, key, "v", 0).has_value(); }));
      ++written_;
    }
  }
  int written() const { return written_; }

 private:
  EtcdClient* const client_;
  int written_ = 0;
};

void ExpectEachOnceInOrder(const WatchRecorder& recorder, int count) {
  const auto keys = recorder.keys();
  ASSERT_EQ(keys.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) EXPECT_EQ(keys[i], "k/" + std::to_string(i));
}

TEST_F(EtcdThreeTest, LosesNoChangesIfEachMemberIsKilledInTurn) {
  const auto client = Connect({.endpoints = cluster_.endpoints()});
  WatchRecorder recorder;
  const auto watch = client->Watch("k/", 1, recorder.callback());
  Writer writer(client.get());
  for (std::size_t i = 0; i < cluster_.size(); ++i) {
    writer.Write(10);
    cluster_.Kill(i);
    writer.Write(10);
    ASSERT_TRUE(Eventually([&] { return Range(*client, {.start = "k/0"}).has_value(); }));
    cluster_.Restart(i);
  }
  ASSERT_TRUE(recorder.WaitForCount(static_cast<std::size_t>(writer.written())));
  ExpectEachOnceInOrder(recorder, writer.written());
}

TEST_F(EtcdThreeTest, LosesNoChangesIfEachMemberIsPausedInTurn) {
  const auto client = Connect(
      {.endpoints = cluster_.endpoints(), .call_timeout = seconds(2), .keepalive = seconds(5)});
  WatchRecorder recorder;
  const auto watch = client->Watch("k/", 1, recorder.callback());
  Writer writer(client.get());
  for (std::size_t i = 0; i < cluster_.size(); ++i) {
    writer.Write(5);
    cluster_.Pause(i);
    writer.Write(5);
    ASSERT_TRUE(recorder.WaitForCount(static_cast<std::size_t>(writer.written())));
    cluster_.Resume(i);
  }
  ExpectEachOnceInOrder(recorder, writer.written());
}

TEST_F(EtcdThreeTest, FailsWithoutAMajorityAndWorksAgainWithOne) {
  const auto client = Connect({.endpoints = cluster_.endpoints(), .call_timeout = seconds(2)});
  ASSERT_TRUE(Put(*client, "k/a", "1"));
  WatchRecorder recorder;
  const auto watch = client->Watch("k/", 1, recorder.callback());
  ASSERT_TRUE(recorder.WaitForCount(1));

  cluster_.Kill(0);
  cluster_.Kill(1);
  // At first the result is unknown; then there is certainly no leader.
  ASSERT_TRUE(Eventually([&] {
    const auto written = Put(*client, "k/b", "1", 0);
    return !written && written.error().Is(StatusReason::kServiceUnavailable);
  }));
  ASSERT_TRUE(Eventually([&] { return !client->Health().ok(); }));
  const auto page = Range(*client, {.start = "k/a"});
  ASSERT_FALSE(page);
  EXPECT_TRUE(page.error().Is(StatusReason::kServiceUnavailable)) << page.error().ToString();
  EXPECT_GE(page.error().retry_after(), seconds(1));

  cluster_.Launch(0);
  cluster_.Launch(1);
  ASSERT_TRUE(Eventually([&] { return client->Health().ok(); }));
  ASSERT_TRUE(Eventually([&] { return Put(*client, "k/c", "1").has_value(); }));
  EXPECT_TRUE(
      recorder.WaitUntil([](const auto& changes) { return changes.back()->key() == "k/c"; }));
}

// --- TLS --------------------------------------------------------------------------------------

class EtcdTlsTest : public testing::Test {
 protected:
  const TemporaryDirectory directory_;
  const TestAuthority authority_{directory_.path(), "ours"};
  const TestAuthority stranger_{directory_.path(), "stranger"};
  const TestAuthority::Files server_ = authority_.Issue("server");
};

TEST_F(EtcdTlsTest, TrustsOnlyTheGivenAuthority) {
  EtcdCluster cluster({.cert_file = server_.cert, .key_file = server_.key});
  const auto client = Connect({.endpoints = cluster.endpoints(), .ca_file = authority_.ca_file()});
  const auto written = Put(*client, "a", "1");
  EXPECT_TRUE(written) << written.error().ToString();

  const auto deceived = Connect({.endpoints = cluster.endpoints(), .ca_file = stranger_.ca_file()});
  const auto rejected = Put(*deceived, "a", "2");
  ASSERT_FALSE(rejected);
  EXPECT_TRUE(rejected.error().Is(StatusReason::kServiceUnavailable))
      << rejected.error().ToString();
  EXPECT_FALSE(deceived->Health().ok());
  EXPECT_EQ(*Range(*client, {.start = "a"})->entries.at(0).value, "1");
}

TEST_F(EtcdTlsTest, SendsItsCertificateAndReadsItAgainIfItWasRejected) {
  EtcdCluster cluster(
      {.cert_file = server_.cert, .key_file = server_.key, .client_ca_file = authority_.ca_file()});
  const auto nobody = Connect({.endpoints = cluster.endpoints(), .ca_file = authority_.ca_file()});
  EXPECT_FALSE(Put(*nobody, "a", "1"));

  // A certificate that the server does not trust is replaced on disk while the client runs.
  const TestAuthority::Files theirs = stranger_.Issue("client");
  const TestAuthority::Files ours = authority_.Issue("client");
  const auto client = Connect({.endpoints = cluster.endpoints(),
                               .ca_file = authority_.ca_file(),
                               .cert_file = theirs.cert,
                               .key_file = theirs.key});
  EXPECT_FALSE(Put(*client, "a", "1"));
  std::filesystem::rename(ours.cert, theirs.cert);
  std::filesystem::rename(ours.key, theirs.key);
  EXPECT_TRUE(Eventually([&] { return client->Health().ok(); }));
  const auto written = Put(*client, "a", "1");
  EXPECT_TRUE(written) << written.error().ToString();
}

// --- users --------------------------------------------------------------------------------------

TEST(EtcdUserTest, GetsATokenAndANewOneWhenItHasExpired) {
  EtcdCluster cluster({.flags = {"--auth-token-ttl=1"}});
  const auto client =
      Connect({.endpoints = cluster.endpoints(), .user = "root", .password = "secret"});
  // Before authentication is enabled.
  ASSERT_TRUE(Put(*client, "a", "1"));
  cluster.EnableAuthentication("secret");
  const auto written = Put(*client, "a", "2");
  ASSERT_TRUE(written) << written.error().ToString();
  WatchRecorder recorder;
  const auto watch = client->Watch("a", written->revision, recorder.callback());
  // Longer than the TTL of the token: etcd drops unused tokens.
  const auto wait = GrantLease(*client, seconds(3));
  ASSERT_TRUE(wait);
  ASSERT_TRUE(Put(*client, "awake", "1", 0, wait->id));
  ASSERT_TRUE(recorder.WaitUntil(
      [](const auto& changes) { return !changes.empty() && changes.back()->deleted(); }));
  const auto later = Put(*client, "a", "3");
  EXPECT_TRUE(later) << later.error().ToString();

  const auto wrong =
      Connect({.endpoints = cluster.endpoints(), .user = "root", .password = "guess"});
  const auto rejected = Put(*wrong, "a", "4");
  ASSERT_FALSE(rejected);
  EXPECT_TRUE(rejected.error().Is(StatusReason::kUnauthorized)) << rejected.error().ToString();
  const auto nobody = Connect({.endpoints = cluster.endpoints()});
  const auto anonymous = Put(*nobody, "a", "4");
  ASSERT_FALSE(anonymous);
  EXPECT_TRUE(anonymous.error().Is(StatusReason::kUnauthorized)) << anonymous.error().ToString();
}

TEST(EtcdUserTest, GetsForbiddenWithoutPermission) {
  EtcdCluster cluster;
  cluster.Post(0, "/v3/auth/user/add", R"({"name":"guest","password":"guest"})");
  cluster.EnableAuthentication("secret");
  const auto client =
      Connect({.endpoints = cluster.endpoints(), .user = "guest", .password = "guest"});
  const auto rejected = Put(*client, "a", "1");
  ASSERT_FALSE(rejected);
  EXPECT_TRUE(rejected.error().Is(StatusReason::kForbidden)) << rejected.error().ToString();
  const auto unread = Range(*client, {.start = "a"});
  ASSERT_FALSE(unread);
  EXPECT_TRUE(unread.error().Is(StatusReason::kForbidden)) << unread.error().ToString();
}

// --- no space -----------------------------------------------------------------------------------

TEST(EtcdSpaceTest, FailsWithoutSpaceAndWorksAgainWithSpace) {
  EtcdCluster cluster({.flags = {"--quota-backend-bytes=4194304"}});
  const auto client = Connect({.endpoints = cluster.endpoints()});
  const std::string value(256 << 10, 'x');
  Status rejected;
  Revision revision = 0;
  for (int i = 0; i < 100 && rejected.ok(); ++i) {
    const auto written = Put(*client, "a", value, revision);
    if (!written) {
      rejected = written.error();
    } else {
      EXPECT_TRUE(written->committed);
      revision = written->revision;
    }
  }
  EXPECT_TRUE(rejected.Is(StatusReason::kServiceUnavailable)) << rejected.ToString();
  EXPECT_GE(rejected.retry_after(), seconds(1));
  const auto lease = GrantLease(*client, seconds(10));
  ASSERT_FALSE(lease);
  EXPECT_TRUE(lease.error().Is(StatusReason::kServiceUnavailable)) << lease.error().ToString();
  const auto condition = GetCondition(*client);
  ASSERT_TRUE(condition);
  EXPECT_EQ(condition->alarms, std::vector<std::string>{"NOSPACE"});
  // Reads and deletes still work.
  const auto page = Range(*client, {.start = "a", .keys_only = true});
  ASSERT_TRUE(page);
  EXPECT_TRUE(Delete(*client, "a")->committed);
  // "physical" makes etcd answer when the compaction is finished.
  cluster.Post(0, "/v3/kv/compaction",
               fmt::format(R"({{"revision":{},"physical":true}})", page->revision + 1));
  cluster.Post(0, "/v3/maintenance/defragment", "{}");
  const std::string alarms = cluster.Post(0, "/v3/maintenance/alarm", "{}");
  const std::size_t member = alarms.find("\"memberID\":\"", alarms.find("\"alarms\"")) + 12;
  cluster.Post(0, "/v3/maintenance/alarm",
               fmt::format(R"({{"action":"DEACTIVATE","alarm":"NOSPACE","memberID":"{}"}})",
                           alarms.substr(member, alarms.find('"', member) - member)));
  EXPECT_TRUE(Eventually([&] { return Put(*client, "a", "1").has_value(); }));
  EXPECT_TRUE(GetCondition(*client)->alarms.empty());
}

}  // namespace
}  // namespace herald::store
