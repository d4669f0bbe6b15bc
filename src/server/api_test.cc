#include "server/api.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "herald/api/codec.h"
#include "server/discovery/openapi.h"
#include "server/testing/responder.h"
#include "store/memory/store.h"
#include "store/testing/forwarding_store.h"

namespace herald::server {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr std::string_view kCore = "/api/v1/namespaces/default/events";
constexpr std::string_view kNew = "/apis/events.k8s.io/v1/namespaces/default/events";

std::string Pod(std::string_view name, std::string_view more = "") {
  return R"({"metadata":{"name":")" + std::string(name) +
         R"("},"involvedObject":{"kind":"Pod","name":"web","namespace":"default","uid":"u1"},)" +
         R"("reason":"Started","message":"m","type":"Normal")" + std::string(more) + "}";
}

class ApiTest : public testing::Test {
 protected:
  using Client = std::shared_ptr<TestResponder>;

  explicit ApiTest(ApiOptions options = {}) {
    options.clock = &clock_;
    options.log = [this](const LogEntry&) { ++logged_; };
    api_ = std::make_unique<Api>(&store_, std::move(options));
  }

  Client Do(std::string method, std::string target, std::string body = "",
            http::Headers headers = {}) {
    if (headers.Find("content-type") == nullptr) headers.Add("content-type", "application/json");
    auto responder = std::make_shared<TestResponder>();
    AdmittedRequest admitted;
    admitted.info = ParseRequestInfo(method, target);
    admitted.request = {.method = std::move(method),
                        .target = std::move(target),
                        .authority = "127.0.0.1:6443",
                        .headers = std::move(headers),
                        .body = std::move(body)};
    admitted.user.name = "u";
    api_->Handle(std::move(admitted), responder);
    return responder;
  }
  Client Get(std::string target, std::string accept = "application/json") {
    return Do("GET", std::move(target), "", {{"accept", std::move(accept)}});
  }
  Client Post(std::string body) { return Do("POST", std::string(kCore), std::move(body)); }
  void FillForALongList();

