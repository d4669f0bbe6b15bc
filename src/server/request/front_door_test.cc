#include "server/request/front_door.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "herald/base/executor.h"
#include "server/access/authentication.h"
#include "server/testing/responder.h"
#include "store/memory/store.h"
#include "store/testing/forwarding_store.h"

namespace herald::server {
namespace {

using namespace std::chrono_literals;

// A store that completes calls only in GoOn().
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
    Authenticators authenticators;
    authenticators.push_back(*MakeTokenAuthenticator(
        "t,admin,,system:masters\nu,other,,system:masters\nn,nobody,\n", "tokens.csv"));
    door_.SetAuthenticators(std::move(authenticators));
    door_.SetApi(&api_);
    store_.GoOn();  // the Api's calls in its constructor
  }
  ~FrontDoorTest() override { store_.GoOn(); }

  // Sets up a FrontDoor with two administrators, whose tokens are "t" and "u".
  void Prepare(FrontDoor& door) {
    Authenticators authenticators;
    authenticators.push_back(*MakeTokenAuthenticator(
        "t,admin,,system:masters\nu,other,,system:masters\n", "tokens.csv"));
    door.SetAuthenticators(std::move(authenticators));
    door.SetApi(&api_);
  }

  Client Ask(std::string method, std::string target, std::string_view body = "",
             http::Headers headers = {{"authorization", "Bearer t"}}) {
    auto responder = std::make_shared<TestResponder>(std::string(body));
    headers.Add("content-type", "application/json");
    door_.Handle({.method = std::move(method),
                  .target = std::move(target),
                  .authority = {},
                  .headers = std::move(headers)},
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
             options.authorizer = [this] { return door_.authorizer(); };
             return options;
           }()};
};

TEST_F(FrontDoorTest, SendsUpstreamsTimeoutAfterAMinuteWithoutAResponse) {
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
  EXPECT_EQ(read->status(), 504) << "a late response is dropped";
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

TEST_F(FrontDoorTest, RejectsAnInvalidTimeoutBeforeAuthentication) {
  const Client client = Ask("GET", std::string(kEvents) + "?timeout=soon", "", {});
  EXPECT_EQ(client->status(), 400);
  EXPECT_NE(client->body().find("invalid timeout specified in the request URL - time: invalid "
                                "duration \\\"soon\\\""),
            std::string::npos)
      << client->body();
}

TEST_F(FrontDoorTest, AnImpersonatedUserHasNoPermissionsOfTheRequestor) {
  const auto as = [&](std::string method, std::string target, http::Headers headers,
                      std::string_view body = "") {
    headers.Add("authorization", "Bearer t");
    const Client client = Ask(std::move(method), std::move(target), body, std::move(headers));
    store_.GoOn();
    return client;
  };
  EXPECT_EQ(as("GET", std::string(kEvents), {})->status(), 200);
  const Client nobody = as("GET", std::string(kEvents), {{"impersonate-user", "nobody"}});
  EXPECT_EQ(nobody->status(), 403);
  EXPECT_NE(nobody->body().find(R"(User \"nobody\" cannot list resource \"events\")"),
            std::string::npos)
      << nobody->body();
  EXPECT_EQ(as("GET", std::string(kEvents),
               {{"impersonate-user", "nobody"}, {"impersonate-group", "system:masters"}})
                ->status(),
            200);
  const Client groups = as("GET", std::string(kEvents), {{"impersonate-group", "a"}});
  EXPECT_EQ(groups->status(), 400);
  EXPECT_EQ(groups->header("x-content-type-options"), "nosniff");
  const Client review =
      as("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
         {{"impersonate-user", "nobody"}},
         R"({"spec":{"resourceAttributes":{"verb":"create","resource":"events"}}})");
  EXPECT_NE(review->body().find(R"("status":{"allowed":false})"), std::string::npos)
      << review->body();
  const Client whoami = as("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                           {{"impersonate-user", "nobody"}, {"impersonate-uid", "9"}}, "{}");
  EXPECT_NE(
      whoami->body().find(R"("username":"nobody","uid":"9","groups":["system:authenticated"])"),
      std::string::npos)
      << whoami->body();
  EXPECT_EQ(as("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews",
               {{"impersonate-user", "system:anonymous"}}, "{}")
                ->status(),
            403)
      << "only who is authenticated may ask";
}

TEST_F(FrontDoorTest, ImpersonationNeedsAPermission) {
  const Client client =
      Ask("GET", std::string(kEvents), "",
          {{"authorization", "Bearer n"}, {"impersonate-user", "x"}, {"impersonate-group", "y"}});
  EXPECT_EQ(client->status(), 403);
  EXPECT_NE(client->body().find(R"(User \"nobody\" cannot impersonate-on:user-info:list)"),
            std::string::npos)
      << client->body();
}

// An authorizer that decides when the test says so.
class LateAuthorizer final : public Authorizer {
 public:
  void Authorize(const User& user, const RequestInfo& request, Done done) const override {
    asked.push_back(user.name + " " + request.verb + " " + request.resource);
    waiting.push_back(std::move(done));
  }
  void DecideNext(bool allowed) const { std::exchange(waiting, {}).at(0)({.allowed = allowed}); }

  mutable std::vector<std::string> asked;
  mutable std::vector<Done> waiting;
};

TEST_F(FrontDoorTest, ImpersonationWaitsForEachDecision) {
  const auto authorizer = std::make_shared<const LateAuthorizer>();
  door_.SetAuthorizer(authorizer);
  const Client client =
      Ask("GET", std::string(kEvents), "",
          {{"authorization", "Bearer n"}, {"impersonate-user", "x"}, {"impersonate-group", "y"}});
  authorizer->DecideNext(true);
  authorizer->DecideNext(false);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client->status(), 0);
    authorizer->DecideNext(true);
  }
  store_.GoOn();
  EXPECT_EQ(client->status(), 200);
  EXPECT_EQ(authorizer->asked,
            (std::vector<std::string>{
                "nobody impersonate-on:user-info:list events", "nobody impersonate:user-info users",
                "nobody impersonate users", "nobody impersonate groups", "x list events"}));
}

