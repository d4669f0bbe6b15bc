#include "server/events/event_list.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/events/stored_event.h"
#include "store/memory/store.h"

namespace herald::server {
namespace {

using std::chrono::seconds;

constexpr std::int64_t kStart = 1'700'000'000;

// A complete list in memory.
struct EventPage {
  std::vector<store::Entry> entries{};
  ListMeta metadata{};
};

class EventListTest : public testing::Test {
 protected:
  void Put(const std::string& namespace_, const std::string& name,
           const std::function<void(Event*)>& change = {}) {
    Event event;
    event.metadata.name = name;
    event.metadata.namespace_ = namespace_;
    event.involved_object = {
        .kind = "Pod", .namespace_ = namespace_, .name = "p-" + name, .uid = "uid-" + name};
    event.reason = "Started";
    event.type = "Normal";
    if (change) change(&event);
    store_.Commit({.key = EventStoreKey(namespace_, name),
                   .value = std::make_shared<const std::string>(EncodeStored(event))},
                  [](const Result<store::Written>& written) { ASSERT_TRUE(written); });
  }

  Result<EventPage> Read(std::string namespace_, const ListOptions& options) {
    const auto reader = EventListReader::Make(
        &store_, EventFilter(std::move(namespace_), "", options), options, {});
    if (!reader) return reader.error();
    EventPage page;
    Status error;
    while (!(*reader)->is_done() && error.ok()) {
      (*reader)->Next([&](Result<std::vector<store::Entry>> chunk) {
        if (!chunk) {
          error = chunk.error();
          return;
        }
        for (store::Entry& entry : *chunk) page.entries.push_back(std::move(entry));
      });
    }
    if (!error.ok()) return error;
    page.metadata = (*reader)->metadata();
    return page;
  }
  Result<EventPage> Read(std::string namespace_, std::string_view query) {
    const Result<ListOptions> options =
        ParseListOptions(http::ParseQuery(query), EventApi::kCoreV1, false, now_);
    EXPECT_TRUE(options) << options.error().ToString();
    return Read(std::move(namespace_), *options);
  }
  // The names on all pages, with a bar between pages.
  std::string Names(const std::string& namespace_, std::string_view query) {
    std::string names;
    std::string token;
    for (int pages = 0; pages < 20; ++pages) {
      const std::string more = token.empty() ? "" : "&continue=" + token;
      const Result<EventPage> page = Read(namespace_, std::string(query) + more);
      if (!page) return page.error().message();
      for (const store::Entry& entry : page->entries) {
        if (!names.empty() && names.back() != '|') names += ' ';
        names += entry.key.substr(kEventsPrefix.size());
      }
      token = page->metadata.continue_;
      if (token.empty()) break;
      names += '|';
    }
    return names;
  }

