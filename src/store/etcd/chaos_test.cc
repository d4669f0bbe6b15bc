// Kills and pauses members of a cluster at random, sometimes two at a time, while two stores write
// and watch. Afterwards no acknowledged write is lost, no rejected write exists, and every watch
// got every change once and in order, or an error that says that it missed some.
//
//   etcd_chaos_test        12 rounds in make test; HERALD_SOAK=1: 200
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes/random.h"
#include "base/thread/mutex.h"
#include "store/etcd/store.h"
#include "store/etcd/testing/process.h"
#include "store/testing/suite_watch.h"

namespace herald::store {
namespace {

using namespace std::chrono_literals;

constexpr int kWriters = 4;
constexpr std::string_view kLast = "/z";

// Counts the attempts of the writers.
class Count {
 public:
  void Add() {
    MutexLock lock(mu_);
    ++count_;
    changed_.NotifyAll();
  }
  int count() {
    MutexLock lock(mu_);
    return count_;
  }
  // Returns false on timeout.
  bool WaitFor(int count, std::chrono::nanoseconds timeout) {
    MutexLock lock(mu_);
    return changed_.WaitFor(lock, timeout, [&]() REQUIRES(mu_) { return count_ >= count; });
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int count_ GUARDED_BY(mu_) = 0;
};

Result<Written> Create(Store& store, const std::string& key) {
  std::promise<Result<Written>> done;
  store.Commit({.key = key, .value = std::make_shared<const std::string>("v"), .expected = 0},
               [&done](Result<Written> written) { done.set_value(std::move(written)); });
  return done.get_future().get();
}

Result<Page> List(Store& store) {
  std::promise<Result<Page>> done;
  store.Read({}, [&done](Result<Page> page) { done.set_value(std::move(page)); });
  return done.get_future().get();
}

Page ListInTheEnd(Store& store) {
  const SteadyTime give_up = SystemClock().Steady() + kSuiteDeadline;
  for (;;) {
    Result<Page> page = List(store);
    if (page) return *std::move(page);
    if (SystemClock().Steady() > give_up) {
      ADD_FAILURE() << page.error().ToString();
      return {};
    }
  }
}

// The results of the writes.
struct Outcome {
  std::map<std::string, Revision> acknowledged{};
  std::set<std::string> rejected{};
  std::set<std::string> unknown{};
};

class Writer {
 public:
  Writer(int number, const std::vector<Store*>& stores, Count* tries, std::atomic<bool>* stop)
      : thread_([this, number, stores, tries, stop] {
          for (int i = 0; !*stop; ++i) {
            const std::string key = "/" + std::to_string(number) + "/" + std::to_string(i);
            Try(*stores[static_cast<std::size_t>(i) % stores.size()], key);
            tries->Add();
          }
        }) {}
  const Outcome& Finish() {
    thread_.join();
    return outcome_;
  }

 private:
  void Try(Store& store, const std::string& key) {
    const Result<Written> written = Create(store, key);
    if (written) {
      EXPECT_TRUE(written->committed) << key << " existed before it was created";
      outcome_.acknowledged[key] = written->revision;
    } else if (written.error().Is(StatusReason::kTimeout)) {
      outcome_.unknown.insert(key);
    } else {
      EXPECT_TRUE(written.error().Is(StatusReason::kServiceUnavailable))
          << written.error().ToString();
      outcome_.rejected.insert(key);
      // Like a client that gets retry_after.
      pause_.WaitFor(1, 20ms);
    }
  }

  Outcome outcome_;
  Count pause_;  // never incremented
  std::thread thread_;
};

// A client with a watch: it lists again after kExpired, and resumes after other errors.
class Follower {
 public:
  explicit Follower(Store& store)
      : thread_([this, &store] {
          Relist(store);
          while (!entries_.contains(std::string(kLast)) && !HasFailure()) Follow(store);
        }) {}
  void Join() { thread_.join(); }
  const std::map<std::string, Revision>& entries() const { return entries_; }
  int relists() const { return relists_; }

 private:
  static bool HasFailure() { return testing::Test::HasFailure(); }

