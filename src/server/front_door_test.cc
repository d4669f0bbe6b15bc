#include "server/front_door.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "herald/base/executor.h"
#include "server/authentication.h"
#include "server/test_responder.h"
#include "store/forwarding_store.h"
#include "store/memory_store.h"

namespace herald::server {
namespace {

using namespace std::chrono_literals;

// A store that takes its time: what it is asked waits until the test lets it go on.
class SlowStore final : public store::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  void Commit(store::Write write, WriteDone done) override {
    Later(
        [this, write = std::move(write), done = std::move(done)] { inner_->Commit(write, done); });
  }
  void Get(std::string key, EntryDone done) override {
    Later([this, key = std::move(key), done = std::move(done)] { inner_->Get(key, done); });
  }
  void Read(store::Query query, PageDone done) override {
    Later([this, query = std::move(query), done = std::move(done)] { inner_->Read(query, done); });
  }

  void GoOn() {
    while (!waiting_.empty()) {
      const std::vector<std::function<void()>> now = std::exchange(waiting_, {});
      for (const std::function<void()>& task : now) task();
    }
  }

 private:
  void Later(std::function<void()> task) { waiting_.push_back(std::move(task)); }

  std::vector<std::function<void()>> waiting_;
};

constexpr std::string_view kEvents = "/api/v1/namespaces/default/events";
constexpr std::string_view kEvent =
    R"({"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","namespace":"default"}})";

class FrontDoorTest : public testing::Test {
 protected:
  using Client = std::shared_ptr<TestResponder>;

  FrontDoorTest() {
    std::vector<std::unique_ptr<Authenticator>> ways;
    ways.push_back(*MakeTokenAuthenticator("t,admin,,system:masters\n", "tokens.csv"));
    door_.SetAuthenticators(std::move(ways));
    door_.SetApi(&api_);
    store_.GoOn();  // what the Api does at the start
  }
  ~FrontDoorTest() override { store_.GoOn(); }

  Client Ask(std::string method, std::string target, std::string_view body = "",
             http::Headers headers = {{"authorization", "Bearer t"}}) {
    auto responder = std::make_shared<TestResponder>();
    headers.Add("content-type", "application/json");
    door_.Handle({.method = std::move(method),
                  .target = std::move(target),
                  .authority = {},
                  .headers = std::move(headers),
                  .body = std::string(body)},
                 {}, responder);
    return responder;
  }
  void Advance(std::chrono::nanoseconds time) {
    clock_.Advance(time);
    executor_.RunUntilIdle();
  }

  FakeClock clock_{WallTime(1'700'000'000s)};
  Executor executor_{{.threads = 0, .clock = &clock_}};
  store::MemoryStore quick_store_{[this] {
    store::StoreOptions options;
    options.schema = Api::MakeSchema([](const Event&) { return 3600s; });
    options.clock = &clock_;
    options.background = false;
    return options;
  }()};
  SlowStore store_{&quick_store_};
  FrontDoor door_{&store_, {.clock = &clock_, .executor = &executor_}};
  Api api_{&store_, [this] {
             ApiOptions options;
             options.clock = &clock_;
             return options;
           }()};
};

TEST_F(FrontDoorTest, WhatHasNoAnswerAfterAMinuteIsATimeoutInUpstreamsWords) {
  const Client read = Ask("GET", std::string(kEvents) + "/e", "",
                          {{"authorization", "Bearer t"}, {"audit-id", "mine"}});
  Advance(59s);
  const Client late = Ask("GET", std::string(kEvents));
  EXPECT_EQ(read->status(), 0);
  Advance(1s);
  ASSERT_EQ(read->status(), 504);
  EXPECT_EQ(read->header("audit-id"), "mine");
  EXPECT_EQ(read->body(),
            R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",)"
            R"("message":"Timeout: request did not complete within the allotted timeout",)"
            R"("reason":"Timeout","details":{},"code":504})"
            "\n");
  EXPECT_EQ(late->status(), 0) << "each request has its own time";
  store_.GoOn();
  EXPECT_EQ(read->status(), 504) << "an answer that comes too late is dropped";
  EXPECT_EQ(late->status(), 200);
  Advance(120s);
  EXPECT_EQ(late->status(), 200);
}

TEST_F(FrontDoorTest, AWriteThatTimedOutMayStillBeDone) {
  const Client write = Ask("POST", std::string(kEvents), kEvent);
  Advance(60s);
  EXPECT_EQ(write->status(), 504);
  store_.GoOn();
  const Client read = Ask("GET", std::string(kEvents) + "/e");
  store_.GoOn();
  EXPECT_EQ(read->status(), 200);
}

TEST_F(FrontDoorTest, ClientsMayAskForLessTimeButNotForMore) {
  const std::string target = std::string(kEvents) + "/e?timeout=";
  const Client longer = Ask("GET", target + "5m");
  const Client none = Ask("GET", target + "0s");
  const Client negative = Ask("GET", target + "-5s");
  const Client shorter = Ask("GET", target + "1500ms");
  const Client shortest = Ask("GET", target + "1ms");
  Advance(20ms);
  EXPECT_EQ(shortest->status(), 504);
  EXPECT_EQ(shorter->status(), 0);
  Advance(1480ms);
  EXPECT_EQ(shorter->status(), 504);
  for (const Client& client : {longer, none, negative}) EXPECT_EQ(client->status(), 0);
  Advance(58500ms);
  for (const Client& client : {longer, none, negative}) EXPECT_EQ(client->status(), 504);
}

TEST_F(FrontDoorTest, ATimeThatIsNoneIsRefusedBeforeAnybodyAsksWhoItIs) {
  const Client client = Ask("GET", std::string(kEvents) + "?timeout=soon", "", {});
  EXPECT_EQ(client->status(), 400);
  EXPECT_NE(client->body().find("invalid timeout specified in the request URL - time: invalid "
                                "duration \\\"soon\\\""),
            std::string::npos)
      << client->body();
}

TEST_F(FrontDoorTest, WatchesHaveNoDeadline) {
  const Client watch =
      Ask("GET", std::string(kEvents) + "?watch=true&timeout=soon&timeoutSeconds=600");
  Advance(500s);
  EXPECT_EQ(watch->status(), 200);
  EXPECT_FALSE(watch->ended());
  api_.Stop();
}

}  // namespace
}  // namespace herald::server