  FakeClock clock_{WallTime(seconds(1'700'000'000))};
  store::MemoryStore store_{[this] {
    store::StoreOptions options;
    options.schema = Api::MakeSchema([](const Event&) { return seconds(3600); });
    options.clock = &clock_;
    options.background = false;
    return options;
  }()};
  std::atomic<int> logged_{0};
  std::unique_ptr<Api> api_;
};

TEST_F(ApiTest, AnEventWrittenInOneSpellingIsReadInTheOther) {
  const Client created = Post(Pod("a"));
  ASSERT_EQ(created->status(), 201) << created->body();
  EXPECT_EQ(created->header("cache-control"), "no-cache, private");
  EXPECT_EQ(created->header("audit-id").size(), 36U);
  const json other = json::parse(Get(std::string(kNew) + "/a")->body());
  EXPECT_EQ(other.at("apiVersion"), "events.k8s.io/v1");
  EXPECT_EQ(other.at("note"), "m");
  EXPECT_EQ(other.at("regarding").at("uid"), "u1");
}

TEST_F(ApiTest, AnEmptyStoreHasAVersionThatClientsCanUse) {
  EXPECT_GT(std::stoi(json::parse(Get("/api/v1/events")->body())
                          .at("metadata")
                          .at("resourceVersion")
                          .get<std::string>()),
            0);
}

TEST_F(ApiTest, EchoesTheAuditId) {
  const Client client =
      Do("GET", "/api/v1/events", "", {{"audit-id", "one"}, {"accept", "application/json"}});
  EXPECT_EQ(client->header("audit-id"), "one");
}

TEST_F(ApiTest, TakesEveryFormOfBody) {
  Event event;
  event.metadata.name = "p";
  event.involved_object.namespace_ = "default";
  std::string protobuf;
  ProtobufCodec().AppendEvent(event, EventApi::kCoreV1, &protobuf);
  EXPECT_EQ(Do("POST", std::string(kCore), protobuf,
               {{"content-type", "application/vnd.kubernetes.protobuf"}})
                ->status(),
            201);
  EXPECT_EQ(Do("POST", std::string(kCore),
               "metadata: {name: from-yaml}\ninvolvedObject: {namespace: default}\n",
               {{"content-type", "application/yaml"}})
                ->status(),
            201);
  EXPECT_EQ(Do("POST", std::string(kCore), Pod("t"), {{"content-type", "text/plain"}})->status(),
            415);
  EXPECT_EQ(Post("{")->status(), 400);
}

TEST_F(ApiTest, WarnsOfOrRejectsUnknownMembers) {
  const Client warned = Post(Pod("a", R"(,"colour":"red")"));
  EXPECT_EQ(warned->status(), 201);
  EXPECT_EQ(warned->header("warning"), R"(299 - "unknown field \"colour\"")");
  const std::string target(kCore);
  EXPECT_EQ(
      Do("POST", target + "?fieldValidation=Strict", Pod("b", R"(,"colour":"red")"))->status(),
      400);
  const Client ignored =
      Do("POST", target + "?fieldValidation=Ignore", Pod("c", R"(,"colour":"red")"));
  EXPECT_EQ(ignored->status(), 201);
  EXPECT_EQ(ignored->header("warning"), "");
}

TEST_F(ApiTest, RespondsInTheAcceptedFormat) {
  ASSERT_EQ(Post(Pod("a"))->status(), 201);
  const std::string target = std::string(kCore) + "/a";
  EXPECT_EQ(Get(target, "application/yaml")->body().substr(0, 15), "apiVersion: v1\n");
  const Client protobuf = Get(target, "application/vnd.kubernetes.protobuf");
  EXPECT_EQ(protobuf->header("content-type"), "application/vnd.kubernetes.protobuf");
  EXPECT_EQ(ProtobufCodec().DecodeEvent(protobuf->body(), EventApi::kCoreV1)->metadata.name, "a");
  const json table =
      json::parse(Get(std::string(kCore), "application/json;as=Table;v=v1;g=meta.k8s.io")->body());
  EXPECT_EQ(table.at("kind"), "Table");
  EXPECT_EQ(table.at("rows").size(), 1U);
  EXPECT_EQ(Get(target, "text/html")->status(), 406);
  const Client pretty = Get(target + "?pretty=true");
  EXPECT_EQ(pretty->body().substr(0, 20), "{\n  \"kind\": \"Event\",");
  EXPECT_EQ(json::parse(pretty->body()), json::parse(Get(target)->body()));
}

TEST_F(ApiTest, SendsPartialMetadataInBothFormats) {
  ASSERT_EQ(Post(Pod("a"))->status(), 201);
  const json list = json::parse(
      Get(std::string(kCore), "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
          ->body());
  EXPECT_EQ(list.at("items").at(0).at("metadata").at("name"), "a");
  const Client protobuf =
      Get(std::string(kCore) + "/a",
          "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
  EXPECT_EQ(protobuf->status(), 200);
  EXPECT_NE(protobuf->body().find("PartialObjectMetadata"), std::string::npos);
  EXPECT_EQ(Get(std::string(kCore) + "/a",
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
                ->status(),
            406);
}

std::string Gunzip(const std::string& packed) {
  z_stream stream{};
  inflateInit2(&stream, 15 + 16);
  std::string out(10 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

// 300 events, whose list has about 300 KB.
void ApiTest::FillForALongList() {
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(Post(Pod("e" + std::to_string(i), R"(,"action":")" + std::string(500, 'x') + '"'))
                  ->status(),
              201);
  }
}

TEST_F(ApiTest, SendsLongListsWhileTheyAreEncoded) {
  FillForALongList();
  const Client plain = Get(std::string(kCore));
  plain->WaitForEnd();
  EXPECT_GT(plain->pieces(), 1U);
  EXPECT_EQ(plain->header("content-type"), "application/json");
  const Client pretty = Get(std::string(kCore) + "?pretty=true");
  pretty->WaitForEnd();
  EXPECT_GT(pretty->pieces(), 1U);
  EXPECT_EQ(json::parse(plain->body()), json::parse(pretty->body()));
}

TEST_F(ApiTest, AListThatCannotBeCompletedIsAnErrorOrCutOff) {
  const auto damage = [this](std::string_view name) {
    store_.Commit({.key = "/registry/events/default/" + std::string(name),
                   .value = std::make_shared<const std::string>("no event")},
                  [](const Result<store::Written>& written) { ASSERT_TRUE(written); });
  };
  FillForALongList();
  damage("z");
  const Client late = Get(std::string(kCore));
  late->WaitForEnd();
  EXPECT_TRUE(late->aborted()) << "what was promised with 200 is not to come";
  EXPECT_GT(late->pieces(), 0U);

  damage("a");
  const Client early = Get(std::string(kCore));
  early->WaitForEnd();
  EXPECT_EQ(early->status(), 500);
  EXPECT_FALSE(early->aborted());
  EXPECT_EQ(logged_, 2) << "both are logged";
}

TEST_F(ApiTest, CompressesLargeListsIfTheClientAcceptsGzip) {
  FillForALongList();
  const Client plain = Get(std::string(kCore));
  plain->WaitForEnd();  // large lists are encoded on a thread of the Api
  EXPECT_EQ(plain->header("content-encoding"), "");
  const Client packed =
      Do("GET", std::string(kCore), "", {{"accept-encoding", "deflate, gzip;q=1"}});
  packed->WaitForEnd();
  EXPECT_EQ(packed->header("content-encoding"), "gzip");
  EXPECT_EQ(Gunzip(packed->body()), plain->body());
  EXPECT_EQ(json::parse(plain->body()).at("items").size(), 300U);
  const Client protobuf = Get(std::string(kCore), "application/vnd.kubernetes.protobuf");
  protobuf->WaitForEnd();
  const auto list = ProtobufCodec().DecodeEventList(protobuf->body(), EventApi::kCoreV1);
  ASSERT_TRUE(list);
  EXPECT_EQ(list->items.size(), 300U);
}

// A store that completes lists when the test says so.
class SlowStore final : public store::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  void Read(store::Query query, PageDone done) override {
    waiting_.push_back(
        [this, query = std::move(query), done = std::move(done)] { inner_->Read(query, done); });
  }

  void Finish() {
    for (const auto& read : std::exchange(waiting_, {})) read();
  }

 private:
  std::vector<std::function<void()>> waiting_;
};

TEST_F(ApiTest, ListsAreBoundedPerUserWhateverTheySelect) {
  SlowStore slow(&store_);
  ApiOptions options;
  options.max_list_bytes = 6 * ListBudget::kListBytes;  // one user gets half of it
  api_ = std::make_unique<Api>(&slow, std::move(options));
  std::vector<Client> clients;
  for (const char* query : {"", "?fieldSelector=type!%3Dx", "?limit=10"}) {
    clients.push_back(Get("/api/v1/events" + std::string(query)));
  }
  const Client rejected = Get("/api/v1/events?labelSelector=app");
  EXPECT_EQ(rejected->status(), 429);
  EXPECT_EQ(rejected->header("retry-after"), "1");
  EXPECT_EQ(json::parse(rejected->body()).at("message"),
            "Too many requests, please try again later.");
  EXPECT_EQ(Do("DELETE", std::string(kCore))->status(), 429) << "it reads a list as well";
  slow.Finish();
  for (const Client& client : clients) EXPECT_EQ(client->status(), 200);
  const Client later = Get("/api/v1/events");
  slow.Finish();
  EXPECT_EQ(later->status(), 200);
}

TEST_F(ApiTest, ListsThatNobodyReadsStayBounded) {
  FillForALongList();
  std::vector<Client> clients;
  const auto list = [this](std::string target) {
    auto client = std::make_shared<TestResponder>();
    client->StopReading();
    AdmittedRequest admitted;
    admitted.info = ParseRequestInfo("GET", target);
    admitted.request.target = std::move(target);
    admitted.user.name = "u";
    api_->Handle(std::move(admitted), client);
    return client;
  };
  std::size_t queued = 0;
  for (int i = 0; i < 300; ++i) {
    clients.push_back(list("/api/v1/events?fieldSelector=type!%3Dx"));
    queued += clients.back()->queued();
  }
  EXPECT_EQ(clients.front()->status(), 200);
  EXPECT_EQ(clients.back()->status(), 429);
  EXPECT_LT(queued, ListBudget::kMaxBytes / 2);
  for (const Client& client : clients) client->Close();
  const Client later = list("/api/v1/events?fieldSelector=type!%3Dx");
  EXPECT_EQ(later->status(), 200);
  later->Close();
}

// Records the queries.
class NotingStore final : public store::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  void Read(store::Query query, PageDone done) override {
    queries.push_back(query);
    inner_->Read(std::move(query), std::move(done));
  }
  std::vector<store::Query> queries;
};

TEST_F(ApiTest, ReadsAreAttributedToTheUser) {
  FillForALongList();
  NotingStore store(&store_);
  api_ = std::make_unique<Api>(&store, ApiOptions());
  Get("/api/v1/events");
  ASSERT_GT(store.queries.size(), 1U);
  EXPECT_FALSE(store.queries.front().background);
  EXPECT_TRUE(store.queries.back().background) << "what follows the first chunk is a long read";
  const std::uint64_t flow = store.queries.front().flow;
  EXPECT_NE(flow, 0U);
  for (const store::Query& query : store.queries) {
    EXPECT_EQ(query.flow, flow);
    EXPECT_FALSE(query.count_remaining) << "there is no limit";
  }
  store.queries.clear();
  Get("/api/v1/events?watch=1&resourceVersion=0&timeoutSeconds=1");
  ASSERT_GT(store.queries.size(), 1U);
  for (const store::Query& query : store.queries) {
    EXPECT_EQ(query.flow, flow);
    EXPECT_TRUE(query.background);
    EXPECT_FALSE(query.count_remaining);
  }
}

TEST_F(ApiTest, PatchesInEveryFormButApply) {
  ASSERT_EQ(Post(Pod("a"))->status(), 201);
  const std::string target = std::string(kCore) + "/a";
  const auto patch = [&](std::string type, std::string body) {
    Client client = Do("PATCH", target, std::move(body), {{"content-type", std::move(type)}});
    client->WaitForEnd();  // a JSON patch is applied on another thread
    return client;
  };
  EXPECT_EQ(json::parse(patch("application/strategic-merge-patch+json", R"({"count":5})")->body())
                .at("count"),
            5);
  EXPECT_EQ(
      json::parse(patch("application/merge-patch+json", R"({"count":6})")->body()).at("count"), 6);
  EXPECT_EQ(json::parse(patch("application/json-patch+json",
                              R"([{"op":"replace","path":"/count","value":7}])")
                            ->body())
                .at("count"),
            7);
  EXPECT_EQ(patch("application/apply-patch+yaml", "{}")->status(), 415);
  EXPECT_EQ(patch("application/merge-patch+json", R"({"metadata":{"name":"b"}})")->status(), 400);
}

TEST_F(ApiTest, DeletesOneAndMany) {
  for (const char* name : {"a", "b", "c"}) ASSERT_EQ(Post(Pod(name))->status(), 201);
  const json deleted = json::parse(Do("DELETE", std::string(kCore) + "/a")->body());
  EXPECT_EQ(deleted.at("status"), "Success");
  EXPECT_EQ(deleted.at("details").at("kind"), "events");
  const json list =
      json::parse(Do("DELETE", std::string(kCore) + "?fieldSelector=metadata.name%3Db")->body());
  EXPECT_EQ(list.at("items").size(), 1U);
  EXPECT_EQ(json::parse(Get(std::string(kCore))->body()).at("items").size(), 1U);
  EXPECT_EQ(Do("DELETE", "/api/v1/events")->status(), 405);
}

TEST_F(ApiTest, DeletesTenThousandWithoutRunningOutOfStack) {
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(Post(Pod("e" + std::to_string(i)))->status(), 201);
  }
  const Client client = Do("DELETE", std::string(kCore));
  client->WaitForEnd();
  EXPECT_EQ(client->status(), 200);
  EXPECT_EQ(store_.Stats().entries, 0U);
}

TEST_F(ApiTest, DeletingACollectionReturnsTheDeletedEvents) {
  FillForALongList();
  const std::string before = Get(std::string(kCore))->body();
  const Client all = Do("DELETE", std::string(kCore) + "?dryRun=All");
  EXPECT_EQ(all->body(), before);
  const json some = json::parse(Do("DELETE", std::string(kCore) + "?limit=100")->body());
  EXPECT_EQ(some.at("items").size(), 100U);
  EXPECT_EQ(some.at("metadata").at("remainingItemCount"), 200);
  const json rest = json::parse(Do("DELETE", std::string(kCore))->body());
  EXPECT_EQ(rest.at("items").size(), 200U) << "although they have been deleted";
  EXPECT_EQ(store_.Stats().entries, 0U);
}

TEST_F(ApiTest, UnknownPathsAndMethods) {
  struct Scenario {
    const char* method;
    const char* target;
    int code;
    const char* content_type;
  };
  const Scenario scenarios[] = {
      {"GET", "/nothing", 404, "text/plain; charset=utf-8"},
      {"GET", "/apis/example.com/v1/things", 404, "text/plain; charset=utf-8"},
      {"GET", "/api/v1/pods", 404, "application/json"},
      {"GET", "/api/v1/namespaces/default/pods/web", 404, "application/json"},
      {"GET", "/api/v1/namespaces/default/events/a/status", 404, "application/json"},
      {"POST", "/api/v1/events", 405, "application/json"},
      {"HEAD", "/api/v1/events", 405, "application/json"},
      {"POST", "/api/v1/namespaces/default/events/a", 405, "application/json"},
      {"POST", "/version", 405, "application/json"},
      {"POST", "/api/v1/watch/events", 405, "application/json"},
  };
  for (const Scenario& scenario : scenarios) {
    SCOPED_TRACE(std::string(scenario.method) + " " + scenario.target);
    const Client client = Do(scenario.method, scenario.target);
    EXPECT_EQ(client->status(), scenario.code);
    EXPECT_EQ(client->header("content-type"), scenario.content_type);
  }
}

TEST_F(ApiTest, WatchesEndWithTheApi) {
  ASSERT_EQ(Post(Pod("a"))->status(), 201);
  const Client client = Get(std::string(kCore) + "?watch=true");
  EXPECT_EQ(client->status(), 200);
  EXPECT_EQ(client->header("content-type"), "application/json");
  EXPECT_NE(client->body().find(R"({"type":"ADDED","object":{"kind":"Event")"), std::string::npos);
  EXPECT_FALSE(client->ended());
  api_->Stop();
  client->WaitForEnd();
  EXPECT_EQ(Get(std::string(kCore) + "?watch=true")->status(), 503);
  EXPECT_EQ(Get(std::string(kCore))->status(), 200) << "only watches are over";
}

TEST_F(ApiTest, LongYamlIsReadByAnotherThread) {
  const std::string body = "metadata: {name: long, annotations: {a: " + std::string(100'000, 'x') +
                           "}}\ninvolvedObject: {namespace: default}\n";
  const Client created =
      Do("POST", std::string(kCore), body, {{"content-type", "application/yaml"}});
  created->WaitForEnd();
  EXPECT_EQ(created->status(), 201) << created->body().substr(0, 300);
}

TEST_F(ApiTest, AWatchMayBeAWebSocket) {
  Post(Pod("a"));
  const auto watch = [&](std::string accept) {
    auto responder = std::make_shared<TestResponder>();
    AdmittedRequest admitted;
    const std::string target = std::string(kCore) + "?watch=true&timeoutSeconds=1";
    admitted.info = ParseRequestInfo("GET", target);
    admitted.request.target = target;
    admitted.request.websocket = true;
    admitted.request.headers = {{"accept", std::move(accept)},
                                {"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="},
                                {"sec-websocket-version", "13"},
                                {"sec-websocket-protocol", "binary.k8s.io"}};
    api_->Handle(std::move(admitted), responder);
    return responder;
  };
  const Client text = watch("application/json");
  EXPECT_EQ(text->status(), 101);
  EXPECT_EQ(text->header("sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  EXPECT_EQ(text->header("sec-websocket-protocol"), "binary.k8s.io");
  const std::string message = text->body();
  ASSERT_GT(message.size(), 4U);
  // Longer than 125 bytes: the next two bytes are the length.
  EXPECT_EQ(message.substr(0, 2), "\x81\x7e");
  EXPECT_EQ(static_cast<unsigned char>(message[2]) * 256U + static_cast<unsigned char>(message[3]),
            message.size() - 4);
  EXPECT_EQ(json::parse(message.substr(4)).at("type"), "ADDED");

  const Client binary = watch("application/vnd.kubernetes.protobuf");
  EXPECT_EQ(binary->body().substr(0, 2), "\x82\x7e");
  EXPECT_EQ(binary->body().substr(4, 7),
            "\x0a\x05"
            "ADDED");
  api_->Stop();
}

TEST_F(ApiTest, RejectsInvalidWebSocketOffers) {
  for (const http::Headers& headers :
       {http::Headers{{"sec-websocket-version", "13"}},
        http::Headers{{"sec-websocket-key", "k"}, {"sec-websocket-version", "8"}},
        http::Headers{{"sec-websocket-key", "k"},
                      {"sec-websocket-version", "13"},
                      {"sec-websocket-protocol", "a, b"}}}) {
    auto responder = std::make_shared<TestResponder>();
    AdmittedRequest admitted;
    admitted.request.target = std::string(kCore) + "?watch=true";
    admitted.info = ParseRequestInfo("GET", admitted.request.target);
    admitted.request.websocket = true;
    admitted.request.headers = headers;
    api_->Handle(std::move(admitted), responder);
    EXPECT_EQ(responder->status(), 400);
  }
}

TEST_F(ApiTest, RejectsWebSocketsFromOtherOrigins) {
  ApiOptions options;
  options.clock = &clock_;
  options.cors = *Cors::Make({R"(^https://ui\.example\.com$)"});
  Api api(&store_, std::move(options));
  const auto status = [&](std::vector<std::string> origins, std::string authority) {
    auto responder = std::make_shared<TestResponder>();
    AdmittedRequest admitted;
    admitted.request.target = std::string(kCore) + "?watch=true";
    admitted.info = ParseRequestInfo("GET", admitted.request.target);
    admitted.request.authority = std::move(authority);
    admitted.request.websocket = true;
    admitted.request.headers = {{"sec-websocket-key", "k"}, {"sec-websocket-version", "13"}};
    for (std::string& origin : origins) admitted.request.headers.Add("origin", std::move(origin));
    api.Handle(std::move(admitted), responder);
    return responder->status();
  };
  EXPECT_EQ(status({}, "herald:6443"), 101) << "not a browser";
  EXPECT_EQ(status({"https://ui.example.com"}, "herald:6443"), 101);
  EXPECT_EQ(status({"https://herald:6443"}, "herald:6443"), 101);
  EXPECT_EQ(status({"https://Herald:6443"}, "herald:6443"), 101);
  EXPECT_EQ(status({"https://herald"}, "herald:443"), 101);
  EXPECT_EQ(status({"https://[::1]:6443"}, "[::1]:6443"), 101);
  for (const char* foreign :
       {"https://evil.example.com", "https://herald:6444", "https://herald", "http://herald:6443",
        "https://herald:6443.evil.com", "null", "", "https://ui.example.com.evil.com",
        "https://x@herald:6443", "chrome-extension://herald:6443"})
    EXPECT_EQ(status({foreign}, "herald:6443"), 403) << foreign;
  EXPECT_EQ(status({"https://herald:6443", "https://evil.example.com"}, "herald:6443"), 403);
  EXPECT_EQ(status({"https://"}, ""), 403);
  api.Stop();
}

TEST_F(ApiTest, WarnsOfOrRejectsDuplicateYamlKeys) {
  const std::string body =
      "metadata: {name: twice}\ninvolvedObject: {namespace: default}\nreason: a\nreason: b\nx: 1\n";
  const http::Headers yaml{{"content-type", "application/yaml"}};
  const std::string said =
      "yaml: unmarshal errors:\\n  line 4: key \\\"reason\\\" already set in map";
  const Client strict = Do("POST", std::string(kCore) + "?fieldValidation=Strict", body, yaml);
  EXPECT_EQ(strict->status(), 400);
  EXPECT_NE(strict->body().find("strict decoding error: " + said + ", unknown field \\\"x\\\""),
            std::string::npos)
      << strict->body();
  const Client warned = Do("POST", std::string(kCore) + "?dryRun=All", body, yaml);
  EXPECT_EQ(warned->status(), 201);
  EXPECT_EQ(warned->header("warning"), R"(299 - "line 4: key \"reason\" already set in map")");
  const Client ignored =
      Do("POST", std::string(kCore) + "?dryRun=All&fieldValidation=Ignore", body, yaml);
  EXPECT_EQ(ignored->status(), 201);
  EXPECT_EQ(ignored->header("warning"), "");
}

// Access was granted for the name in the RequestInfo, so no parameter may widen what is returned.
TEST_F(ApiTest, ANamespaceThatIsAddressedByNameReturnsNoOther) {
  const std::string selector = "fieldSelector=metadata.name%3D";
  for (const std::string& target : {"/api/v1/watch/namespaces/default?" + selector + "kube-system",
                                    "/api/v1/watch/namespaces/default?" + selector}) {
    const Client client = Get(target);
    EXPECT_EQ(client->status(), 400) << target;
    EXPECT_EQ(client->body().find("kube-system"), std::string::npos) << client->body();
  }
  for (const std::string& target : {"/api/v1/namespaces?" + selector + "default",
                                    "/api/v1/namespaces?watch=1&" + selector + "default"}) {
    const Client client = Get(target);
    EXPECT_NE(client->body().find("\"default\""), std::string::npos) << client->body();
    EXPECT_EQ(client->body().find("kube-system"), std::string::npos) << client->body();
  }
  for (const std::string& target :
       {"/api/v1/namespaces?" + selector, "/api/v1/namespaces?watch=1&" + selector}) {
    const Client client = Get(target);
    EXPECT_EQ(client->status(), 200);
    EXPECT_EQ(client->body().find("default"), std::string::npos) << client->body();
  }
  api_->Stop();
}

TEST_F(ApiTest, AMalformedPathIsNotFound) {
  Post(Pod("a"));
  for (const std::string target :
       {"/api/v1//events", "//api/v1/events", "/api//v1/events", "/api/v1/namespaces//events",
        "/api/v1/namespaces/default//events", "/api/v1/namespaces/default/events//a",
        "/api/v1/namespaces/default/events//", "/api/v1/namespaces/./events",
        "/api/v1/namespaces/../events", "/api/v1/namespaces/default/%2e%2e/events",
        "/api/v1/events/a", "/api/v1/watch/events/a", "/api/v1/namespaces/default/events/a/b/c",
        "/api/v1/watch/watch/events", "/herald/retention/", "/herald//retention"}) {
    EXPECT_EQ(Get(target)->status(), 404) << target;
  }
  EXPECT_EQ(Get("/api/v1/namespaces/default/events/")->status(), 200);
}

TEST_F(ApiTest, NamespacesAreThoseThatHaveEvents) {
  Do("POST", "/api/v1/namespaces/shop/events",
     R"({"metadata":{"name":"a"},"involvedObject":{"namespace":"shop"}})");
  const json list = json::parse(Get("/api/v1/namespaces")->body());
  std::vector<std::string> names;
  for (const json& item : list.at("items")) names.push_back(item.at("metadata").at("name"));
  EXPECT_EQ(names, (std::vector<std::string>{"default", "kube-system", "shop"}));
  clock_.Advance(seconds(600));
  Do("POST", "/api/v1/namespaces/shop/events",
     R"({"metadata":{"name":"0"},"involvedObject":{"namespace":"shop"}})");
  const json shop = json::parse(Get("/api/v1/namespaces/shop")->body());
  EXPECT_EQ(shop.at("metadata").at("creationTimestamp"), "2023-11-14T22:13:20Z");
  const Client missing = Get("/api/v1/namespaces/none");
  EXPECT_EQ(missing->status(), 404);
  EXPECT_EQ(json::parse(missing->body()).at("message"), "namespaces \"none\" not found");
  const json table = json::parse(
      Get("/api/v1/namespaces", "application/json;as=Table;v=v1;g=meta.k8s.io")->body());
  EXPECT_EQ(table.at("rows").size(), 3U);
  EXPECT_EQ(table.at("rows").at(2).at("cells"), json({"shop", "Active", "10m"}));
}

// `kubectl cluster-info` lists those of kube-system with a label.
TEST_F(ApiTest, ThereAreNoServices) {
  for (const char* target :
       {"/api/v1/services", "/api/v1/namespaces/kube-system/services?labelSelector=a%3Dtrue"}) {
    const Client client = Get(target);
    EXPECT_EQ(client->status(), 200) << target;
    const json list = json::parse(client->body());
    EXPECT_EQ(list.at("kind"), "ServiceList");
    EXPECT_EQ(list.at("items"), json::array());
    EXPECT_NE(list.at("metadata").at("resourceVersion"), "0");
  }
  EXPECT_EQ(Get("/api/v1/services?watch=true")->status(), 405);
  EXPECT_EQ(Do("POST", "/api/v1/namespaces/a/services", "{}")->status(), 405);
  EXPECT_EQ(Get("/api/v1/namespaces/a/services/b")->status(), 404);
  EXPECT_EQ(Get("/api/v1/namespaces/a/b/services")->status(), 404);
}

TEST_F(ApiTest, ListsItsPathsAtTheRoot) {
  const Client client = Get("/");
  EXPECT_EQ(client->status(), 200);
  EXPECT_EQ(client->header("content-type"), "application/json");
  const std::vector<std::string> paths = json::parse(client->body()).at("paths");
  EXPECT_TRUE(std::ranges::is_sorted(paths));
  for (const char* path : {"/api/v1", "/apis/events.k8s.io/v1", "/metrics", "/version"})
    EXPECT_NE(std::ranges::find(paths, path), paths.end()) << path;
  EXPECT_TRUE(client->body().starts_with("{\n  \"paths\": [\n    \"/api\",\n"));
  // The Api serves all of them, except those of the FrontDoor.
  for (const std::string& path : paths) {
    const bool of_the_front_door = path == "/metrics" || path.starts_with("/healthz") ||
                                   path.starts_with("/livez") || path.starts_with("/readyz");
    EXPECT_TRUE(of_the_front_door || Get(path)->status() == 200) << path;
  }
}

TEST_F(ApiTest, ReportsHowLongEventsAreKept) {
  const json retention = json::parse(Get("/herald/retention")->body());
  EXPECT_EQ(retention.at("eventTTLSeconds"), 3600);
  EXPECT_EQ(Get(std::string(kCore) + "?since=1h")->header("herald-event-ttl"), "3600");
  EXPECT_EQ(Get(std::string(kCore))->header("herald-event-ttl"), "");
}

TEST_F(ApiTest, DiscoveryIsTheSameInEveryForm) {
  const json core = json::parse(Get("/api/v1")->body());
  const json group = json::parse(Get("/apis/events.k8s.io/v1/")->body());
  std::vector<std::string> served;
  for (const json& resource : core.at("resources")) {
    if (!resource.at("verbs").empty()) served.push_back(resource.at("name"));
  }
  EXPECT_EQ(served, (std::vector<std::string>{"events", "namespaces", "services"}));
  EXPECT_EQ(group.at("resources").at(0).at("storageVersionHash"), "r2yiGXH7wu8=");

  const std::string accept =
      "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
  const Client aggregated = Get("/apis", accept);
  EXPECT_EQ(aggregated->header("content-type"),
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
  EXPECT_EQ(json::parse(aggregated->body()).at("items").size(),
            json::parse(Get("/apis")->body()).at("groups").size());
  const Client again =
      Do("GET", "/apis", "", {{"accept", accept}, {"if-none-match", aggregated->header("etag")}});
  EXPECT_EQ(again->status(), 304);
  EXPECT_EQ(again->body(), "");
}

// Every reference in a document must point to a schema in it.
void CheckReferences(const json& document, const json& part) {
  if (part.is_object()) {
    for (const auto& [key, value] : part.items()) {
      if (key == "$ref") {
        const std::string path = value.get<std::string>().substr(1);
        EXPECT_TRUE(document.contains(json::json_pointer(path))) << path;
      } else {
        CheckReferences(document, value);
      }
    }
  } else if (part.is_array()) {
    for (const json& element : part) CheckReferences(document, element);
  }
}

TEST_F(ApiTest, OpenApiDescribesWhatIsServed) {
  const json root = json::parse(Get("/openapi/v3")->body());
  for (const char* path : {"api/v1", "apis/events.k8s.io/v1"}) {
    const std::string url = root.at("paths").at(path).at("serverRelativeURL");
    const Client client = Get(url);
    ASSERT_EQ(client->status(), 200) << url;
    EXPECT_EQ(client->header("cache-control"), "public, immutable");
    const json document = json::parse(client->body());
    CheckReferences(document, document);
    const json& item =
        document.at("paths").at("/" + std::string(path) + "/namespaces/{namespace}/events/{name}");
    EXPECT_EQ(item.at("patch").at("x-kubernetes-group-version-kind").at("kind"), "Event");
    bool validates = false;
    for (const json& parameter : item.at("patch").at("parameters")) {
      validates = validates || parameter.at("name") == "fieldValidation";
    }
    EXPECT_TRUE(validates) << "kubectl lets servers validate that have this parameter";
  }
  const json v2 = json::parse(Get("/openapi/v2")->body());
  CheckReferences(v2, v2);
  EXPECT_TRUE(v2.at("definitions").contains("io.k8s.api.core.v1.Event"));
  EXPECT_EQ(Get("/openapi/v3/api/v1?hash=0")->status(), 301);
  EXPECT_EQ(Get("/openapi/v3/apis/apps/v1")->status(), 404);
  const Client protobuf =
      Get("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf");
  EXPECT_EQ(protobuf->header("content-type"),
            "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
  EXPECT_EQ(protobuf->body().substr(0, 5), std::string_view("\x0a\x03"
                                                            "2.0",
                                                            5));
}

class AllowAllButCreate final : public Authorizer {
 public:
  void Authorize(const User& /*user*/, const RequestInfo& info, Done done) const override {
    done({.allowed = info.verb != "create"});
  }
};

class RejectingApiTest : public ApiTest {
 protected:
  RejectingApiTest()
      : ApiTest([] {
          ApiOptions options;
          options.authorizer = [] { return std::make_shared<AllowAllButCreate>(); };
          options.admit = [](const User&, const Event& event) {
            if (event.reason != "Spam") return Status();
            Status::Parts parts;
            parts.reason = StatusReason::kTooManyRequests;
            parts.message = "slower";
            parts.retry_after = seconds(7);
            return Status(std::move(parts));
          };
          return options;
        }()) {}
};

TEST_F(RejectingApiTest, APutThatCreatesNeedsASecondPermission) {
  const Client client = Do("PUT", std::string(kCore) + "/a", Pod("a"));
  EXPECT_EQ(client->status(), 403);
  EXPECT_EQ(json::parse(client->body()).at("message"),
            "events \"a\" is forbidden: User \"u\" cannot create resource \"events\" in API group "
            "\"\" in the namespace \"default\"");
}

TEST_F(RejectingApiTest, AWriteThatIsNotAdmittedGetsRetryAfter) {
  const Client client = Post(R"({"metadata":{"name":"a"},"involvedObject":{"namespace":"default"},)"
                             R"("reason":"Spam"})");
  EXPECT_EQ(client->status(), 429);
  EXPECT_EQ(client->header("retry-after"), "7");
}

}  // namespace
}  // namespace herald::server
