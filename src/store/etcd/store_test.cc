#include "store/etcd/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes/base64.h"
#include "store/etcd/testing/process.h"
#include "store/testing/suite.h"

namespace herald::store {
namespace {

using namespace std::chrono_literals;

// One for all tests, which use different prefixes, because a start takes longer than a test. The
// members are killed with the thread that starts them, so the first test starts it on main's
// thread.
EtcdCluster& SharedEtcd() {
  static EtcdCluster etcd;
  return etcd;
}

// Three members, only with the etcd of $HERALD_ETCD, because it takes long.
EtcdCluster& SharedCluster() {
  static EtcdCluster etcd({.members = 3});
  return etcd;
}

std::string NewPrefix() {
  static int number = 0;
  return "/suite" + std::to_string(++number) + "/";
}

EtcdStoreOptions OptionsFor(const EtcdCluster& etcd, const std::string& prefix) {
  EtcdStoreOptions options;
  options.client.endpoints = etcd.endpoints();
  options.etcd_root = prefix;
  return options;
}

void DeletePrefix(const EtcdCluster& etcd, const std::string& prefix) {
  std::string end = prefix;
  ++end.back();
  etcd.Post(
      0, "/v3/kv/deleterange",
      "{\"key\":\"" + Base64Encode(prefix) + "\",\"range_end\":\"" + Base64Encode(end) + "\"}");
}

class EtcdHarness final : public StoreHarness {
 public:
  EtcdHarness(EtcdCluster& etcd, std::uint64_t max_cache_bytes)
      : etcd_(etcd), prefix_(NewPrefix()), max_cache_bytes_(max_cache_bytes) {}
  // So that no lease changes the revision during a later test.
  ~EtcdHarness() override { DeletePrefix(etcd_, prefix_); }

  StoreCapabilities capabilities() const override {
    StoreCapabilities capabilities;
    capabilities.dense_revisions = false;
    capabilities.fake_clock = false;
    capabilities.own_compaction = false;
    capabilities.size_cap = false;
    capabilities.in_order = false;
    capabilities.persistent = true;
    capabilities.bulk = 1'000;
    return capabilities;
  }
  std::unique_ptr<Store> Open(const StoreOptions& options) override {
    EtcdStoreOptions etcd = OptionsFor(etcd_, prefix_);
    etcd.max_cache_bytes = max_cache_bytes_;
    auto store = EtcdStore::Open(options, std::move(etcd));
    HERALD_CHECK(store.has_value());
    return *std::move(store);
  }

 private:
  EtcdCluster& etcd_;
  const std::string prefix_;
  const std::uint64_t max_cache_bytes_;
};

std::vector<StoreBackend> Backends() {
  std::vector<StoreBackend> backends = {
      {"Etcd", [] { return std::make_unique<EtcdHarness>(SharedEtcd(), 512u << 20); }},
      {"EtcdWithoutCache", [] { return std::make_unique<EtcdHarness>(SharedEtcd(), 0); }}};
  if (std::getenv("HERALD_ETCD") != nullptr) {
    backends.push_back(
        {"EtcdCluster", [] { return std::make_unique<EtcdHarness>(SharedCluster(), 512u << 20); }});
  }
  return backends;
}

INSTANTIATE_TEST_SUITE_P(Etcd, StoreSuite, testing::ValuesIn(Backends()), StoreBackendName);

// ---- behaviour of etcd only ----

class EtcdStoreTest : public testing::Test {
 protected:
  EtcdStoreTest() {
    options_.background = false;
    options_.schema.index = [](std::string_view, std::string_view value) {
      return SuiteValues::Index(value);
    };
    options_.schema.lifetime = [this](std::string_view, std::string_view value) {
      return SuiteValues::Lifetime(value) / lifetime_divisor_.load();
    };
    // The last part of a value is the number of seconds since it was written.
    options_.schema.written = [](std::string_view,
                                 std::string_view value) -> std::optional<WallTime> {
      if (value.starts_with("unreadable")) return std::nullopt;
      const std::string age(value.substr(value.rfind('|') + 1));
      return SystemClock().Now() - std::chrono::seconds(std::atoi(age.c_str()));
    };
  }
  ~EtcdStoreTest() override { DeletePrefix(etcd_, prefix_); }