  const WallTime now_{seconds(kStart + 1000)};
  FakeClock clock_{WallTime(seconds(kStart))};
  store::MemoryStore store_{[this] {
    store::StoreOptions options;
    options.schema = MakeEventSchema([](const Event&) { return seconds(3600); });
    options.clock = &clock_;
    options.background = false;
    return options;
  }()};
};

TEST_F(EventListTest, ListsInTheOrderOfTheKeys) {
  Put("b", "x");
  Put("a-b", "y");
  Put("a", "z");
  Put("a", "c");
  EXPECT_EQ(Names("", ""), "a-b/y a/c a/z b/x");
  EXPECT_EQ(Names("a", ""), "a/c a/z");
  EXPECT_EQ(Names("", "limit=1"), "a-b/y|a/c|a/z|b/x");
  EXPECT_EQ(Names("none", ""), "");
}

TEST_F(EventListTest, AllPagesAreReadAtOneRevision) {
  for (const char* name : {"a", "b", "c", "d"}) Put("n", name);
  const Result<EventPage> first = Read("n", "limit=2");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->metadata.remaining_item_count, 2);
  Put("n", "bb");  // between the pages
  const Result<EventPage> second = Read("n", "limit=2&continue=" + first->metadata.continue_);
  ASSERT_TRUE(second);
  ASSERT_EQ(second->entries.size(), 2U);
  EXPECT_EQ(second->entries[0].key, "/registry/events/n/c");
  EXPECT_EQ(second->metadata.resource_version, first->metadata.resource_version);
  EXPECT_TRUE(second->metadata.continue_.empty());
  EXPECT_FALSE(second->metadata.remaining_item_count);
  EXPECT_FALSE(Read("n", "limit=2&fieldSelector=type%3DNormal")->metadata.remaining_item_count)
      << "it is unknown how many of the remaining events match";
}

// Every way of reading a list returns what a scan of all events returns.
TEST_F(EventListTest, EveryWayOfReadingFindsTheSame) {
  const char* reasons[] = {"Started", "Killing", "BackOff"};
  for (int i = 0; i < 60; ++i) {
    Put(fmt::format("ns{}", i % 3), fmt::format("e{:02}", i), [&](Event* event) {
      event->reason = reasons[i % 3 == 0 ? 0 : i % 7 % 3];
      event->type = i % 5 == 0 ? "Warning" : "Normal";
      event->involved_object.name = fmt::format("pod{}", i % 4);
      event->involved_object.kind = i % 8 < 4 ? "Pod" : "Node";
      event->involved_object.uid = fmt::format("uid{}", i % 4);
      event->last_timestamp = Time(kStart + (i * 37) % 60, 0);
      event->metadata.labels["i"] = std::to_string(i % 2);
    });
  }
  const std::string_view selectors[] = {
      "involvedObject.uid=uid1",
      "involvedObject.name=pod2",
      "involvedObject.name=pod2,involvedObject.kind=Node",
      "involvedObject.name=pod2,involvedObject.kind=Node,involvedObject.namespace=ns1",
      "involvedObject.kind=Pod",
      "reason=BackOff",
      "type=Warning",
      "type=Normal",
      "type!=Normal,reason=Killing",
      "metadata.name=e07",
      "metadata.namespace=ns2",
      "reason=Nothing",
  };
  for (const std::string_view text : selectors) {
    for (const char* namespace_ : {"", "ns0", "ns1"}) {
      SCOPED_TRACE(std::string(text) + " in " + namespace_);
      const FieldSelector selector = *FieldSelector::Parse(text, EventApi::kCoreV1);
      std::string expected;
      const Result<EventPage> all = Read(namespace_, "");
      ASSERT_TRUE(all);
      for (const store::Entry& entry : all->entries) {
        if (!selector.Matches(*DecodeStored(entry))) continue;
        if (!expected.empty()) expected += ' ';
        expected += entry.key.substr(kEventsPrefix.size());
      }
      const std::string query = "fieldSelector=" + http::PercentEncode(text);
      EXPECT_EQ(Names(namespace_, query), expected);
      std::string paged = Names(namespace_, query + "&limit=3");
      for (char& c : paged) c = c == '|' ? ' ' : c;
      EXPECT_EQ(paged, expected) << "page by page";
    }
  }
}

TEST_F(EventListTest, SelectsAndSortsByTheLastOccurrence) {
  Put("n", "a", [](Event* event) { event->last_timestamp = Time(kStart + 10, 0); });
  Put("n", "b", [](Event* event) { event->event_time = MicroTime(kStart + 30, 0); });
  Put("n", "c", [](Event* event) {
    event->first_timestamp = Time(kStart + 5, 0);
    event->series = EventSeries{.count = 2, .last_observed_time = MicroTime(kStart + 20, 5000)};
  });
  Put("m", "d", [](Event* event) { event->first_timestamp = Time(kStart + 40, 0); });
  Put("m", "e");  // never
  EXPECT_EQ(Names("", "sortBy=lastOccurrence"), "m/d n/b n/c n/a m/e");
  EXPECT_EQ(Names("", "sortBy=lastOccurrence&limit=2"), "m/d n/b|n/c n/a|m/e");
  EXPECT_EQ(Names("n", "sortBy=lastOccurrence&limit=1"), "n/b|n/c|n/a");
  // 1000 s after the start, 985 s ago is 15 s after it.
  EXPECT_EQ(Names("", "since=985s"), "m/d n/b n/c");
  EXPECT_EQ(Names("", "since=985s&limit=2"), "m/d n/b|n/c");
  EXPECT_EQ(Names("", "since=985s&until=965s&sortBy=lastOccurrence"), "n/b n/c");
  EXPECT_EQ(Names("", "until=985s"), "m/e n/a");
  EXPECT_EQ(Names("", "sortBy=lastOccurrence&fieldSelector=reason%3DStarted&limit=2"),
            "m/d n/b|n/c n/a|m/e")
      << "through an index that has another order";
}

TEST_F(EventListTest, ListsEventsWithEqualTimesOnceEach) {
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    Put("n", name, [](Event* event) { event->last_timestamp = Time(kStart, 0); });
  }
  EXPECT_EQ(Names("", "sortBy=lastOccurrence&limit=2"), "n/e n/d|n/c n/b|n/a");
  EXPECT_EQ(Names("", "sortBy=lastOccurrence&limit=2&fieldSelector=reason%3DStarted"),
            "n/e n/d|n/c n/b|n/a");
}

