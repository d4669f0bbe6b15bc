#include "herald/client/informer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "client/testing/fake_transport.h"

namespace herald {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

std::string Pod(const std::string& name, int version, const std::string& node = "n1") {
  return R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":")" + name +
         R"(","namespace":"default","resourceVersion":")" + std::to_string(version) +
         R"("},"spec":{"nodeName":")" + node + R"("}})";
}

std::string List(const std::vector<std::string>& items, int version) {
  std::string out = R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":")" +
                    std::to_string(version) + R"("},"items":[)";
  for (std::size_t i = 0; i < items.size(); ++i) out += (i > 0 ? "," : "") + items[i];
  return out + "]}";
}

std::string Frame(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}\n";
}

constexpr const char* kExpired =
    R"({"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410}})"
    "\n";

class InformerTest : public ::testing::Test {
 protected:
  InformerTest() {
    informer_.AddIndexer("node", [](const Object& pod) {
      return std::vector<std::string>{pod.json["spec"]["nodeName"].String()};
    });
    informer_.AddHandler(Recording(&reported_));
  }
  static InformerHandler<Object> Recording(std::vector<std::string>* into) {
    using Pointer = Informer<Object>::Pointer;
    return {
        .on_add = [into](const Pointer& o) { into->push_back("+" + o->name()); },
        .on_update =
            [into](const Pointer& before, const Pointer& o) {
              into->push_back(o->name() + before->resource_version() + ">" + o->resource_version());
            },
        .on_delete = [into](const Pointer& o) { into->push_back("-" + o->name()); }};
  }
  // Starts, answers the list, and opens the watch.
  void Sync(const std::vector<std::string>& items) {
    informer_.Start();
    server_.transport->Answer(server_.transport->Next(), 200, List(items, 10));
    watch_ = server_.transport->Next();
    ASSERT_NE(watch_, nullptr);
    server_.transport->Head(watch_);
  }
  // The order of List() is not defined.
  std::vector<std::string> Reported() {
    std::vector<std::string> reported = std::exchange(reported_, {});
    std::sort(reported.begin(), reported.end());
    return reported;
  }
  std::vector<std::string> OnNode(const std::string& node) {
    std::vector<std::string> names;
    for (const auto& pod : informer_.ByIndex("node", node)) names.push_back(pod->name());
    return names;
  }
  using Words = std::vector<std::string>;

  FakeServer server_;
  Informer<Object> informer_{server_.rest, {"", "v1", "pods"}};
  std::vector<std::string> reported_;
  std::shared_ptr<FakeTransport::Call> watch_;
};

TEST_F(InformerTest, KeepsObjectsAndReportsChanges) {
  EXPECT_FALSE(informer_.HasSynced());
  Sync({Pod("a", 1), Pod("b", 2)});
  EXPECT_TRUE(informer_.HasSynced());
  EXPECT_TRUE(informer_.WaitForSync(milliseconds(0)));
  EXPECT_EQ(Reported(), (Words{"+a", "+b"}));
  server_.transport->Data(watch_, Frame("ADDED", Pod("c", 11)) + Frame("MODIFIED", Pod("a", 12)) +
                                      Frame("DELETED", Pod("b", 13)));
  EXPECT_EQ(Reported(), (Words{"+c", "-b", "a1>12"}));
  EXPECT_EQ(informer_.size(), 2U);
  ASSERT_NE(informer_.Get("default/a"), nullptr);
  EXPECT_EQ(informer_.Get("default/a")->resource_version(), "12");
  EXPECT_EQ(informer_.Get("default/b"), nullptr);
}

TEST_F(InformerTest, FindsByIndex) {
  Sync({Pod("a", 1, "n1"), Pod("b", 2, "n2"), Pod("c", 3, "n1")});
  EXPECT_EQ(OnNode("n1"), (Words{"a", "c"}));
  EXPECT_EQ(OnNode("n2"), (Words{"b"}));
  EXPECT_EQ(OnNode("n3"), Words{});
  server_.transport->Data(
      watch_, Frame("MODIFIED", Pod("a", 11, "n2")) + Frame("DELETED", Pod("b", 12, "n2")));
  EXPECT_EQ(OnNode("n1"), (Words{"c"}));
  EXPECT_EQ(OnNode("n2"), (Words{"a"}));
}

TEST_F(InformerTest, ReportsOnlyDifferencesAfterANewList) {
  Sync({Pod("a", 1), Pod("b", 2), Pod("c", 3)});
  Reported();
  server_.clock.Advance(minutes(1));
  server_.transport->Data(watch_, kExpired);
  const auto list = server_.transport->Next();
  ASSERT_NE(list, nullptr);
  server_.transport->Answer(list, 200, List({Pod("a", 1), Pod("b", 22), Pod("d", 23)}, 30));
  EXPECT_EQ(Reported(), (Words{"+d", "-c", "b2>22"}));
  EXPECT_EQ(informer_.size(), 3U);
}

TEST_F(InformerTest, CallsALateHandlerForAllObjects) {
  Sync({Pod("a", 1), Pod("b", 2)});
  std::vector<std::string> late;
  informer_.AddHandler(Recording(&late));
  server_.transport->Run();
  std::sort(late.begin(), late.end());
  EXPECT_EQ(late, (Words{"+a", "+b"}));
  Reported();
  server_.transport->Data(watch_, Frame("ADDED", Pod("c", 11)));
  EXPECT_EQ(late.back(), "+c");
  EXPECT_EQ(Reported(), (Words{"+c"}));
}

TEST_F(InformerTest, CallsNoHandlerAfterStop) {
  Sync({Pod("a", 1)});
  Reported();
  informer_.Stop();
  server_.transport->Run();
  EXPECT_TRUE(watch_->cancelled);
  EXPECT_EQ(Reported(), Words{});
  EXPECT_EQ(informer_.size(), 1U);
}

TEST(Informer, ReportsAllObjectsAtAResync) {
  FakeServer server;
  Informer<Object> informer(server.rest, {"", "v1", "pods"}, {.resync = seconds(30)});
  int updates = 0;
  informer.AddHandler({.on_update = [&](const auto& before, const auto& object) {
    EXPECT_EQ(before, object);
    ++updates;
  }});
  informer.Start();
  server.transport->Answer(server.transport->Next(), 200, List({Pod("a", 1), Pod("b", 2)}, 10));
  server.transport->Advance(seconds(30));
  EXPECT_EQ(updates, 2);
  server.transport->Advance(seconds(30));
  EXPECT_EQ(updates, 4);
  informer.Stop();
  server.transport->Advance(seconds(60));
  EXPECT_EQ(updates, 4);
}

TEST(Informer, ReportsErrors) {
  FakeServer server;
  Informer<Object> informer(server.rest, {"", "v1", "pods"});
  std::vector<StatusReason> errors;
  informer.SetErrorHandler([&](const Status& status) { errors.push_back(status.reason()); });
  informer.Start();
  server.transport->Answer(server.transport->Next(), 403, "");
  EXPECT_EQ(errors, std::vector<StatusReason>{StatusReason::kForbidden});
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(informer.WaitForSync(seconds(60), stop.get_token()));
}

}  // namespace
}  // namespace herald
