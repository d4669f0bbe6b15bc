#include "herald/client/rest_sink.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "client/testing/fake_transport.h"
#include "herald/api/codec.h"

namespace herald {
namespace {

std::shared_ptr<const Event> NewStyleEvent(const std::string& namespace_ = "shop") {
  auto event = std::make_shared<Event>();
  event->metadata.name = "web.1";
  event->metadata.namespace_ = namespace_;
  event->involved_object = {.kind = "Pod", .namespace_ = namespace_, .name = "web"};
  event->reason = "Killing";
  event->message = "Stopping";
  event->type = kNormal;
  event->event_time = MicroTime(1'700'000'000, 123'456'000);
  event->action = "Kill";
  return event;
}

std::string Rejection(int code, const std::string& reason, const std::string& more = "") {
  return R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":")" +
         reason + "\"" + more + R"(,"code":)" + std::to_string(code) + "}";
}

std::string Body(const Event& event, EventApi api) {
  std::string body;
  JsonCodec().AppendEvent(event, api, &body);
  return body;
}

class RestSinkTest : public ::testing::Test {
 protected:
  std::optional<Result<Event>>& Send(SinkRequest::Verb verb, EventApi api, std::string patch = "") {
    result_.reset();
    sink_.Send({.verb = verb, .api = api, .event = NewStyleEvent(), .patch = std::move(patch)},
               [this](Result<Event> r) { result_ = std::move(r); });
    return result_;
  }
  std::shared_ptr<FakeTransport::Call> Next() { return server_.transport->Next(); }