TEST_F(EventListTest, ReadsAtTheRequestedResourceVersion) {
  Put("n", "a");
  const store::Revision old = store_.Stats().revision;
  Put("n", "b");
  const std::string version = "resourceVersion=" + std::to_string(old);
  EXPECT_EQ(Names("n", ""), "n/a n/b");
  EXPECT_EQ(Names("n", "resourceVersion=0"), "n/a n/b");
  EXPECT_EQ(Names("n", version), "n/a n/b") << "not older than";
  EXPECT_EQ(Names("n", version + "&resourceVersionMatch=Exact"), "n/a");
  EXPECT_EQ(Names("n", version + "&limit=5"), "n/a") << "exactly, for paged lists";
  for (const char* match :
       {"", "&resourceVersionMatch=Exact", "&resourceVersionMatch=NotOlderThan", "&limit=1"}) {
    const Status future = Read("n", std::string("resourceVersion=999") + match).error();
    EXPECT_EQ(future.code(), 504) << match;
    ASSERT_EQ(future.details().causes.size(), 1U);
    EXPECT_EQ(future.details().causes[0].reason, "ResourceVersionTooLarge");
  }
  EXPECT_EQ(Read("n", "resourceVersion=x").error().code(), 400);
}

TEST_F(EventListTest, AnOldTokenGetsANewOne) {
  for (const char* name : {"a", "b", "c"}) Put("n", name);
  const std::string token = Read("n", "limit=1")->metadata.continue_;
  Put("n", "d");
  clock_.Advance(std::chrono::minutes(11));
  store_.Maintain();
  Put("n", "e");
  const Status expired = Read("n", "limit=1&continue=" + token).error();
  EXPECT_EQ(expired.reason(), StatusReason::kExpired);
  ASSERT_FALSE(expired.continue_token().empty());
  EXPECT_EQ(Names("n", "continue=" + expired.continue_token()), "n/b n/c n/d n/e");
  EXPECT_EQ(Read("n", "resourceVersion=1&resourceVersionMatch=Exact").error().code(), 410);
}

TEST_F(EventListTest, RejectsInvalidContinueTokens) {
  Put("n", "a");
  EXPECT_EQ(Read("n", "continue=%21").error().code(), 400);
  EXPECT_EQ(Read("n", "continue=e30").error().code(), 400);  // {}
  const std::string good = [&] {
    Put("n", "b");
    return Read("n", "limit=1")->metadata.continue_;
  }();
  EXPECT_EQ(Read("n", "resourceVersion=1&continue=" + good).error().message(),
            "specifying resource version is not allowed when using continue");
  EXPECT_EQ(Read("n", "sortBy=lastOccurrence&continue=" + good).error().code(), 400);
}

TEST_F(EventListTest, FindsEventsThatAreStoredAsJson) {
  store_.Commit({.key = EventStoreKey("n", "j"),
                 .value = std::make_shared<const std::string>(
                     R"({"kind":"Event","apiVersion":"v1","metadata":{"name":"j","namespace":"n"},)"
                     R"("involvedObject":{"uid":"json"},"reason":"R"})")},
                [](const Result<store::Written>&) {});
  EXPECT_EQ(Names("", "fieldSelector=involvedObject.uid%3Djson"), "n/j");
}

TEST_F(EventListTest, LongValuesAreFoundByTheirBeginning) {
  const std::string reason(2000, 'r');
  Put("n", "a", [&](Event* event) { event->reason = reason; });
  Put("n", "b", [&](Event* event) { event->reason = reason + "x"; });
  EXPECT_EQ(Names("", "fieldSelector=reason%3D" + reason), "n/a");
}

class EventListReaderTest : public EventListTest {
 protected:
  std::shared_ptr<EventListReader> Reader(const std::string& namespace_, std::string_view query,
                                          ReadContext context = {}) {
    const Result<ListOptions> options =
        ParseListOptions(http::ParseQuery(query), EventApi::kCoreV1, false, now_);
    EXPECT_TRUE(options) << options.error().ToString();
    const auto reader = EventListReader::Make(&store_, EventFilter(namespace_, "", *options),
                                              *options, std::move(context));
    EXPECT_TRUE(reader) << reader.error().ToString();
    return *reader;
  }
  static std::vector<store::Entry> Chunk(EventListReader& reader) {
    std::vector<store::Entry> entries;
    reader.Next([&](Result<std::vector<store::Entry>> chunk) {
      ASSERT_TRUE(chunk) << chunk.error().ToString();
      entries = *std::move(chunk);
    });
    return entries;
  }
  // The names in all chunks.
  static std::string Names(EventListReader& reader) {
    std::string names;
    while (!reader.is_done()) {
      for (const store::Entry& entry : Chunk(reader)) {
        if (!names.empty()) names += ' ';
        names += entry.key.substr(kEventsPrefix.size());
      }
    }
    return names;
  }
};

