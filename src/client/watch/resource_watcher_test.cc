#include "herald/client/resource_watcher.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/testing/fake_transport.h"

namespace herald {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Call = std::shared_ptr<FakeTransport::Call>;

// Longer than any delay between attempts.
constexpr seconds kAnyWait{61};

std::string Pod(const std::string& name, int version) {
  return R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":")" + name +
         R"(","namespace":"default","resourceVersion":")" + std::to_string(version) + R"("}})";
}

std::string Frame(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}\n";
}

std::string Bookmark(int version, bool ends_initial = false) {
  return Frame("BOOKMARK",
               R"({"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":")" +
                   std::to_string(version) + "\"" +
                   (ends_initial ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : "") +
                   "}}");
}

std::string List(const std::vector<std::string>& items, int version, const std::string& next = "") {
  std::string out = R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":")" +
                    std::to_string(version) + R"(","continue":")" + next + R"("},"items":[)";
  for (std::size_t i = 0; i < items.size(); ++i) out += (i > 0 ? "," : "") + items[i];
  return out + "]}";
}

std::string ErrorStatus(int code, const std::string& reason) {
  return R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":")" +
         reason + R"(","code":)" + std::to_string(code) + "}";
}

// A watcher of pods. Its events are kept as one line: "init +a done a2 -a".
class ResourceWatcherTest : public ::testing::Test {
 protected:
  void Watch(ResourceWatcherOptions options = {}) {
    options.namespace_ = "default";
    options.seed = 7;
    watcher_.emplace(
        server_.rest, Resource{"", "v1", "pods"}, options,
        [this](ResourceWatcherEvent<Object> event) {
          using Kind = ResourceWatcherEvent<Object>::Kind;
          const std::string name = event.object.name() + event.object.resource_version();
          switch (event.kind) {
            case Kind::kInit:
              return Report("init");
            case Kind::kInitApply:
              return Report("+" + name);
            case Kind::kInitDone:
              return Report("done");
            case Kind::kApply:
              return Report(name);
            case Kind::kDelete:
              return Report("-" + name);
          }
        },
        [this](const Status& status) { errors_.push_back(status); });
    watcher_->Start();
  }
  void Report(const std::string& word) { reported_ += (reported_.empty() ? "" : " ") + word; }
  std::string Reported() { return std::exchange(reported_, ""); }

  Call Next() { return server_.transport->Next(); }
  // Answers the list, and returns the watch that follows.
  Call ListThenWatch() {
    server_.transport->Answer(Next(), 200, List({Pod("a", 1)}, 10));
    EXPECT_EQ(Reported(), "init +a1 done");
    Call watch = Next();
    EXPECT_NE(watch, nullptr);
    server_.transport->Head(watch);
    return watch;
  }

  FakeServer server_;
  std::optional<ResourceWatcher<Object>> watcher_;
  std::string reported_;
  std::vector<Status> errors_;
};

TEST_F(ResourceWatcherTest, ListsThenWatches) {
  Watch();
  const Call list = Next();
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(list->request.target, "/api/v1/namespaces/default/pods?limit=500");
  server_.transport->Answer(list, 200, List({Pod("a", 1), Pod("b", 2)}, 10));
  EXPECT_EQ(Reported(), "init +a1 +b2 done");
  const Call watch = Next();
  ASSERT_NE(watch, nullptr);
  EXPECT_EQ(watch->Query("watch"), "true");
  EXPECT_EQ(watch->Query("resourceVersion"), "10");
  EXPECT_EQ(watch->Query("allowWatchBookmarks"), "true");
  const int timeout = std::stoi(watch->Query("timeoutSeconds"));
  EXPECT_GE(timeout, 300);
  EXPECT_LT(timeout, 600);
  EXPECT_EQ(watcher_->state(), ResourceWatcherState::kWatching);
  server_.transport->Head(watch);
  server_.transport->Data(watch, Frame("ADDED", Pod("c", 11)) + Frame("MODIFIED", Pod("a", 12)));
  const std::string gone = Frame("DELETED", Pod("b", 13));
  server_.transport->Data(watch, gone.substr(0, 20));
  EXPECT_EQ(Reported(), "c11 a12");
  server_.transport->Data(watch, gone.substr(20));
  EXPECT_EQ(Reported(), "-b13");
  EXPECT_TRUE(errors_.empty());
}

