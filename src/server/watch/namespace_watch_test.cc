#include "server/watch/namespace_watch.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "server/events/stored_event.h"
#include "server/testing/responder.h"
#include "store/memory/store.h"

namespace herald::server {
namespace {

using std::chrono::seconds;

class NamespaceWatchTest : public testing::Test {
 protected:
  void Put(const std::string& namespace_, const std::string& name = "e", int created = 0) {
    Event event;
    event.metadata.creation_timestamp = Time(1'600'000'000 + created, 0);
    store_.Commit({.key = EventStoreKey(namespace_, name),
                   .value = std::make_shared<const std::string>(EncodeStored(event))},
                  [](const Result<store::Written>&) {});
  }
  void Delete(const std::string& namespace_, const std::string& name = "e") {
    store_.Commit({.key = EventStoreKey(namespace_, name), .value = nullptr},
                  [](const Result<store::Written>&) {});
  }
  void Run() { executor_.RunUntilIdle(); }
  void Pass(seconds time) {
    clock_.Advance(time);
    executor_.RunUntilIdle();
  }
  std::shared_ptr<TestResponder> Open(NamespaceWatches::Request request) {
    request.timeout = seconds(60);
    auto responder = std::make_shared<TestResponder>();
    EXPECT_TRUE(watches_.Open(std::move(request), responder, [] {}).ok());
    Run();
    return responder;
  }
  // "ADDED default, DELETED shop"
  static std::string Frames(const TestResponder& responder) {
    std::string text;
    const std::string body = responder.body();
    constexpr std::string_view kName = R"("metadata":{"name":")";
    for (std::size_t at = 0; (at = body.find(R"({"type":")", at)) != std::string::npos; ++at) {
      if (!text.empty()) text += ", ";
      text += body.substr(at + 9, body.find('"', at + 9) - at - 9) + ' ';
      const std::size_t name = body.find(kName, at) + kName.size();
      text += body.substr(name, body.find('"', name) - name);
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
  Namespaces namespaces_{&store_, clock_.Now()};
  NamespaceWatches watches_{&store_, &namespaces_, &executor_};
};

// At once: no time passes.
TEST_F(NamespaceWatchTest, SendsAddedWithTheFirstEventAndDeletedWithTheLast) {
  const auto all = Open({});
  const auto one = Open({.name = "shop"});
  const auto later = Open({.initial_events = false});
  EXPECT_EQ(Frames(*all), "ADDED default, ADDED kube-system");
  EXPECT_EQ(Frames(*one), "");
  EXPECT_EQ(Frames(*later), "");
  Put("shop");
  Run();
  EXPECT_EQ(Frames(*all), "ADDED default, ADDED kube-system, ADDED shop");
  EXPECT_EQ(Frames(*one), "ADDED shop");
  EXPECT_EQ(Frames(*later), "ADDED shop");
  Put("shop", "f");
  Delete("shop");
  Run();
  EXPECT_EQ(Frames(*one), "ADDED shop");
  Delete("shop", "f");
  Run();
  EXPECT_EQ(Frames(*one), "ADDED shop, DELETED shop");
  Put("shop");
  Run();
  EXPECT_EQ(Frames(*one), "ADDED shop, DELETED shop, ADDED shop");
}

TEST_F(NamespaceWatchTest, ChangesThatAreTakenTogetherGiveTheirResult) {
  Put("shop");
  const auto all = Open({});
  Delete("shop");
  Put("shop", "f");  // the namespace was deleted and created between two turns
  Put("a");
  Delete("a");
  Run();
  EXPECT_EQ(Frames(*all), "ADDED default, ADDED kube-system, ADDED shop, ADDED a, DELETED a");
}

TEST_F(NamespaceWatchTest, DefaultStaysWithoutEvents) {
  Put("default");
  const auto all = Open({});
  Delete("default");
  Run();
  EXPECT_EQ(Frames(*all), "ADDED default, ADDED kube-system");
}

TEST_F(NamespaceWatchTest, WatchesTheStoreOnlyWhileSomebodyWatches) {
  EXPECT_EQ(store_.Stats().watches, 0U);
  const auto first = Open({});
  const auto second = Open({});
  EXPECT_EQ(store_.Stats().watches, 1U);
  first->Close();
  EXPECT_EQ(store_.Stats().watches, 1U);
  second->Close();
  Run();
  EXPECT_EQ(store_.Stats().watches, 0U);
  const auto third = Open({.name = "shop"});
  Put("shop");
  Run();
  EXPECT_EQ(Frames(*third), "ADDED shop");
}

TEST_F(NamespaceWatchTest, SendsTheSameCreationTimestampAsAList) {
  Put("shop", "a", 50);
  Put("shop", "b", 40);
  Put("shop", "c", 60);
  const auto list = [this] {
    std::string text;
    namespaces_.Read([&](const Result<NamespaceList>& read) {
      for (const NamespaceInfo& info : read->items)
        text += fmt::format("{}={} ", info.name, info.created.seconds() - 1'600'000'000);
    });
    return text;
  };
  // The oldest event's; without events, the start of the server.
  EXPECT_EQ(list(), "default=100000000 kube-system=100000000 shop=40 ");
  const auto client = Open({.name = "shop"});
  EXPECT_NE(client->body().find(R"("creationTimestamp":"2020-09-13T12:27:20Z")"), std::string::npos)
      << client->body();
  // It does not change while there are events, and is forgotten with the last one.
  Delete("shop", "b");
  Run();
  EXPECT_EQ(list(), "default=100000000 kube-system=100000000 shop=40 ");
  Delete("shop", "a");
  Delete("shop", "c");
  Run();
  Put("shop", "d", 70);
  Run();
  EXPECT_EQ(list(), "default=100000000 kube-system=100000000 shop=70 ");
}

TEST_F(NamespaceWatchTest, EndsAtItsTimeAndWithTheServer) {
  const auto client = Open({});
  Pass(seconds(55));
  EXPECT_FALSE(client->ended());
  Pass(seconds(6));
  EXPECT_TRUE(client->ended());
  const auto second = Open({});
  watches_.Stop();
  EXPECT_EQ(store_.Stats().watches, 0U);
  EXPECT_TRUE(second->ended());
  EXPECT_EQ(watches_.Open({}, std::make_shared<TestResponder>(), [] {}).code(), 503);
}

}  // namespace
}  // namespace herald::server