  void Relist(Store& store) {
    ++relists_;
    const Page page = ListInTheEnd(store);
    for (const Entry& entry : page.entries) entries_[entry.key] = entry.revision;
    revision_ = page.revision;
  }
  void Follow(Store& store) {
    SuiteWatch watch(store, "", revision_);
    while (watch.error().ok() && !entries_.contains(std::string(kLast)) && !HasFailure()) {
      for (const auto& change : watch.Take(1)) {
        EXPECT_FALSE(change->deleted());
        EXPECT_GT(change->revision(), revision_) << "out of order";
        const bool is_new = entries_.emplace(change->key(), change->revision()).second;
        EXPECT_TRUE(is_new) << change->key() << " was delivered twice";
        revision_ = change->revision();
      }
    }
    if (watch.error().Is(StatusReason::kExpired)) Relist(store);
  }

  std::map<std::string, Revision> entries_;
  Revision revision_ = 0;
  int relists_ = 0;
  std::thread thread_;
};

TEST(EtcdChaosTest, LosesNoWritesAndDeliversAllChanges) {
  const int rounds = std::getenv("HERALD_SOAK") != nullptr ? 200 : 12;
  EtcdCluster etcd({.members = 3});
  StoreOptions options;
  options.background = false;
  EtcdStoreOptions etcd_options;
  etcd_options.client.endpoints = etcd.endpoints();
  etcd_options.client.call_timeout = 2s;
  etcd_options.etcd_root = "/chaos";
  auto a = EtcdStore::Open(options, etcd_options);
  auto b = EtcdStore::Open(options, etcd_options);
  ASSERT_TRUE(a && b);
  const std::vector<Store*> stores = {a->get(), b->get()};

  std::vector<std::unique_ptr<Follower>> followers;
  for (int i = 0; i < 4; ++i) followers.push_back(std::make_unique<Follower>(*stores[i % 2]));
  Count tries;
  std::atomic<bool> stop = false;
  std::vector<std::unique_ptr<Writer>> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.push_back(std::make_unique<Writer>(i, stores, &tries, &stop));
  }

  Random random(20261116);
  const auto pick = [&random](std::uint64_t n) {
    return static_cast<std::size_t>(random.Next() % n);
  };
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    tries.WaitFor(tries.count() + 100, 10s);
    const std::size_t first = pick(3);
    const std::size_t second = (first + 1 + pick(2)) % 3;
    switch (pick(4)) {
      case 0:  // the others are a majority
        etcd.Kill(first);
        tries.WaitFor(tries.count() + 100, 3s);
        etcd.Restart(first);
        break;
      case 1:
        etcd.Pause(first);
        tries.WaitFor(tries.count() + 50, 3s);
        etcd.Resume(first);
        break;
      case 2:  // no majority
        etcd.Pause(first);
        etcd.Kill(second);
        tries.WaitFor(tries.count() + 20, 3s);
        etcd.Resume(first);
        etcd.Restart(second);
        break;
      case 3:
        (*a)->CompactHistory();
        (*b)->CompactHistory();
        break;
    }
  }
  stop = true;
  Outcome all;
  for (const auto& writer : writers) {
    const Outcome& outcome = writer->Finish();
    all.acknowledged.insert(outcome.acknowledged.begin(), outcome.acknowledged.end());
    all.rejected.insert(outcome.rejected.begin(), outcome.rejected.end());
    all.unknown.insert(outcome.unknown.begin(), outcome.unknown.end());
  }
  ListInTheEnd(**a);
  while (!Create(**a, std::string(kLast))) {
  }

  std::map<std::string, Revision> entries;
  for (const Entry& entry : ListInTheEnd(**a).entries) entries[entry.key] = entry.revision;
  std::map<std::string, Revision> of_b;
  for (const Entry& entry : ListInTheEnd(**b).entries) of_b[entry.key] = entry.revision;
  EXPECT_EQ(entries, of_b);
  for (const auto& [key, revision] : all.acknowledged) {
    ASSERT_TRUE(entries.contains(key)) << key << " was acknowledged and is lost";
    EXPECT_EQ(entries[key], revision) << key;
  }
  for (const std::string& key : all.rejected) {
    EXPECT_FALSE(entries.contains(key)) << key << " was rejected and exists";
  }
  int relists = 0;
  for (const auto& follower : followers) {
    follower->Join();
    EXPECT_EQ(follower->entries(), entries);
    relists += follower->relists();
  }
  std::printf("%zu acknowledged, %zu rejected, %zu unknown; %d lists of %zu followers\n",
              all.acknowledged.size(), all.rejected.size(), all.unknown.size(), relists,
              followers.size());
}

}  // namespace
}  // namespace herald::store