TEST_F(ResourceWatcherTest, ReadsAllPages) {
  Watch({.page_size = 2});
  server_.transport->Answer(Next(), 200, List({Pod("a", 1), Pod("b", 2)}, 10, "token"));
  EXPECT_EQ(Reported(), "init +a1 +b2");
  EXPECT_EQ(watcher_->state(), ResourceWatcherState::kListing);
  const Call second = Next();
  EXPECT_EQ(second->Query("continue"), "token");
  EXPECT_EQ(second->Query("limit"), "2");
  server_.transport->Answer(second, 200, List({Pod("c", 3)}, 10));
  EXPECT_EQ(Reported(), "+c3 done");
  EXPECT_EQ(Next()->Query("watch"), "true");
}

TEST_F(ResourceWatcherTest, RetriesAPageAfterAFailure) {
  Watch({.page_size = 1});
  server_.transport->Answer(Next(), 200, List({Pod("a", 1)}, 10, "token"));
  server_.transport->Fail(Next(), Status(StatusReason::kUnreachable, "reset"));
  EXPECT_EQ(errors_.size(), 1U);
  EXPECT_EQ(Next(), nullptr);
  server_.transport->Advance(kAnyWait);
  const Call again = Next();
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->Query("continue"), "token");
  server_.transport->Answer(again, 200, List({Pod("b", 2)}, 10));
  EXPECT_EQ(Reported(), "init +a1 +b2 done");
}

TEST_F(ResourceWatcherTest, ListsInOnePageWhenThePagesExpired) {
  Watch({.page_size = 1});
  server_.transport->Answer(Next(), 200, List({Pod("a", 1)}, 10, "token"));
  server_.transport->Answer(Next(), 410, ErrorStatus(410, "Expired"));
  server_.transport->Advance(kAnyWait);
  const Call all = Next();
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(all->request.target, "/api/v1/namespaces/default/pods");
  server_.transport->Answer(all, 200, List({Pod("b", 12)}, 20));
  EXPECT_EQ(Reported(), "init +a1 init +b12 done");
}

TEST_F(ResourceWatcherTest, ResumesFromTheLastReportedVersion) {
  Watch();
  const Call watch = ListThenWatch();
  server_.transport->Data(watch, Frame("ADDED", Pod("b", 11)) + Bookmark(15));
  server_.clock.Advance(minutes(5));
  server_.transport->End(watch);
  const Call next = Next();
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->Query("resourceVersion"), "15");
  EXPECT_EQ(Reported(), "b11");
  EXPECT_TRUE(errors_.empty());
}

TEST_F(ResourceWatcherTest, DelaysTheNextWatchIfOneEndedAtOnce) {
  Watch();
  server_.transport->End(ListThenWatch());
  EXPECT_EQ(Next(), nullptr);
  server_.transport->Advance(kAnyWait);
  EXPECT_EQ(Next()->Query("resourceVersion"), "10");
}

TEST_F(ResourceWatcherTest, IncreasesTheDelayWithEachFailure) {
  Watch();
  seconds::rep last = 0;
  for (int i = 0; i < 6; ++i) {
    server_.transport->Fail(Next(), Status(StatusReason::kUnreachable, "refused"));
    milliseconds waited{0};
    while (server_.transport->fresh() == 0) {
      server_.transport->Advance(milliseconds(100));
      waited += milliseconds(100);
    }
    const double base = 0.8 * (1 << i);
    EXPECT_GE(waited.count() / 1000.0, std::min(base, 30.0));
    EXPECT_LE(waited.count() / 1000.0, std::min(base, 30.0) * 2 + 0.1);
    last = waited.count();
  }
  EXPECT_GT(last, 20'000);
}

TEST_F(ResourceWatcherTest, ListsAgainWhenItsVersionExpired) {
  Watch();
  const Call watch = ListThenWatch();
  server_.transport->Data(watch, Frame("ADDED", Pod("b", 11)));
  server_.transport->Data(watch, Frame("ERROR", ErrorStatus(410, "Expired")));
  EXPECT_TRUE(watch->cancelled);
  const Call list = Next();
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(list->Query("watch"), "");
  server_.transport->Answer(list, 200, List({Pod("c", 21)}, 30));
  EXPECT_EQ(Reported(), "b11 init +c21 done");
  EXPECT_EQ(Next()->Query("resourceVersion"), "30");
  ASSERT_EQ(errors_.size(), 1U);
  EXPECT_TRUE(errors_[0].Is(StatusReason::kExpired));
}

TEST_F(ResourceWatcherTest, ListsAgainWhenAWatchIsRejectedWithGone) {
  Watch();
  server_.transport->Answer(Next(), 200, List({}, 10));
  server_.transport->Answer(Next(), 410, ErrorStatus(410, "Gone"));
  EXPECT_EQ(Next(), nullptr);  // a watch that fails at once is delayed
  server_.transport->Advance(kAnyWait);
  EXPECT_EQ(Next()->Query("watch"), "");
}

TEST_F(ResourceWatcherTest, KeepsItsVersionAfterOtherErrors) {
  Watch();
  const Call watch = ListThenWatch();
  server_.transport->Data(watch, Frame("ADDED", Pod("b", 11)));
  server_.transport->Data(
      watch, Frame("ERROR", ErrorStatus(500, "InternalError")) + Frame("ADDED", Pod("never", 99)));
  server_.transport->Advance(kAnyWait);
  const Call next = Next();
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->Query("resourceVersion"), "11");
  EXPECT_EQ(Reported(), "b11");
}

