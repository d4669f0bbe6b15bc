// The client over real sockets, against http::Server on loopback.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/thread/mutex.h"
#include "herald/api/codec.h"
#include "herald/client/dynamic.h"
#include "herald/client/events.h"
#include "herald/client/informer.h"
#include "herald/client/json_value.h"
#include "herald/client/rest.h"
#include "herald/client/rest_sink.h"
#include "herald/record/broadcaster.h"
#include "http/server/server.h"

namespace herald {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A server that answers each request with a function of the test.
class Loopback {
 public:
  explicit Loopback(http::Handler handler) {
    auto server = http::Server::Start({}, http::WithBodies(std::move(handler)));
    EXPECT_TRUE(server) << (server ? "" : server.error().ToString());
    server_ = std::move(*server);
  }
  ClientConfig config() const {
    return {.server = "http://127.0.0.1:" + std::to_string(server_->port())};
  }
  http::Server& server() { return *server_; }

 private:
  std::unique_ptr<http::Server> server_;
};

// Answers with the body of the request, as a server that stores the object does.
void Echo(http::Request request, const http::Peer&, const std::shared_ptr<http::Responder>& out) {
  out->Send({201,
             {{"content-type", request.headers.Get("content-type").empty()
                                   ? std::string("application/json")
                                   : std::string(request.headers.Get("content-type"))}},
             std::move(request.body)});
}

Event PodEvent(const std::string& name) {
  Event event;
  event.metadata.name = name;
  event.metadata.namespace_ = "default";
  event.involved_object = {.kind = "Pod", .namespace_ = "default", .name = "web"};
  event.reason = "Started";
  event.message = "Started container";
  event.type = kNormal;
  return event;
}

class EitherHttp : public ::testing::TestWithParam<bool> {
 protected:
  static RestOptions Options() { return {.plain_http2 = GetParam()}; }
};

TEST_P(EitherHttp, WritesAndReadsEventsInBothFormats) {
  Loopback loopback(Echo);
  for (const WireFormat format : {WireFormat::kJson, WireFormat::kProtobuf}) {
    auto rest = RestClient::Open(loopback.config(), Options());
    ASSERT_TRUE(rest);
    const EventsClient events(*rest, {.api = EventApi::kCoreV1, .format = format});
    const Result<Event> created = events.Create(PodEvent("a"));
    ASSERT_TRUE(created) << created.error().ToString();
    EXPECT_EQ(created->metadata.name, "a");
    EXPECT_EQ(created->message, "Started container");
  }
}

TEST_P(EitherHttp, RecordsThroughARestSink) {
  std::atomic<int> creates{0}, patches{0};
  Loopback loopback([&](http::Request request, const http::Peer& peer,
                        const std::shared_ptr<http::Responder>& responder) {
    if (request.method == "PATCH") {
      ++patches;
      std::string body;
      JsonCodec().AppendEvent(PodEvent("x"), EventApi::kCoreV1, &body);
      return responder->Send({200, {{"content-type", "application/json"}}, body});
    }
    ++creates;
    Echo(std::move(request), peer, responder);
  });
  auto rest = RestClient::Open(loopback.config(), Options());
  ASSERT_TRUE(rest);
  Broadcaster broadcaster;
  ASSERT_TRUE(broadcaster.StartRecordingToSink(std::make_shared<RestSink>(*rest)).ok());
  Recorder recorder = broadcaster.NewRecorder({.component = "test", .host = "here"});
  for (int i = 0; i < 100; ++i) {
    recorder.Eventf({.kind = "Pod", .namespace_ = "default", .name = "web-" + std::to_string(i)},
                    kNormal, "Started", "Started container {}", i);
  }
  recorder.Eventf({.kind = "Pod", .namespace_ = "default", .name = "web-0"}, kNormal, "Started",
                  "Started container {}", 0);
  const auto report = broadcaster.Shutdown(seconds(20));
  EXPECT_TRUE(report.complete);
  EXPECT_EQ(creates, 100);
  EXPECT_EQ(patches, 1);
  EXPECT_EQ((*rest)->Stats().failed, 0U);
  if (GetParam()) {
    EXPECT_EQ((*rest)->Stats().connections_opened, 1U);
  }
}

TEST_P(EitherHttp, WatchesUntilStopped) {
  std::string frame;
  JsonCodec().AppendWatchFrame(WatchType::kAdded, PodEvent("a"), EventApi::kCoreV1, &frame);
  Mutex mu;
  std::shared_ptr<http::Responder> watch;
  Loopback loopback([&](http::Request request, const http::Peer&,
                        const std::shared_ptr<http::Responder>& responder) {
    EXPECT_NE(request.target.find("watch=true"), std::string::npos);
    responder->Start({200, {{"content-type", "application/json"}}});
    responder->Write(std::make_shared<const std::string>(frame.substr(0, 10)));
    responder->Write(std::make_shared<const std::string>(frame.substr(10)));
    const MutexLock lock(mu);
    watch = responder;  // kept open
  });
  auto rest = RestClient::Open(loopback.config(), Options());
  ASSERT_TRUE(rest);
  const EventsClient events(*rest, {.api = EventApi::kCoreV1});
  std::stop_source stop;
  std::vector<std::string> names;
  const Status end = events.Watch(
      {.namespace_ = "default"},
      [&](WatchEvent event) {
        names.push_back(std::get<Event>(event.object).metadata.name);
        stop.request_stop();
      },
      stop.get_token());
  EXPECT_TRUE(end.Is(StatusReason::kCancelled)) << end.ToString();
  EXPECT_EQ(names, std::vector<std::string>{"a"});
  const MutexLock lock(mu);
  watch.reset();
}

TEST_P(EitherHttp, CancelsItsRequestsWhenClosed) {
  Mutex mu;
  std::vector<std::shared_ptr<http::Responder>> held;
  std::atomic<int> asked{0};
  Loopback loopback([&](const http::Request&, const http::Peer&,
                        const std::shared_ptr<http::Responder>& responder) {
    const MutexLock lock(mu);
    held.push_back(responder);  // never answered
    ++asked;
  });
  auto rest = RestClient::Open(loopback.config(), Options());
  ASSERT_TRUE(rest);
  std::atomic<int> ended{0};
  for (int i = 0; i < 5; ++i) {
    (*rest)->Send({.path = "/x"}, [&](const Result<RestResponse>& r) {
      EXPECT_FALSE(r);
      ++ended;
    });
  }
  while (asked < 5) std::this_thread::yield();
  rest->reset();
  EXPECT_EQ(ended, 5);
  const MutexLock lock(mu);
  held.clear();
}

TEST_P(EitherHttp, MayBeDestroyedInItsOwnCallback) {
  Loopback loopback(Echo);
  for (int i = 0; i < 20; ++i) {
    auto rest = RestClient::Open(loopback.config(), Options());
    ASSERT_TRUE(rest);
    std::atomic<bool> dropped{false};
    auto held = std::make_shared<std::shared_ptr<RestClient>>(*rest);
    (*rest)->Send({.path = "/x"}, [held, &dropped](const Result<RestResponse>& r) {
      EXPECT_TRUE(r);
      while (held->use_count() > 1) std::this_thread::yield();
      held->reset();
      dropped = true;
    });
    rest->reset();
    while (!dropped) std::this_thread::yield();
  }
}

INSTANTIATE_TEST_SUITE_P(Http, EitherHttp, ::testing::Bool(),
                         [](const auto& row) { return row.param ? "Two" : "One"; });

TEST(Loopback, ReviewsWhatTheAccountMayDo) {
  // The account may only write events through v1 in the namespace "shop".
  Loopback loopback([](const http::Request& request, const http::Peer&,
                       const std::shared_ptr<http::Responder>& responder) {
    EXPECT_EQ(request.target, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
    const auto review = JsonValue::Parse(request.body);
    const JsonValue& asked = (*review)["spec"]["resourceAttributes"];
    EXPECT_EQ(asked["resource"].String(), "events");
    const bool allowed = asked["group"].String().empty() && asked["namespace"].String() == "shop";
    JsonValue answer;
    answer.Member("status").Member("allowed") = allowed;
    if (!allowed) answer.Member("status").Member("reason") = "no role";
    responder->Send({201, {{"content-type", "application/json"}}, answer.ToString()});
  });
  auto rest = RestClient::Open(loopback.config());
  ASSERT_TRUE(rest);
  const auto rows = ReviewEventAccess(**rest, {"shop", ""});
  ASSERT_TRUE(rows) << rows.error().ToString();
  ASSERT_EQ(rows->size(), 4U);
  for (const EventAccess& row : *rows) {
    const bool expected = row.api == EventApi::kCoreV1 && row.namespace_ == "shop";
    EXPECT_EQ(row.may_create, expected);
    EXPECT_EQ(row.may_patch, expected);
    EXPECT_EQ(row.reason, expected ? "" : "no role");
  }
}

TEST(Loopback, DiscoversTheApiOfAServer) {
  std::atomic<bool> old{false};
  Loopback loopback([&](const http::Request&, const http::Peer&,
                        const std::shared_ptr<http::Responder>& responder) {
    if (old) return responder->Send({404, {{"content-type", "text/plain"}}, "404 page not found"});
    responder->Send({200,
                     {{"content-type", "application/json"}},
                     R"({"kind":"APIResourceList","resources":[{"name":"events"},)"
                     R"({"name":"named","verbs":[]},{"name":"served","verbs":["get"]}]})"});
  });
  auto rest = RestClient::Open(loopback.config());
  ASSERT_TRUE(rest);
  EXPECT_EQ(EventsClient::Discover(**rest).value_or(EventApi::kCoreV1), EventApi::kEventsV1);
  const DynamicClient events(*rest, {"events.k8s.io", "v1", "events"});
  const DynamicClient others(*rest, {"events.k8s.io", "v1", "others"});
  EXPECT_TRUE(events.Exists().value_or(false));
  EXPECT_FALSE(others.Exists().value_or(true));
  const DynamicClient named(*rest, {"events.k8s.io", "v1", "named"});
  const DynamicClient served(*rest, {"events.k8s.io", "v1", "served"});
  EXPECT_FALSE(named.Exists().value_or(true));
  EXPECT_TRUE(served.Exists().value_or(false));
  old = true;
  EXPECT_EQ(EventsClient::Discover(**rest).value_or(EventApi::kEventsV1), EventApi::kCoreV1);
  EXPECT_FALSE(events.Exists().value_or(true));
}

TEST(Loopback, ReconnectsToAServerThatRestarts) {
  // Each watch breaks after one change. The informer must still get all changes.
  std::atomic<int> version{10};
  const auto pod = [](int n) {
    return R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"p)" + std::to_string(n) +
           R"(","namespace":"default","resourceVersion":")" + std::to_string(n) + R"("}})";
  };
  Loopback loopback([&](const http::Request& request, const http::Peer&,
                        const std::shared_ptr<http::Responder>& responder) {
    if (request.target.find("watch=true") == std::string::npos) {
      return responder->Send(
          {200,
           {{"content-type", "application/json"}},
           R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":")" +
               std::to_string(version) + R"("},"items":[]})"});
    }
    responder->Start({200, {{"content-type", "application/json"}}});
    if (version < 15) {
      responder->Write(std::make_shared<const std::string>(R"({"type":"ADDED","object":)" +
                                                           pod(++version) + "}\n"));
    }
    responder->End();
  });
  auto rest = RestClient::Open(loopback.config());
  ASSERT_TRUE(rest);
  Mutex mu;
  CondVar changed;
  std::vector<std::string> added;
  Informer<Object> informer(*rest, {"", "v1", "pods"});
  informer.AddHandler({.on_add = [&](const auto& object) {
    const MutexLock lock(mu);
    added.push_back(object->name());
    changed.NotifyAll();
  }});
  informer.Start();
  EXPECT_TRUE(informer.WaitForSync(seconds(60)));
  {
    MutexLock lock(mu);
    while (added.size() < 5) changed.Wait(lock);
    EXPECT_EQ(added, (std::vector<std::string>{"p11", "p12", "p13", "p14", "p15"}));
  }
  informer.Stop();
  EXPECT_EQ(informer.size(), 5U);
}

TEST(Loopback, ReportsAPortWithoutAServerAsUnreachable) {
  ClientConfig config;
  {
    Loopback loopback(Echo);
    config = loopback.config();
  }
  auto rest = RestClient::Open(config);
  ASSERT_TRUE(rest);
  const auto response = (*rest)->Send({.path = "/x"});
  ASSERT_FALSE(response);
  EXPECT_TRUE(response.error().Is(StatusReason::kUnreachable)) << response.error().ToString();
  EXPECT_EQ(response.error().origin(), Status::Origin::kLocal);
}

}  // namespace
}  // namespace herald