  std::unique_ptr<EtcdStore> Open() {
    auto store = EtcdStore::Open(options_, OptionsFor(etcd_, prefix_));
    EXPECT_TRUE(store);
    return *std::move(store);
  }
  static Result<Written> TryPut(Store& store, const std::string& key, const std::string& value,
                                Revision expected = Write::kAny) {
    std::promise<Result<Written>> done;
    store.Commit({key, std::make_shared<const std::string>(value), expected},
                 [&done](Result<Written> written) { done.set_value(std::move(written)); });
    return done.get_future().get();
  }
  static Revision Put(Store& store, const std::string& key, const std::string& value) {
    const auto written = TryPut(store, key, value);
    EXPECT_TRUE(written) << written.error().ToString();
    return written ? written->revision : 0;
  }
  static std::vector<std::string> Keys(Store& store, Query query = {}) {
    std::promise<Result<Page>> done;
    store.Read(std::move(query), [&done](Result<Page> page) { done.set_value(std::move(page)); });
    const auto page = done.get_future().get();
    std::vector<std::string> keys;
    if (!page) return {page.error().ToString()};
    for (const Entry& entry : page->entries) keys.push_back(entry.key);
    return keys;
  }
  static Query By(const std::string& value) {
    Query query;
    query.by = IndexRange{.index = 1, .from = value, .to = value + '\0'};
    return query;
  }
  // A write that bypasses the store.
  void PutForeign(const std::string& key, const std::string& value) {
    etcd_.Post(0, "/v3/kv/put",
               "{\"key\":\"" + Base64Encode(prefix_ + key) + "\",\"value\":\"" +
                   Base64Encode(value) + "\"}");
  }
  using Strings = std::vector<std::string>;

  EtcdCluster& etcd_ = SharedEtcd();
  const std::string prefix_ = NewPrefix();
  StoreOptions options_;
  std::atomic<int> lifetime_divisor_{1};
};

TEST_F(EtcdStoreTest, ALeaseDeletesExpiredEntries) {
  const auto store = Open();
  SuiteWatch watch(*store, "", 0);
  const SteadyTime before = SystemClock().Steady();
  for (int i = 0; i < 20; ++i) {
    Put(*store, "/short" + std::to_string(i), SuiteValues::Make("", "", 1));
  }
  Put(*store, "/long", SuiteValues::Make("", "", 3600));
  EXPECT_LE(store->leases_granted(), 5u) << "shared";
  EXPECT_EQ(watch.Take(21).size(), 21u);
  const auto gone = watch.Take(20);
  ASSERT_EQ(gone.size(), 20u);
  EXPECT_GE(SystemClock().Steady() - before, 1s) << "not before its lifetime";
  std::set<std::string> keys;
  for (std::size_t i = 0; i < gone.size(); ++i) {
    EXPECT_TRUE(gone[i]->deleted());
    EXPECT_TRUE(gone[i]->previous());
    keys.insert(gone[i]->key());
    // A watch that breaks between two deletes of one lease must be able to resume with the second.
    const bool last = i + 1 == gone.size() || gone[i + 1]->revision() > gone[i]->revision();
    EXPECT_EQ(gone[i]->resume_revision(), gone[i]->revision() - (last ? 0 : 1));
  }
  EXPECT_EQ(keys.size(), 20u);
  EXPECT_EQ(Keys(*store), Strings{"/long"});
  EXPECT_EQ(store->Stats().expired, 20u);
}

TEST_F(EtcdStoreTest, WritesWithANewLeaseIfEtcdHasLostTheFirst) {
  const auto store = Open();
  Put(*store, "/a", SuiteValues::Make("", "", 3600));
  // Revokes all leases, which deletes the entry.
  const std::string leases = etcd_.Post(0, "/v3/lease/leases", "{}");
  for (std::size_t at = 0; (at = leases.find("\"ID\":\"", at)) != std::string::npos;) {
    at += 6;
    const std::string id = leases.substr(at, leases.find('"', at) - at);
    etcd_.Post(0, "/v3/lease/revoke", "{\"ID\":\"" + id + "\"}");
  }
  EXPECT_EQ(Keys(*store), Strings{});
  Put(*store, "/a", SuiteValues::Make("", "", 3600));
  EXPECT_EQ(Keys(*store), Strings{"/a"});
  EXPECT_EQ(store->leases_granted(), 2u);
}

TEST_F(EtcdStoreTest, SweepsOnlyOverdueEntries) {
  PutForeign("/overdue", SuiteValues::Make("", "", 60, "600"));
  PutForeign("/in time", SuiteValues::Make("", "", 3600, "600"));
  PutForeign("/a little late", SuiteValues::Make("", "", 60, "90"));
  PutForeign("unreadable", "unreadable");
  for (const std::uint64_t cache : {std::uint64_t{512} << 20, std::uint64_t{0}}) {
    PutForeign("/overdue", SuiteValues::Make("", "", 60, "600"));
    EtcdStoreOptions etcd = OptionsFor(etcd_, prefix_);
    etcd.max_cache_bytes = cache;
    auto store = EtcdStore::Open(options_, etcd);
    ASSERT_TRUE(store);
    EXPECT_EQ(Keys(**store).size(), 4u);
    SuiteWatch watch(**store, "", 0);
    (*store)->Maintain();
    const auto changes = watch.Take(1);
    ASSERT_EQ(changes.size(), 1u);
    EXPECT_TRUE(changes[0]->deleted());
    EXPECT_EQ(changes[0]->key(), "/overdue");
    EXPECT_EQ(Keys(**store), (Strings{"/a little late", "/in time", "unreadable"}));
  }
}

TEST_F(EtcdStoreTest, DeletesEntriesThatExpireByNewRulesAtOnce) {
  const auto store = Open();
  PutForeign("/was", SuiteValues::Make("", "", 3600, "100"));
  Put(*store, "/is", SuiteValues::Make("", "", 3600));
  SuiteWatch watch(*store, "", 0);
  EXPECT_EQ(Keys(*store).size(), 2u);
  lifetime_divisor_ = 100;
  const auto reopened = Open();  // has not seen the writes
  reopened->RefreshLifetimes();
  reopened->Maintain();
  EXPECT_EQ(Keys(*store).size(), 2u) << "both entries were loaded under the new rules";
  lifetime_divisor_ = 1;
  reopened->RefreshLifetimes();
  reopened->Maintain();
  lifetime_divisor_ = 100;
  reopened->RefreshLifetimes();
  reopened->Maintain();
  const auto changes = watch.Take(1);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0]->key(), "/was");
  EXPECT_EQ(Keys(*store), Strings{"/is"});
}

