#include "store/etcd/client.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/thread/mutex.h"
#include "store/etcd/testing/calls.h"
#include "store/etcd/testing/fake_etcd.h"

namespace herald::store {
namespace {

namespace pb = etcdserverpb;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::unique_ptr<EtcdClient> Connect(EtcdClientOptions options) {
  auto client = EtcdClient::Open(std::move(options));
  HERALD_CHECK(client.has_value());
  return *std::move(client);
}

grpc::Status Unavailable(const char* text) { return {grpc::StatusCode::UNAVAILABLE, text}; }

TEST(EtcdClientOpen, RefusesWhatCanNeverWork) {
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

TEST(EtcdClientCalls, ReadsAreTriedElsewhere) {
  for (const char* text : {"etcdserver: no leader", "etcdserver: leader changed",
                           "etcdserver: request timed out", "Socket closed"}) {
    SCOPED_TRACE(text);
    FakeEtcd bad({.range = [text](auto&, auto&) { return Unavailable(text); }, .leader = true});
    FakeEtcd good;
    const auto client = Connect({.endpoints = {bad.endpoint(), good.endpoint()}});
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(Range(*client, {.start = "a"}));
    EXPECT_EQ(good.ranges, 10);
  }
}

TEST(EtcdClientCalls, AReadThatIsRefusedForGoodIsNotRepeated) {
  const auto refuse = [](auto&, auto&) {
    return grpc::Status(grpc::StatusCode::OUT_OF_RANGE,
                        "etcdserver: mvcc: required revision has been compacted");
  };
  FakeEtcd a({.range = refuse});
  FakeEtcd b({.range = refuse});
  const auto client = Connect({.endpoints = {a.endpoint(), b.endpoint()}});
  const auto page = Range(*client, {.start = "a"});
  ASSERT_FALSE(page);
  EXPECT_TRUE(page.error().Is(StatusReason::kExpired));
  EXPECT_EQ(a.ranges + b.ranges, 1);
}

TEST(EtcdClientCalls, AWriteIsTriedElsewhereOnlyWhereItCannotHaveBeenDone) {
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
    const auto refuse = [&](auto&, auto&) { return s.status; };
    FakeEtcd a({.txn = refuse});
    FakeEtcd b({.txn = refuse});
    const auto client = Connect({.endpoints = {a.endpoint(), b.endpoint()}});
    ASSERT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
    const auto written = Put(*client, "a", "v");
    ASSERT_FALSE(written);
    EXPECT_EQ(ReasonName(written.error().reason()), ReasonName(s.reason));
    EXPECT_EQ(a.txns + b.txns, s.tries);
  }
}

TEST(EtcdClientCalls, AWriteThatFillsEtcdWasDoneAlthoughItIsRefused) {
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

  EXPECT_FALSE(Put(*client, "a", "filled", 7)) << "that was there before";
  const auto refused = Put(*client, "a", "after", 7);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().Is(StatusReason::kServiceUnavailable)) << refused.error().ToString();
  EXPECT_GT(refused.error().retry_after(), seconds(1)) << "somebody has to make room first";

