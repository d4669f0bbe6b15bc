// What clients and probes see when a disk is full or read-only: the Api and the
// FrontDoor over a store whose file system fails on demand.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/temporary_directory.h"
#include "server/access/authentication.h"
#include "server/api.h"
#include "server/request/front_door.h"
#include "server/testing/responder.h"
#include "store/rocks/store.h"
#include "store/testing/faulty_file_system.h"

namespace herald::server {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kEvents = "/api/v1/namespaces/default/events";

class DiskFaultTest : public testing::TestWithParam<bool> {
 protected:
  using Client = std::shared_ptr<TestResponder>;

  DiskFaultTest() {
    store::StoreOptions options;
    options.schema = Api::MakeSchema([](const Event&) { return 3600s; });
    options.background = false;
    store::RocksStoreOptions rocks;
    rocks.db.directory = (directory_.path() / "data").string();
    rocks.db.env = env_.get();
    store_ = *store::RocksStore::Open(std::move(options), std::move(rocks));
    door_ = std::make_unique<FrontDoor>(store_.get(), FrontDoor::Options{});
    std::vector<std::unique_ptr<Authenticator>> ways;
    ways.push_back(*MakeTokenAuthenticator("t,admin,,system:masters\n", "tokens.csv"));
    door_->SetAuthenticators(std::move(ways));
    api_ = std::make_unique<Api>(store_.get(), ApiOptions{});
    door_->SetApi(api_.get());
  }
  ~DiskFaultTest() override {
    api_.reset();
    store_.reset();
  }

  // Sends a request and waits for the response, which comes from a thread of the store.
  Client Ask(std::string method, std::string target, std::string body = "",
             std::string type = "application/json") {
    auto responder = std::make_shared<TestResponder>(std::move(body));
    door_->Handle({.method = std::move(method),
                   .target = std::move(target),
                   .authority = {},
                   .headers = {{"authorization", "Bearer t"}, {"content-type", std::move(type)}}},
                  {}, responder);
    responder->WaitForEnd();
    return responder;
  }
  Client Create(const std::string& name) {
    return Ask(
        "POST", std::string(kEvents),
        R"({"metadata":{"name":")" + name + R"("},"involvedObject":{"namespace":"default"}})");
  }
  int Status(const std::string& target) { return Ask("GET", target)->status(); }

  std::atomic<bool>& fault() { return GetParam() ? faults_.disk_full : faults_.read_only; }

  TemporaryDirectory directory_;
  store::Faults faults_;
  std::unique_ptr<rocksdb::Env> env_ = store::FaultyFileSystem::MakeEnv(&faults_);
  std::unique_ptr<store::RocksStore> store_;
  std::unique_ptr<FrontDoor> door_;
  std::unique_ptr<Api> api_;
};

INSTANTIATE_TEST_SUITE_P(Disk, DiskFaultTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& param) {
                           return std::string(param.param ? "Full" : "ReadOnly");
                         });

TEST_P(DiskFaultTest, WritesAreRefusedReadsGoOnAndAllIsWellWhenTheDiskIs) {
  ASSERT_EQ(Create("before")->status(), 201);
  const std::string before = std::string(kEvents) + "/before";
  auto watch = std::make_shared<TestResponder>();
  door_->Handle({.method = "GET",
                 .target = std::string(kEvents) + "?watch=true",
                 .authority = {},
                 .headers = {{"authorization", "Bearer t"}}},
                {}, watch);

  fault() = true;
  for (int i = 0; i < 3; ++i) {
    const Client refused = Create("during");
    EXPECT_EQ(refused->status(), 503) << refused->body();
    EXPECT_NE(refused->body().find(R"("reason":"ServiceUnavailable")"), std::string::npos)
        << refused->body();
    EXPECT_NE(refused->body().find(R"("retryAfterSeconds":30)"), std::string::npos)
        << refused->body();
    EXPECT_EQ(refused->header("retry-after"), "30");
  }
  EXPECT_EQ(Ask("PATCH", before, R"({"count":2})", "application/merge-patch+json")->status(), 503);
  EXPECT_EQ(Ask("DELETE", before)->status(), 503);
  // It is not ready, but it is alive: a restart would not help.
  EXPECT_EQ(Status("/readyz"), 500);
  EXPECT_EQ(Status("/readyz/store"), 500);
  EXPECT_EQ(Status("/healthz"), 500);
  EXPECT_EQ(Status("/livez"), 200);
  EXPECT_EQ(Status(before), 200);
  EXPECT_EQ(Status(std::string(kEvents) + "/during"), 404);
  EXPECT_EQ(Status(std::string(kEvents)), 200);
  EXPECT_FALSE(watch->ended());

  fault() = false;
  store_->Maintain();  // as its own thread does each second
  EXPECT_EQ(Status("/readyz"), 200);
  EXPECT_EQ(Create("after")->status(), 201);
  EXPECT_EQ(Ask("PATCH", before, R"({"count":3})", "application/merge-patch+json")->status(), 200);
  EXPECT_EQ(Status(std::string(kEvents) + "/during"), 404);
  api_->Stop();
  watch->WaitForEnd();
  const std::string seen = watch->body();
  EXPECT_NE(seen.find(R"("name":"after")"), std::string::npos) << seen;
  EXPECT_EQ(seen.find(R"("name":"during")"), std::string::npos) << seen;
}

}  // namespace
}  // namespace herald::server