TEST_F(EtcdStoreTest, EachReplicaReadsTheOthersWrites) {
  const auto a = Open();
  const auto b = Open();
  SuiteWatch watch(*b, "", 0);
  for (int i = 0; i < 100; ++i) {
    const std::string key = "/" + std::to_string(i);
    const Revision revision = Put(i % 2 == 0 ? *a : *b, key, SuiteValues::Make(key, "", 60));
    // A completed write is visible in all replicas.
    Store& other = i % 2 == 0 ? *b : *a;
    EXPECT_EQ(Keys(other, By(key)), Strings{key});
    std::promise<Result<std::optional<Entry>>> done;
    other.Get(key, [&done](Result<std::optional<Entry>> e) { done.set_value(std::move(e)); });
    const auto entry = done.get_future().get();
    ASSERT_TRUE(entry && *entry);
    EXPECT_EQ((*entry)->revision, revision);
  }
  EXPECT_EQ(watch.Take(100).size(), 100u);
}

TEST_F(EtcdStoreTest, AnswersFromTheCacheWhileOtherKeysAreWritten) {
  const auto store = Open();
  Put(*store, "/a", SuiteValues::Make("x", "", 60));
  SuiteWatch watch(*store, "", 0);
  for (int i = 0; i < 20; ++i) {
    // Outside of the store, so that no change advances the cache.
    etcd_.Post(0, "/v3/kv/put", "{\"key\":\"" + Base64Encode("/elsewhere") + "\"}");
    EXPECT_EQ(Keys(*store, By("x")), Strings{"/a"});
  }
  EXPECT_EQ(store->full_lists(), 1u);
}

TEST_F(EtcdStoreTest, OnlyOneReplicaCompactsPerInterval) {
  const auto a = Open();
  const auto b = Open();
  const Revision first = Put(*a, "/a", "1");
  for (int i = 0; i < 3; ++i) Put(*a, "/a", std::to_string(i));
  // Both get the compaction key and etcd's revision.
  a->CompactHistory();
  b->CompactHistory();
  EXPECT_EQ(a->Stats().compacted, 0) << "the first interval compacts nothing";
  const Revision between = Put(*a, "/a", "4");
  a->CompactHistory();
  const Revision compacted = a->Stats().compacted;
  EXPECT_GT(compacted, first);
  EXPECT_LT(compacted, between);
  b->CompactHistory();
  EXPECT_EQ(b->Stats().compacted, 0) << "the other replica has compacted";
  EXPECT_EQ(a->Stats().compacted, compacted);
  b->CompactHistory();
  EXPECT_GT(b->Stats().compacted, compacted) << "if the first replica stops";

  const auto late = Open();
  Query query;
  query.at = first;
  EXPECT_EQ(Keys(*late, query)[0].substr(0, 7), "Expired");
  SuiteWatch watch(*late, "", first);
  EXPECT_TRUE(watch.TakeError().Is(StatusReason::kExpired)) << watch.error().ToString();
}

