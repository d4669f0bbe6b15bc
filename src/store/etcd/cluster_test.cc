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

// --- three members --------------------------------------------------------------------------

class EtcdThreeTest : public testing::Test {
 protected:
  EtcdCluster cluster_{{.members = 3}};
};

// Writes k/0, k/1, ... one after the other; each until it is known to be there.
class Writer {
 public:
  explicit Writer(EtcdClient* client) : client_(client) {}
  void Write(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string key = "k/" + std::to_string(written_);
      // Where nobody knows whether it was done, the next try finds out.
      ASSERT_TRUE(Eventually([&] { return Put(*client_, key, "v", 0).has_value(); }));
      ++written_;
    }
  }
  int written() const { return written_; }

 private:
  EtcdClient* const client_;
  int written_ = 0;
};

void ExpectEachOnceInOrder(const Told& told, int count) {
  const auto keys = told.keys();
  ASSERT_EQ(keys.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) EXPECT_EQ(keys[i], "k/" + std::to_string(i));
}

TEST_F(EtcdThreeTest, SurvivesThatEachMemberIsKilledInTurn) {
  const auto client = Connect({.endpoints = cluster_.endpoints()});
  Told told;
  const auto watch = client->Watch("k/", 1, told.callback());
  Writer writer(client.get());
  for (std::size_t i = 0; i < cluster_.size(); ++i) {
    writer.Write(10);
    cluster_.Kill(i);
    writer.Write(10);
    ASSERT_TRUE(Eventually([&] { return Range(*client, {.start = "k/0"}).has_value(); }));
    cluster_.Restart(i);
  }
  ASSERT_TRUE(told.UntilCount(static_cast<std::size_t>(writer.written())));
  ExpectEachOnceInOrder(told, writer.written());
}

TEST_F(EtcdThreeTest, SurvivesThatEachMemberStopsAndGoesOn) {
  const auto client = Connect(
      {.endpoints = cluster_.endpoints(), .call_timeout = seconds(2), .keepalive = seconds(5)});
  Told told;
  const auto watch = client->Watch("k/", 1, told.callback());
  Writer writer(client.get());
  for (std::size_t i = 0; i < cluster_.size(); ++i) {
    writer.Write(5);
    cluster_.Pause(i);
    writer.Write(5);
    ASSERT_TRUE(told.UntilCount(static_cast<std::size_t>(writer.written())));
    cluster_.Resume(i);
  }
  ExpectEachOnceInOrder(told, writer.written());
}

TEST_F(EtcdThreeTest, SaysSoWhereThereIsNoMajorityAndWorksAgainWhenThereIs) {
  const auto client = Connect({.endpoints = cluster_.endpoints(), .call_timeout = seconds(2)});
  ASSERT_TRUE(Put(*client, "k/a", "1"));
  Told told;
  const auto watch = client->Watch("k/", 1, told.callback());
  ASSERT_TRUE(told.UntilCount(1));

  cluster_.Kill(0);
  cluster_.Kill(1);
  // At first nobody knows; then it is clear that there is no leader.
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
  EXPECT_TRUE(told.Until([](const auto& changes) { return changes.back()->key() == "k/c"; }));
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
  const auto refused = Put(*deceived, "a", "2");
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().Is(StatusReason::kServiceUnavailable)) << refused.error().ToString();
  EXPECT_FALSE(deceived->Health().ok());
  EXPECT_EQ(*Range(*client, {.start = "a"})->entries.at(0).value, "1");
}

TEST_F(EtcdTlsTest, ShowsItsCertificateAndReadsItAnewWhenItIsRefused) {
  EtcdCluster cluster(
      {.cert_file = server_.cert, .key_file = server_.key, .client_ca_file = authority_.ca_file()});
  const auto nobody = Connect({.endpoints = cluster.endpoints(), .ca_file = authority_.ca_file()});
  EXPECT_FALSE(Put(*nobody, "a", "1"));

  // A certificate that the server does not know is replaced on disk while we run.
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
  // Before there are users at all.
  ASSERT_TRUE(Put(*client, "a", "1"));
  cluster.EnableAuthentication("secret");
  const auto written = Put(*client, "a", "2");
  ASSERT_TRUE(written) << written.error().ToString();
  Told told;
  const auto watch = client->Watch("a", written->revision, told.callback());
  // Longer than the token lives: etcd forgets those that nobody uses.
  const auto wait = GrantLease(*client, seconds(3));
  ASSERT_TRUE(wait);
  ASSERT_TRUE(Put(*client, "awake", "1", 0, wait->id));
  ASSERT_TRUE(told.Until(
      [](const auto& changes) { return !changes.empty() && changes.back()->deleted(); }));
  const auto later = Put(*client, "a", "3");
  EXPECT_TRUE(later) << later.error().ToString();

  const auto wrong =
      Connect({.endpoints = cluster.endpoints(), .user = "root", .password = "guess"});
  const auto refused = Put(*wrong, "a", "4");
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().Is(StatusReason::kUnauthorized)) << refused.error().ToString();
  const auto nobody = Connect({.endpoints = cluster.endpoints()});
  const auto anonymous = Put(*nobody, "a", "4");
  ASSERT_FALSE(anonymous);
  EXPECT_TRUE(anonymous.error().Is(StatusReason::kUnauthorized)) << anonymous.error().ToString();
}

TEST(EtcdUserTest, IsToldWhatItMayNot) {
  EtcdCluster cluster;
  cluster.Post(0, "/v3/auth/user/add", R"({"name":"guest","password":"guest"})");
  cluster.EnableAuthentication("secret");
  const auto client =
      Connect({.endpoints = cluster.endpoints(), .user = "guest", .password = "guest"});
  const auto refused = Put(*client, "a", "1");
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().Is(StatusReason::kForbidden)) << refused.error().ToString();
  const auto unread = Range(*client, {.start = "a"});
  ASSERT_FALSE(unread);
  EXPECT_TRUE(unread.error().Is(StatusReason::kForbidden)) << unread.error().ToString();
}

// --- a full disk --------------------------------------------------------------------------------

TEST(EtcdSpaceTest, SaysThatThereIsNoSpaceAndWorksAgainWhenThereIs) {
  EtcdCluster cluster({.flags = {"--quota-backend-bytes=4194304"}});
  const auto client = Connect({.endpoints = cluster.endpoints()});
  const std::string value(256 << 10, 'x');
  Status refused;
  Revision revision = 0;
  for (int i = 0; i < 100 && refused.ok(); ++i) {
    const auto written = Put(*client, "a", value, revision);
    if (!written) {
      refused = written.error();
    } else {
      EXPECT_TRUE(written->committed);
      revision = written->revision;
    }
  }
  EXPECT_TRUE(refused.Is(StatusReason::kServiceUnavailable)) << refused.ToString();
  EXPECT_GE(refused.retry_after(), seconds(1));
  const auto lease = GrantLease(*client, seconds(10));
  ASSERT_FALSE(lease);
  EXPECT_TRUE(lease.error().Is(StatusReason::kServiceUnavailable)) << lease.error().ToString();
  const auto condition = GetCondition(*client);
  ASSERT_TRUE(condition);
  EXPECT_EQ(condition->alarms, std::vector<std::string>{"NOSPACE"});
  // It can still read, and make space.
  const auto page = Range(*client, {.start = "a", .keys_only = true});
  ASSERT_TRUE(page);
  EXPECT_TRUE(Delete(*client, "a")->committed);
  // "Physical": not before it is done.
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
