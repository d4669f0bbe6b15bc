#include "server/namespace_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "server/stored_event.h"
#include "server/test_responder.h"
#include "store/memory_store.h"

namespace herald::server {
namespace {

using std::chrono::seconds;

class NamespaceWatchTest : public testing::Test {
 protected:
  void Put(const std::string& namespace_) {
    store_.Commit({.key = EventKey(namespace_, "e"),
                   .value = std::make_shared<const std::string>(EncodeStored({}))},
                  [](const Result<store::Written>&) {});
  }
  void Delete(const std::string& namespace_) {
    store_.Commit({.key = EventKey(namespace_, "e"), .value = nullptr},
                  [](const Result<store::Written>&) {});
  }
  void Pass(seconds time) {
    clock_.Advance(time);
    executor_.RunUntilIdle();
  }
  std::shared_ptr<TestResponder> Open(NamespaceWatches::Request request) {
    request.timeout = seconds(60);
    auto responder = std::make_shared<TestResponder>();
    EXPECT_TRUE(watches_.Open(std::move(request), responder, [] {}).ok());
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
  NamespaceWatches watches_{&store_, &executor_};
};

TEST_F(NamespaceWatchTest, TellsWhichComeAndGo) {
  const auto all = Open({});
  const auto one = Open({.name = "shop"});
  const auto later = Open({.initial_events = false});
  EXPECT_EQ(Frames(*all), "ADDED default, ADDED kube-system");
  EXPECT_EQ(Frames(*one), "");
  Put("shop");
  Pass(seconds(6));
  EXPECT_EQ(Frames(*all), "ADDED default, ADDED kube-system, ADDED shop");
  EXPECT_EQ(Frames(*one), "ADDED shop");
  EXPECT_EQ(Frames(*later), "ADDED shop");
  Delete("shop");
  Pass(seconds(6));
  EXPECT_EQ(Frames(*one), "ADDED shop, DELETED shop");
}

TEST_F(NamespaceWatchTest, EndsAtItsTimeAndWithTheServer) {
  const auto client = Open({});
  Pass(seconds(55));
  EXPECT_FALSE(client->ended());
  Pass(seconds(6));
  EXPECT_TRUE(client->ended());
  const auto second = Open({});
  watches_.Stop();
  EXPECT_TRUE(second->ended());
  EXPECT_EQ(watches_.Open({}, std::make_shared<TestResponder>(), [] {}).code(), 503);
}

}  // namespace
}  // namespace herald::server
