#include "server/watch/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "herald/api/codec.h"
#include "server/events/stored_event.h"
#include "server/testing/responder.h"
#include "store/memory/store.h"
#include "store/testing/forwarding_store.h"

namespace herald::server {
namespace {

using std::chrono::seconds;

class WatchStreamTest : public testing::Test {
 protected:
  void TearDown() override {
    streams_.Stop();
    executor_.RunUntilIdle();
  }

  void Put(const std::string& name, const std::function<void(Event*)>& change = {},
           const std::string& namespace_ = "n") {
    Event event;
    event.metadata.name = name;
    event.metadata.namespace_ = namespace_;
    if (change) change(&event);
    store_.Commit({.key = EventStoreKey(namespace_, name),
                   .value = std::make_shared<const std::string>(EncodeStored(event))},
                  [](const Result<store::Written>& written) { ASSERT_TRUE(written); });
  }
  void Delete(const std::string& name) {
    store_.Commit({.key = EventStoreKey("n", name), .value = nullptr},
                  [](const Result<store::Written>&) {});
  }

  WatchRequest Request() {
    WatchRequest request;
    request.filter = EventFilter("n", "", ListOptions());
    request.timeout = seconds(600);
    request.user = "u";
    return request;
  }
  static WatchRequest Selecting(WatchRequest request, std::string_view labels) {
    ListOptions options;
    options.labels = *LabelSelector::Parse(labels);
    request.filter = EventFilter("n", "", options);
    return request;
  }

  std::shared_ptr<TestResponder> Open(WatchRequest request) {
    auto responder = std::make_shared<TestResponder>();
    const Status status = streams_.Open(std::move(request), responder,
                                        [&] { responder->Start({.status = 200, .headers = {}}); });
    EXPECT_TRUE(status.ok()) << status.ToString();
    executor_.RunUntilIdle();
    return responder;
  }

  // "ADDED a@1, BOOKMARK @7"
  static std::string Frames(const TestResponder& responder) {
    std::string text;
    const std::string body = responder.body();
    std::string_view rest = body;
    while (true) {
      const std::optional<Codec::Frame> frame = JsonCodec().NextFrame(rest).value_or(std::nullopt);
      if (!frame) break;
      rest.remove_prefix(frame->consumed);
      WatchEvent event;
      const Status read = JsonCodec().DecodeWatchFrame(frame->payload, EventApi::kCoreV1, &event);
      if (!read.ok()) return "cannot decode: " + read.message();
      if (!text.empty()) text += ", ";
      text += WatchTypeName(event.type);
      if (const auto* object = std::get_if<Event>(&event.object)) {
        text += ' ' + object->metadata.name + '@' + object->metadata.resource_version;
        if (object->metadata.annotations.contains("k8s.io/initial-events-end")) text += " end";
      } else {
        text += ' ' + std::to_string(std::get<Status>(event.object).code());
      }
    }
    return text;
  }

