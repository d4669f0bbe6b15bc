// Tests the client with a real kube-apiserver: every verb, restarts, compaction and TLS.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "herald/client/dynamic.h"
#include "herald/client/events.h"
#include "herald/client/informer.h"
#include "herald/client/rest.h"
#include "herald/client/rest_sink.h"
#include "herald/record/broadcaster.h"
#include "test/cluster_fixture.h"

namespace herald {
namespace {

using testing::Changing;
using testing::kPatience;

class ClientClusterTest : public testing::ClusterTest {
 protected:
  Event NewEvent(const std::string& name, EventApi api) const {
    Event event;
    event.metadata.name = name;
    event.metadata.namespace_ = namespace_;
    event.involved_object = {
        .kind = "Pod", .namespace_ = namespace_, .name = "web", .api_version = "v1"};
    event.reason = "Testing";
    event.message = "about " + name;
    event.type = kNormal;
    if (api == EventApi::kEventsV1) {
      event.event_time = MicroTime(1'700'000'000, 5'000);
      event.action = "Test";
      event.reporting_controller = "test.io/client";
      event.reporting_instance = "client-1";
    } else {
      event.source.component = "client";
      event.count = 1;
      event.first_timestamp = event.last_timestamp = Time(1'700'000'000, 0);
    }
    return event;
  }
};

TEST_F(ClientClusterTest, SupportsEveryVerbInBothApisAndFormats) {
  for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
    for (const WireFormat format : {WireFormat::kJson, WireFormat::kProtobuf}) {
      SCOPED_TRACE(std::string(ApiVersionName(api)) +
                   (format == WireFormat::kJson ? " JSON" : " protobuf"));
      const EventsClient events(admin_, {.api = api, .format = format});
      const auto created = events.Create(NewEvent("verbs", api));
      ASSERT_TRUE(created) << created.error().ToString();
      EXPECT_FALSE(created->metadata.uid.empty());
      const auto twice = events.Create(NewEvent("verbs", api));
      ASSERT_FALSE(twice);
      EXPECT_TRUE(twice.error().Is(StatusReason::kAlreadyExists)) << twice.error().ToString();
      const auto read = events.Get(namespace_, "verbs");
      ASSERT_TRUE(read) << read.error().ToString();
      EXPECT_EQ(*read, *created);

      const char* const patch =
          api == EventApi::kCoreV1
              ? R"({"count":2,"lastTimestamp":"2023-11-14T22:14:05Z"})"
              : R"({"series":{"count":2,"lastObservedTime":"2023-11-14T22:14:05.123456Z"}})";
      const auto patched = events.Patch(namespace_, "verbs", PatchType::kStrategicMerge, patch);
      ASSERT_TRUE(patched) << patched.error().ToString();
      EXPECT_EQ(api == EventApi::kCoreV1 ? patched->count : patched->series.value().count, 2);
      for (const auto& [type, text] :
           {std::pair{PatchType::kMerge, R"({"metadata":{"labels":{"a":"b"}}})"},
            std::pair{PatchType::kJson,
                      R"([{"op":"add","path":"/metadata/annotations","value":{"c":"d"}}])"}}) {
        const auto more = events.Patch(namespace_, "verbs", type, text);
        ASSERT_TRUE(more) << more.error().ToString();
        EXPECT_EQ(more->metadata.labels.count("a"), 1U);
      }
      auto changed = events.Get(namespace_, "verbs");
      ASSERT_TRUE(changed);
      changed->metadata.labels["e"] = "f";
      const auto updated = events.Update(*changed);
      ASSERT_TRUE(updated) << updated.error().ToString();
      const auto stale = events.Update(*created);
      EXPECT_TRUE(!stale && stale.error().Is(StatusReason::kConflict));
      EXPECT_TRUE(events.Delete(namespace_, "verbs").ok());
      const auto gone = events.Get(namespace_, "verbs");
      EXPECT_TRUE(!gone && gone.error().Is(StatusReason::kNotFound));
    }
  }
}

TEST_F(ClientClusterTest, PagesThroughAList) {
  const EventsClient events(admin_, {.api = EventApi::kCoreV1});
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE(events.Create(NewEvent("page-" + std::to_string(i), EventApi::kCoreV1)));
  }
  std::set<std::string> names;
  ListOptions options{.namespace_ = namespace_, .field_selector = "reason=Testing", .limit = 3};
  int pages = 0;
  do {
    const auto page = events.List(options);
    ASSERT_TRUE(page) << page.error().ToString();
    for (const Event& event : page->items) EXPECT_TRUE(names.insert(event.metadata.name).second);
    options.continue_ = page->metadata.continue_;
    ++pages;
  } while (!options.continue_.empty());
  EXPECT_EQ(names.size(), 7U);
  EXPECT_EQ(pages, 3);
  EXPECT_TRUE(events.DeleteCollection({.namespace_ = namespace_}).ok());
  EXPECT_TRUE(events.List({.namespace_ = namespace_}).value_or(EventList()).items.empty());
}

TEST_F(ClientClusterTest, RecordsAndMerges) {
  for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
    Broadcaster broadcaster;
    ASSERT_TRUE(broadcaster.StartRecordingToSink(std::make_shared<RestSink>(admin_)).ok());
    Recorder recorder =
        broadcaster.NewRecorder({.component = "test.io/agent", .host = "node-1", .api = api});
    for (int i = 0; i < 3; ++i) {
      Occurrence what{.type = kWarning, .reason = "BackOff"};
      what.action = "Restart";
      recorder.Record({.kind = "Pod", .namespace_ = namespace_, .name = "web", .api_version = "v1"},
                      what, "Back-off restarting {}", "web");
    }
    ASSERT_TRUE(broadcaster.Shutdown(kPatience).complete);
    const auto list = EventsClient(admin_, {.api = api})
                          .List({.namespace_ = namespace_, .field_selector = "reason=BackOff"});
    ASSERT_TRUE(list) << list.error().ToString();
    ASSERT_EQ(list->items.size(), 1U);
    const Event& event = list->items[0];
    EXPECT_EQ(api == EventApi::kCoreV1 ? event.count : event.series.value_or(EventSeries()).count,
              3);
    ASSERT_TRUE(EventsClient(admin_).DeleteCollection({.namespace_ = namespace_}).ok());
  }
}