TEST_F(ResourceWatcherTest, ListsAgainAfterAnInvalidFrame) {
  Watch();
  const Call watch = ListThenWatch();
  server_.transport->Data(watch, "{\"type\":\"ADDED\",\"object\":oops}\n");
  EXPECT_TRUE(watch->cancelled);
  EXPECT_EQ(errors_.size(), 1U);
  server_.transport->Advance(kAnyWait);
  EXPECT_EQ(Next()->Query("watch"), "");
}

TEST_F(ResourceWatcherTest, ResumesAfterAStreamThatEndedInAFrame) {
  Watch();
  const Call watch = ListThenWatch();
  server_.transport->Data(watch, Frame("ADDED", Pod("b", 11)) + "{\"type\":\"ADD");
  server_.transport->End(watch);
  EXPECT_EQ(errors_.size(), 1U);
  server_.transport->Advance(kAnyWait);
  EXPECT_EQ(Next()->Query("resourceVersion"), "11");
}

TEST_F(ResourceWatcherTest, StreamsTheInitialList) {
  Watch({.initial_list = InitialList::kStreaming});
  const Call watch = Next();
  EXPECT_EQ(watch->Query("sendInitialEvents"), "true");
  EXPECT_EQ(watch->Query("resourceVersionMatch"), "NotOlderThan");
  EXPECT_EQ(watch->Query("resourceVersion"), "");
  server_.transport->Head(watch);
  server_.transport->Data(watch, Frame("ADDED", Pod("a", 1)) + Frame("ADDED", Pod("b", 2)));
  EXPECT_EQ(Reported(), "init +a1 +b2");
  EXPECT_EQ(watcher_->state(), ResourceWatcherState::kStreaming);
  server_.transport->Data(watch, Bookmark(10, true) + Frame("MODIFIED", Pod("a", 11)));
  EXPECT_EQ(Reported(), "done a11");
  EXPECT_EQ(watcher_->state(), ResourceWatcherState::kWatching);
  server_.clock.Advance(minutes(5));
  server_.transport->End(watch);
  const Call next = Next();
  EXPECT_EQ(next->Query("resourceVersion"), "11");
  EXPECT_EQ(next->Query("sendInitialEvents"), "");
}

TEST_F(ResourceWatcherTest, StreamsAnEmptyList) {
  Watch({.initial_list = InitialList::kStreaming});
  const Call watch = Next();
  server_.transport->Head(watch);
  server_.transport->Data(watch, Bookmark(10, true));
  EXPECT_EQ(Reported(), "init done");
}

TEST_F(ResourceWatcherTest, StartsAgainWhenTheInitialStreamBreaks) {
  Watch({.initial_list = InitialList::kStreaming});
  const Call watch = Next();
  server_.transport->Head(watch);
  server_.transport->Data(watch, Frame("ADDED", Pod("a", 1)));
  server_.transport->End(watch, Status(StatusReason::kUnreachable, "reset"));
  server_.transport->Advance(kAnyWait);
  const Call again = Next();
  EXPECT_EQ(again->Query("sendInitialEvents"), "true");
  EXPECT_EQ(again->Query("resourceVersion"), "");
  server_.transport->Head(again);
  server_.transport->Data(again, Frame("ADDED", Pod("a", 1)) + Bookmark(9, true));
  EXPECT_EQ(Reported(), "init +a1 init +a1 done");
}

TEST_F(ResourceWatcherTest, ListsIfTheServerCannotStream) {
  Watch({.initial_list = InitialList::kStreaming});
  server_.transport->Answer(Next(), 422, ErrorStatus(422, "Invalid"));
  const Call list = Next();
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(list->Query("watch"), "");
}

