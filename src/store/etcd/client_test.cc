#include "store/etcd/client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/thread/mutex.h"
#include "store/etcd/testing/calls.h"
#include "store/etcd/testing/fake_etcd.h"

namespace herald::store {
namespace {

namespace pb = etcdserverpb;
using std::chrono::milliseconds;
using std::chrono::seconds;

grpc::Status Unavailable(const char* message) { return {grpc::StatusCode::UNAVAILABLE, message}; }

TEST(EtcdClientOpen, RejectsOptionsThatCanNeverWork) {
  for (const EtcdClientOptions& options : {
           EtcdClientOptions{},
           EtcdClientOptions{.endpoints = {"127.0.0.1:2379"}},
           EtcdClientOptions{.endpoints = {"https://a:1", "http://b:1"}},
           EtcdClientOptions{.endpoints = {"https://a:1"}, .ca_file = "/no/such/file"},
           EtcdClientOptions{.endpoints = {"https://a:1"}, .cert_file = "/dev/null"},
           EtcdClientOptions{.endpoints = {"https://a:1"}, .key_file = "/dev/null"},
           EtcdClientOptions{.endpoints = {"http://a:1"}, .call_timeout = milliseconds(0)},
           EtcdClientOptions{.endpoints = std::vector<std::string>(65, "http://a:1")},
       }) {
    EXPECT_FALSE(EtcdClient::Open(options));
  }
}

TEST(EtcdClientOpen, DoesNotWaitForAConnection) {
  FakeEtcd etcd;
  etcd.Stop();
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  EXPECT_FALSE(client->progress_is_sound());
  const auto failed = Range(*client, {.start = "a"});
  ASSERT_FALSE(failed);
  EXPECT_TRUE(failed.error().Is(StatusReason::kServiceUnavailable));
  EXPECT_GE(failed.error().retry_after(), seconds(1));
  EXPECT_TRUE(Eventually([&] { return !client->Health().ok(); }));
}

TEST(EtcdClientCalls, AreSpreadOverAllEndpoints) {
  FakeEtcd a;
  FakeEtcd b;
  const auto client = Connect({.endpoints = {a.endpoint(), b.endpoint()}});
  ASSERT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Put(*client, "a", "v"));
  EXPECT_EQ(a.txns, 50);
  EXPECT_EQ(b.txns, 50);
}

TEST(EtcdClientCalls, ReadsAreRetriedOnAnotherEndpoint) {
  for (const char* message : {"etcdserver: no leader", "etcdserver: leader changed",
                              "etcdserver: request timed out", "Socket closed"}) {
    SCOPED_TRACE(message);
    FakeEtcd bad(
        {.range = [message](auto&, auto&) { return Unavailable(message); }, .leader = true});
    FakeEtcd good;
    const auto client = Connect({.endpoints = {bad.endpoint(), good.endpoint()}});
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(Range(*client, {.start = "a"}));
    EXPECT_EQ(good.ranges, 10);
  }
}

TEST(EtcdClientCalls, AReadWithAPermanentErrorIsNotRetried) {
  const auto reject = [](auto&, auto&) {
    return grpc::Status(grpc::StatusCode::OUT_OF_RANGE,
                        "etcdserver: mvcc: required revision has been compacted");
  };
  FakeEtcd a({.range = reject});
  FakeEtcd b({.range = reject});
  const auto client = Connect({.endpoints = {a.endpoint(), b.endpoint()}});
  const auto page = Range(*client, {.start = "a"});
  ASSERT_FALSE(page);
  EXPECT_TRUE(page.error().Is(StatusReason::kExpired));
  EXPECT_EQ(a.ranges + b.ranges, 1);
}

TEST(EtcdClientCalls, AWriteIsRetriedOnlyIfItCannotHaveBeenApplied) {
  struct Scenario {
    grpc::Status status;
    int tries;
    StatusReason reason;
  };
  for (const Scenario& s : {
           Scenario{Unavailable("etcdserver: no leader"), 2, StatusReason::kServiceUnavailable},
           Scenario{{grpc::StatusCode::UNKNOWN, "raft proposal dropped"},
                    2,
                    StatusReason::kServiceUnavailable},
           Scenario{Unavailable("etcdserver: request timed out"), 1, StatusReason::kTimeout},
           Scenario{Unavailable("etcdserver: leader changed"), 1, StatusReason::kTimeout},
           Scenario{Unavailable("Socket closed"), 1, StatusReason::kTimeout},
           Scenario{{grpc::StatusCode::NOT_FOUND, "etcdserver: requested lease not found"},
                    1,
                    StatusReason::kNotFound},
           Scenario{
               {grpc::StatusCode::RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"},
               1,
               StatusReason::kTimeout},
       }) {
    SCOPED_TRACE(s.status.error_message());
    const auto reject = [&](auto&, auto&) { return s.status; };
    FakeEtcd a({.txn = reject});
    FakeEtcd b({.txn = reject});
    const auto client = Connect({.endpoints = {a.endpoint(), b.endpoint()}});
    ASSERT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
    const auto written = Put(*client, "a", "v");
    ASSERT_FALSE(written);
    EXPECT_EQ(ReasonName(written.error().reason()), ReasonName(s.reason));
    EXPECT_EQ(a.txns + b.txns, s.tries);
  }
}

TEST(EtcdClientCalls, AWriteThatExceedsTheQuotaIsAppliedAlthoughEtcdRejectsIt) {
  std::atomic<bool> readable = true;
  FakeEtcd etcd({.range =
                     [&](const pb::RangeRequest& request, pb::RangeResponse& response) {
                       if (!readable) return Unavailable("etcdserver: request timed out");
                       pb::KeyValue& kv = *response.add_kvs();
                       kv.set_key(request.key());
                       kv.set_value("filled");
                       kv.set_mod_revision(7);
                       return grpc::Status::OK;
                     },
                 .txn =
                     [](auto&, auto&) {
                       return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                           "etcdserver: mvcc: database space exceeded");
                     }});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  const auto done = Put(*client, "a", "filled", 0);
  ASSERT_TRUE(done) << done.error().ToString();
  EXPECT_TRUE(done->committed);
  EXPECT_EQ(done->revision, 7);

  EXPECT_FALSE(Put(*client, "a", "filled", 7)) << "the value is from an earlier write";
  const auto rejected = Put(*client, "a", "after", 7);
  ASSERT_FALSE(rejected);
  EXPECT_TRUE(rejected.error().Is(StatusReason::kServiceUnavailable))
      << rejected.error().ToString();
  EXPECT_GT(rejected.error().retry_after(), seconds(1)) << "an operator must free space first";

  readable = false;
  const auto unknown = Put(*client, "a", "filled", 0);
  ASSERT_FALSE(unknown);
  EXPECT_TRUE(unknown.error().Is(StatusReason::kTimeout)) << unknown.error().ToString();
}

TEST(EtcdClientCalls, WritesUseAnotherEndpointIfOneIsDown) {
  FakeEtcd gone;
  FakeEtcd good;
  const auto client = Connect({.endpoints = {gone.endpoint(), good.endpoint()}});
  ASSERT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
  gone.Stop();
  // The first writes go to the endpoint that is down: they were never sent, so never applied.
  for (int i = 0; i < 20; ++i) {
    const auto written = Put(*client, "a", "v");
    ASSERT_TRUE(written) << written.error().ToString();
  }
  EXPECT_EQ(good.txns, 20);
}

TEST(EtcdClientCalls, AnInterruptedWriteMayHaveBeenApplied) {
  FakeEtcd etcd;
  etcd.Change([&](auto& b) { b.silent = true; });
  const auto client = Connect({.endpoints = {etcd.endpoint()}, .call_timeout = seconds(60)});
  std::promise<Result<Written>> ended;
  client->Commit({.key = "a", .value = std::make_shared<const std::string>("v")},
                 [&](Result<Written> written) { ended.set_value(std::move(written)); });
  ASSERT_TRUE(Eventually([&] { return etcd.txns == 1; }));
  etcd.Stop();
  const auto written = ended.get_future().get();
  ASSERT_FALSE(written);
  EXPECT_TRUE(written.error().Is(StatusReason::kTimeout)) << written.error().ToString();
}

TEST(EtcdClientCalls, FailAtOnceWhileNoEndpointWorksAndSucceedAfterwards) {
  FakeEtcd etcd;
  std::vector<std::string> log;
  Mutex mu;
  const auto client = Connect({.endpoints = {etcd.endpoint()}, .log = [&](const LogEntry& entry) {
                                 MutexLock lock(mu);
                                 log.emplace_back(entry.message);
                               }});
  ASSERT_TRUE(Put(*client, "a", "v"));
  EXPECT_TRUE(client->Health().ok());
  etcd.Stop();
  ASSERT_TRUE(Eventually([&] { return !Put(*client, "a", "v"); }));
  ASSERT_TRUE(Eventually([&] { return !client->Health().ok(); }));
  const auto failed = Put(*client, "a", "v");
  ASSERT_FALSE(failed);
  EXPECT_TRUE(failed.error().Is(StatusReason::kServiceUnavailable));
  EXPECT_NE(failed.error().message().find(etcd.endpoint()), std::string::npos);
  etcd.Start();
  EXPECT_TRUE(Eventually([&] { return client->Health().ok(); }));
  EXPECT_TRUE(Put(*client, "a", "v"));
  MutexLock lock(mu);
  EXPECT_EQ(log, (std::vector<std::string>{"etcd endpoint is unavailable",
                                           "etcd endpoint is available again"}));
}

TEST(EtcdClientCalls, AReadMovesFromASilentEndpointToAnother) {
  FakeEtcd silent;
  FakeEtcd good;
  const auto client = Connect({.endpoints = {silent.endpoint(), good.endpoint()}});
  ASSERT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
  silent.Change([](auto& b) { b.silent = true; });
  // Both endpoints get calls and one never answers, but each call ends within its timeout.
  for (int i = 0; i < 4; ++i) {
    const auto page = Range(*client, {.start = "a"});
    EXPECT_TRUE(page) << page.error().ToString();
  }
  EXPECT_EQ(silent.ranges, 1);
}

TEST(EtcdClientCalls, AWriteFailsAfterItsTimeout) {
  FakeEtcd etcd;
  const auto client = Connect({.endpoints = {etcd.endpoint()}, .call_timeout = seconds(1)});
  ASSERT_TRUE(Put(*client, "a", "v"));
  etcd.Change([](auto& b) { b.silent = true; });
  const auto written = Put(*client, "a", "v");
  ASSERT_FALSE(written);
  EXPECT_TRUE(written.error().Is(StatusReason::kTimeout)) << written.error().ToString();
  // It does not answer probes either, so it is lost.
  EXPECT_TRUE(Eventually([&] { return !client->Health().ok(); }));
  etcd.Change([](auto& b) { b.silent = false; });
  EXPECT_TRUE(Eventually([&] { return client->Health().ok(); }));
}

TEST(EtcdClientCalls, HealthNoticesASilentMemberWithoutCalls) {
  FakeEtcd etcd;
  const auto client = Connect({.endpoints = {etcd.endpoint()}, .call_timeout = seconds(1)});
  ASSERT_TRUE(Put(*client, "a", "v"));
  EXPECT_TRUE(client->Health().ok());
  etcd.Change([](auto& b) { b.silent = true; });
  EXPECT_TRUE(Eventually([&] { return !client->Health().ok(); }));
  etcd.Change([](auto& b) { b.silent = false; });
  EXPECT_TRUE(Eventually([&] { return client->Health().ok(); }));
}

TEST(EtcdClientCalls, HealthNoticesTheLossOfTheLeaderWithoutCalls) {
  FakeEtcd etcd;
  const auto client = Connect({.endpoints = {etcd.endpoint()}, .call_timeout = seconds(1)});
  ASSERT_TRUE(Put(*client, "a", "v"));
  etcd.Change([](auto& b) { b.leader = false; });
  EXPECT_TRUE(Eventually([&] { return !client->Health().ok(); }));
  etcd.Change([](auto& b) { b.leader = true; });
  EXPECT_TRUE(Eventually([&] { return client->Health().ok(); }));
}

TEST(EtcdClientCalls, AnEndpointWithoutALeaderGetsNoCalls) {
  FakeEtcd etcd;
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  ASSERT_TRUE(Put(*client, "a", "v"));
  etcd.Change([](auto& b) {
    b.leader = false;
    b.txn = [](auto&, auto&) { return Unavailable("etcdserver: no leader"); };
  });
  EXPECT_FALSE(Put(*client, "a", "v"));
  const int before = etcd.txns;
  EXPECT_FALSE(Put(*client, "a", "v"));
  EXPECT_EQ(etcd.txns, before);
  EXPECT_FALSE(client->Health().ok());
  etcd.Change([](auto& b) {
    b.leader = true;
    b.txn = nullptr;
  });
  EXPECT_TRUE(Eventually([&] { return client->Health().ok(); }));
  EXPECT_TRUE(Put(*client, "a", "v"));
}

TEST(EtcdClientCalls, CallsInProgressAreCancelledWithTheClient) {
  FakeEtcd etcd;
  etcd.Change([](auto& b) { b.silent = true; });
  auto client = Connect({.endpoints = {etcd.endpoint()}});
  std::vector<std::future<StatusReason>> ends;
  for (int i = 0; i < 10; ++i) {
    auto promise = std::make_shared<std::promise<StatusReason>>();
    ends.push_back(promise->get_future());
    if (i % 2 == 0) {
      client->Commit({.key = "a", .value = std::make_shared<const std::string>("v")},
                     [promise](const Result<Written>& written) {
                       promise->set_value(written ? StatusReason::kOk : written.error().reason());
                     });
    } else {
      client->Range({.start = "a"}, [promise](const Result<EtcdPage>& page) {
        promise->set_value(page ? StatusReason::kOk : page.error().reason());
      });
    }
  }
  client.reset();
  for (auto& end : ends) {
    ASSERT_EQ(end.wait_for(seconds(0)), std::future_status::ready);
    EXPECT_EQ(end.get(), StatusReason::kCancelled);
  }
}

// --- user and password ----------------------------------------------------------------------

TEST(EtcdClientToken, IsFetchedOnceForManyCallsAndAgainWhenItHasExpired) {
  std::atomic<int> made = 0;
  FakeEtcd etcd;
  etcd.Change([&](auto& b) {
    b.token = "t1";
    b.authenticate = [&](const pb::AuthenticateRequest& request,
                         pb::AuthenticateResponse& response) {
      EXPECT_EQ(request.name(), "herald");
      EXPECT_EQ(request.password(), "secret");
      response.set_token("t" + std::to_string(++made));
      return grpc::Status::OK;
    };
  });
  const auto client =
      Connect({.endpoints = {etcd.endpoint()}, .user = "herald", .password = "secret"});
  const auto many = [&] {
    std::vector<std::future<bool>> ends;
    for (int i = 0; i < 50; ++i) {
      auto promise = std::make_shared<std::promise<bool>>();
      ends.push_back(promise->get_future());
      client->Commit({.key = "a", .value = std::make_shared<const std::string>("v")},
                     [promise](const Result<Written>& w) { promise->set_value(w.has_value()); });
    }
    int committed = 0;
    for (auto& end : ends) committed += end.get() ? 1 : 0;
    return committed;
  };
  EXPECT_EQ(many(), 50);
  EXPECT_EQ(made, 1);
  etcd.Change([&](auto& b) { b.token = "t2"; });
  EXPECT_EQ(many(), 50);
  EXPECT_EQ(made, 2);
  // Probes need a token too: current versions of etcd require it.
  EXPECT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
}

TEST(EtcdClientToken, AWrongPasswordIsNotRetriedForEachCall) {
  FakeEtcd etcd;
  etcd.Change([&](auto& b) {
    b.token = "never";
    b.authenticate = [](auto&, auto&) {
      return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                          "etcdserver: authentication failed, invalid user ID or password");
    };
  });
  const auto client = Connect({.endpoints = {etcd.endpoint()}, .user = "u", .password = "wrong"});
  for (int i = 0; i < 20; ++i) {
    const auto written = Put(*client, "a", "v");
    ASSERT_FALSE(written);
    EXPECT_TRUE(written.error().Is(StatusReason::kUnauthorized)) << written.error().ToString();
  }
  EXPECT_LT(etcd.authentications, 5);  // one per two seconds
}

