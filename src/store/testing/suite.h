// The store suite specifies what every Store must do: one test for each guarantee of store.h. A
// backend runs it with a StoreHarness:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, StoreSuite,
//                            testing::Values(StoreBackend{"Memory", &MakeMemoryHarness}),
//                            StoreBackendName);
//
// A backend lists in its StoreCapabilities what it does not support by design; tests that need it
// are skipped with a message. Include this in one .cc of a test program.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/bytes/random.h"
#include "base/thread/mutex.h"
#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "store/store.h"
#include "store/testing/suite_watch.h"

namespace herald::store {

struct StoreCapabilities {
  bool dense_revisions = true;  // revisions have no gaps, and a new store starts with 1
  bool fake_clock = true;       // uses StoreOptions::clock
  bool own_compaction = true;   // Maintain() compacts by StoreOptions::watch_window
  bool size_cap = true;         // obeys StoreOptions::max_bytes
  bool in_order = true;         // concurrent writes are executed in the order of their calls
  bool persistent = false;      // a second Open() of a harness finds the data of the first
  int bulk = 5'000;             // number of writes that a test may make
};

// Opens the stores of one test, one after the other, all on the same data.
class StoreHarness {
 public:
  virtual ~StoreHarness() = default;
  virtual StoreCapabilities capabilities() const = 0;
  // REQUIRES: the store that was opened before is destroyed
  virtual std::unique_ptr<Store> Open(const StoreOptions& options) = 0;
};

struct StoreBackend {
  std::string name{};
  std::function<std::unique_ptr<StoreHarness>()> make{};
};

inline std::ostream& operator<<(std::ostream& out, const StoreBackend& backend) {
  return out << backend.name;
}

inline std::string StoreBackendName(const testing::TestParamInfo<StoreBackend>& info) {
  return info.param.name;
}

// The format of the suite's values: "<one>|<many>,<many>...|<seconds>|<anything>". The first part
// is an entry of index 1, each item of the second an entry of index 2, the third is the lifetime.
// Other values have no index entries and live for an hour.
class SuiteValues {
 public:
  static std::string Make(std::string_view one, std::string_view many, int seconds,
                          std::string_view rest = "") {
    std::string value(one);
    value.append("|").append(many).append("|").append(std::to_string(seconds));
    return value.append("|").append(rest);
  }

  static std::vector<IndexEntry> Index(std::string_view value) {
    std::vector<IndexEntry> entries;
    const auto parts = Parts(value);
    if (!parts) return entries;
    entries.push_back({1, std::string((*parts)[0])});
    std::string_view many = (*parts)[1];
    while (!many.empty()) {
      const std::size_t comma = many.find(',');
      entries.push_back({2, std::string(many.substr(0, comma))});
      many = comma == std::string_view::npos ? std::string_view() : many.substr(comma + 1);
    }
    return entries;
  }

  static std::chrono::seconds Lifetime(std::string_view value) {
    const auto parts = Parts(value);
    int seconds = 3600;
    if (parts) {
      std::from_chars((*parts)[2].data(), (*parts)[2].data() + (*parts)[2].size(), seconds);
    }
    return std::chrono::seconds(seconds);
  }

 private:
  static std::optional<std::array<std::string_view, 3>> Parts(std::string_view value) {
    std::array<std::string_view, 3> parts;
    for (std::string_view& part : parts) {
      const std::size_t bar = value.find('|');
      if (bar == std::string_view::npos) return std::nullopt;
      part = value.substr(0, bar);
      value.remove_prefix(bar + 1);
    }
    return parts;
  }
};

class StoreSuite : public testing::TestWithParam<StoreBackend> {
 protected:
  StoreSuite() : harness_(GetParam().make()), capabilities_(harness_->capabilities()) {
    options_.clock = &clock_;
    options_.background = false;
    options_.watch_window = std::chrono::minutes(5);
    options_.schema.index = [](std::string_view, std::string_view value) {
      return SuiteValues::Index(value);
    };
    options_.schema.lifetime = [this](std::string_view, std::string_view value) {
      return SuiteValues::Lifetime(value) * lifetime_factor_.load();
    };
    options_.schema.lifetime_rules = [this] {
      return static_cast<std::uint64_t>(lifetime_factor_.load());
    };
  }

  Store& store() {
    if (!store_) store_ = harness_->Open(options_);
    return *store_;
  }
  void Close() { store_.reset(); }

  Result<Written> Commit(const std::string& key, Bytes value, Revision expected = Write::kAny) {
    std::promise<Result<Written>> done;
    auto future = done.get_future();
    store().Commit({key, std::move(value), expected},
                   [&done](Result<Written> written) { done.set_value(std::move(written)); });
    return future.get();
  }
  Written Put(const std::string& key, std::string value, Revision expected = Write::kAny) {
    auto written = Commit(key, std::make_shared<const std::string>(std::move(value)), expected);
    if (!written) {
      ADD_FAILURE() << written.error().ToString();
      return {};
    }
    return *written;
  }
  Written Delete(const std::string& key, Revision expected = Write::kAny) {
    auto written = Commit(key, nullptr, expected);
    if (!written) {
      ADD_FAILURE() << written.error().ToString();
      return {};
    }
    return *written;
  }
  // Many concurrent writes, as of many clients. Returns the results in the order of the entries.
  std::vector<Written> PutAll(const std::vector<std::pair<std::string, std::string>>& entries) {
    std::vector<std::promise<Result<Written>>> done(entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      store().Commit({entries[i].first, std::make_shared<const std::string>(entries[i].second)},
                     [&promise = done[i]](Result<Written> w) { promise.set_value(std::move(w)); });
    }
    std::vector<Written> written;
    for (auto& promise : done) {
      auto result = promise.get_future().get();
      EXPECT_TRUE(result) << result.error().ToString();
      written.push_back(result ? *result : Written());
    }
    return written;
  }
  std::optional<Entry> Get(const std::string& key) {
    std::promise<Result<std::optional<Entry>>> done;
    store().Get(key, [&done](Result<std::optional<Entry>> e) { done.set_value(std::move(e)); });
    auto entry = done.get_future().get();
    EXPECT_TRUE(entry) << entry.error().ToString();
    return entry ? *entry : std::nullopt;
  }
  Result<Page> TryRead(Query query) {
    std::promise<Result<Page>> done;
    store().Read(std::move(query), [&done](Result<Page> p) { done.set_value(std::move(p)); });
    return done.get_future().get();
  }
  Page Read(Query query) {
    auto page = TryRead(std::move(query));
    if (!page) {
      ADD_FAILURE() << page.error().ToString();
      return {};
    }
    return std::move(*page);
  }
  Revision Latest() {
    std::promise<Result<Revision>> done;
    store().CurrentRevision([&done](Result<Revision> r) { done.set_value(std::move(r)); });
    auto revision = done.get_future().get();
    EXPECT_TRUE(revision) << revision.error().ToString();
    return revision ? *revision : 0;
  }

  static std::vector<std::string> Keys(const Page& page) {
    std::vector<std::string> keys;
    for (const Entry& entry : page.entries) keys.push_back(entry.key);
    return keys;
  }
  static std::string ValueOf(const std::optional<Entry>& entry) {
    return entry && entry->value ? *entry->value : "(none)";
  }
  static Query By(std::uint8_t index, const std::string& value) {
    Query query;
    query.by.emplace();
    query.by->index = index;
    query.by->from = value;
    query.by->to = value + '\0';
    return query;
  }
  static Query At(Revision revision) {
    Query query;
    query.at = revision;
    return query;
  }
  using Strings = std::vector<std::string>;

