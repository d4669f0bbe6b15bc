#include "herald/client/rest.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/testing/temporary_directory.h"
#include "client/testing/fake_transport.h"

namespace herald {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kThrottled =
    R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"slow down",)"
    R"("reason":"TooManyRequests","code":429})";

// A file that is deleted at the end of the test.
class TempFile {
 public:
  explicit TempFile(std::string_view text) { Write(text); }
  void Write(std::string_view text) const { std::ofstream(path_) << text; }
  const std::string& path() const { return path_; }

 private:
  const TemporaryDirectory directory_;
  const std::string path_ = directory_.path() / "file";
};

RestRequest GetEvents() {
  return {.path = "/api/v1/namespaces/default/events",
          .query = {{"limit", "5"}, {"fieldSelector", "reason=Killing,type!=Normal"}},
          .resource = "events"};
}

TEST(RestClient, SendsTheExpectedHeadersAndQuery) {
  FakeServer server({.server = "http://fake", .token = "secret"}, {.user_agent = "agent/1"});
  std::optional<Result<RestResponse>> result;
  server.rest->Send(GetEvents(), [&](Result<RestResponse> r) { result = std::move(r); });
  const auto call = server.transport->Next();
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->request.method, "GET");
  EXPECT_EQ(call->request.target,
            "/api/v1/namespaces/default/"
            "events?limit=5&fieldSelector=reason%3DKilling%2Ctype%21%3DNormal");
  EXPECT_EQ(call->request.headers.Get("authorization"), "Bearer secret");
  EXPECT_EQ(call->request.headers.Get("user-agent"), "agent/1");
  EXPECT_EQ(call->request.headers.Get("accept"), "application/json");
  EXPECT_TRUE(call->options.repeatable);
  EXPECT_EQ(call->options.timeout, RestOptions().timeout);
  server.transport->Answer(
      call, 200, "{}", {{"content-type", "application/json"}, {"warning", "299 - \"old API\""}});
  ASSERT_TRUE(result && *result);
  EXPECT_EQ((*result)->body, "{}");
  EXPECT_EQ((*result)->warnings, std::vector<std::string>{"old API"});
}

TEST(RestClient, RejectsPathsWithDotSegments) {
  FakeServer server;
  for (const char* path : {"/api/v1/namespaces/../events", "/api/v1/namespaces/default/events/..",
                           "/api/v1/./events", "/.."}) {
    std::optional<Result<RestResponse>> result;
    server.rest->Send({.path = path}, [&](Result<RestResponse> r) { result = std::move(r); });
    ASSERT_TRUE(result && !*result) << path;
    EXPECT_TRUE(result->error().Is(StatusReason::kBadRequest));
  }
  EXPECT_EQ(server.transport->fresh(), 0U);
  server.rest->Send({.path = "/api/v1/namespaces/..a/events/.b."}, [](const auto&) {});
  EXPECT_EQ(server.transport->fresh(), 1U);
}

TEST(RestClient, SendsAPasswordAndImpersonation) {
  FakeServer server(
      {.server = "http://fake",
       .username = "admin",
       .password = "pass word",
       .impersonate = {
           .user = "jane", .groups = {"dev", "ops"}, .extra = {{"Scopes/x", {"a", "b"}}}}});
  server.rest->Send(GetEvents(), [](const Result<RestResponse>&) {});
  const auto call = server.transport->Next();
  EXPECT_EQ(call->request.headers.Get("authorization"), "Basic YWRtaW46cGFzcyB3b3Jk");
  EXPECT_EQ(call->request.headers.Get("impersonate-user"), "jane");
  std::vector<std::string> groups, extra;
  for (const auto& field : call->request.headers) {
    if (field.name == "impersonate-group") groups.push_back(field.value);
    if (field.name == "impersonate-extra-scopes%2fx") extra.push_back(field.value);
  }
  EXPECT_EQ(groups, (std::vector<std::string>{"dev", "ops"}));
  EXPECT_EQ(extra, (std::vector<std::string>{"a", "b"}));
}

TEST(RestClient, ReturnsTheStatusOfTheServer) {
  FakeServer server;
  std::optional<Result<RestResponse>> result;
  server.rest->Send(GetEvents(), [&](Result<RestResponse> r) { result = std::move(r); });
  server.transport->Answer(
      server.transport->Next(), 404,
      R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":"no such namespace","reason":"NotFound","code":404})");
  ASSERT_TRUE(result && !*result);
  EXPECT_TRUE(result->error().Is(StatusReason::kNotFound));
  EXPECT_EQ(result->error().origin(), Status::Origin::kServer);
  EXPECT_EQ(server.rest->Stats().refused, 1U);
}