TEST(EtcdClientToken, IsNotNeededIfAuthenticationIsDisabled) {
  FakeEtcd etcd;
  etcd.Change([&](auto& b) {
    b.authenticate = [](auto&, auto&) {
      return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                          "etcdserver: authentication is not enabled");
    };
  });
  const auto client = Connect({.endpoints = {etcd.endpoint()}, .user = "u", .password = "p"});
  EXPECT_TRUE(Put(*client, "a", "v"));
  EXPECT_TRUE(Put(*client, "a", "v"));
  EXPECT_EQ(etcd.authentications, 1);
  // Now authentication is enabled.
  etcd.Change([](auto& b) {
    b.token = "t";
    b.authenticate = [](auto&, pb::AuthenticateResponse& response) {
      response.set_token("t");
      return grpc::Status::OK;
    };
  });
  EXPECT_TRUE(Put(*client, "a", "v"));
  EXPECT_EQ(etcd.authentications, 2);
}

TEST(EtcdClientToken, ACallWithoutAUserIsUnauthorized) {
  FakeEtcd etcd;
  etcd.Change([](auto& b) { b.token = "t"; });
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  const auto written = Put(*client, "a", "v");
  ASSERT_FALSE(written);
  EXPECT_TRUE(written.error().Is(StatusReason::kUnauthorized));
}

}  // namespace
}  // namespace herald::store