TEST_F(ClientClusterTest, ChoosesTheApiThatTheServerHas) {
  EXPECT_EQ(EventsClient::Discover(*admin_).value_or(EventApi::kCoreV1), EventApi::kEventsV1);
  EXPECT_TRUE(DynamicClient(admin_, {"apps", "v1", "replicasets"}).Exists().value_or(false));
  EXPECT_FALSE(DynamicClient(admin_, {"apps", "v1", "nosuch"}).Exists().value_or(true));
  EXPECT_FALSE(DynamicClient(admin_, {"no.such", "v1", "things"}).Exists().value_or(true));
}

TEST_F(ClientClusterTest, FallsBackToTheOtherApiIfOneIsForbidden) {
  // The cluster's second user may write events through v1, and nothing else.
  const auto limited = Open(ConfigOf("limited"));
  const auto access = ReviewEventAccess(*limited, {namespace_});
  ASSERT_TRUE(access) << access.error().ToString();
  for (const EventAccess& row : *access) {
    EXPECT_EQ(row.may_create, row.api == EventApi::kCoreV1);
    EXPECT_EQ(row.may_patch, row.api == EventApi::kCoreV1);
  }

  const auto choice = std::make_shared<ApiChoice>();
  const auto sink = std::make_shared<RestSink>(limited, RestSinkOptions{.api_choice = choice});
  Broadcaster broadcaster;
  ASSERT_TRUE(broadcaster.StartRecordingToSink(sink).ok());
  broadcaster.NewRecorder({.component = "test.io/agent", .host = "node-1", .api_choice = choice})
      .Eventf({.kind = "Pod", .namespace_ = namespace_, .name = "web", .api_version = "v1"},
              kNormal, "Fallback", "Written {}", "anyway");
  ASSERT_TRUE(broadcaster.Shutdown(kPatience).complete);
  EXPECT_TRUE(sink->fell_back());
  const auto list = EventsClient(admin_, {.api = EventApi::kCoreV1})
                        .List({.namespace_ = namespace_, .field_selector = "reason=Fallback"});
  ASSERT_TRUE(list);
  EXPECT_EQ(list->items.size(), 1U);
}