  // A moment in 2026, to the nanosecond.
  FakeClock clock_{WallTime(std::chrono::nanoseconds(1'767'225'600'123'456'789))};
  StoreOptions options_;
  std::atomic<int> lifetime_factor_{1};
  std::unique_ptr<StoreHarness> harness_;
  StoreCapabilities capabilities_;

 private:
  std::unique_ptr<Store> store_;
};

#define HERALD_NEEDS(capability) \
  if (!capabilities_.capability) GTEST_SKIP() << "this backend does not support " #capability

// ---- writes ----

TEST_P(StoreSuite, CountsEveryWriteFromOneWithoutGaps) {
  HERALD_NEEDS(dense_revisions);
  EXPECT_EQ(Latest(), 0);
  EXPECT_EQ(Put("/a", "1").revision, 1);
  EXPECT_EQ(Put("/b", "2").revision, 2);
  EXPECT_EQ(Delete("/a").revision, 3);
  EXPECT_EQ(Put("/a", "3").revision, 4);
  EXPECT_EQ(Latest(), 4);
}

TEST_P(StoreSuite, GivesLaterWritesGreaterRevisions) {
  Revision last = Latest();
  for (int i = 0; i < 50; ++i) {
    const Written written = Put("/key" + std::to_string(i % 7), std::to_string(i));
    EXPECT_GT(written.revision, last);
    last = written.revision;
  }
  EXPECT_EQ(Latest(), last);
}

TEST_P(StoreSuite, CreatesOnlyIfTheKeyDoesNotExist) {
  const Written first = Put("/a", "1", 0);
  EXPECT_TRUE(first.committed);

  const Written second = Put("/a", "2", 0);
  EXPECT_FALSE(second.committed);
  EXPECT_EQ(ValueOf(second.current), "1");
  ASSERT_TRUE(second.current);
  EXPECT_EQ(second.current->key, "/a");
  EXPECT_EQ(second.current->revision, first.revision);
  EXPECT_EQ(second.revision, first.revision) << "the latest: a rejected write has no revision";
  EXPECT_EQ(ValueOf(Get("/a")), "1");
}

TEST_P(StoreSuite, CreatesAgainWhatWasDeleted) {
  Put("/a", "1", 0);
  Delete("/a");
  EXPECT_TRUE(Put("/a", "2", 0).committed);
  EXPECT_EQ(ValueOf(Get("/a")), "2");
}

TEST_P(StoreSuite, UpdatesOnlyTheExpectedRevision) {
  const Revision first = Put("/a", "1").revision;
  const Written second = Put("/a", "2", first);
  EXPECT_TRUE(second.committed);

  const Written stale = Put("/a", "3", first);
  EXPECT_FALSE(stale.committed);
  EXPECT_EQ(ValueOf(stale.current), "2");

  Delete("/a");
  const Written gone = Put("/a", "4", second.revision);
  EXPECT_FALSE(gone.committed);
  EXPECT_FALSE(gone.current);
  EXPECT_FALSE(Get("/a"));
}

TEST_P(StoreSuite, DeletesOnlyTheExpectedRevision) {
  const Revision first = Put("/a", "1").revision;
  const Revision second = Put("/a", "2").revision;
  const Written stale = Delete("/a", first);
  EXPECT_FALSE(stale.committed);
  EXPECT_EQ(ValueOf(stale.current), "2");
  EXPECT_TRUE(Delete("/a", second).committed);
  EXPECT_FALSE(Get("/a"));
}

TEST_P(StoreSuite, DeletingAMissingKeyHasNoRevision) {
  const Revision before = Put("/a", "1").revision;
  for (const Revision expected : {Write::kAny, Revision{0}, before}) {
    const Written written = Delete("/b", expected);
    EXPECT_FALSE(written.committed);
    EXPECT_FALSE(written.current);
    EXPECT_EQ(written.revision, before);
  }
  EXPECT_EQ(Latest(), before);
}

TEST_P(StoreSuite, DistinguishesAnEmptyValueFromNone) {
  Put("/a", "");
  ASSERT_TRUE(Get("/a"));
  EXPECT_EQ(ValueOf(Get("/a")), "");
  EXPECT_EQ(Keys(Read({})), Strings{"/a"});
}

TEST_P(StoreSuite, AcceptsAnyBytesInKeysAndValues) {
  using namespace std::string_literals;
  // In the order in which a read must return them.
  const Strings keys = {"\0"s,         "/a"s,   "/a\0"s, "/a\0\0"s, "/a\0\1"s,  "/a\0\xff"s,
                        "/a\0\xff\0"s, "/a\1"s, "/aa"s,  "/a\xff"s, "\xff\xff"s};
  for (const std::string& key : keys) Put(key, "of " + key);
  EXPECT_EQ(Keys(Read({})), keys);
  for (const std::string& key : keys) EXPECT_EQ(ValueOf(Get(key)), "of " + key);
}

TEST_P(StoreSuite, LetsExactlyOneOfManyConcurrentCreatesWin) {
  std::vector<std::thread> threads;
  std::atomic<int> won = 0;
  for (int t = 0; t < 8; ++t) {
    store();
    threads.emplace_back([this, t, &won] {
      for (int i = 0; i < 20; ++i) {
        if (Put("/key" + std::to_string(i), std::to_string(t), 0).committed) ++won;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(won, 20);
}

TEST_P(StoreSuite, ChecksConditionsAgainstWritesThatAreStillUnderWay) {
  // All in one batch if the store has batches. Of each key only the first write may succeed.
  std::vector<int> won(10);
  std::vector<std::promise<Result<Written>>> done(40);
  for (int i = 0; i < 40; ++i) {
    store().Commit({"/key" + std::to_string(i / 4), std::make_shared<const std::string>("v"), 0},
                   [&promise = done[i]](Result<Written> w) { promise.set_value(std::move(w)); });
  }
  for (int i = 0; i < 40; ++i) {
    const auto written = done[i].get_future().get();
    ASSERT_TRUE(written);
    won[static_cast<std::size_t>(i / 4)] += written->committed ? 1 : 0;
    EXPECT_EQ(written->current.has_value(), !written->committed) << i;
    if (capabilities_.in_order) {
      EXPECT_EQ(written->committed, i % 4 == 0) << i;
    }
  }
  EXPECT_EQ(won, std::vector<int>(10, 1));
}

TEST_P(StoreSuite, ReadsWhatWasAcknowledgedBefore) {
  store();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 25; ++i) {
        const std::string key = "/t" + std::to_string(t) + "/" + std::to_string(i);
        const Revision revision = Put(key, "v").revision;
        const auto entry = Get(key);
        ASSERT_TRUE(entry);
        EXPECT_EQ(entry->revision, revision);
        EXPECT_GE(Latest(), revision);
        Query query;
        query.start = key;
        query.end = key + '\0';
        const Page page = Read(query);
        EXPECT_EQ(Keys(page), Strings{key});
        EXPECT_GE(page.revision, revision);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(StoreSuite, CompletesEveryWriteBeforeItIsDestroyed) {
  std::atomic<int> answers = 0;
  for (int i = 0; i < 100; ++i) {
    store().Commit({"/key" + std::to_string(i), std::make_shared<const std::string>("v")},
                   [&answers](const Result<Written>&) { ++answers; });
  }
  Close();
  EXPECT_EQ(answers, 100);
}

// ---- reads ----

TEST_P(StoreSuite, ReadsKeysInOrderFromStartToBeforeEnd) {
  for (const char* key : {"/b/2", "/a/1", "/c", "/b/1", "/b"}) Put(key, key);
  EXPECT_EQ(Keys(Read({})), (Strings{"/a/1", "/b", "/b/1", "/b/2", "/c"}));

  Query query;
  query.start = "/b/";
  query.end = "/b0";
  const Page page = Read(query);
  EXPECT_EQ(Keys(page), (Strings{"/b/1", "/b/2"}));
  EXPECT_EQ(ValueOf(page.entries[0]), "/b/1");
  EXPECT_EQ(page.revision, Latest());
  EXPECT_FALSE(page.more);
  EXPECT_EQ(page.remaining, 0);

  query.start = "/b/2";
  query.end = "";
  EXPECT_EQ(Keys(Read(query)), (Strings{"/b/2", "/c"})) << "no end";
  query.end = "/b/2";
  EXPECT_EQ(Keys(Read(query)), Strings{}) << "an empty range";
  query.end = "/a";
  EXPECT_EQ(Keys(Read(query)), Strings{}) << "an end before the start";
}

TEST_P(StoreSuite, ReportsWhetherALimitWasReachedAndHowManyRemain) {
  for (const char* key : {"/a", "/b", "/c", "/d"}) Put(key, "v");
  Query query;
  query.limit = 3;
  query.count_remaining = true;
  Page page = Read(query);
  EXPECT_EQ(Keys(page), (Strings{"/a", "/b", "/c"}));
  EXPECT_TRUE(page.more);
  EXPECT_EQ(page.remaining, 1);

  query.limit = 4;
  page = Read(query);
  EXPECT_EQ(page.entries.size(), 4u);
  EXPECT_FALSE(page.more);
  EXPECT_EQ(page.remaining, 0);

  query.limit = 1;
  query.count_remaining = false;
  page = Read(query);
  EXPECT_TRUE(page.more);
  EXPECT_EQ(page.remaining, 0) << "not requested";
}

TEST_P(StoreSuite, CountsOnlyEntriesThatMatchTheFilter) {
  for (int i = 0; i < 10; ++i) Put("/" + std::to_string(i), i % 2 == 0 ? "even" : "odd");
  Query query;
  query.filter = [](const Entry& entry) { return *entry.value == "odd"; };
  EXPECT_EQ(Keys(Read(query)), (Strings{"/1", "/3", "/5", "/7", "/9"}));
  query.limit = 2;
  query.count_remaining = true;
  const Page page = Read(query);
  EXPECT_EQ(Keys(page), (Strings{"/1", "/3"}));
  EXPECT_TRUE(page.more);
  EXPECT_EQ(page.remaining, 3);
}

TEST_P(StoreSuite, ReadsAllPagesAtOneRevisionDespiteWritesInBetween) {
  for (int i = 0; i < 9; ++i) Put("/" + std::to_string(i), "old");
  Query query;
  query.limit = 3;
  Strings seen;
  Revision revision = 0;
  for (int page_number = 0; page_number < 3; ++page_number) {
    const Page page = Read(query);
    if (page_number == 0) revision = page.revision;
    EXPECT_EQ(page.revision, revision);
    EXPECT_EQ(page.more, page_number < 2);
    for (const Entry& entry : page.entries) {
      EXPECT_EQ(ValueOf(entry), "old");
      seen.push_back(entry.key);
    }
    query.at = revision;
    query.start = seen.back() + '\0';
    Put("/5", "new");
    Put("/55", "new");
    Delete("/7");
  }
  EXPECT_EQ(seen, (Strings{"/0", "/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8"}));
}

TEST_P(StoreSuite, ReadsTheStateOfAnyKeptRevision) {
  const Revision created = Put("/a", "1").revision;
  const Revision updated = Put("/a", "2").revision;
  const Revision deleted = Delete("/a").revision;
  const Revision again = Put("/a", "3").revision;
  const auto value_at = [this](Revision at) {
    const Page page = Read(At(at));
    EXPECT_EQ(page.revision, at);
    return page.entries.empty() ? "(none)" : ValueOf(page.entries[0]);
  };
  EXPECT_EQ(value_at(created), "1");
  EXPECT_EQ(value_at(updated), "2");
  EXPECT_EQ(value_at(deleted), "(none)");
  EXPECT_EQ(value_at(again), "3");
  EXPECT_EQ(Read(At(updated)).entries[0].revision, updated);
}

TEST_P(StoreSuite, RejectsAReadAboveTheLatestRevision) {
  Put("/a", "1");
  const auto page = TryRead(At(Latest() + 1));
  ASSERT_FALSE(page);
  EXPECT_TRUE(page.error().Is(StatusReason::kBadRequest)) << page.error().ToString();
}

TEST_P(StoreSuite, ReadsAnEmptyStore) {
  EXPECT_TRUE(Read({}).entries.empty());
  EXPECT_FALSE(Get("/a"));
  EXPECT_TRUE(Read(By(1, "x")).entries.empty());
  EXPECT_EQ(store().Stats().entries, 0u);
}

// ---- indexes ----

TEST_P(StoreSuite, FindsEntriesByTheirIndexEntries) {
  Put("/a", SuiteValues::Make("x", "red,blue", 60));
  Put("/b", SuiteValues::Make("y", "blue", 60));
  Put("/c", "no index entries");
  EXPECT_EQ(Keys(Read(By(1, "x"))), Strings{"/a"});
  EXPECT_EQ(Keys(Read(By(2, "blue"))), (Strings{"/a", "/b"}));
  EXPECT_EQ(Keys(Read(By(2, "red"))), Strings{"/a"});
  EXPECT_EQ(Keys(Read(By(2, "x"))), Strings{}) << "a value of another index";
  EXPECT_EQ(Keys(Read(By(1, ""))), Strings{});
}

TEST_P(StoreSuite, DistinguishesIndexValuesFromTheirPrefixes) {
  using namespace std::string_literals;
  const Strings values = {""s,    "\0"s,      "\0\0"s, "\0\1"s,  "\0\xff"s, "a"s,
                          "a\0"s, "a\0\xff"s, "aa"s,   "a\xff"s, "\xff"s};
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Later values have earlier keys, so that the result is not ordered by keys by chance.
    Put("/" + std::string(1, static_cast<char>('z' - i)), SuiteValues::Make(values[i], "", 60));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(Keys(Read(By(1, values[i]))),
              Strings{"/" + std::string(1, static_cast<char>('z' - i))})
        << i;
  }
  Query query = By(1, "");
  query.by->to = "\xff\xff";
  EXPECT_EQ(Keys(Read(query)),
            (Strings{"/z", "/y", "/x", "/w", "/v", "/u", "/t", "/s", "/r", "/q", "/p"}));
}

TEST_P(StoreSuite, FindsUpdatedEntriesByTheirNewValueOnly) {
  const Revision before = Put("/a", SuiteValues::Make("old", "kept,gone", 60)).revision;
  Put("/a", SuiteValues::Make("new", "kept", 60));
  EXPECT_EQ(Keys(Read(By(1, "old"))), Strings{});
  EXPECT_EQ(Keys(Read(By(1, "new"))), Strings{"/a"});
  EXPECT_EQ(Keys(Read(By(2, "kept"))), Strings{"/a"}) << "once, not for each version";
  EXPECT_EQ(Keys(Read(By(2, "gone"))), Strings{});

  Query query = By(2, "gone");
  query.at = before;
  const Page page = Read(query);
  ASSERT_EQ(Keys(page), Strings{"/a"}) << "at the older revision";
  EXPECT_EQ(page.entries[0].revision, before);
}

TEST_P(StoreSuite, DoesNotFindDeletedEntriesInIndexes) {
  const Revision before = Put("/a", SuiteValues::Make("x", "", 60)).revision;
  Delete("/a");
  EXPECT_EQ(Keys(Read(By(1, "x"))), Strings{});
  Query query = By(1, "x");
  query.at = before;
  EXPECT_EQ(Keys(Read(query)), Strings{"/a"});
}

TEST_P(StoreSuite, OrdersByValueThenKeyAndDescending) {
  Put("/1", SuiteValues::Make("b", "", 60));
  Put("/2", SuiteValues::Make("a", "", 60));
  Put("/3", SuiteValues::Make("b", "", 60));
  Put("/4", SuiteValues::Make("c", "", 60));
  Query query = By(1, "a");
  query.by->to = "c";
  EXPECT_EQ(Keys(Read(query)), (Strings{"/2", "/1", "/3"}));
  query.by->descending = true;
  EXPECT_EQ(Keys(Read(query)), (Strings{"/3", "/1", "/2"}));
  query.start = "/2";
  EXPECT_EQ(Keys(Read(query)), (Strings{"/3", "/2"})) << "only keys of the range";
  query.end = "/3";
  EXPECT_EQ(Keys(Read(query)), (Strings{"/2"}));
}

TEST_P(StoreSuite, ContinuesAfterAnEntryOfAnIndex) {
  for (int i = 0; i < 12; ++i) {
    Put("/" + std::string(1, static_cast<char>('a' + i)),
        SuiteValues::Make(std::to_string(i % 3), "", 60));
  }
  for (const bool descending : {false, true}) {
    Query query = By(1, "0");
    query.by->to = "9";
    query.by->descending = descending;
    const Strings all = Keys(Read(query));
    ASSERT_EQ(all.size(), 12u);
    Strings paged;
    query.limit = 5;
    query.count_remaining = true;
    for (;;) {
      const Page page = Read(query);
      for (const Entry& entry : page.entries) paged.push_back(entry.key);
      EXPECT_EQ(page.remaining, static_cast<std::int64_t>(12 - paged.size()));
      if (!page.more) break;
      query.at = page.revision;
      query.by->after_key = page.entries.back().key;
      query.by->after_value = SuiteValues::Index(*page.entries.back().value)[0].value;
      Put("/0", SuiteValues::Make("1", "", 60));  // must not be in later pages
    }
    EXPECT_EQ(paged, all);
    Delete("/0");
  }
}

TEST_P(StoreSuite, EndsAPageAtMaxBytesAndContinuesAfterIt) {
  for (int i = 0; i < 12; ++i) {
    // Two values of index 2, so that each key is found twice.
    Put("/" + std::string(1, static_cast<char>('a' + i)),
        SuiteValues::Make(std::to_string(i % 3), "x,y", 60, std::string(1'000, 'v')));
  }
  std::vector<Query> queries(4);
  queries[1] = By(1, "0");
  queries[1].by->to = "9";
  queries[2] = queries[1];
  queries[2].by->descending = true;
  queries[3] = By(2, "x");
  queries[3].by->to = "z";
  for (Query query : queries) {
    const Strings all = Keys(Read(query));
    ASSERT_GE(all.size(), 12u);
    query.max_bytes = 2'500;
    Page page = Read(query);
    EXPECT_TRUE(page.more || page.entries.size() == all.size());
    const Revision revision = page.revision;
    Strings paged = Keys(page);
    Put("/new", SuiteValues::Make("1", "x", 60));  // must not be in later pages
    while (page.more) {
      query.ContinueAfter(page);
      page = Read(query);
      EXPECT_EQ(page.revision, revision);
      for (const Entry& entry : page.entries) paged.push_back(entry.key);
    }
    EXPECT_EQ(paged, all);
    Delete("/new");
  }

  Query plain;
  plain.max_bytes = 2'500;
  EXPECT_EQ(Read(plain).entries.size(), 3u) << "the third value reaches the limit";
  plain.max_bytes = 1;
  EXPECT_EQ(Read(plain).entries.size(), 1u) << "a page has at least one entry";
  plain.count_remaining = true;
  plain.limit = 5;
  const Page cut = Read(plain);
  EXPECT_TRUE(cut.more);
  EXPECT_EQ(cut.remaining, 0) << "entries beyond max_bytes are not counted";
}

TEST_P(StoreSuite, ContinuesAfterAPageWithALimitAndAFilter) {
  for (int i = 0; i < 10; ++i) Put("/" + std::to_string(i), i % 2 == 0 ? "even" : "odd");
  Query query;
  query.filter = [](const Entry& entry) { return *entry.value == "odd"; };
  query.limit = 2;
  Strings keys;
  for (Page page = Read(query);; page = Read(query)) {
    for (const Entry& entry : page.entries) keys.push_back(entry.key);
    if (!page.more) break;
    query.ContinueAfter(page);
  }
  EXPECT_EQ(keys, (Strings{"/1", "/3", "/5", "/7", "/9"}));
}

TEST_P(StoreSuite, ACancelledReadEnds) {
  for (int i = 0; i < 3; ++i) Put("/" + std::to_string(i), "v");
  Query query;
  query.background = true;
  query.cancelled = std::make_shared<std::atomic<bool>>(true);
  const auto page = TryRead(query);
  ASSERT_FALSE(page);
  EXPECT_TRUE(page.error().Is(StatusReason::kCancelled)) << page.error().ToString();
}

// Compares random reads after random writes with a model: the list of all writes.
TEST_P(StoreSuite, ReadsTheSameAsAModelAfterRandomWrites) {
  struct Step {
    Revision revision;
    std::string key;
    std::optional<std::string> value;
  };
  Random random(20261115);
  const auto pick = [&random](std::uint64_t n) { return static_cast<int>(random.Next() % n); };
  std::vector<Step> steps;
  for (int i = 0; i < 400; ++i) {
    const std::string key = "/k" + std::to_string(pick(30));
    if (pick(4) == 0) {
      const Written written = Delete(key);
      if (written.committed) steps.push_back({written.revision, key, std::nullopt});
    } else {
      const std::string many = std::to_string(pick(3)) + "," + std::to_string(pick(3) + 3);
      const std::string value =
          SuiteValues::Make(std::to_string(pick(4)), many, 60, std::to_string(i));
      steps.push_back({Put(key, value).revision, key, value});
    }
  }
  for (int round = 0; round < 300; ++round) {
    Query query;
    query.at = pick(3) == 0 ? 0 : steps[static_cast<std::size_t>(pick(steps.size()))].revision;
    if (pick(2) == 0) query.start = "/k" + std::to_string(pick(20));
    if (pick(2) == 0) query.end = "/k" + std::to_string(pick(30));
    query.limit = pick(2) == 0 ? 0 : static_cast<std::size_t>(1 + pick(10));
    query.count_remaining = true;
    if (pick(2) == 0) {
      query.by.emplace();
      query.by->index = static_cast<std::uint8_t>(1 + pick(2));
      query.by->from = std::to_string(pick(4));
      query.by->to = std::to_string(pick(7));
      query.by->descending = pick(2) == 0;
    }

    std::map<std::string, const Step*> state;
    for (const Step& step : steps) {
      if (query.at == 0 || step.revision <= query.at) state[step.key] = &step;
    }
    std::vector<std::pair<std::string, const Step*>> expected;  // by what they are sorted with
    for (const auto& [key, step] : state) {
      if (!step->value || key < query.start || (!query.end.empty() && key >= query.end)) continue;
      if (!query.by) {
        expected.emplace_back("", step);
        continue;
      }
      std::set<std::string> values;
      for (const IndexEntry& entry : SuiteValues::Index(*step->value)) {
        if (entry.index == query.by->index && entry.value >= query.by->from &&
            entry.value < query.by->to) {
          values.insert(entry.value);
        }
      }
      for (const std::string& value : values) expected.emplace_back(value, step);
    }
    std::sort(expected.begin(), expected.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first, a.second->key) < std::tie(b.first, b.second->key);
    });
    if (query.by && query.by->descending) std::reverse(expected.begin(), expected.end());

    const Page page = Read(query);
    const std::size_t cut =
        query.limit == 0 ? expected.size() : std::min(query.limit, expected.size());
    ASSERT_EQ(page.entries.size(), cut) << "round " << round;
    for (std::size_t i = 0; i < cut; ++i) {
      EXPECT_EQ(page.entries[i].key, expected[i].second->key);
      EXPECT_EQ(ValueOf(page.entries[i]), expected[i].second->value);
      EXPECT_EQ(page.entries[i].revision, expected[i].second->revision);
    }
    EXPECT_EQ(page.remaining, static_cast<std::int64_t>(expected.size() - cut));
    EXPECT_EQ(page.more, expected.size() > cut);
  }
}

TEST_P(StoreSuite, ReadsConsistentStatesWhileOthersWrite) {
  // Two keys are always written in this order, so in no state is the second ahead of the first.
  Put("/first", "0");
  Put("/second", "0");
  std::atomic<bool> stop = false;
  std::thread writer([this, &stop] {
    for (int i = 1; !stop && i < 2'000; ++i) {
      Put("/first", std::to_string(i));
      Put("/second", std::to_string(i));
    }
  });
  for (int i = 0; i < 200; ++i) {
    const Page page = Read({});
    ASSERT_EQ(page.entries.size(), 2u);
    EXPECT_LE(std::stoi(ValueOf(page.entries[1])), std::stoi(ValueOf(page.entries[0])));
    EXPECT_LE(page.entries[0].revision, page.revision);
    EXPECT_LE(page.entries[1].revision, page.revision);
  }
  stop = true;
  writer.join();
}

// ---- watches ----

TEST_P(StoreSuite, SendsAWatchEachChangeOnceInOrderWithThePreviousState) {
  SuiteWatch watch(store(), "/", 0);
  const Revision created = Put("/a", "1").revision;
  const Revision updated = Put("/a", "2").revision;
  const Revision deleted = Delete("/a").revision;
  const Revision again = Put("/a", "3").revision;

  const auto changes = watch.Take(4);
  ASSERT_EQ(changes.size(), 4u);
  EXPECT_EQ(changes[0]->key(), "/a");
  EXPECT_EQ(changes[0]->revision(), created);
  EXPECT_FALSE(changes[0]->deleted());
  EXPECT_EQ(ValueOf(changes[0]->current()), "1");
  EXPECT_FALSE(changes[0]->previous());

  EXPECT_EQ(changes[1]->revision(), updated);
  EXPECT_EQ(ValueOf(changes[1]->current()), "2");
  EXPECT_EQ(ValueOf(changes[1]->previous()), "1");
  EXPECT_EQ(changes[1]->previous()->revision, created);

  EXPECT_EQ(changes[2]->revision(), deleted);
  EXPECT_TRUE(changes[2]->deleted());
  EXPECT_FALSE(changes[2]->current().value);
  EXPECT_EQ(ValueOf(changes[2]->previous()), "2");

  EXPECT_EQ(changes[3]->revision(), again);
  EXPECT_FALSE(changes[3]->previous()) << "it was deleted before";
  EXPECT_TRUE(watch.IsDrained());
  EXPECT_EQ(watch.revision(), again);
}

TEST_P(StoreSuite, StartsAWatchAfterAnyKeptRevision) {
  const Revision first = Put("/a", "1").revision;
  const Revision second = Put("/b", "2").revision;
  SuiteWatch from_first(store(), "/", first);
  SuiteWatch from_second(store(), "/", second);
  SuiteWatch from_now(store(), "/", 0);
  const Revision third = Put("/c", "3").revision;
  const auto all = from_first.Take(2);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]->revision(), second);
  EXPECT_EQ(all[1]->revision(), third);
  EXPECT_EQ(from_second.Take(1)[0]->revision(), third);
  EXPECT_EQ(from_now.Take(1)[0]->revision(), third);
}

TEST_P(StoreSuite, AWatchWaitsForAFutureRevision) {
  HERALD_NEEDS(dense_revisions);
  const Revision now = Put("/a", "1").revision;
  SuiteWatch watch(store(), "/", now + 2);
  EXPECT_TRUE(watch.IsDrained());
  Put("/b", "skipped");
  Put("/c", "skipped");
  Put("/d", "seen");
  const auto changes = watch.Take(1);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0]->key(), "/d");
}

TEST_P(StoreSuite, SendsAWatchOnlyChangesOfItsPrefix) {
  SuiteWatch watch(store(), "/a/", 0);
  Put("/a", "no");
  Put("/a/1", "yes");
  Put("/b/1", "no");
  Put("/a0", "no");
  Delete("/b/1");
  Put("/a/2", "yes");
  const auto changes = watch.Take(2);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0]->key(), "/a/1");
  EXPECT_EQ(changes[1]->key(), "/a/2");
  EXPECT_TRUE(watch.IsDrained());
}