  readable = false;
  const auto unknown = Put(*client, "a", "filled", 0);
  ASSERT_FALSE(unknown);
  EXPECT_TRUE(unknown.error().Is(StatusReason::kTimeout)) << unknown.error().ToString();
}

TEST(EtcdClientCalls, WritesGoElsewhereWhereNobodyListens) {
  FakeEtcd gone;
  FakeEtcd good;
  const auto client = Connect({.endpoints = {gone.endpoint(), good.endpoint()}});
  ASSERT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
  gone.Stop();
  // The first ones are sent to where nobody listens any more: never sent means never done.
  for (int i = 0; i < 20; ++i) {
    const auto written = Put(*client, "a", "v");
    ASSERT_TRUE(written) << written.error().ToString();
  }
  EXPECT_EQ(good.txns, 20);
}

TEST(EtcdClientCalls, AWriteThatBreaksOffMayHaveBeenDone) {
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

TEST(EtcdClientCalls, FailAtOnceWhileNothingWorksAndWorkAgainWhenItDoes) {
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
  EXPECT_EQ(log,
            (std::vector<std::string>{"etcd endpoint is lost", "etcd endpoint answers again"}));
}

TEST(EtcdClientCalls, AReadLeavesASilentEndpointForAnother) {
  FakeEtcd silent;
  FakeEtcd good;
  const auto client = Connect({.endpoints = {silent.endpoint(), good.endpoint()}});
  ASSERT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
  silent.Change([](auto& b) { b.silent = true; });
  // Both are asked, one never answers; each call ends well within its time all the same.
  for (int i = 0; i < 4; ++i) {
    const auto page = Range(*client, {.start = "a"});
    EXPECT_TRUE(page) << page.error().ToString();
  }
  EXPECT_EQ(silent.ranges, 1);
}

TEST(EtcdClientCalls, AWriteIsGivenUpAfterItsTime) {
  FakeEtcd etcd;
  const auto client = Connect({.endpoints = {etcd.endpoint()}, .call_timeout = seconds(1)});
  ASSERT_TRUE(Put(*client, "a", "v"));
  etcd.Change([](auto& b) { b.silent = true; });
  const auto written = Put(*client, "a", "v");
  ASSERT_FALSE(written);
  EXPECT_TRUE(written.error().Is(StatusReason::kTimeout)) << written.error().ToString();
  // It does not say how it is, either: lost.
  EXPECT_TRUE(Eventually([&] { return !client->Health().ok(); }));
  etcd.Change([](auto& b) { b.silent = false; });
  EXPECT_TRUE(Eventually([&] { return client->Health().ok(); }));
}

TEST(EtcdClientCalls, HealthNoticesASilentMemberThatNobodyCalls) {
  FakeEtcd etcd;
  const auto client = Connect({.endpoints = {etcd.endpoint()}, .call_timeout = seconds(1)});
  ASSERT_TRUE(Put(*client, "a", "v"));
  EXPECT_TRUE(client->Health().ok());
  etcd.Change([](auto& b) { b.silent = true; });
  EXPECT_TRUE(Eventually([&] { return !client->Health().ok(); }));
  etcd.Change([](auto& b) { b.silent = false; });
  EXPECT_TRUE(Eventually([&] { return client->Health().ok(); }));
}

TEST(EtcdClientCalls, HealthNoticesThatTheLeaderIsGoneWhileNobodyCalls) {
  FakeEtcd etcd;
  const auto client = Connect({.endpoints = {etcd.endpoint()}, .call_timeout = seconds(1)});
  ASSERT_TRUE(Put(*client, "a", "v"));
  etcd.Change([](auto& b) { b.leader = false; });
  EXPECT_TRUE(Eventually([&] { return !client->Health().ok(); }));
  etcd.Change([](auto& b) { b.leader = true; });
  EXPECT_TRUE(Eventually([&] { return client->Health().ok(); }));
}

TEST(EtcdClientCalls, AnEndpointWithoutALeaderIsLeftAlone) {
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

TEST(EtcdClientCalls, CallsUnderWayAreCancelledWithTheClient) {
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

// --- user and password ---------------------------------------------------------------------

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
  // Also for who asks for the version: that is a call like any other on a current etcd.
  EXPECT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
}

TEST(EtcdClientToken, AWrongPasswordIsNotTriedAgainForEachCall) {
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
  EXPECT_LT(etcd.authentications, 5);  // one for each two seconds that this took
}

TEST(EtcdClientToken, IsNotNeededWhereEtcdHasNoUsers) {
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
  // And then it has.
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

TEST(EtcdClientToken, WhoHasNoUserIsTold) {
  FakeEtcd etcd;
  etcd.Change([](auto& b) { b.token = "t"; });
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  const auto written = Put(*client, "a", "v");
  ASSERT_FALSE(written);
  EXPECT_TRUE(written.error().Is(StatusReason::kUnauthorized));
}

// --- watches --------------------------------------------------------------------------------

void AddPut(pb::WatchResponse& response, const std::string& key, Revision revision) {
  pb::Event& event = *response.add_events();
  event.mutable_kv()->set_key(key);
  event.mutable_kv()->set_value("v");
  event.mutable_kv()->set_mod_revision(revision);
}

pb::WatchResponse Puts(std::vector<std::pair<std::string, Revision>> puts, bool fragment = false) {
  pb::WatchResponse response;
  for (const auto& [key, revision] : puts) AddPut(response, key, revision);
  response.set_fragment(fragment);
  return response;
}

pb::WatchResponse Progress(Revision revision) {
  pb::WatchResponse response;
  response.mutable_header()->set_revision(revision);
  return response;
}

// One side of a watch that a test speaks for: waits for the request, says "created".
class Script {
 public:
  // What a stream does after it was created; the number says which of them, from 0.
  using Play = std::function<grpc::Status(int number, const pb::WatchCreateRequest& request,
                                          grpc::ServerContext&, FakeEtcd::WatchStream&)>;
  explicit Script(Play play) : play_(std::move(play)) {}

  auto watch() {
    return [this](grpc::ServerContext& context, FakeEtcd::WatchStream& stream) {
      pb::WatchRequest request;
      if (!stream.Read(&request)) return grpc::Status::OK;
      EXPECT_TRUE(request.has_create_request());
      EXPECT_TRUE(request.create_request().prev_kv());
      EXPECT_TRUE(request.create_request().progress_notify());
      EXPECT_TRUE(request.create_request().fragment());
      const auto& metadata = context.client_metadata();
      EXPECT_EQ(metadata.count("hasleader"), 1u);
      {
        MutexLock lock(mu_);
        starts_.push_back(request.create_request().start_revision());
      }
      pb::WatchResponse created;
      created.set_created(true);
      stream.Write(created);
      return play_(next_++, request.create_request(), context, stream);
    };
  }

  std::vector<Revision> starts() const {
    MutexLock lock(mu_);
    return starts_;
  }

 private:
  const Play play_;
  std::atomic<int> next_ = 0;
  mutable Mutex mu_;
  std::vector<Revision> starts_ GUARDED_BY(mu_);
};

// Reads what the client says until it ends the stream; answers nothing.
grpc::Status StayOpen(FakeEtcd::WatchStream& stream) {
  pb::WatchRequest request;
  while (stream.Read(&request)) {
  }
  return grpc::Status::OK;
}

// Answers each request for progress.
grpc::Status AnswerProgress(FakeEtcd::WatchStream& stream, Revision revision) {
  pb::WatchRequest request;
  while (stream.Read(&request)) {
    if (request.has_progress_request()) stream.Write(Progress(revision));
  }
  return grpc::Status::OK;
}

TEST(EtcdClientWatch, NeverTellsHalfOfATransaction) {
  Script script([](int number, auto&, auto&, FakeEtcd::WatchStream& stream) {
    if (number == 0) {
      stream.Write(Puts({{"k/a", 11}, {"k/b", 12}}, /*fragment=*/true));
      stream.Write(Puts({{"k/c", 12}, {"k/d", 13}}, /*fragment=*/true));
      // The rest of 13 is lost with the stream.
      return Unavailable("Socket closed");
    }
    stream.Write(Puts({{"k/d", 13}, {"k/e", 13}}));
    return StayOpen(stream);
  });
  FakeEtcd etcd({.watch = script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  Told told;
  const auto watch = client->Watch("k/", 10, told.callback());
  ASSERT_TRUE(told.UntilRevision(13));
  EXPECT_EQ(told.keys(), (std::vector<std::string>{"k/a", "k/b", "k/c", "k/d", "k/e"}));
  EXPECT_EQ(script.starts(), (std::vector<Revision>{10, 12}));
}

TEST(EtcdClientWatch, TellsNoProgressBetweenTheFragmentsOfARevision) {
  Script script([](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
    stream.Write(Puts({{"k/a", 11}, {"k/b", 12}}, /*fragment=*/true));
    pb::WatchRequest request;
    for (int asked = 1; stream.Read(&request); ++asked) {
      if (asked == 3) stream.Write(Puts({{"k/c", 12}}));
      stream.Write(Progress(12));
    }
    return grpc::Status::OK;
  });
  FakeEtcd etcd({.watch = script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  ASSERT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
  Told told;
  const auto watch = client->Watch("k/", 10, told.callback());
  EXPECT_TRUE(UntilProgress(*watch, told, 12));
  EXPECT_EQ(told.keys(), (std::vector<std::string>{"k/a", "k/b", "k/c"}));
}

TEST(EtcdClientWatch, DropsWhatItHasToldAlready) {
  Script script([](int number, auto&, auto&, FakeEtcd::WatchStream& stream) {
    if (number == 0) {
      stream.Write(Puts({{"k/a", 10}, {"k/b", 11}, {"k/c", 12}}));
      return Unavailable("etcdserver: no leader");
    }
    stream.Write(Puts({{"k/c", 12}, {"k/d", 13}}));
    return StayOpen(stream);
  });
  FakeEtcd etcd({.watch = script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  Told told;
  const auto watch = client->Watch("k/", 10, told.callback());
  ASSERT_TRUE(told.UntilRevision(13));
  EXPECT_EQ(told.keys(), (std::vector<std::string>{"k/b", "k/c", "k/d"}));
}

TEST(EtcdClientWatch, TellsTogetherWhatHasCome) {
  constexpr int kPuts = 300;
  std::promise<void> sent;
  Script script([&sent](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
    for (int i = 0; i < kPuts; ++i) {
      stream.Write(Puts({{fmt::format("k/{:03}", i), Revision{11} + i}}));
    }
    sent.set_value();
    return StayOpen(stream);
  });
  FakeEtcd etcd({.watch = script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  Told told;
  const auto tell = told.callback();
  const auto watch = client->Watch("k/", 10, [&](Result<EtcdWatchBatch> batch) {
    // Nothing is read while this waits, so the rest has come when it is over.
    if (told.batches() == 0) sent.get_future().wait();
    tell(std::move(batch));
  });
  ASSERT_TRUE(told.UntilCount(kPuts));
  const auto changes = told.changes();
  for (int i = 0; i < kPuts; ++i) EXPECT_EQ(changes[i]->revision(), Revision{11} + i);
  // The first, and then as many as one turn of the queue takes.
  EXPECT_LT(told.batches(), kPuts / 10);
}

TEST(EtcdClientWatch, TellsADeletionEvenWhereTheOldValueIsGone) {
  Script script([](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
    pb::WatchResponse response;
    for (const Revision revision : {11, 12}) {
      pb::Event& event = *response.add_events();
      event.set_type(pb::Event::DELETE);
      event.mutable_kv()->set_key("k/a");
      event.mutable_kv()->set_mod_revision(revision);
    }
    pb::KeyValue& before = *response.mutable_events(1)->mutable_prev_kv();
    before.set_key("k/a");
    before.set_value("old");
    before.set_mod_revision(5);
    stream.Write(response);
    return StayOpen(stream);
  });
  FakeEtcd etcd({.watch = script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  Told told;
  const auto watch = client->Watch("k/", 10, told.callback());
  ASSERT_TRUE(told.UntilCount(2));
  const auto changes = told.changes();
  for (const auto& change : changes) {
    EXPECT_TRUE(change->deleted());
    EXPECT_EQ(change->current().value, nullptr);
  }
  EXPECT_EQ(changes[0]->revision(), 11);
  EXPECT_FALSE(changes[0]->previous());
  ASSERT_TRUE(changes[1]->previous());
  EXPECT_EQ(*changes[1]->previous()->value, "old");
  EXPECT_EQ(changes[1]->previous()->revision, 5);
}

TEST(EtcdClientWatch, GoesOnElsewhere) {
  std::atomic<Revision> next = 11;
  // Each stream tells one change and breaks, wherever it is.
  Script script(
      [&](int number, const pb::WatchCreateRequest& request, auto&, FakeEtcd::WatchStream& stream) {
        EXPECT_EQ(request.start_revision(), next - 1);
        stream.Write(Puts({{"k/" + std::to_string(next), next}}));
        if (number == 5) return StayOpen(stream);
        ++next;
        return grpc::Status::OK;
      });
  FakeEtcd a({.watch = script.watch()});
  FakeEtcd b({.watch = script.watch()});
  const auto client = Connect({.endpoints = {a.endpoint(), b.endpoint()}});
  ASSERT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
  Told told;
  const auto watch = client->Watch("k/", 10, told.callback());
  ASSERT_TRUE(told.UntilCount(6));
  EXPECT_EQ(a.watches, 3);
  EXPECT_EQ(b.watches, 3);
}

TEST(EtcdClientWatch, ExpiresWhereTheServerSaysSo) {
  for (const bool by_text : {false, true}) {
    Script script([by_text](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
      stream.Write(Puts({{"k/a", 11}}));
      pb::WatchResponse gone;
      gone.set_canceled(true);
      if (by_text) {
        gone.set_cancel_reason("etcdserver: mvcc: required revision has been compacted");
      } else {
        gone.set_compact_revision(20);
      }
      stream.Write(gone);
      return StayOpen(stream);
    });
    FakeEtcd etcd({.watch = script.watch()});
    const auto client = Connect({.endpoints = {etcd.endpoint()}});
    Told told;
    const auto watch = client->Watch("k/", 10, told.callback());
    EXPECT_TRUE(told.UntilError().Is(StatusReason::kExpired));
    EXPECT_EQ(told.keys(), std::vector<std::string>{"k/a"});
    EXPECT_EQ(etcd.watches, 1);
  }
}

TEST(EtcdClientWatch, SurvivesThatItIsCancelled) {
  Script script([](int number, auto&, auto&, FakeEtcd::WatchStream& stream) {
    if (number < 2) {
      pb::WatchResponse cancelled;
      cancelled.set_canceled(true);
      cancelled.set_cancel_reason(
          "rpc error: code = PermissionDenied desc = etcdserver: permission denied");
      stream.Write(cancelled);
      return StayOpen(stream);
    }
    stream.Write(Puts({{"k/a", 11}}));
    return StayOpen(stream);
  });
  FakeEtcd etcd({.watch = script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  Told told;
  const auto watch = client->Watch("k/", 10, told.callback());
  EXPECT_TRUE(told.UntilRevision(11));
}

TEST(EtcdClientWatch, TellsProgressOnlyWhereAllVersionsAreSound) {
  Script script(
      [](int, auto&, auto&, FakeEtcd::WatchStream& stream) { return AnswerProgress(stream, 50); });
  FakeEtcd a({.watch = script.watch()});
  FakeEtcd b({.watch = script.watch(), .version = "3.5.12"});
  {
    const auto client = Connect({.endpoints = {a.endpoint(), b.endpoint()}});
    Told told;
    const auto watch = client->Watch("k/", 10, told.callback());
    ASSERT_TRUE(Eventually([&] { return a.statuses + b.statuses >= 3; }));
    for (int i = 0; i < 10; ++i) {
      watch->RequestProgress();
      EXPECT_FALSE(told.UntilRevision(50, milliseconds(10)));
    }
    EXPECT_FALSE(client->progress_is_sound());
  }
  b.Change([](auto& behaviour) { behaviour.version = "3.5.13"; });
  const auto client = Connect({.endpoints = {a.endpoint(), b.endpoint()}});
  Told told;
  const auto watch = client->Watch("k/", 10, told.callback());
  EXPECT_TRUE(UntilProgress(*watch, told, 50));
  EXPECT_TRUE(told.changes().empty());
}

TEST(EtcdClientWatch, ProgressNeverGoesBack) {
  Script script([](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
    stream.Write(Puts({{"k/a", 30}}));
    return AnswerProgress(stream, 20);  // a member that lags behind
  });
  FakeEtcd etcd({.watch = script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  Told told;
  const auto watch = client->Watch("k/", 10, told.callback());
  ASSERT_TRUE(told.UntilRevision(30));
  ASSERT_TRUE(Eventually([&] {
    watch->RequestProgress();
    return told.batches() > 1;
  }));
  EXPECT_EQ(told.revision(), 30);
}

TEST(EtcdClientWatch, AsksAMemberThatCameBackForItsVersion) {
  FakeEtcd etcd;
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  ASSERT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
  etcd.Stop();
  etcd.Change([](auto& b) { b.version = "3.4.23"; });
  ASSERT_TRUE(Eventually([&] { return !client->Health().ok(); }));  // nobody called meanwhile
  etcd.Start();
  ASSERT_TRUE(Eventually([&] { return client->Health().ok(); }));
  EXPECT_FALSE(client->progress_is_sound());
}

TEST(EtcdClientWatch, LeavesASilentStreamForAnother) {
  Script silent([](int, auto&, auto&, FakeEtcd::WatchStream& stream) { return StayOpen(stream); });
  Script good([](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
    stream.Write(Puts({{"k/a", 11}}));
    return AnswerProgress(stream, 11);
  });
  FakeEtcd a({.watch = silent.watch()});
  FakeEtcd b({.watch = good.watch()});
  const auto client =
      Connect({.endpoints = {a.endpoint(), b.endpoint()}, .keepalive = milliseconds(500)});
  ASSERT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
  // Enough of them that some begin at the silent one.
  std::vector<std::unique_ptr<Told>> told;
  std::vector<std::unique_ptr<EtcdWatch>> watches;
  for (int i = 0; i < 4; ++i) {
    told.push_back(std::make_unique<Told>());
    watches.push_back(client->Watch("k/", 10, told.back()->callback()));
  }
  for (const auto& each : told) EXPECT_TRUE(each->UntilRevision(11));
  EXPECT_GE(a.watches, 1);
  // One that is quiet but answers is left alone.
  const int before = b.watches;
  for (int i = 0; i < 5; ++i) {
    const std::size_t batches = told[0]->batches();
    ASSERT_TRUE(Eventually([&] { return told[0]->batches() > batches; }));
  }
  EXPECT_EQ(b.watches, before);
  watches.clear();
}

TEST(EtcdClientWatch, WaitsForATokenAndGetsANewOneWhenItIsRefused) {
  Script script([](int number, auto&, auto&, FakeEtcd::WatchStream& stream) {
    if (number == 0) {
      pb::WatchResponse cancelled;
      cancelled.set_canceled(true);
      cancelled.set_cancel_reason(
          "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token");
      stream.Write(cancelled);
      return StayOpen(stream);
    }
    stream.Write(Puts({{"k/a", 11}}));
    return StayOpen(stream);
  });
  FakeEtcd etcd;
  etcd.Change([&](auto& b) {
    b.watch = script.watch();
    b.token = "t";
    b.authenticate = [](auto&, pb::AuthenticateResponse& response) {
      response.set_token("t");
      return grpc::Status::OK;
    };
  });
  const auto client = Connect({.endpoints = {etcd.endpoint()}, .user = "u", .password = "p"});
  Told told;
  const auto watch = client->Watch("k/", 10, told.callback());
  EXPECT_TRUE(told.UntilRevision(11));
  EXPECT_EQ(etcd.authentications, 2);
}

TEST(EtcdClientWatch, TellsNothingAfterItIsGone) {
  std::atomic<bool> gone = false;
  Script script([&](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
    for (Revision r = 11; stream.Write(Puts({{"k/a", r}})); ++r) {
    }
    return grpc::Status::OK;
  });
  FakeEtcd etcd({.watch = script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  for (int i = 0; i < 20; ++i) {
    gone = false;
    std::atomic<int> told = 0;
    auto watch = client->Watch("k/", 10, [&](const Result<EtcdWatchBatch>&) {
      EXPECT_FALSE(gone);
      ++told;
    });
    ASSERT_TRUE(Eventually([&] { return told > 0; }));
    watch.reset();
    gone = true;
  }
}

TEST(EtcdClientWatch, MayBeDestroyedByWhatItTells) {
  Script script([&](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
    stream.Write(Puts({{"k/a", 11}}));
    stream.Write(Puts({{"k/a", 12}}));
    return StayOpen(stream);
  });
  FakeEtcd etcd({.watch = script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  struct Owner {
    Mutex mu;
    std::unique_ptr<EtcdWatch> watch GUARDED_BY(mu);
    std::atomic<int> told = 0;
    std::promise<void> done;
  };
  Owner owner;
  {
    MutexLock lock(owner.mu);
    owner.watch = client->Watch("k/", 10, [&owner](const Result<EtcdWatchBatch>&) {
      MutexLock inner(owner.mu);
      ++owner.told;
      owner.watch.reset();
      owner.done.set_value();
    });
  }
  owner.done.get_future().wait();
  EXPECT_EQ(owner.told, 1);
}

TEST(EtcdClientWatch, MayOutliveTheClient) {
  Script script([](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
    stream.Write(Puts({{"k/a", 11}}));
    return StayOpen(stream);
  });
  FakeEtcd etcd({.watch = script.watch()});
  auto client = Connect({.endpoints = {etcd.endpoint()}});
  Told told;
  const auto watch = client->Watch("k/", 10, told.callback());
  ASSERT_TRUE(told.UntilRevision(11));
  client.reset();
  watch->RequestProgress();
}

// --- all at once ------------------------------------------------------------------------------

// Calls from several threads, watches that come and go, endpoints that come and go, and a client
// that goes while all of that is under way: each call ends exactly once.
TEST(EtcdClientStress, EveryCallEndsOnce) {
  constexpr int kRounds = 3;
  constexpr int kThreads = 3;
  constexpr int kCallsPerThread = 200;
  Script script(
      [](int, const pb::WatchCreateRequest& request, auto&, FakeEtcd::WatchStream& stream) {
        stream.Write(Puts({{"k/a", request.start_revision() + 1}}));
        return AnswerProgress(stream, request.start_revision() + 2);
      });
  FakeEtcd a({.watch = script.watch()});
  FakeEtcd b({.watch = script.watch()});
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> started = 0;
    std::atomic<int> ended = 0;
    auto client = Connect({.endpoints = {a.endpoint(), b.endpoint()}});
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kCallsPerThread; ++i) {
          ++started;
          if ((i + t) % 2 == 0) {
            client->Commit({.key = "k/a", .value = std::make_shared<const std::string>("v")},
                           [&](const Result<Written>&) { ++ended; });
          } else {
            client->Range({.start = "k/a"}, [&](const Result<EtcdPage>&) { ++ended; });
          }
          if (i % 20 == 0) {
            Told told;
            const auto watch = client->Watch("k/", 10, told.callback());
            watch->RequestProgress();
            if (i % 40 == 0) (void)Put(*client, "k/a", "v");  // lets the watch begin
          }
        }
      });
    }
    a.Stop();
    a.Start();
    b.Stop();
    b.Start();
    for (std::thread& thread : threads) thread.join();
    client.reset();
    EXPECT_EQ(started, ended);
  }
}

}  // namespace
}  // namespace herald::store