TEST_F(EventListReaderTest, ReadsChunksOfOneRevisionAndTheSameOnesAgain) {
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    const std::string name = fmt::format("e{:03}", i);
    Put("n", name, [](Event* event) {
      event->message = std::string(3'000, 'x');
      event->last_timestamp = Time(kStart, 0);
    });
    expected += (i > 0 ? " n/" : "n/") + name;
  }
  for (const char* query : {"", "sortBy=lastOccurrence", "fieldSelector=reason%3DStarted",
                            "fieldSelector=involvedObject.kind%3DPod", "limit=90", "since=2000s"}) {
    SCOPED_TRACE(query);
    const std::shared_ptr<EventListReader> reader = Reader("n", query);
    const std::vector<store::Entry> first = Chunk(*reader);
    EXPECT_LT(first.size(), 40U) << "a chunk is small";
    EXPECT_FALSE(reader->is_done());
    const std::string version = reader->metadata().resource_version;
    Put("n", "e000a");
    Put("n", "e050", [](Event* event) { event->message = "changed"; });
    Names(*reader);
    EXPECT_EQ(reader->metadata().resource_version, version);
    const std::string token = reader->metadata().continue_;
    reader->Rewind();
    const std::string again = Names(*reader);
    EXPECT_EQ(reader->metadata().continue_, token);
    EXPECT_EQ(again.find("e000a"), std::string::npos);
    if (std::string_view(query) == "") {
      EXPECT_EQ(again, expected);
    }
    store_.Commit({.key = EventStoreKey("n", "e000a"), .value = nullptr},
                  [](const Result<store::Written>&) {});
    Put("n", "e050", [](Event* event) { event->message = std::string(3'000, 'x'); });
  }
}

TEST_F(EventListReaderTest, FindsTheSameIfThereIsNoMemoryForSorting) {
  for (int i = 0; i < 60; ++i) {
    Put(fmt::format("ns{}", i % 3), fmt::format("e{:02}", i), [&](Event* event) {
      event->involved_object.name = fmt::format("pod{}", i % 4);
      event->involved_object.kind = i % 8 < 4 ? "Pod" : "Node";
      event->reason = i % 2 == 0 ? "Started" : "Killing";
      event->last_timestamp = Time(kStart + (i * 37) % 60, 0);
    });
  }
  for (const char* query :
       {"fieldSelector=involvedObject.name%3Dpod1", "since=970s", "since=980s&until=960s",
        "sortBy=lastOccurrence&fieldSelector=reason%3DKilling",
        "sortBy=lastOccurrence&fieldSelector=involvedObject.name%3Dpod1&limit=5",
        "sortBy=lastOccurrence&since=980s&fieldSelector=reason%3DKilling"}) {
    for (const char* namespace_ : {"", "ns1"}) {
      SCOPED_TRACE(std::string(query) + " in " + namespace_);
      const std::shared_ptr<EventListReader> sorting = Reader(namespace_, query);
      int asked = 0;
      ReadContext context;
      context.reserve = [&asked](std::size_t) {
        ++asked;
        return false;
      };
      const std::shared_ptr<EventListReader> reading = Reader(namespace_, query, context);
      const std::string sorted = Names(*sorting);
      EXPECT_FALSE(sorted.empty());
      EXPECT_EQ(Names(*reading), sorted);
      EXPECT_EQ(asked, 1);
      EXPECT_EQ(reading->metadata(), sorting->metadata());
    }
  }
}

TEST_F(EventListReaderTest, CountsRemainingItemsOnlyWithALimit) {
  for (const char* name : {"a", "b", "c"}) Put("n", name);
  const std::shared_ptr<EventListReader> limited = Reader("n", "limit=1");
  Chunk(*limited);
  EXPECT_TRUE(limited->is_done());
  EXPECT_EQ(limited->metadata().remaining_item_count, 2);
  const std::shared_ptr<EventListReader> all = Reader("n", "");
  Chunk(*all);
  EXPECT_FALSE(all->metadata().remaining_item_count);
}

}  // namespace
}  // namespace herald::server