TEST_F(FrontDoorTest, AnswersBrowsersOfAllowedOriginsOnly) {
  FrontDoor door(&store_, {.clock = &clock_, .cors = *Cors::Make({"^https://ui$"})});
  const auto ask = [&](std::string method, std::string target, std::string origin) {
    auto responder = std::make_shared<TestResponder>();
    door.Handle({.method = std::move(method),
                 .target = std::move(target),
                 .authority = {},
                 .headers = {{"origin", std::move(origin)}}},
                {}, responder);
    return responder;
  };
  const Client preflight = ask("OPTIONS", std::string(kEvents), "https://ui");
  EXPECT_EQ(preflight->status(), 204) << "a preflight has no credentials";
  EXPECT_EQ(preflight->header("access-control-allow-origin"), "https://ui");
  EXPECT_EQ(preflight->header("cache-control"), "no-cache, private");
  const Client rejected = ask("GET", std::string(kEvents), "https://ui");
  EXPECT_EQ(rejected->status(), 401);
  EXPECT_EQ(rejected->header("access-control-allow-origin"), "https://ui");
  EXPECT_EQ(ask("GET", "/livez", "https://ui")->header("access-control-allow-origin"),
            "https://ui");
  const Client foreign = ask("OPTIONS", std::string(kEvents), "https://evil");
  EXPECT_EQ(foreign->status(), 401);
  EXPECT_EQ(foreign->header("access-control-allow-origin"), "");
}

TEST_F(FrontDoorTest, WatchesHaveNoDeadline) {
  const Client watch =
      Ask("GET", std::string(kEvents) + "?watch=true&timeout=soon&timeoutSeconds=600");
  Advance(500s);
  EXPECT_EQ(watch->status(), 200);
  EXPECT_FALSE(watch->ended());
  api_.Stop();
}

TEST_F(FrontDoorTest, DoesNotReadTheBodyOfARejectedRequest) {
  const Client unknown = Ask("POST", std::string(kEvents), kEvent, {});
  EXPECT_EQ(unknown->status(), 401);
  EXPECT_FALSE(unknown->asked_for_body());
  const Client forbidden =
      Ask("POST", std::string(kEvents), kEvent, {{"authorization", "Bearer n"}});
  EXPECT_EQ(forbidden->status(), 403);
  EXPECT_FALSE(forbidden->asked_for_body());
  const Client read = Ask("GET", std::string(kEvents) + "/e", kEvent);
  EXPECT_FALSE(read->asked_for_body()) << "a GET has no body that means anything";
}

TEST_F(FrontDoorTest, RejectsATooLargeBodyWithUpstreamsMessage) {
  const Client client = Ask("POST", std::string(kEvents), std::string(3 * 1024 * 1024 + 1, ' '));
  EXPECT_EQ(client->status(), 413);
  EXPECT_EQ(client->header("content-type"), "application/json");
  EXPECT_NE(client->body().find("\"Request entity too large: limit is 3145728\""),
            std::string::npos)
      << client->body();
}