// An answer of the server, the number of requests, and the result.
struct RetryCase {
  const char* name;
  int code;
  const char* retry_after;  // null: none
  int answers_before_success;
  std::size_t requests;
  bool ok;
};

class Retries : public ::testing::TestWithParam<RetryCase> {};

TEST_P(Retries, FollowClientGo) {
  const RetryCase& c = GetParam();
  FakeServer server;
  std::optional<Result<RestResponse>> result;
  server.rest->Send({.method = "POST", .path = "/x", .resource = "events", .name = ""},
                    [&](Result<RestResponse> r) { result = std::move(r); });
  std::size_t requests = 0;
  while (!result) {
    const auto call = server.transport->Next();
    if (!call) {
      server.transport->Advance(seconds(1));
      continue;
    }
    ++requests;
    if (static_cast<int>(requests) > c.answers_before_success) {
      server.transport->Answer(call, 200, "{}");
    } else {
      http::Headers headers{{"content-type", "application/json"}};
      if (c.retry_after != nullptr) headers.Add("retry-after", c.retry_after);
      server.transport->Answer(call, c.code, std::string(kThrottled), headers);
    }
  }
  EXPECT_EQ(requests, c.requests);
  EXPECT_EQ(result->has_value(), c.ok);
}

INSTANTIATE_TEST_SUITE_P(Table, Retries,
                         ::testing::Values(RetryCase{"Throttled", 429, "3", 2, 3, true},
                                           RetryCase{"Unavailable", 503, "1", 1, 2, true},
                                           RetryCase{"AtOnce", 500, "0", 1, 2, true},
                                           RetryCase{"WithoutWord", 429, nullptr, 1, 1, false},
                                           RetryCase{"WithADate", 503,
                                                     "Wed, 21 Oct 2015 07:28:00 GMT", 1, 1, false},
                                           RetryCase{"OnAnotherCode", 409, "1", 1, 1, false},
                                           RetryCase{"TenTimesAtMost", 429, "1", 99, 11, false},
                                           RetryCase{"ForNextYear", 503, "31536000", 1, 1, false}),
                         [](const auto& row) { return row.param.name; });

