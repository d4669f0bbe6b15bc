#include "herald/client/events.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/testing/fake_transport.h"
#include "herald/client/dynamic.h"

namespace herald {
namespace {

Event SomeEvent() {
  Event event;
  event.metadata.name = "web.1";
  event.metadata.namespace_ = "shop";
  event.reason = "Started";
  event.message = "hello";
  event.type = kNormal;
  return event;
}

// A call and the request that it must send.
struct VerbCase {
  const char* name;
  std::function<void(const EventsClient&)> call;
  const char* method;
  const char* target;  // without the path of the API
  const char* content_type;
  const char* body;  // a part of it
};

TEST(EventsClient, SendsTheRequestOfEachVerb) {
  const auto ignore = [](const Result<Event>&) {};
  const auto ignore_status = [](const Status&) {};
  const VerbCase cases[] = {
      {"create", [&](const EventsClient& c) { c.Create(SomeEvent(), {}, ignore); }, "POST",
       "/namespaces/shop/events", "application/json", "\"reason\":\"Started\""},
      {"create with options",
       [&](const EventsClient& c) {
         c.Create(SomeEvent(),
                  {.field_manager = "me", .field_validation = "Strict", .dry_run = true}, ignore);
       },
       "POST", "/namespaces/shop/events?fieldManager=me&fieldValidation=Strict&dryRun=All",
       "application/json", ""},
      {"update", [&](const EventsClient& c) { c.Update(SomeEvent(), {}, ignore); }, "PUT",
       "/namespaces/shop/events/web.1", "application/json", "\"name\":\"web.1\""},
      {"get", [&](const EventsClient& c) { c.Get("shop", "a/b c", ignore); }, "GET",
       "/namespaces/shop/events/a%2Fb%20c", "", ""},
      {"strategic patch",
       [&](const EventsClient& c) {
         c.Patch("shop", "x", PatchType::kStrategicMerge, "{}", {}, ignore);
       },
       "PATCH", "/namespaces/shop/events/x", "application/strategic-merge-patch+json", "{}"},
      {"merge patch",
       [&](const EventsClient& c) { c.Patch("shop", "x", PatchType::kMerge, "{}", {}, ignore); },
       "PATCH", "/namespaces/shop/events/x", "application/merge-patch+json", "{}"},
      {"JSON patch",
       [&](const EventsClient& c) { c.Patch("shop", "x", PatchType::kJson, "[]", {}, ignore); },
       "PATCH", "/namespaces/shop/events/x", "application/json-patch+json", "[]"},
      {"delete",
       [&](const EventsClient& c) {
         c.Delete("shop", "x", {.grace_period_seconds = 0, .precondition_uid = "u"}, ignore_status);
       },
       "DELETE", "/namespaces/shop/events/x", "application/json",
       R"("gracePeriodSeconds":0,"kind":"DeleteOptions","preconditions":{"uid":"u"})"},
      {"delete collection",
       [&](const EventsClient& c) {
         c.DeleteCollection({.namespace_ = "shop", .field_selector = "reason=Started"}, {},
                            ignore_status);
       },
       "DELETE", "/namespaces/shop/events?fieldSelector=reason%3DStarted", "application/json",
       "DeleteOptions"},
      {"list",
       [&](const EventsClient& c) {
         c.List({.namespace_ = "shop",
                 .label_selector = "a=b",
                 .resource_version = "7",
                 .resource_version_match = "Exact",
                 .limit = 5,
                 .continue_ = "t"},
                [](const Result<EventList>&) {});
       },
       "GET",
       "/namespaces/shop/events?labelSelector=a%3Db&resourceVersion=7&resourceVersionMatch=Exact"
       "&limit=5&continue=t",
       "", ""},
      {"list of all namespaces",
       [&](const EventsClient& c) { c.List({}, [](const Result<EventList>&) {}); }, "GET",
       "/events", "", ""},
      {"watch",
       [&](const EventsClient& c) {
         c.Watch(
             {.namespace_ = "shop", .resource_version = "7", .timeout = std::chrono::seconds(9)},
             EventsClient::WatchCallbacks{});
       },
       "GET",
       "/namespaces/shop/events?watch=true&resourceVersion=7&allowWatchBookmarks=true"
       "&timeoutSeconds=9",
       "", ""},
  };
  for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
    for (const VerbCase& c : cases) {
      SCOPED_TRACE(c.name);
      FakeServer server;
      c.call(EventsClient(server.rest, {.api = api}));
      const auto call = server.transport->Next();
      ASSERT_NE(call, nullptr);
      EXPECT_EQ(call->request.method, c.method);
      EXPECT_EQ(
          call->request.target,
          std::string(api == EventApi::kCoreV1 ? "/api/v1" : "/apis/events.k8s.io/v1") + c.target);
      EXPECT_EQ(call->request.headers.Get("content-type"), c.content_type);
      EXPECT_NE(call->request.body.find(c.body), std::string::npos) << call->request.body;
    }
  }
}

TEST(EventsClient, RejectsAnEmptyNamespaceWithoutARequest) {
  FakeServer server;
  const EventsClient events(server.rest);
  std::vector<Status> errors;
  const auto failed = [&](const Result<Event>& r) { errors.push_back(r.error()); };
  Event event = SomeEvent();
  event.metadata.namespace_.clear();
  events.Create(event, {}, failed);
  events.Update(event, {}, failed);
  events.Get("", "x", failed);
  events.Patch("", "x", PatchType::kMerge, "{}", {}, failed);
  ASSERT_EQ(errors.size(), 4U);
  EXPECT_EQ(errors[0].message(), "can't create an event with empty namespace");
  EXPECT_EQ(server.transport->Next(), nullptr);
}

TEST(EventsClient, ReadsAPageAndItsContinueToken) {
  FakeServer server;
  std::optional<Result<EventList>> result;
  EventsClient(server.rest, {.api = EventApi::kEventsV1}).List({}, [&](Result<EventList> r) {
    result = std::move(r);
  });
  server.transport->Answer(
      server.transport->Next(), 200,
      R"({"kind":"EventList","apiVersion":"events.k8s.io/v1","metadata":{"resourceVersion":"9",)"
      R"("continue":"more","remainingItemCount":3},"items":[{"metadata":{"name":"a"},"note":"n"}]})");
  ASSERT_TRUE(result && *result);
  EXPECT_EQ((*result)->metadata.continue_, "more");
  EXPECT_EQ((*result)->metadata.remaining_item_count, 3);
  ASSERT_EQ((*result)->items.size(), 1U);
  EXPECT_EQ((*result)->items[0].message, "n");
}

TEST(EventsClient, EndsAWatchAtAnInvalidFrame) {
  FakeServer server;
  std::vector<std::string> names;
  std::optional<Status> end;
  EventsClient(server.rest, {.api = EventApi::kCoreV1})
      .Watch({}, EventsClient::WatchCallbacks{
                     .event =
                         [&](const WatchEvent& event) {
                           names.push_back(std::get<Event>(event.object).metadata.name);
                         },
                     .end = [&](const Status& status) { end = status; }});
  const auto call = server.transport->Next();
  server.transport->Head(call);
  server.transport->Data(call, R"({"type":"ADDED","object":{"metadata":{"name":"a"}}})"
                               "\n{\"type\":7}\n");
  EXPECT_TRUE(call->cancelled);
  EXPECT_EQ(names, std::vector<std::string>{"a"});
  ASSERT_TRUE(end);
  EXPECT_FALSE(end->Is(StatusReason::kCancelled)) << end->ToString();
}

// Two frames of a watch. Members that only the first one has must not appear in the second.
constexpr std::string_view kTwoFrames =
    R"({"type":"ADDED","object":{"metadata":{"name":"a","labels":{"k":"v"}},)"
    R"("message":"a message that is too long for a short text","count":3}})"
    "\n"
    R"({"type":"MODIFIED","object":{"metadata":{"name":"b"},)"
    R"("message":"another one that is as long as this"}})"
    "\n";

TEST(EventsClient, ReusesOneEventForAllFrames) {
  FakeServer server;
  std::vector<Event> seen;
  std::vector<const char*> memory;
  EventsClient(server.rest, {.api = EventApi::kCoreV1})
      .Watch({}, EventsClient::WatchCallbacks{.event = [&](const WatchEvent& event) {
               seen.push_back(std::get<Event>(event.object));
               memory.push_back(std::get<Event>(event.object).message.data());
             }});
  const auto call = server.transport->Next();
  server.transport->Head(call);
  server.transport->Data(call, kTwoFrames);
  ASSERT_EQ(seen.size(), 2U);
  Event second;
  second.metadata.name = "b";
  second.message = "another one that is as long as this";
  EXPECT_EQ(seen[0].metadata.labels, (StringMap{{"k", "v"}}));
  EXPECT_EQ(seen[1], second);
  EXPECT_EQ(memory[0], memory[1]);
}

TEST(EventsClient, LetsTheCallbackMoveEvents) {
  std::vector<WatchEvent> kept;
  const auto takes_it = [&](WatchEvent event) { kept.push_back(std::move(event)); };
  const auto moves_it = [&](WatchEvent&& event) { kept.push_back(std::move(event)); };
  for (const auto& handler :
       {std::function<void(WatchEvent&&)>(takes_it), std::function<void(WatchEvent&&)>(moves_it)}) {
    FakeServer server;
    kept.clear();
    EventsClient(server.rest, {.api = EventApi::kCoreV1})
        .Watch({}, EventsClient::WatchCallbacks{.event = handler});
    const auto call = server.transport->Next();
    server.transport->Head(call);
    server.transport->Data(call, kTwoFrames);
    ASSERT_EQ(kept.size(), 2U);
    const Event& first = std::get<Event>(kept[0].object);
    EXPECT_EQ(first.metadata.name, "a");
    EXPECT_EQ(first.message, "a message that is too long for a short text");
    EXPECT_EQ(first.count, 3);
    EXPECT_EQ(kept[1].type, WatchType::kModified);
    Event second;
    second.metadata.name = "b";
    second.message = "another one that is as long as this";
    EXPECT_EQ(std::get<Event>(kept[1].object), second);
  }
}

TEST(DynamicClient, SendsRequestsForAnyResource) {
  FakeServer server;
  const DynamicClient sets(server.rest, {"apps", "v1", "replicasets"});
  const auto ignore = [](const Result<Object>&) {};
  JsonValue patch;
  patch.Member("status").Member("replicas") = 3;
  sets.Patch("shop", "web", PatchType::kMerge, patch, "status", {}, ignore);
  auto call = server.transport->Next();
  EXPECT_EQ(call->request.target, "/apis/apps/v1/namespaces/shop/replicasets/web/status");
  EXPECT_EQ(call->request.body, R"({"status":{"replicas":3}})");
  EXPECT_EQ(call->request.headers.Get("content-type"), "application/merge-patch+json");

  DynamicClient(server.rest, {"", "v1", "nodes"}).Get("", "n1", ignore);
  EXPECT_EQ(server.transport->Next()->request.target, "/api/v1/nodes/n1");

  std::optional<Result<Object>> created;
  sets.Create("shop", patch, {}, [&](Result<Object> r) { created = std::move(r); });
  call = server.transport->Next();
  EXPECT_EQ(call->request.method, "POST");
  server.transport->Answer(call, 201,
                           R"({"kind":"ReplicaSet","metadata":{"name":"web","uid":"u"}})");
  ASSERT_TRUE(created && *created);
  EXPECT_EQ((*created)->uid(), "u");
}

TEST(DynamicClient, SetsTheKindOfEachItemOfAList) {
  FakeServer server;
  std::optional<Result<ObjectList>> result;
  const DynamicClient pods(server.rest, {"", "v1", "pods"});
  pods.List({}, [&](Result<ObjectList> r) { result = std::move(r); });
  server.transport->Answer(
      server.transport->Next(), 200,
      R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},)"
      R"("items":[{"metadata":{"name":"a"}}]})");
  ASSERT_TRUE(result && *result);
  EXPECT_EQ((*result)->items[0].kind(), "Pod");
  EXPECT_EQ((*result)->items[0].api_version(), "v1");
  pods.List({}, [&](Result<ObjectList> r) { result = std::move(r); });
  server.transport->Answer(server.transport->Next(), 200, R"({"kind":"Pod"})");
  EXPECT_FALSE(*result);
}

}  // namespace
}  // namespace herald