TEST_P(StoreSuite, CallsReadyOnceForAWatchThatHasSeenAll) {
  HERALD_NEEDS(dense_revisions);
  SuiteWatch watch(store(), "/a", 0);
  Put("/a1", "v");
  EXPECT_EQ(watch.ready_calls(), 0) << "Next() was not called yet";
  EXPECT_EQ(watch.Take(1).size(), 1u);
  EXPECT_TRUE(watch.IsDrained());
  Put("/b", "v");
  EXPECT_EQ(watch.ready_calls(), 0) << "the change is of another prefix";
  Put("/a2", "v");
  Put("/a3", "v");
  EXPECT_EQ(watch.ready_calls(), 1);
  EXPECT_EQ(watch.Take(2).size(), 2u);
}

TEST_P(StoreSuite, ReturnsAtMostMaxChanges) {
  SuiteWatch watch(store(), "/", 0);
  for (int i = 0; i < 10; ++i) Put("/" + std::to_string(i), "v");
  const auto changes = watch.Take(10, 3);
  ASSERT_EQ(changes.size(), 10u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(changes[i]->key(), "/" + std::to_string(i));
}

TEST_P(StoreSuite, ReportsTheRevisionOfAWatchWithoutChanges) {
  SuiteWatch watch(store(), "/quiet", 0);
  SuiteWatch loud(store(), "/elsewhere", 0);
  EXPECT_TRUE(watch.IsDrained());
  const Revision elsewhere = Put("/elsewhere", "v").revision;
  EXPECT_EQ(loud.Take(1).size(), 1u) << "the hub has the change";
  EXPECT_TRUE(watch.IsDrained());
  EXPECT_GE(watch.revision(), elsewhere) << "a bookmark may contain it";
}

TEST_P(StoreSuite, SharesAChangeAmongAllWatches) {
  std::vector<std::unique_ptr<SuiteWatch>> watches;
  for (int i = 0; i < 20; ++i) {
    watches.push_back(std::make_unique<SuiteWatch>(store(), i % 2 == 0 ? "/" : "", 0));
  }
  EXPECT_EQ(store().Stats().watches, 20u);
  Put("/a", "v");
  const auto first = watches[0]->Take(1);
  ASSERT_EQ(first.size(), 1u);
  for (auto& watch : watches) {
    if (watch == watches[0]) continue;
    const auto change = watch->Take(1);
    ASSERT_EQ(change.size(), 1u);
    EXPECT_EQ(change[0], first[0]) << "the same object, not a copy";
  }
  watches.clear();
  EXPECT_EQ(store().Stats().watches, 0u);
}

TEST_P(StoreSuite, LetsAWatchReadFromInsideItsCallback) {
  struct Reader {
    Mutex mu;
    CondVar changed;
    std::unique_ptr<Watch> watch GUARDED_BY(mu);
    std::vector<Revision> seen GUARDED_BY(mu);
    void Pump() {
      MutexLock lock(mu);
      for (;;) {
        auto batch = watch->Next(10);
        if (!batch || batch->changes.empty()) break;
        for (const auto& change : batch->changes) seen.push_back(change->revision());
      }
      changed.NotifyAll();
    }
  };
  auto reader = std::make_shared<Reader>();
  {
    MutexLock lock(reader->mu);
    auto watch = store().NewWatch("/", 0, [reader] { reader->Pump(); });
    ASSERT_TRUE(watch);
    reader->watch = std::move(*watch);
  }
  reader->Pump();
  std::vector<Revision> written;
  for (int i = 0; i < 30; ++i) written.push_back(Put("/" + std::to_string(i), "v").revision);
  MutexLock lock(reader->mu);
  reader->changed.WaitFor(lock, kSuiteDeadline,
                          [&]() NO_THREAD_SAFETY_ANALYSIS { return reader->seen.size() == 30; });
  EXPECT_EQ(reader->seen, written);
  auto watch = std::move(reader->watch);
  lock.Unlock();
}

TEST_P(StoreSuite, LosesNoChangeToConcurrentWatchesAndWrites) {
  const int writes = std::min(capabilities_.bulk, 2'000);
  store();
  std::vector<std::thread> threads;
  std::vector<std::vector<Revision>> seen(6);
  std::vector<std::unique_ptr<SuiteWatch>> watches;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    watches.push_back(std::make_unique<SuiteWatch>(store(), "/", 0));
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    threads.emplace_back([&, i] {
      for (const auto& change : watches[i]->Take(static_cast<std::size_t>(writes), 1 + i * 17)) {
        seen[i].push_back(change->revision());
      }
    });
  }
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t, writes] {
      for (int i = 0; i < writes / 4; ++i) {
        Put("/" + std::to_string(t) + "/" + std::to_string(i % 50), std::to_string(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& revisions : seen) {
    EXPECT_EQ(revisions.size(), static_cast<std::size_t>(writes));
    EXPECT_TRUE(std::is_sorted(revisions.begin(), revisions.end()));
    EXPECT_EQ(std::set<Revision>(revisions.begin(), revisions.end()).size(), revisions.size());
    EXPECT_EQ(revisions, seen[0]);
  }
}

// ---- expiry ----

TEST_P(StoreSuite, DeletesAnEntryAfterItsLifetimeAndNotifiesWatches) {
  HERALD_NEEDS(fake_clock);
  const Revision written = Put("/short", SuiteValues::Make("x", "", 10)).revision;
  Put("/long", SuiteValues::Make("x", "", 20));
  SuiteWatch watch(store(), "/", 0);

  clock_.Advance(std::chrono::seconds(9));
  store().Maintain();
  EXPECT_TRUE(Get("/short")) << "not before its time";

  clock_.Advance(std::chrono::seconds(2));
  store().Maintain();
  EXPECT_FALSE(Get("/short"));
  EXPECT_EQ(Keys(Read(By(1, "x"))), Strings{"/long"});
  const auto changes = watch.Take(1);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes[0]->deleted());
  EXPECT_EQ(changes[0]->key(), "/short");
  EXPECT_EQ(changes[0]->revision(), Latest()) << "a revision of its own";
  ASSERT_TRUE(changes[0]->previous());
  EXPECT_EQ(changes[0]->previous()->revision, written);
  EXPECT_EQ(store().Stats().expired, 1u);
  EXPECT_EQ(store().Stats().entries, 1u);

  EXPECT_TRUE(Put("/short", "again", 0).committed);
}

TEST_P(StoreSuite, CountsALifetimeFromTheLastWrite) {
  HERALD_NEEDS(fake_clock);
  Put("/a", SuiteValues::Make("", "", 10));
  clock_.Advance(std::chrono::seconds(6));
  Put("/a", SuiteValues::Make("", "", 10));
  clock_.Advance(std::chrono::seconds(6));
  store().Maintain();
  EXPECT_TRUE(Get("/a"));
  clock_.Advance(std::chrono::seconds(5));
  store().Maintain();
  EXPECT_FALSE(Get("/a"));
}

TEST_P(StoreSuite, DeletesManyEntriesEachAtItsTime) {
  HERALD_NEEDS(fake_clock);
  const int count = std::min(capabilities_.bulk, 3'000);
  std::vector<std::pair<std::string, std::string>> entries;
  for (int i = 0; i < count; ++i) {
    entries.emplace_back("/" + std::to_string(i), SuiteValues::Make("", "", 1 + i % 30));
  }
  PutAll(entries);
  int left = count;
  for (int second = 1; second <= 30; ++second) {
    clock_.Advance(std::chrono::seconds(1));
    store().Maintain();
    left -= count / 30;
    EXPECT_EQ(store().Stats().entries, static_cast<std::uint64_t>(left)) << second;
  }
  EXPECT_TRUE(Read({}).entries.empty());
  EXPECT_EQ(store().Stats().expired, static_cast<std::uint64_t>(count));
}

TEST_P(StoreSuite, AppliesNewLifetimesToStoredEntries) {
  HERALD_NEEDS(fake_clock);
  Put("/soon", SuiteValues::Make("", "", 100));
  clock_.Advance(std::chrono::seconds(50));
  Put("/later", SuiteValues::Make("", "", 100));

  lifetime_factor_ = 3;
  store().RefreshLifetimes();
  store().Maintain();
  clock_.Advance(std::chrono::seconds(110));
  store().Maintain();
  EXPECT_TRUE(Get("/soon")) << "three times as long now";
  EXPECT_TRUE(Get("/later"));

  lifetime_factor_ = 1;
  store().RefreshLifetimes();
  store().Maintain();
  EXPECT_FALSE(Get("/soon"));
  EXPECT_FALSE(Get("/later"));
  EXPECT_EQ(store().Stats().expired, 2u);
}

TEST_P(StoreSuite, AppliesNewLifetimesToStoredEntriesAfterARestart) {
  HERALD_NEEDS(fake_clock);
  HERALD_NEEDS(persistent);
  lifetime_factor_ = 10;
  Put("/a", SuiteValues::Make("", "", 100));
  store().Maintain();
  clock_.Advance(std::chrono::seconds(150));

  Close();
  store().Maintain();
  EXPECT_TRUE(Get("/a")) << "the rules have not changed";

  lifetime_factor_ = 1;
  Close();
  store().Maintain();
  EXPECT_FALSE(Get("/a"));

  // A longer lifetime: the entry is kept, although its expiry row becomes due earlier.
  Put("/b", SuiteValues::Make("", "", 100));
  lifetime_factor_ = 10;
  Close();
  store().Maintain();
  clock_.Advance(std::chrono::seconds(150));
  store().Maintain();
  EXPECT_TRUE(Get("/b"));
}

TEST_P(StoreSuite, ExpiresNothingAfterAJumpOfTheClockUntilItIsSteady) {
  HERALD_NEEDS(fake_clock);
  Put("/a", SuiteValues::Make("", "", 3600));
  store().Maintain();
  const Revision before = Latest();

  clock_.JumpWallClock(std::chrono::hours(2));
  store().Maintain();
  EXPECT_TRUE(Get("/a"));
  EXPECT_EQ(store().Stats().clock_jumps, 1u);
  EXPECT_TRUE(store().Stats().expiry_held);
  EXPECT_TRUE(SuiteWatch(store(), "/", before).error().ok()) << "the watch window is kept as well";

  // The clock is corrected in time: nothing is lost.
  clock_.Advance(std::chrono::minutes(5));
  clock_.JumpWallClock(std::chrono::hours(-2));
  store().Maintain();
  clock_.Advance(std::chrono::minutes(10));
  store().Maintain();
  EXPECT_FALSE(store().Stats().expiry_held);
  EXPECT_TRUE(Get("/a"));

  // The clock is not corrected: it is trusted after ten minutes.
  clock_.JumpWallClock(std::chrono::hours(2));
  store().Maintain();
  clock_.Advance(std::chrono::minutes(9));
  store().Maintain();
  EXPECT_TRUE(Get("/a"));
  clock_.Advance(std::chrono::minutes(1));
  store().Maintain();
  EXPECT_FALSE(Get("/a"));
  EXPECT_EQ(store().Stats().clock_jumps, 3u);
}

TEST_P(StoreSuite, ExpiresAtOnceWhenTheClockIsAccepted) {
  HERALD_NEEDS(fake_clock);
  Put("/a", SuiteValues::Make("", "", 3600));
  store().Maintain();
  clock_.JumpWallClock(std::chrono::hours(2));
  store().Maintain();
  EXPECT_TRUE(Get("/a"));
  store().AcceptClock();
  store().Maintain();
  EXPECT_FALSE(Get("/a"));
  EXPECT_FALSE(store().Stats().expiry_held);
}

TEST_P(StoreSuite, DetectsAClockJumpAcrossARestart) {
  HERALD_NEEDS(fake_clock);
  HERALD_NEEDS(persistent);
  Put("/a", SuiteValues::Make("", "", 3600));
  store().Maintain();
  clock_.JumpWallClock(std::chrono::hours(2));
  Close();
  store().Maintain();
  EXPECT_TRUE(Get("/a"));
  EXPECT_EQ(store().Stats().clock_jumps, 1u);
  Close();
  store().Maintain();
  EXPECT_TRUE(Get("/a")) << "the jump is detected after a restart, too";

  clock_.JumpWallClock(std::chrono::hours(-2));
  Close();
  clock_.Advance(std::chrono::hours(2));
  store().Maintain();
  EXPECT_FALSE(Get("/a")) << "the clock is trusted, and the lifetime is over";
}

TEST_P(StoreSuite, KeepsForeverAnEntryWhoseLifetimeOverflows) {
  HERALD_NEEDS(fake_clock);
  options_.schema.lifetime = [](std::string_view, std::string_view) {
    return std::chrono::seconds::max();
  };
  Put("/a", "v");
  clock_.Advance(std::chrono::hours(24 * 365 * 100));
  store().Maintain();
  EXPECT_TRUE(Get("/a"));
}

// ---- the watch window and its end ----

TEST_P(StoreSuite, KeepsTheWatchWindowForItsTimeAndThenReturnsExpired) {
  HERALD_NEEDS(own_compaction);
  const Revision first = Put("/a", "1").revision;
  const Revision second = Put("/a", "2").revision;
  Put("/b", SuiteValues::Make("x", "", 3600));
  const Revision deleted = Delete("/b").revision;
  clock_.Advance(std::chrono::minutes(4));
  store().Maintain();
  EXPECT_EQ(ValueOf(Read(At(first)).entries[0]), "1") << "younger than five minutes";
  SuiteWatch resumed(store(), "/", first);
  EXPECT_EQ(resumed.Take(1)[0]->revision(), second);

  clock_.Advance(std::chrono::minutes(2));
  const Revision fresh = Put("/c", "3").revision;
  store().Maintain();
  EXPECT_EQ(store().Stats().compacted, deleted);
  for (const Revision old : {first, second}) {
    const auto page = TryRead(At(old));
    ASSERT_FALSE(page);
    EXPECT_TRUE(page.error().Is(StatusReason::kExpired)) << page.error().ToString();
    EXPECT_TRUE(SuiteWatch(store(), "/", old).error().Is(StatusReason::kExpired));
  }
  EXPECT_EQ(Keys(Read(At(deleted))), Strings{"/a"}) << "the oldest state that is kept";
  SuiteWatch watch(store(), "/", deleted);
  EXPECT_EQ(watch.Take(1)[0]->revision(), fresh);
  EXPECT_EQ(ValueOf(Get("/a")), "2") << "live entries are kept, however old";
  EXPECT_EQ(Keys(Read({})), (Strings{"/a", "/c"}));
  EXPECT_EQ(Keys(Read(By(1, "x"))), Strings{});
}

TEST_P(StoreSuite, ExpiresAWatchThatHasNotReadCompactedChanges) {
  HERALD_NEEDS(own_compaction);
  SuiteWatch slow(store(), "/", 0);
  SuiteWatch quiet(store(), "/quiet", 0);
  EXPECT_TRUE(quiet.IsDrained());
  for (int i = 0; i < 10; ++i) Put("/" + std::to_string(i), "v");
  clock_.Advance(std::chrono::minutes(6));
  store().Maintain();
  EXPECT_TRUE(slow.TakeError().Is(StatusReason::kExpired)) << slow.error().ToString();

  Put("/quiet/1", "v");
  const auto changes = quiet.Take(1);
  ASSERT_EQ(changes.size(), 1u) << "it has seen all changes before: " << quiet.error().ToString();
  EXPECT_EQ(changes[0]->key(), "/quiet/1");
}

TEST_P(StoreSuite, KeepsIndexesOfLiveEntriesThroughCompaction) {
  HERALD_NEEDS(own_compaction);
  for (int i = 0; i < 20; ++i) Put("/a", SuiteValues::Make(std::to_string(i), "same", 3600));
  Put("/b", SuiteValues::Make("b", "same", 3600));
  clock_.Advance(std::chrono::minutes(6));
  store().Maintain();
  EXPECT_EQ(Keys(Read(By(1, "19"))), Strings{"/a"});
  EXPECT_EQ(Keys(Read(By(2, "same"))), (Strings{"/a", "/b"}));
  for (int i = 0; i < 19; ++i) EXPECT_EQ(Keys(Read(By(1, std::to_string(i)))), Strings{});
  Delete("/a");
  clock_.Advance(std::chrono::minutes(6));
  store().Maintain();
  EXPECT_EQ(Keys(Read({})), Strings{"/b"});
  EXPECT_EQ(store().Stats().entries, 1u);
}

TEST_P(StoreSuite, KeepsNoMoreOfTheWatchWindowThanItsBytes) {
  HERALD_NEEDS(own_compaction);
  options_.max_watch_window_bytes = 100'000;
  for (int i = 0; i < 300; ++i) Put("/a", std::string(1'000, 'x') + std::to_string(i));
  store().Maintain();
  const Revision compacted = store().Stats().compacted;
  EXPECT_GT(compacted, 150) << "no more than about 100 of 300 versions fit";
  EXPECT_LT(compacted, 290) << "but those that fit are kept";
  EXPECT_TRUE(TryRead(At(compacted)));
  EXPECT_FALSE(TryRead(At(compacted - 1)));
  EXPECT_EQ(ValueOf(Get("/a")), std::string(1'000, 'x') + "299");
}

TEST_P(StoreSuite, EvictsTheOldestEntriesAboveTheSizeLimit) {
  HERALD_NEEDS(size_cap);
  options_.max_bytes = 8'000'000;
  Random random(7);
  const auto noise = [&random] {  // that can hardly be compressed
    std::string bytes;
    while (bytes.size() < 40'000) bytes += static_cast<char>(random.Next() | 0x80);
    return bytes;
  };
  WallTime last_written;
  for (int i = 0; i < 600; ++i) {
    char key[16];
    std::snprintf(key, sizeof key, "/%03d", (i * 7) % 600);  // age and key have different orders
    // A store that needs longer for evictions asks the client to retry.
    const Bytes value = std::make_shared<const std::string>(noise());
    Result<Written> written = Commit(key, value);
    for (int tries = 0; tries < 1000 && !written; ++tries) {
      ASSERT_TRUE(written.error().Is(StatusReason::kTooManyRequests)) << written.error().ToString();
      store().Maintain();
      written = Commit(key, value);
    }
    ASSERT_TRUE(written) << written.error().ToString();
    last_written = clock_.Now();
    clock_.Advance(std::chrono::milliseconds(10));
    if (i % 10 == 9) store().Maintain();
  }
  const StoreStats stats = store().Stats();
  EXPECT_GT(stats.evicted, 300u) << "24 million bytes were written";
  EXPECT_LT(stats.evicted, 600u);
  EXPECT_EQ(stats.entries + stats.evicted, 600u);
  EXPECT_GT(stats.complete_since, WallTime());
  EXPECT_LT(stats.complete_since, last_written);
  // Exactly the newest entries are left.
  const Page page = Read({});
  ASSERT_EQ(page.entries.size(), stats.entries);
  std::set<std::string> left;
  for (const Entry& entry : page.entries) left.insert(entry.key);
  for (int i = static_cast<int>(stats.evicted); i < 600; ++i) {
    char key[16];
    std::snprintf(key, sizeof key, "/%03d", (i * 7) % 600);
    EXPECT_TRUE(left.contains(key)) << key;
  }
}

// ---- restarts ----

TEST_P(StoreSuite, FindsAllEntriesAndChangesAfterARestart) {
  HERALD_NEEDS(persistent);
  HERALD_NEEDS(fake_clock);
  const Revision first = Put("/a", SuiteValues::Make("x", "", 100)).revision;
  const Revision second = Put("/a", SuiteValues::Make("y", "", 100)).revision;
  Put("/b", SuiteValues::Make("y", "", 200));
  const Revision deleted = Delete("/b").revision;
  Put("/c", SuiteValues::Make("y", "", 1000));
  const Revision last = Latest();
  for (int reopened = 0; reopened < 2; ++reopened) {
    Close();
    EXPECT_EQ(Latest(), last);
    EXPECT_EQ(Keys(Read({})), (Strings{"/a", "/c"}));
    EXPECT_EQ(Keys(Read(By(1, "y"))), (Strings{"/a", "/c"}));
    EXPECT_EQ(ValueOf(Read(At(first)).entries[0]), SuiteValues::Make("x", "", 100));
    EXPECT_EQ(store().Stats().entries, 2u);
    SuiteWatch watch(store(), "/", first);
    const auto changes = watch.Take(4);
    ASSERT_EQ(changes.size(), 4u) << "a watch resumes at its revision";
    EXPECT_EQ(changes[0]->revision(), second);
    EXPECT_EQ(ValueOf(changes[0]->previous()), SuiteValues::Make("x", "", 100));
    EXPECT_TRUE(changes[2]->deleted());
    EXPECT_EQ(changes[2]->revision(), deleted);
    EXPECT_EQ(ValueOf(changes[2]->previous()), SuiteValues::Make("y", "", 200));
    EXPECT_EQ(changes[3]->revision(), last);
    EXPECT_TRUE(watch.IsDrained());
  }
  EXPECT_FALSE(Put("/a", "z", first).committed);
  EXPECT_TRUE(Put("/b", "z", 0).committed);
  EXPECT_GT(Latest(), last);
  clock_.Advance(std::chrono::seconds(101));
  store().Maintain();
  EXPECT_FALSE(Get("/a")) << "lifetimes continue across a restart";
  EXPECT_TRUE(Get("/c"));
}

TEST_P(StoreSuite, RemembersCompactionAndEvictionAfterARestart) {
  HERALD_NEEDS(persistent);
  HERALD_NEEDS(own_compaction);
  const Revision first = Put("/a", "1").revision;
  Put("/a", "2");
  clock_.Advance(std::chrono::minutes(6));
  store().Maintain();
  const Revision compacted = store().Stats().compacted;
  ASSERT_GT(compacted, first);
  Close();
  EXPECT_EQ(store().Stats().compacted, compacted);
  EXPECT_FALSE(TryRead(At(first)));
  EXPECT_TRUE(SuiteWatch(store(), "/", first).error().Is(StatusReason::kExpired));
  EXPECT_EQ(ValueOf(Get("/a")), "2");
}

TEST_P(StoreSuite, ResumesAWatchAfterARestartWhileOthersWrite) {
  HERALD_NEEDS(persistent);
  const Revision start = Put("/start", "v").revision;
  std::vector<std::pair<std::string, std::string>> entries;
  for (int i = 0; i < 1'000; ++i) entries.emplace_back("/old/" + std::to_string(i), "v");
  PutAll(entries);
  Close();
  SuiteWatch watch(store(), "/", start);
  std::thread writer([this] {
    for (int i = 0; i < 200; ++i) Put("/new/" + std::to_string(i), "v");
  });
  const auto changes = watch.Take(1'200);
  writer.join();
  ASSERT_EQ(changes.size(), 1'200u);
  for (std::size_t i = 1; i < changes.size(); ++i) {
    EXPECT_GT(changes[i]->revision(), changes[i - 1]->revision());
  }
  EXPECT_EQ(changes.back()->revision(), Latest());
}

TEST_P(StoreSuite, IsHealthyAndReportsItsStatistics) {
  EXPECT_TRUE(store().Health().ok());
  SuiteWatch watch(store(), "/", 0);
  Put("/a", "1");
  Put("/a", "2");
  Put("/b", "3");
  Delete("/b");
  EXPECT_EQ(watch.Take(4).size(), 4u);
  store().Maintain();
  const StoreStats stats = store().Stats();
  EXPECT_EQ(stats.entries, 1u);
  EXPECT_EQ(stats.revision, Latest());
  EXPECT_EQ(stats.expired, 0u);
  EXPECT_EQ(stats.evicted, 0u);
  EXPECT_EQ(stats.complete_since, WallTime());
}

#undef HERALD_NEEDS

}  // namespace herald::store