TEST_F(FrontDoorTest, OneUserLeavesRoomForTheRequestsOfOthers) {
  FrontDoor door(&store_, {.clock = &clock_, .max_requests_in_flight = 10});
  Prepare(door);
  const auto ask = [&](const std::string& token) {
    auto client = std::make_shared<TestResponder>();
    door.Handle(
        {.target = std::string(kEvents) + "/e", .headers = {{"authorization", "Bearer " + token}}},
        {}, client);
    return client;
  };
  std::vector<Client> greedy;
  while (greedy.empty() || greedy.back()->status() == 0) greedy.push_back(ask("t"));
  EXPECT_EQ(greedy.size(), 6U);
  EXPECT_EQ(greedy.back()->status(), 429);
  EXPECT_EQ(greedy.back()->header("retry-after"), "1");
  EXPECT_EQ(ask("u")->status(), 0) << "another user is served";
  store_.GoOn();
  EXPECT_EQ(greedy.front()->status(), 404);
  EXPECT_EQ(ask("t")->status(), 0) << "there is room again";
  store_.GoOn();
}

TEST_F(FrontDoorTest, OneUserLeavesRoomForTheBodiesOfOthers) {
  FrontDoor door(&store_, {.clock = &clock_, .max_body_bytes_in_flight = 1000});
  Prepare(door);
  const auto post = [&](const std::string& token) {
    auto client = std::make_shared<TestResponder>(std::string(kEvent));
    door.Handle(
        {.method = "POST",
         .target = std::string(kEvents),
         .headers = {{"authorization", "Bearer " + token}, {"content-type", "application/json"}}},
        {}, client);
    return client;
  };
  std::vector<Client> greedy;
  while (greedy.empty() || greedy.back()->status() == 0) greedy.push_back(post("t"));
  EXPECT_EQ(greedy.size() - 1, 1000 / kEvent.size() / 2);
  EXPECT_EQ(greedy.back()->status(), 429);
  EXPECT_EQ(post("u")->status(), 0) << "another user is served";
  store_.GoOn();
  EXPECT_EQ(post("t")->status(), 0) << "there is room again";
  store_.GoOn();
}

// An authenticator that decides when the test says so, on any thread.
class LateAuthenticator final : public Authenticator {
 public:
  explicit LateAuthenticator(std::vector<Done>* waiting) : waiting_(waiting) {}
  void Authenticate(const http::Request&, const http::Peer&, Done done) const override {
    waiting_->push_back(std::move(done));
  }

 private:
  std::vector<Done>* const waiting_;
};

class LateFrontDoorTest : public FrontDoorTest {
 protected:
  LateFrontDoorTest() {
    Authenticators authenticators;
    authenticators.push_back(std::make_unique<LateAuthenticator>(&waiting_));
    late_.SetAuthenticators(std::move(authenticators));
    late_.SetApi(&api_);
  }
  Client Post(std::string address) {
    auto client = std::make_shared<TestResponder>(std::string(kEvent));
    late_.Handle({.method = "POST",
                  .target = std::string(kEvents),
                  .headers = {{"content-type", "application/json"}}},
                 {.address = std::move(address)}, client);
    return client;
  }

  FrontDoor late_{&store_, {.clock = &clock_, .max_requests_in_flight = 10}};
  std::vector<Authenticator::Done> waiting_;
};

TEST_F(LateFrontDoorTest, DoesNotReadTheBodyBeforeAuthenticationIsDone) {
  const Client known = Post("10.0.0.1:1000");
  const Client unknown = Post("10.0.0.1:1001");
  ASSERT_EQ(waiting_.size(), 2U);
  EXPECT_FALSE(known->asked_for_body());
  std::thread([this] {
    waiting_[0](std::optional<User>(User{"admin", "", {"system:masters"}}));
    waiting_[1](std::optional<User>());
  }).join();
  EXPECT_TRUE(known->asked_for_body());
  EXPECT_EQ(unknown->status(), 401);
  EXPECT_FALSE(unknown->asked_for_body());
  store_.GoOn();
  EXPECT_EQ(known->status(), 201);
}

TEST_F(LateFrontDoorTest, LimitsRequestsPerAddressUntilAuthenticationIsDone) {
  std::vector<Client> flood;
  for (int i = 0; i < 6; ++i) flood.push_back(Post(std::string("10.0.0.1:") + std::to_string(i)));
  EXPECT_EQ(flood[4]->status(), 0);
  EXPECT_EQ(flood[5]->status(), 429);
  EXPECT_EQ(Post("10.0.0.2:1")->status(), 0);
  for (const Authenticator::Done& done : std::exchange(waiting_, {})) done(std::optional<User>());
  EXPECT_EQ(flood[4]->status(), 401);
  EXPECT_EQ(flood[5]->status(), 429);
  EXPECT_EQ(Post("10.0.0.1:7")->status(), 0) << "there is room again";
  waiting_[0](std::optional<User>());
}

}  // namespace
}  // namespace herald::server