  FakeClock clock_{WallTime(seconds(1'700'000'000))};
  store::MemoryStore store_{[this] {
    store::StoreOptions options;
    options.schema = MakeEventSchema([](const Event&) { return seconds(36000); });
    options.clock = &clock_;
    options.background = false;
    return options;
  }()};
  Executor executor_{{.threads = 0, .clock = &clock_}};
  WatchStreams streams_{&store_, &executor_, {.max_watches = 5, .max_watches_per_user = 3}};
};

TEST_F(WatchStreamTest, SendsEveryChangeFromNowOn) {
  Put("before");
  const auto client = Open(Request());
  EXPECT_EQ(Frames(*client), "");
  Put("a");
  Put("a", [](Event* event) { event->count = 2; });
  Delete("a");
  Put("elsewhere", {}, "other");
  executor_.RunUntilIdle();
  EXPECT_EQ(Frames(*client), "ADDED a@2, MODIFIED a@3, DELETED a@4");
}

TEST_F(WatchStreamTest, ResumesAfterAResourceVersion) {
  Put("a");
  Put("b");
  Put("c");
  WatchRequest request = Request();
  request.after = 1;
  EXPECT_EQ(Frames(*Open(request)), "ADDED b@2, ADDED c@3");
}

TEST_F(WatchStreamTest, BeginsWithTheExistingEvents) {
  for (int i = 0; i < 600; ++i) Put("e" + std::to_string(1000 + i));
  WatchRequest request = Request();
  request.initial_events = true;
  request.bookmarks = true;
  const auto client = Open(request);
  Put("z");
  executor_.RunUntilIdle();
  const std::string frames = Frames(*client);
  EXPECT_TRUE(frames.starts_with("ADDED e1000@1, ADDED e1001@2, "));
  EXPECT_TRUE(frames.ends_with("ADDED e1599@600, BOOKMARK @600 end, ADDED z@601"))
      << frames.substr(frames.size() - 100);
}

TEST_F(WatchStreamTest, InitialEventsWaitForTheClient) {
  const std::string text(600, 'x');
  std::string expected;
  for (int i = 1; i <= 1'000; ++i) {
    const std::string name = "e" + std::to_string(1000 + i);
    Put(name, [&](Event* event) { event->message = text; });
    expected += "ADDED " + name + '@' + std::to_string(i) + ", ";
  }
  WatchRequest request = Request();
  request.initial_events = true;
  request.bookmarks = true;
  auto client = std::make_shared<TestResponder>();
  client->StopReading();
  ASSERT_TRUE(
      streams_.Open(request, client, [&] { client->Start({.status = 200, .headers = {}}); }).ok());
  executor_.RunUntilIdle();
  Put("e1000", {});  // not yet there when the list was read
  std::size_t most = 0;
  while (Frames(*client).find("end") == std::string::npos) {
    most = std::max(most, client->queued());
    const std::size_t before = client->body().size();
    client->ReadAll();
    executor_.RunUntilIdle();
    ASSERT_GT(client->body().size(), before) << "it does not go on";
  }
  EXPECT_GT(most, 0U);
  EXPECT_LT(most, 160'000U) << "of a megabyte";
  executor_.RunUntilIdle();
  EXPECT_EQ(Frames(*client), expected + "BOOKMARK @1000 end, ADDED e1000@1001");
}

TEST_F(WatchStreamTest, ReportsAResourceVersionThatTheStoreHasNotReached) {
  WatchRequest request = Request();
  request.initial_events = true;
  request.not_older_than = 99;
  const auto client = Open(request);
  EXPECT_EQ(Frames(*client), "ERROR 504");
  EXPECT_TRUE(client->ended());
}

TEST_F(WatchStreamTest, SendsAddedWhenAnObjectStartsMatchingAndDeletedWhenItStops) {
  const auto client = Open(Selecting(Request(), "app=web"));
  const auto label = [](const std::string& value) {
    return [value](Event* event) { event->metadata.labels["app"] = value; };
  };
  Put("a", label("db"));
  Put("a", label("web"));
  Put("a", [&](Event* event) {
    label("web")(event);
    event->count = 2;
  });
  Put("a", label("db"));
  Put("a", label("web"));
  Delete("a");
  Put("b", label("db"));
  Delete("b");
  executor_.RunUntilIdle();
  EXPECT_EQ(Frames(*client), "ADDED a@2, MODIFIED a@3, DELETED a@4, ADDED a@5, DELETED a@6");
}

TEST_F(WatchStreamTest, ASlowClientDelaysNoOtherAndGetsEveryChange) {
  const auto slow = Open(Request());
  const auto quick = Open(Request());
  slow->StopReading();
  const std::string text(10'000, 'x');
  for (int i = 0; i < 100; ++i) {
    Put("e" + std::to_string(100 + i), [&](Event* event) { event->message = text; });
    executor_.RunUntilIdle();
  }
  EXPECT_TRUE(Frames(*quick).ends_with("ADDED e199@100"));
  EXPECT_LT(slow->queued(), 2 * WatchStreams::kMaxQueuedBytes);
  while (!Frames(*slow).ends_with("ADDED e199@100")) {
    const std::size_t before = slow->body().size();
    slow->ReadAll();
    ASSERT_GT(slow->body().size(), before) << "it does not go on";
  }
  EXPECT_EQ(slow->body(), quick->body());
}

TEST_F(WatchStreamTest, OneOfManyOnAConnectionQueuesNoMoreThanItsShare) {
  const auto client = Open(Request());
  client->StopReading();
  client->SetFairShare(5'000);
  for (int i = 0; i < 100; ++i) Put("e" + std::to_string(100 + i));
  executor_.RunUntilIdle();
  EXPECT_GE(client->queued(), 5'000U);
  EXPECT_LT(client->queued(), 6'000U) << "and the frame that reached it";
  // Less than a frame: one at a time.
  client->SetFairShare(1);
  client->ReadAll();
  EXPECT_GT(client->queued(), 0U);
  EXPECT_LT(client->queued(), 1'000U);
  client->SetFairShare(1 << 20);
  client->ReadAll();
  EXPECT_TRUE(Frames(*client).ends_with("ADDED e199@100"));
}

TEST_F(WatchStreamTest, ManyLargeChangesAtOnceDoNotOverfillTheQueueOfASlowClient) {
  const std::string text(100'000, 'x');
  const auto slow = Open(Request());
  const auto quick = Open(Request());
  slow->StopReading();
  for (int i = 0; i < 100; ++i) {
    Put("e" + std::to_string(100 + i), [&](Event* event) { event->message = text; });
  }
  executor_.RunUntilIdle();
  WatchRequest request = Request();
  request.initial_events = true;
  const auto late = std::make_shared<TestResponder>();
  late->StopReading();
  ASSERT_TRUE(streams_.Open(request, late, [&] { late->Start({}); }).ok());
  executor_.RunUntilIdle();
  for (const auto& client : {slow, late}) {
    EXPECT_LT(client->queued(), WatchStreams::kMaxQueuedBytes + 2 * text.size());
    while (!Frames(*client).ends_with("ADDED e199@100")) {
      const std::size_t before = client->body().size();
      client->ReadAll();
      executor_.RunUntilIdle();
      ASSERT_GT(client->body().size(), before) << "it does not go on";
    }
    EXPECT_EQ(client->body(), quick->body());
  }
}

TEST_F(WatchStreamTest, SendsExpiredToAClientThatIsTooSlow) {
  WatchRequest request = Request();
  const auto client = Open(request);
  client->StopReading();
  const std::string text(1'000'000, 'x');
  Put("a", [&](Event* event) { event->message = text; });
  executor_.RunUntilIdle();
  for (int i = 0; i < 5; ++i) {
    Put("b", [&](Event* event) { event->count = i; });
    clock_.Advance(std::chrono::minutes(6));
    store_.Maintain();
  }
  client->ReadAll();
  EXPECT_EQ(Frames(*client), "ADDED a@1, ERROR 410");
  EXPECT_TRUE(client->ended());
  EXPECT_EQ(streams_.size(), 0U);
}

TEST_F(WatchStreamTest, ChangesAreEncodedOnceForAll) {
  const auto first = Open(Request());
  const auto second = Open(Request());
  Put("a");
  executor_.RunUntilIdle();
  EXPECT_EQ(first->body(), second->body());
  EXPECT_FALSE(first->body().empty());
}

TEST_F(WatchStreamTest, BookmarksHaveTheLatestResourceVersion) {
  WatchRequest request = Selecting(Request(), "none=here");
  request.bookmarks = true;
  const auto client = Open(request);
  const auto without = Open(Selecting(Request(), "none=here"));
  Put("a");
  clock_.Advance(seconds(59));
  executor_.RunUntilIdle();
  EXPECT_EQ(Frames(*client), "");
  clock_.Advance(seconds(2));
  executor_.RunUntilIdle();
  EXPECT_EQ(Frames(*client), "BOOKMARK @1");
  clock_.Advance(seconds(70));
  executor_.RunUntilIdle();
  EXPECT_EQ(Frames(*client), "BOOKMARK @1") << "the resource version has not changed";
  Put("b");
  clock_.Advance(seconds(70));
  executor_.RunUntilIdle();
  EXPECT_EQ(Frames(*client), "BOOKMARK @1, BOOKMARK @2");
  EXPECT_EQ(Frames(*without), "");
}

// A store in which one revision deletes three events, as when an etcd lease expires.
class LeaseStore final : public store::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  Result<std::unique_ptr<store::Watch>> NewWatch(std::string, store::Revision,
                                                 std::function<void()>) override {
    return std::unique_ptr<store::Watch>(std::make_unique<LeaseWatch>());
  }

 private:
  class LeaseWatch final : public store::Watch {
   public:
    Result<Batch> Next(std::size_t) override {
      Batch batch{.changes = std::move(changes_), .revision = 7};
      changes_.clear();
      return batch;
    }

   private:
    static std::shared_ptr<const store::Change> Deletion(const std::string& name, bool last) {
      Event event;
      event.metadata.name = name;
      event.metadata.namespace_ = "n";
      const std::string key = EventStoreKey("n", name);
      auto value = std::make_shared<const std::string>(EncodeStored(event));
      return std::make_shared<const store::Change>(store::Entry{key, nullptr, 7},
                                                   store::Entry{key, std::move(value), 5},
                                                   /*deleted=*/true, last);
    }

    std::vector<std::shared_ptr<const store::Change>> changes_ = {
        Deletion("a", false), Deletion("b", false), Deletion("c", true)};
  };
};

TEST_F(WatchStreamTest, SendsNoBookmarkInTheMiddleOfARevision) {
  LeaseStore store(&store_);
  WatchStreams streams(&store, &executor_, {.max_watches = 5, .max_watches_per_user = 3});
  WatchRequest request = Request();
  request.after = 6;
  request.bookmarks = true;
  // The connection takes one frame at a time, and each tick is an opportunity to send the next.
  const auto client = std::make_shared<TestResponder>();
  client->SetFairShare(1);
  ASSERT_TRUE(streams.Open(request, client, [&] { client->Start({}); }).ok());
  executor_.RunUntilIdle();
  EXPECT_EQ(Frames(*client), "DELETED a@6");
  clock_.Advance(seconds(61));
  executor_.RunUntilIdle();
  EXPECT_EQ(Frames(*client), "DELETED a@6, DELETED b@6")
      << "a client that resumes from here must see that c was deleted";
  clock_.Advance(seconds(61));
  executor_.RunUntilIdle();
  EXPECT_EQ(Frames(*client), "DELETED a@6, DELETED b@6, DELETED c@7");
  streams.Stop();
  executor_.RunUntilIdle();
}

TEST_F(WatchStreamTest, EndsAtItsTimeWithALastBookmark) {
  WatchRequest request = Request();
  request.bookmarks = true;
  request.timeout = seconds(30);
  const auto client = Open(request);
  Put("elsewhere", {}, "other");
  clock_.Advance(seconds(29));
  executor_.RunUntilIdle();
  EXPECT_FALSE(client->ended());
  clock_.Advance(seconds(2));
  executor_.RunUntilIdle();
  EXPECT_TRUE(client->ended());
  EXPECT_EQ(Frames(*client), "BOOKMARK @1");
  EXPECT_EQ(streams_.size(), 0U);
}

TEST_F(WatchStreamTest, SendsTheColumnsOfATableOnce) {
  WatchRequest request = Request();
  request.form.shape = Shape::kTable;
  const auto client = Open(request);
  Put("a");
  Put("b");
  executor_.RunUntilIdle();
  const std::string body = client->body();
  const std::size_t columns = body.find(R"("columnDefinitions":[{)");
  ASSERT_NE(columns, std::string::npos);
  EXPECT_EQ(body.find(R"("columnDefinitions":[{)", columns + 1), std::string::npos);
  EXPECT_NE(body.find(R"("columnDefinitions":null)"), std::string::npos);
}

TEST_F(WatchStreamTest, ProtobufFramesCanBeReadBack) {
  WatchRequest request = Request();
  request.form.media = MediaType::kProtobuf;
  const auto client = Open(request);
  Put("a");
  executor_.RunUntilIdle();
  const std::string body = client->body();
  const std::optional<Codec::Frame> frame = ProtobufCodec().NextFrame(body).value_or(std::nullopt);
  if (!frame) FAIL();
  EXPECT_EQ(frame->consumed, body.size());
  WatchEvent event;
  ASSERT_TRUE(ProtobufCodec().DecodeWatchFrame(frame->payload, EventApi::kCoreV1, &event).ok());
  EXPECT_EQ(std::get<Event>(event.object).metadata.name, "a");
}

TEST_F(WatchStreamTest, ACompactedResourceVersionEndsWithAnError) {
  Put("a");
  Put("b");
  clock_.Advance(std::chrono::minutes(20));
  store_.Maintain();
  Put("c");
  clock_.Advance(std::chrono::minutes(20));
  store_.Maintain();
  WatchRequest request = Request();
  request.after = 1;
  const auto client = Open(request);
  EXPECT_EQ(Frames(*client), "ERROR 410");
  EXPECT_NE(client->body().find("The resourceVersion for the provided watch is too old."),
            std::string::npos);
  EXPECT_TRUE(client->ended());
}

TEST_F(WatchStreamTest, RejectsWatchesBeyondTheLimit) {
  std::vector<std::shared_ptr<TestResponder>> clients;
  const auto rejected = [&](std::string user) {
    WatchRequest request = Request();
    request.user = std::move(user);
    auto responder = std::make_shared<TestResponder>();
    bool started = false;
    const Status status = streams_.Open(request, responder, [&] { started = true; });
    EXPECT_EQ(started, status.ok());
    clients.push_back(responder);
    return status.code();
  };
  EXPECT_EQ(rejected("u"), 200);
  EXPECT_EQ(rejected("u"), 200);
  EXPECT_EQ(rejected("u"), 200);
  EXPECT_EQ(rejected("u"), 429) << "of one user";
  EXPECT_EQ(rejected("v"), 200);
  EXPECT_EQ(rejected("w"), 200);
  EXPECT_EQ(rejected("x"), 429) << "of all";
  clients[0]->Close();
  EXPECT_EQ(streams_.size(), 4U);
  EXPECT_EQ(rejected("u"), 200) << "a closed watch makes room";
}

TEST_F(WatchStreamTest, StopEndsAllStreamsAndRejectsNewOnes) {
  const auto client = Open(Request());
  streams_.Stop();
  EXPECT_TRUE(client->ended());
  EXPECT_EQ(streams_.size(), 0U);
  auto late = std::make_shared<TestResponder>();
  EXPECT_EQ(streams_.Open(Request(), late, [] {}).code(), 503);
  streams_.Stop();
}

}  // namespace
}  // namespace herald::server