TEST_F(ResourceWatcherTest, CallsNoHandlerAfterStop) {
  Watch();
  const Call watch = ListThenWatch();
  watcher_->Stop();
  server_.transport->Run();
  EXPECT_TRUE(watch->cancelled);
  server_.transport->Advance(kAnyWait);
  EXPECT_EQ(Next(), nullptr);
  EXPECT_EQ(Reported(), "");
  EXPECT_EQ(watcher_->state(), ResourceWatcherState::kStopped);
}

TEST_F(ResourceWatcherTest, MayBeStoppedByItsHandler) {
  watcher_.emplace(server_.rest, Resource{"", "v1", "pods"}, ResourceWatcherOptions{},
                   [this](const ResourceWatcherEvent<Object>&) {
                     Report("x");
                     watcher_->Stop();
                   });
  watcher_->Start();
  server_.transport->Answer(Next(), 200, List({Pod("a", 1)}, 10));
  EXPECT_EQ(Reported(), "x");
  EXPECT_EQ(Next(), nullptr);
}

TEST_F(ResourceWatcherTest, ContinuesAfterAHandlerThrows) {
  watcher_.emplace(server_.rest, Resource{"", "v1", "pods"}, ResourceWatcherOptions{},
                   [this](const ResourceWatcherEvent<Object>&) {
                     Report("x");
                     throw std::runtime_error("no");
                   });
  watcher_->Start();
  server_.transport->Answer(Next(), 200, List({Pod("a", 1)}, 10));
  EXPECT_EQ(Reported(), "x x x");
  EXPECT_NE(Next(), nullptr);
}

TEST(EventWatcher, ReadsProtobuf) {
  FakeServer server;
  std::vector<std::string> names;
  ResourceWatcher<Event> watcher(
      server.rest, Resource{"events.k8s.io", "v1", "events"}, {.format = WireFormat::kProtobuf},
      [&](const ResourceWatcherEvent<Event>& event) {
        if (event.kind == ResourceWatcherEvent<Event>::Kind::kApply ||
            event.kind == ResourceWatcherEvent<Event>::Kind::kInitApply) {
          names.push_back(event.object.metadata.name);
        }
      });
  watcher.Start();
  const std::string type = "application/vnd.kubernetes.protobuf";
  EventList list;
  list.metadata.resource_version = "5";
  list.items.resize(1);
  list.items[0].metadata.name = "first";
  std::string body;
  ProtobufCodec().AppendEventList(list, EventApi::kEventsV1, &body);
  auto call = server.transport->Next();
  EXPECT_EQ(call->request.headers.Get("accept"),
            "application/vnd.kubernetes.protobuf,application/json");
  server.transport->Answer(call, 200, body, {{"content-type", type}});
  call = server.transport->Next();
  server.transport->Head(call, {{"content-type", type + ";stream=watch"}});
  Event second;
  second.metadata.name = "second";
  std::string frame;
  ProtobufCodec().AppendWatchFrame(WatchType::kAdded, second, EventApi::kEventsV1, &frame);
  for (const char byte : frame) server.transport->Data(call, {&byte, 1});
  EXPECT_EQ(names, (std::vector<std::string>{"first", "second"}));
}

TEST(EventWatcher, ReusesTheMemoryOfAnEventThatWasNotMoved) {
  FakeServer server;
  std::vector<std::string> names;
  std::vector<const char*> memory;
  ResourceWatcher<Event> watcher(server.rest, Resource{"", "v1", "events"}, {},
                                 [&](const ResourceWatcherEvent<Event>& event) {
                                   if (event.kind != ResourceWatcherEvent<Event>::Kind::kApply)
                                     return;
                                   names.push_back(event.object.metadata.name);
                                   memory.push_back(event.object.metadata.name.data());
                                 });
  watcher.Start();
  server.transport->Answer(server.transport->Next(), 200,
                           R"({"metadata":{"resourceVersion":"5"},"items":[]})");
  const auto call = server.transport->Next();
  server.transport->Head(call);
  for (const std::string name : {"one.17978a1f2b3c4d5e", "two.17978a1f2b3c4d5e"}) {
    Event event;
    event.metadata.name = name;
    std::string frame;
    JsonCodec().AppendWatchFrame(WatchType::kAdded, event, EventApi::kCoreV1, &frame);
    server.transport->Data(call, frame);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"one.17978a1f2b3c4d5e", "two.17978a1f2b3c4d5e"}));
  ASSERT_EQ(memory.size(), 2U);
  EXPECT_EQ(memory[0], memory[1]);
}

}  // namespace
}  // namespace herald