TEST(RestClient, WaitsForTheTimeOfRetryAfter) {
  FakeServer server;
  server.rest->Send({.method = "POST", .path = "/x"}, [](const Result<RestResponse>&) {});
  server.transport->Answer(server.transport->Next(), 429, std::string(kThrottled),
                           {{"retry-after", "7"}});
  server.transport->Advance(milliseconds(6'999));
  EXPECT_EQ(server.transport->Next(), nullptr);
  server.transport->Advance(milliseconds(1));
  EXPECT_NE(server.transport->Next(), nullptr);
}

TEST(RestClient, ReadsTheTokenAgainOnceAfterA401) {
  const TempFile file("old\n");
  FakeServer server({.server = "http://fake", .token_file = file.path()});
  std::optional<Result<RestResponse>> result;
  server.rest->Send(GetEvents(), [&](Result<RestResponse> r) { result = std::move(r); });
  const auto first = server.transport->Next();
  EXPECT_EQ(first->request.headers.Get("authorization"), "Bearer old");
  file.Write("new\n");
  server.transport->Answer(first, 401, "");
  const auto second = server.transport->Next();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->request.headers.Get("authorization"), "Bearer new");
  EXPECT_FALSE(result);
  server.transport->Answer(second, 401, "");
  ASSERT_TRUE(result && !*result);
  EXPECT_TRUE(result->error().Is(StatusReason::kUnauthorized));
  EXPECT_EQ(server.transport->Next(), nullptr);
}

TEST(RestClient, ReadsTheTokenAgainAfterAMinute) {
  const TempFile file("old");
  FakeServer server({.server = "http://fake", .token_file = file.path()});
  const auto sent = [&] {
    server.rest->Send(GetEvents(), [](const Result<RestResponse>&) {});
    return std::string(server.transport->Next()->request.headers.Get("authorization"));
  };
  EXPECT_EQ(sent(), "Bearer old");
  file.Write("new");
  EXPECT_EQ(sent(), "Bearer old");
  server.transport->Advance(kTokenFilePeriod);
  EXPECT_EQ(sent(), "Bearer new");
  // If the file is missing, the old token is kept.
  std::filesystem::remove(file.path());
  server.transport->Advance(kTokenFilePeriod);
  EXPECT_EQ(sent(), "Bearer new");
}

TEST(RestClient, FailsWithoutARequestIfThereIsNoToken) {
  FakeServer server({.server = "http://fake", .token_file = "/does/not/exist"});
  std::optional<Result<RestResponse>> result;
  server.rest->Send(GetEvents(), [&](Result<RestResponse> r) { result = std::move(r); });
  ASSERT_TRUE(result && !*result);
  EXPECT_NE(result->error().message().find("/does/not/exist"), std::string::npos);
  EXPECT_EQ(server.transport->Next(), nullptr);
}

TEST(RestClient, DelaysRequestsAboveTheLimit) {
  FakeServer server({.server = "http://fake"}, {.qps = 2, .burst = 3});
  for (int i = 0; i < 6; ++i) server.rest->Send(GetEvents(), [](const Result<RestResponse>&) {});
  EXPECT_EQ(server.transport->fresh(), 3U);
  server.transport->Advance(milliseconds(500));
  EXPECT_EQ(server.transport->fresh(), 4U);
  server.transport->Advance(milliseconds(499));
  EXPECT_EQ(server.transport->fresh(), 4U);
  server.transport->Advance(milliseconds(1));
  EXPECT_EQ(server.transport->fresh(), 5U);
  server.transport->Advance(seconds(5));
  EXPECT_EQ(server.transport->fresh(), 6U);
}

TEST(RestClient, CancelsARequestUnderWay) {
  FakeServer server;
  std::stop_source stop;
  std::optional<Result<RestResponse>> result;
  server.rest->Send(
      GetEvents(), [&](Result<RestResponse> r) { result = std::move(r); }, stop.get_token());
  const auto call = server.transport->Next();
  ASSERT_NE(call, nullptr);
  stop.request_stop();
  server.transport->Run();
  EXPECT_TRUE(call->cancelled);
  ASSERT_TRUE(result && !*result);
  EXPECT_TRUE(result->error().Is(StatusReason::kCancelled));
}

TEST(RestClient, CancelsAWaitingRequest) {
  FakeServer server;
  std::stop_source stop;
  std::optional<Result<RestResponse>> result;
  server.rest->Send(
      GetEvents(), [&](Result<RestResponse> r) { result = std::move(r); }, stop.get_token());
  server.transport->Answer(server.transport->Next(), 503, "", {{"retry-after", "100"}});
  EXPECT_FALSE(result);
  stop.request_stop();
  server.transport->Run();
  ASSERT_TRUE(result && !*result);
  server.transport->Advance(seconds(100));
  EXPECT_EQ(server.transport->Next(), nullptr);
}

TEST(RestClient, DoesNotSendACancelledRequest) {
  FakeServer server;
  std::stop_source stop;
  stop.request_stop();
  std::optional<Result<RestResponse>> result;
  server.rest->Send(
      GetEvents(), [&](Result<RestResponse> r) { result = std::move(r); }, stop.get_token());
  ASSERT_TRUE(result && !*result);
  EXPECT_EQ(server.transport->Next(), nullptr);
}

TEST(RestClient, EndsAllWaitingRequestsWhenClosed) {
  FakeServer server({.server = "http://fake"}, {.qps = 1, .burst = 1});
  int cancelled = 0;
  const auto count = [&](const Result<RestResponse>& r) {
    if (!r && r.error().Is(StatusReason::kCancelled)) ++cancelled;
  };
  server.rest->Send(GetEvents(), count);
  server.transport->Answer(server.transport->Next(), 429, "", {{"retry-after", "9"}});
  server.rest->Send(GetEvents(), count);  // throttled
  server.transport->Advance(seconds(1));
  server.rest->Send(GetEvents(), count);  // throttled
  server.rest.reset();
  EXPECT_EQ(cancelled, 3);
}

TEST(RestClient, StreamsASuccessAndBuffersAnError) {
  FakeServer server;
  std::string bytes, type;
  std::optional<Status> end;
  const RestClient::StreamCallbacks callbacks = {
      .head = [&](std::string_view t) { type = t; },
      .data = [&](std::string_view b) { bytes.append(b); },
      .done = [&](const Status& s) { end = s; }};
  server.rest->Stream(GetEvents(), callbacks);
  auto call = server.transport->Next();
  EXPECT_EQ(call->options.timeout, milliseconds(0));
  server.transport->Head(call);
  server.transport->Data(call, "ab");
  server.transport->Data(call, "c");
  EXPECT_EQ(bytes, "abc");
  EXPECT_EQ(type, "application/json");
  EXPECT_FALSE(end);
  server.transport->End(call);
  EXPECT_TRUE(end && end->ok());

  bytes.clear();
  server.rest->Stream(GetEvents(), callbacks);
  server.transport->Answer(server.transport->Next(), 410,
                           R"({"kind":"Status","status":"Failure","reason":"Expired","code":410})");
  EXPECT_EQ(bytes, "");
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->Is(StatusReason::kExpired));
}

}  // namespace
}  // namespace herald