TEST_F(EtcdStoreTest, WorksAgainWhenEtcdIsBack) {
  EtcdCluster etcd;
  auto opened = EtcdStore::Open(options_, OptionsFor(etcd, prefix_));
  ASSERT_TRUE(opened);
  EtcdStore& store = **opened;
  SuiteWatch watch(store, "", 0);
  Put(store, "/a", SuiteValues::Make("x", "", 60));
  EXPECT_TRUE(store.Health().ok());

  etcd.Kill(0);
  const auto rejected = TryPut(store, "/b", "v");
  ASSERT_FALSE(rejected);
  EXPECT_TRUE(rejected.error().Is(StatusReason::kServiceUnavailable) ||
              rejected.error().Is(StatusReason::kTimeout))
      << rejected.error().ToString();
  store.Maintain();
  EXPECT_FALSE(store.Health().ok());

  etcd.Restart(0);
  Result<Written> written = Status(StatusReason::kUnknown, "");
  for (const SteadyTime end = SystemClock().Steady() + kSuiteDeadline;
       !written && SystemClock().Steady() < end;) {
    written = TryPut(store, "/c", SuiteValues::Make("x", "", 60));
  }
  ASSERT_TRUE(written) << written.error().ToString();
  store.Maintain();
  EXPECT_TRUE(store.Health().ok()) << store.Health().ToString();
  EXPECT_EQ(Keys(store, By("x")), (Strings{"/a", "/c"}));
  const auto changes = watch.Take(2);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[1]->key(), "/c");
}

TEST_F(EtcdStoreTest, IsUnhealthyWhileEtcdIsFullAndWorksAgainAfterwards) {
  EtcdCluster etcd({.members = 1, .flags = {"--quota-backend-bytes=2000000"}});
  auto opened = EtcdStore::Open(options_, OptionsFor(etcd, prefix_));
  ASSERT_TRUE(opened);
  EtcdStore& store = **opened;
  Result<Written> written = Written();
  int puts = 0;
  for (; written && puts < 100; ++puts) {
    written = TryPut(store, "/" + std::to_string(puts), std::string(100'000, 'x'), 0);
  }
  ASSERT_FALSE(written);
  EXPECT_TRUE(written.error().Is(StatusReason::kServiceUnavailable)) << written.error().ToString();
  EXPECT_GE(written.error().retry_after(), 1s);
  store.Maintain();
  EXPECT_NE(store.Health().message().find("NOSPACE"), std::string::npos)
      << store.Health().ToString();
  EXPECT_EQ(Keys(store).size(), static_cast<std::size_t>(puts - 1)) << "reads still work";

  // What an operator does.
  DeletePrefix(etcd, prefix_);
  EXPECT_TRUE(Keys(store).empty());
  const std::string revision = std::to_string(store.Stats().revision);
  etcd.Post(0, "/v3/kv/compaction", "{\"revision\":\"" + revision + "\",\"physical\":true}");
  etcd.Post(0, "/v3/maintenance/defragment", "{}");
  const std::string alarms = etcd.Post(0, "/v3/maintenance/alarm", R"({"action":"GET"})");
  const std::size_t member = alarms.find("\"memberID\":\"") + 12;
  etcd.Post(0, "/v3/maintenance/alarm",
            R"({"action":"DEACTIVATE","alarm":"NOSPACE","memberID":")" +
                alarms.substr(member, alarms.find('"', member) - member) + "\"}");
  store.Maintain();
  EXPECT_TRUE(store.Health().ok()) << store.Health().ToString();
  Put(store, "/a", "v");
}

TEST_F(EtcdStoreTest, StartsWithoutEtcdAndConnectsLater) {
  EtcdCluster etcd;
  etcd.Kill(0);
  auto opened = EtcdStore::Open(options_, OptionsFor(etcd, prefix_));
  ASSERT_TRUE(opened);
  EtcdStore& store = **opened;
  EXPECT_FALSE(store.Health().ok());
  EXPECT_FALSE(TryPut(store, "/a", "v"));
  EXPECT_TRUE(SuiteWatch(store, "", 0).error().Is(StatusReason::kServiceUnavailable));
  etcd.Restart(0);
  while (store.full_lists() == 0) {
    (void)TryPut(store, "/a", "v");
  }
  store.Maintain();
  EXPECT_TRUE(store.Health().ok()) << store.Health().ToString();
}

}  // namespace
}  // namespace herald::store