TEST_F(ClientClusterTest, ContinuesAfterARestartAndACompaction) {
  const EventsClient events(admin_, {.api = EventApi::kCoreV1});
  for (const InitialList initial : {InitialList::kPaged, InitialList::kStreaming}) {
    Changing changing;
    std::vector<std::string> received;
    int relists = 0;
    ASSERT_TRUE(events.Create(NewEvent("before", EventApi::kCoreV1)));
    ResourceWatcher<Event> watcher(
        admin_, {"", "v1", "events"},
        {.namespace_ = namespace_,
         .field_selector = "reason=Testing",
         .initial_list = initial,
         .format = WireFormat::kProtobuf},
        [&](const ResourceWatcherEvent<Event>& event) {
          using Kind = ResourceWatcherEvent<Event>::Kind;
          changing.Change([&] {
            if (event.kind == Kind::kInitDone) ++relists;
            if (event.kind == Kind::kApply || event.kind == Kind::kInitApply) {
              received.push_back(event.object.metadata.name);
            }
          });
        });
    watcher.Start();
    ASSERT_TRUE(changing.WaitUntil([&] { return relists == 1; }));
    ASSERT_TRUE(events.Create(NewEvent("live", EventApi::kCoreV1)));
    ASSERT_TRUE(changing.WaitUntil([&] { return received.size() == 2; }));
    Cluster("restart --kill");
    // The first request may use a connection that the restart closed.
    Result<Event> created = events.Create(NewEvent("after", EventApi::kCoreV1));
    for (int i = 0; !created && i < 100; ++i) {
      created = events.Create(NewEvent("after", EventApi::kCoreV1));
    }
    ASSERT_TRUE(created || created.error().Is(StatusReason::kAlreadyExists));
    ASSERT_TRUE(changing.WaitUntil([&] { return received.size() == 3; }));
    EXPECT_EQ(received, (std::vector<std::string>{"before", "live", "after"}));
    EXPECT_EQ(relists, 1);
    watcher.Stop();
    ASSERT_TRUE(events.DeleteCollection({.namespace_ = namespace_}).ok());
  }

  // A watch from a compacted resource version gets 410 Expired.
  const auto old = events.List({.namespace_ = namespace_});
  ASSERT_TRUE(old);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(events.Create(NewEvent("compact-" + std::to_string(i), EventApi::kCoreV1)));
  }
  Cluster("compact");
  std::optional<Status> error;
  const Status end =
      events.Watch({.namespace_ = namespace_, .resource_version = old->metadata.resource_version},
                   [&](const WatchEvent& event) {
                     if (event.type == WatchType::kError) error = std::get<Status>(event.object);
                   });
  EXPECT_TRUE(end.ok()) << end.ToString();
  ASSERT_TRUE(error);
  EXPECT_TRUE(error->Is(StatusReason::kExpired)) << error->ToString();
}

TEST_F(ClientClusterTest, RejectsAServerItCannotVerify) {
  const ClientConfig config = AdminConfig();
  ClientConfig stranger = config;
  stranger.ca_data.clear();
  stranger.ca_file.clear();
  auto rest = RestClient::Open(stranger);
  ASSERT_TRUE(rest);
  const auto response = (*rest)->Send({.path = "/version"});
  ASSERT_FALSE(response);
  EXPECT_TRUE(response.error().Is(StatusReason::kUnreachable));
  EXPECT_NE(response.error().message().find("certificate"), std::string::npos)
      << response.error().message();
  ClientConfig wrong = config;
  wrong.token = "wrong";
  rest = RestClient::Open(wrong);
  ASSERT_TRUE(rest);
  const auto unauthorized = (*rest)->Send({.path = "/api/v1/namespaces"});
  ASSERT_FALSE(unauthorized);
  EXPECT_TRUE(unauthorized.error().Is(StatusReason::kUnauthorized))
      << unauthorized.error().ToString();
}

}  // namespace
}  // namespace herald