  // Before the server, whose end still answers what is open.
  std::vector<std::string> log_;
  std::optional<Result<Event>> result_;
  FakeServer server_;
  RestSink sink_{server_.rest,
                 {.log = [this](const LogEntry& entry) { log_.emplace_back(entry.message); }}};
};

TEST_F(RestSinkTest, CreatesUpdatesAndPatches) {
  Send(SinkRequest::Verb::kCreate, EventApi::kEventsV1);
  auto call = Next();
  EXPECT_EQ(call->request.method, "POST");
  EXPECT_EQ(call->request.target, "/apis/events.k8s.io/v1/namespaces/shop/events");
  EXPECT_EQ(call->request.headers.Get("content-type"), "application/json");
  EXPECT_FALSE(call->options.repeatable);
  EXPECT_NE(call->request.body.find(R"("note":"Stopping")"), std::string::npos);
  server_.transport->Answer(call, 201, call->request.body);
  ASSERT_TRUE(result_ && *result_);
  EXPECT_EQ((*result_)->message, "Stopping");

  Send(SinkRequest::Verb::kUpdate, EventApi::kCoreV1);
  call = Next();
  EXPECT_EQ(call->request.method, "PUT");
  EXPECT_EQ(call->request.target, "/api/v1/namespaces/shop/events/web.1");

  Send(SinkRequest::Verb::kPatch, EventApi::kCoreV1, R"({"count":2})");
  call = Next();
  EXPECT_EQ(call->request.method, "PATCH");
  EXPECT_EQ(call->request.headers.Get("content-type"), "application/strategic-merge-patch+json");
  EXPECT_EQ(call->request.body, R"({"count":2})");
}

TEST_F(RestSinkTest, MakesOneAttemptAndReturnsRetryAfter) {
  Send(SinkRequest::Verb::kCreate, EventApi::kCoreV1);
  server_.transport->Answer(Next(), 429, "", {{"retry-after", "3"}});
  ASSERT_TRUE(result_ && !*result_);
  EXPECT_EQ(result_->error().retry_after(), std::chrono::seconds(3));
}

// Rejections by events.k8s.io/v1, and whether v1 is tried instead.
struct RejectionCase {
  const char* name;
  int code;
  std::string body;
  const char* content_type;
  bool falls_back;
};

TEST_F(RestSinkTest, TriesV1WhereEventsV1IsMissingOrForbidden) {
  const RejectionCase cases[] = {
      {"the group is missing", 404, "404 page not found\n", "text/plain", true},
      {"forbidden", 403, Rejection(403, "Forbidden"), "application/json", true},
      {"the namespace is missing", 404,
       Rejection(404, "NotFound", R"(,"details":{"name":"shop","kind":"namespaces"})"),
       "application/json", false},
      {"the namespace goes away", 403,
       Rejection(403, "Forbidden", R"(,"details":{"causes":[{"reason":"NamespaceTerminating"}]})"),
       "application/json", false},
      {"invalid", 422, Rejection(422, "Invalid"), "application/json", false},
      {"exists", 409, Rejection(409, "AlreadyExists"), "application/json", false},
  };
  for (const RejectionCase& c : cases) {
    SCOPED_TRACE(c.name);
    RestSink sink(server_.rest);
    std::optional<Result<Event>> result;
    sink.Send(
        {.verb = SinkRequest::Verb::kCreate, .api = EventApi::kEventsV1, .event = NewStyleEvent()},
        [&](Result<Event> r) { result = std::move(r); });
    server_.transport->Answer(Next(), c.code, c.body, {{"content-type", c.content_type}});
    const auto second = Next();
    EXPECT_EQ(second != nullptr, c.falls_back);
    if (second) {
      EXPECT_EQ(second->request.target, "/api/v1/namespaces/shop/events");
      EXPECT_NE(second->request.body.find(R"("message":"Stopping")"), std::string::npos);
      EXPECT_NE(second->request.body.find(R"("eventTime":"2023-11-14T22:13:20.123456Z")"),
                std::string::npos);
      server_.transport->Answer(second, 201, second->request.body);
      EXPECT_TRUE(result && *result);
    } else {
      EXPECT_TRUE(result && !*result);
    }
    EXPECT_EQ(sink.fell_back(), c.falls_back);
  }
}

TEST_F(RestSinkTest, FallsBackForTenMinutesAndLogsItOnce) {
  Send(SinkRequest::Verb::kCreate, EventApi::kEventsV1);
  server_.transport->Answer(Next(), 403, Rejection(403, "Forbidden"));
  auto second = Next();
  server_.transport->Answer(second, 201, second->request.body);
  EXPECT_EQ(log_.size(), 1U);
  EXPECT_TRUE(sink_.fell_back());
  server_.transport->Advance(std::chrono::minutes(10) - std::chrono::nanoseconds(1));
  Send(SinkRequest::Verb::kPatch, EventApi::kEventsV1, R"({"series":{"count":2}})");
  EXPECT_EQ(Next()->request.target, "/api/v1/namespaces/shop/events/web.1");

  server_.transport->Advance(std::chrono::nanoseconds(1));
  EXPECT_FALSE(sink_.fell_back());
  Send(SinkRequest::Verb::kPatch, EventApi::kEventsV1, R"({"series":{"count":3}})");
  auto first = Next();
  EXPECT_EQ(first->request.target, "/apis/events.k8s.io/v1/namespaces/shop/events/web.1");
  server_.transport->Answer(first, 403, Rejection(403, "Forbidden"));
  second = Next();
  EXPECT_EQ(second->request.target, "/api/v1/namespaces/shop/events/web.1");
  server_.transport->Answer(second, 200, Body(*NewStyleEvent(), EventApi::kCoreV1));
  EXPECT_TRUE(sink_.fell_back());
  EXPECT_EQ(log_.size(), 1U);
}

TEST_F(RestSinkTest, AForbiddenNamespaceChangesNoOther) {
  for (const bool with_choice : {false, true}) {
    const auto choice = std::make_shared<ApiChoice>(&server_.clock);
    choice->Set(EventApi::kEventsV1);
    RestSink sink(server_.rest, {.api_choice = with_choice ? choice : nullptr});
    const auto send = [&](const std::string& namespace_) {
      sink.Send({.api = EventApi::kEventsV1, .event = NewStyleEvent(namespace_)},
                [this](Result<Event> r) { result_ = std::move(r); });
      return Next();
    };
    server_.transport->Answer(send("shop"), 403, Rejection(403, "Forbidden"));
    const auto second = Next();
    EXPECT_EQ(second->request.target, "/api/v1/namespaces/shop/events");
    server_.transport->Answer(second, 201, second->request.body);
    EXPECT_EQ(send("bank")->request.target, "/apis/events.k8s.io/v1/namespaces/bank/events");
    EXPECT_EQ(send("shop")->request.target, "/api/v1/namespaces/shop/events");
    if (!with_choice) continue;
    EXPECT_EQ(choice->Get("shop"), EventApi::kCoreV1);
    EXPECT_EQ(choice->Get("bank"), EventApi::kEventsV1);
    EXPECT_EQ(choice->Get(), EventApi::kEventsV1);
  }
}

TEST_F(RestSinkTest, AMissingGroupChangesEveryNamespaceForTenMinutes) {
  const auto choice = std::make_shared<ApiChoice>(&server_.clock);
  choice->Set(EventApi::kEventsV1);
  RestSink sink(server_.rest, {.api_choice = choice});
  sink.Send({.api = EventApi::kEventsV1, .event = NewStyleEvent("shop")},
            [this](Result<Event> r) { result_ = std::move(r); });
  server_.transport->Answer(Next(), 404, "404 page not found\n", {{"content-type", "text/plain"}});
  const auto second = Next();
  server_.transport->Answer(second, 201, second->request.body);
  ASSERT_TRUE(result_ && *result_);
  EXPECT_EQ(choice->Get("bank"), EventApi::kCoreV1);
  EXPECT_EQ(choice->Get(), EventApi::kCoreV1);
  server_.transport->Advance(std::chrono::minutes(10));
  EXPECT_EQ(choice->Get("bank"), EventApi::kEventsV1);
}

// The answer of v1 to the event that events.k8s.io/v1 rejected, and whether it causes a fallback.
TEST_F(RestSinkTest, FallsBackOnlyIfV1AcceptsOrRejectsTheEventItself) {
  struct Case {
    const char* name;
    int code;
    std::string body;
    bool falls_back;
    int reported;  // 0: success
  };
  const Case cases[] = {
      {"accepted", 201, Body(*NewStyleEvent(), EventApi::kCoreV1), true, 0},
      {"exists", 409, Rejection(409, "AlreadyExists"), true, 409},
      {"invalid", 422, Rejection(422, "Invalid"), true, 422},
      {"expired", 404, Rejection(404, "NotFound"), true, 404},
      {"forbidden", 403, Rejection(403, "Forbidden"), false, 403},
      {"unauthorized", 401, Rejection(401, "Unauthorized"), false, 401},
      {"too many requests", 429, Rejection(429, "TooManyRequests"), false, 429},
      {"broken", 500, Rejection(500, "InternalError"), false, 500},
      {"the namespace is being deleted", 403,
       Rejection(403, "Forbidden", R"(,"details":{"causes":[{"reason":"NamespaceTerminating"}]})"),
       false, 403},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    RestSink sink(server_.rest);
    std::optional<Result<Event>> result;
    sink.Send({.api = EventApi::kEventsV1, .event = NewStyleEvent()},
              [&](Result<Event> r) { result = std::move(r); });
    server_.transport->Answer(Next(), 403, Rejection(403, "Forbidden"));
    server_.transport->Answer(Next(), c.code, c.body);
    ASSERT_TRUE(result);
    EXPECT_EQ(*result ? 0 : result->error().code(), c.reported);
    EXPECT_EQ(sink.fell_back(), c.falls_back);
  }
}

TEST_F(RestSinkTest, ReturnsTheFirstRejectionWhereBothApisAreForbidden) {
  Send(SinkRequest::Verb::kCreate, EventApi::kEventsV1);
  server_.transport->Answer(Next(), 403, Rejection(403, "Forbidden"));
  server_.transport->Answer(Next(), 403, Rejection(403, "Forbidden"));
  ASSERT_TRUE(result_ && !*result_);
  EXPECT_EQ(result_->error().code(), 403);
  EXPECT_FALSE(sink_.fell_back());
  EXPECT_TRUE(log_.empty());
}

TEST_F(RestSinkTest, AsksTheServerUntilItAnswersToMakeTheChoice) {
  const auto choice = std::make_shared<ApiChoice>();
  const RestSink sink(server_.rest, {.api_choice = choice});
  auto call = Next();
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->request.target, "/apis/events.k8s.io/v1");
  server_.transport->Fail(call, Status(StatusReason::kUnreachable, "connection refused"));
  EXPECT_FALSE(choice->Get());
  server_.transport->Advance(std::chrono::seconds(2));
  call = Next();
  ASSERT_NE(call, nullptr);
  server_.transport->Answer(call, 200,
                            R"({"kind":"APIResourceList","resources":[{"name":"events"}]})");
  EXPECT_EQ(choice->Get(), EventApi::kEventsV1);
}

TEST_F(RestSinkTest, ChoosesTheOldApiForTenMinutesWhereTheNewOneIsMissing) {
  const auto choice = std::make_shared<ApiChoice>(&server_.clock);
  const RestSink sink(server_.rest, {.api_choice = choice});
  server_.transport->Answer(Next(), 404, "404 page not found\n", {{"content-type", "text/plain"}});
  EXPECT_EQ(choice->Get("shop"), EventApi::kCoreV1);
  server_.transport->Advance(std::chrono::minutes(10));
  EXPECT_EQ(choice->Get("shop"), EventApi::kEventsV1) << "the server may have been upgraded";
}

TEST_F(RestSinkTest, StopsAskingWhenItIsDestroyed) {
  {
    const RestSink sink(server_.rest, {.api_choice = std::make_shared<ApiChoice>()});
    server_.transport->Run();
  }
  const auto call = Next();
  ASSERT_NE(call, nullptr);
  server_.transport->Run();
  EXPECT_TRUE(call->cancelled);
  server_.transport->Advance(std::chrono::minutes(2));
  EXPECT_EQ(Next(), nullptr);
}

TEST_F(RestSinkTest, WritesProtobufIfRequested) {
  RestSink sink(server_.rest, {.format = WireFormat::kProtobuf});
  sink.Send(
      {.verb = SinkRequest::Verb::kCreate, .api = EventApi::kCoreV1, .event = NewStyleEvent()},
      [this](Result<Event> r) { result_ = std::move(r); });
  const auto call = Next();
  EXPECT_EQ(call->request.headers.Get("content-type"), "application/vnd.kubernetes.protobuf");
  EXPECT_TRUE(call->request.body.starts_with("k8s"));
  server_.transport->Answer(call, 201, call->request.body,
                            {{"content-type", "application/vnd.kubernetes.protobuf"}});
  ASSERT_TRUE(result_ && *result_);
  EXPECT_EQ((*result_)->metadata.name, "web.1");
}

}  // namespace
}  // namespace herald
