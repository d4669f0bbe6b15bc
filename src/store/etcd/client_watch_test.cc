// The watches of EtcdClient, against a fake etcd.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "store/etcd/client.h"
#include "store/etcd/testing/calls.h"
#include "store/etcd/testing/fake_etcd.h"
#include "store/etcd/testing/watch_script.h"

namespace herald::store {
namespace {

namespace pb = etcdserverpb;
using std::chrono::milliseconds;

grpc::Status Unavailable(const char* message) { return {grpc::StatusCode::UNAVAILABLE, message}; }

TEST(EtcdClientWatch, NeverDeliversAPartOfATransaction) {
  WatchScript watch_script([](int number, auto&, auto&, FakeEtcd::WatchStream& stream) {
    if (number == 0) {
      stream.Write(Puts({{"k/a", 11}, {"k/b", 12}}, /*fragment=*/true));
      stream.Write(Puts({{"k/c", 12}, {"k/d", 13}}, /*fragment=*/true));
      // The rest of revision 13 is lost with the stream.
      return Unavailable("Socket closed");
    }
    stream.Write(Puts({{"k/d", 13}, {"k/e", 13}}));
    return StayOpen(stream);
  });
  FakeEtcd etcd({.watch = watch_script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  WatchRecorder recorder;
  const auto watch = client->Watch("k/", 10, recorder.callback());
  ASSERT_TRUE(recorder.WaitForRevision(13));
  EXPECT_EQ(recorder.keys(), (std::vector<std::string>{"k/a", "k/b", "k/c", "k/d", "k/e"}));
  EXPECT_EQ(watch_script.starts(), (std::vector<Revision>{10, 12}));
}

TEST(EtcdClientWatch, IgnoresProgressBetweenTheFragmentsOfARevision) {
  WatchScript watch_script([](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
    stream.Write(Puts({{"k/a", 11}, {"k/b", 12}}, /*fragment=*/true));
    pb::WatchRequest request;
    for (int requests = 1; stream.Read(&request); ++requests) {
      if (requests == 3) stream.Write(Puts({{"k/c", 12}}));
      stream.Write(Progress(12));
    }
    return grpc::Status::OK;
  });
  FakeEtcd etcd({.watch = watch_script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  ASSERT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
  WatchRecorder recorder;
  const auto watch = client->Watch("k/", 10, recorder.callback());
  EXPECT_TRUE(WaitForProgress(*watch, recorder, 12));
  EXPECT_EQ(recorder.keys(), (std::vector<std::string>{"k/a", "k/b", "k/c"}));
}

TEST(EtcdClientWatch, DropsChangesThatWereDelivered) {
  WatchScript watch_script([](int number, auto&, auto&, FakeEtcd::WatchStream& stream) {
    if (number == 0) {
      stream.Write(Puts({{"k/a", 10}, {"k/b", 11}, {"k/c", 12}}));
      return Unavailable("etcdserver: no leader");
    }
    stream.Write(Puts({{"k/c", 12}, {"k/d", 13}}));
    return StayOpen(stream);
  });
  FakeEtcd etcd({.watch = watch_script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  WatchRecorder recorder;
  const auto watch = client->Watch("k/", 10, recorder.callback());
  ASSERT_TRUE(recorder.WaitForRevision(13));
  EXPECT_EQ(recorder.keys(), (std::vector<std::string>{"k/b", "k/c", "k/d"}));
}

TEST(EtcdClientWatch, DeliversChangesThatArriveTogetherAsOneBatch) {
  constexpr int kPuts = 300;
  std::promise<void> sent;
  WatchScript watch_script([&sent](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
    for (int i = 0; i < kPuts; ++i) {
      stream.Write(Puts({{fmt::format("k/{:03}", i), Revision{11} + i}}));
    }
    sent.set_value();
    return StayOpen(stream);
  });
  FakeEtcd etcd({.watch = watch_script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  WatchRecorder recorder;
  const auto record = recorder.callback();
  const auto watch = client->Watch("k/", 10, [&](Result<EtcdWatchBatch> batch) {
    // Nothing is read while this waits, so afterwards all other changes have arrived.
    if (recorder.batches() == 0) sent.get_future().wait();
    record(std::move(batch));
  });
  ASSERT_TRUE(recorder.WaitForCount(kPuts));
  const auto changes = recorder.changes();
  for (int i = 0; i < kPuts; ++i) EXPECT_EQ(changes[i]->revision(), Revision{11} + i);
  // The first batch, and then as many as one turn of the queue handles.
  EXPECT_LT(recorder.batches(), kPuts / 10);
}

TEST(EtcdClientWatch, DeliversADeleteWithoutItsPreviousValue) {
  WatchScript watch_script([](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
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
  FakeEtcd etcd({.watch = watch_script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  WatchRecorder recorder;
  const auto watch = client->Watch("k/", 10, recorder.callback());
  ASSERT_TRUE(recorder.WaitForCount(2));
  const auto changes = recorder.changes();
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

TEST(EtcdClientWatch, ResumesOnAnotherEndpoint) {
  std::atomic<Revision> next = 11;
  // Each stream sends one change and ends.
  WatchScript watch_script(
      [&](int number, const pb::WatchCreateRequest& request, auto&, FakeEtcd::WatchStream& stream) {
        EXPECT_EQ(request.start_revision(), next - 1);
        stream.Write(Puts({{"k/" + std::to_string(next), next}}));
        if (number == 5) return StayOpen(stream);
        ++next;
        return grpc::Status::OK;
      });
  FakeEtcd a({.watch = watch_script.watch()});
  FakeEtcd b({.watch = watch_script.watch()});
  const auto client = Connect({.endpoints = {a.endpoint(), b.endpoint()}});
  ASSERT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
  WatchRecorder recorder;
  const auto watch = client->Watch("k/", 10, recorder.callback());
  ASSERT_TRUE(recorder.WaitForCount(6));
  EXPECT_EQ(a.watches, 3);
  EXPECT_EQ(b.watches, 3);
}

TEST(EtcdClientWatch, ExpiresIfTheRevisionWasCompacted) {
  for (const bool by_message : {false, true}) {
    WatchScript watch_script([by_message](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
      stream.Write(Puts({{"k/a", 11}}));
      pb::WatchResponse gone;
      gone.set_canceled(true);
      if (by_message) {
        gone.set_cancel_reason("etcdserver: mvcc: required revision has been compacted");
      } else {
        gone.set_compact_revision(20);
      }
      stream.Write(gone);
      return StayOpen(stream);
    });
    FakeEtcd etcd({.watch = watch_script.watch()});
    const auto client = Connect({.endpoints = {etcd.endpoint()}});
    WatchRecorder recorder;
    const auto watch = client->Watch("k/", 10, recorder.callback());
    EXPECT_TRUE(recorder.WaitForError().Is(StatusReason::kExpired));
    EXPECT_EQ(recorder.keys(), std::vector<std::string>{"k/a"});
    EXPECT_EQ(etcd.watches, 1);
  }
}

TEST(EtcdClientWatch, ResumesAfterTheServerCancelledIt) {
  WatchScript watch_script([](int number, auto&, auto&, FakeEtcd::WatchStream& stream) {
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
  FakeEtcd etcd({.watch = watch_script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  WatchRecorder recorder;
  const auto watch = client->Watch("k/", 10, recorder.callback());
  EXPECT_TRUE(recorder.WaitForRevision(11));
}

TEST(EtcdClientWatch, DeliversProgressOnlyIfAllVersionsAreSound) {
  WatchScript watch_script(
      [](int, auto&, auto&, FakeEtcd::WatchStream& stream) { return AnswerProgress(stream, 50); });
  FakeEtcd a({.watch = watch_script.watch()});
  FakeEtcd b({.watch = watch_script.watch(), .version = "3.5.12"});
  {
    const auto client = Connect({.endpoints = {a.endpoint(), b.endpoint()}});
    WatchRecorder recorder;
    const auto watch = client->Watch("k/", 10, recorder.callback());
    ASSERT_TRUE(Eventually([&] { return a.statuses + b.statuses >= 3; }));
    for (int i = 0; i < 10; ++i) {
      watch->RequestProgress();
      EXPECT_FALSE(recorder.WaitForRevision(50, milliseconds(10)));
    }
    EXPECT_FALSE(client->progress_is_sound());
  }
  b.Change([](auto& behaviour) { behaviour.version = "3.5.13"; });
  const auto client = Connect({.endpoints = {a.endpoint(), b.endpoint()}});
  WatchRecorder recorder;
  const auto watch = client->Watch("k/", 10, recorder.callback());
  EXPECT_TRUE(WaitForProgress(*watch, recorder, 50));
  EXPECT_TRUE(recorder.changes().empty());
}

TEST(EtcdClientWatch, ProgressNeverGoesBack) {
  WatchScript watch_script([](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
    stream.Write(Puts({{"k/a", 30}}));
    return AnswerProgress(stream, 20);  // a member that lags behind
  });
  FakeEtcd etcd({.watch = watch_script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  WatchRecorder recorder;
  const auto watch = client->Watch("k/", 10, recorder.callback());
  ASSERT_TRUE(recorder.WaitForRevision(30));
  ASSERT_TRUE(Eventually([&] {
    watch->RequestProgress();
    return recorder.batches() > 1;
  }));
  EXPECT_EQ(recorder.revision(), 30);
}

TEST(EtcdClientWatch, GetsTheVersionOfAMemberThatIsBack) {
  FakeEtcd etcd;
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  ASSERT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
  etcd.Stop();
  etcd.Change([](auto& b) { b.version = "3.4.23"; });
  ASSERT_TRUE(Eventually([&] { return !client->Health().ok(); }));  // without calls
  etcd.Start();
  ASSERT_TRUE(Eventually([&] { return client->Health().ok(); }));
  EXPECT_FALSE(client->progress_is_sound());
}

TEST(EtcdClientWatch, ReplacesASilentStream) {
  WatchScript silent(
      [](int, auto&, auto&, FakeEtcd::WatchStream& stream) { return StayOpen(stream); });
  WatchScript good([](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
    stream.Write(Puts({{"k/a", 11}}));
    return AnswerProgress(stream, 11);
  });
  FakeEtcd a({.watch = silent.watch()});
  FakeEtcd b({.watch = good.watch()});
  const auto client =
      Connect({.endpoints = {a.endpoint(), b.endpoint()}, .keepalive = milliseconds(500)});
  ASSERT_TRUE(Eventually([&] { return client->progress_is_sound(); }));
  // Enough watches that some start at the silent endpoint.
  std::vector<std::unique_ptr<WatchRecorder>> recorder;
  std::vector<std::unique_ptr<EtcdWatch>> watches;
  for (int i = 0; i < 4; ++i) {
    recorder.push_back(std::make_unique<WatchRecorder>());
    watches.push_back(client->Watch("k/", 10, recorder.back()->callback()));
  }
  for (const auto& each : recorder) EXPECT_TRUE(each->WaitForRevision(11));
  EXPECT_GE(a.watches, 1);
  // A quiet stream that answers is kept.
  const int before = b.watches;
  for (int i = 0; i < 5; ++i) {
    const std::size_t batches = recorder[0]->batches();
    ASSERT_TRUE(Eventually([&] { return recorder[0]->batches() > batches; }));
  }
  EXPECT_EQ(b.watches, before);
  watches.clear();
}

TEST(EtcdClientWatch, WaitsForATokenAndReplacesARejectedOne) {
  WatchScript watch_script([](int number, auto&, auto&, FakeEtcd::WatchStream& stream) {
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
    b.watch = watch_script.watch();
    b.token = "t";
    b.authenticate = [](auto&, pb::AuthenticateResponse& response) {
      response.set_token("t");
      return grpc::Status::OK;
    };
  });
  const auto client = Connect({.endpoints = {etcd.endpoint()}, .user = "u", .password = "p"});
  WatchRecorder recorder;
  const auto watch = client->Watch("k/", 10, recorder.callback());
  EXPECT_TRUE(recorder.WaitForRevision(11));
  EXPECT_EQ(etcd.authentications, 2);
}

TEST(EtcdClientWatch, HasNoCallbacksAfterItIsDestroyed) {
  std::atomic<bool> destroyed = false;
  WatchScript watch_script([&](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
    for (Revision r = 11; stream.Write(Puts({{"k/a", r}})); ++r) {
    }
    return grpc::Status::OK;
  });
  FakeEtcd etcd({.watch = watch_script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  for (int i = 0; i < 20; ++i) {
    destroyed = false;
    std::atomic<int> calls = 0;
    auto watch = client->Watch("k/", 10, [&](const Result<EtcdWatchBatch>&) {
      EXPECT_FALSE(destroyed);
      ++calls;
    });
    ASSERT_TRUE(Eventually([&] { return calls > 0; }));
    watch.reset();
    destroyed = true;
  }
}

TEST(EtcdClientWatch, MayBeDestroyedByItsCallback) {
  WatchScript watch_script([&](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
    stream.Write(Puts({{"k/a", 11}}));
    stream.Write(Puts({{"k/a", 12}}));
    return StayOpen(stream);
  });
  FakeEtcd etcd({.watch = watch_script.watch()});
  const auto client = Connect({.endpoints = {etcd.endpoint()}});
  struct Owner {
    Mutex mu;
    std::unique_ptr<EtcdWatch> watch GUARDED_BY(mu);
    std::atomic<int> calls = 0;
    std::promise<void> done;
  };
  Owner owner;
  {
    MutexLock lock(owner.mu);
    owner.watch = client->Watch("k/", 10, [&owner](const Result<EtcdWatchBatch>&) {
      MutexLock inner(owner.mu);
      ++owner.calls;
      owner.watch.reset();
      owner.done.set_value();
    });
  }
  owner.done.get_future().wait();
  EXPECT_EQ(owner.calls, 1);
}

TEST(EtcdClientWatch, MayOutliveTheClient) {
  WatchScript watch_script([](int, auto&, auto&, FakeEtcd::WatchStream& stream) {
    stream.Write(Puts({{"k/a", 11}}));
    return StayOpen(stream);
  });
  FakeEtcd etcd({.watch = watch_script.watch()});
  auto client = Connect({.endpoints = {etcd.endpoint()}});
  WatchRecorder recorder;
  const auto watch = client->Watch("k/", 10, recorder.callback());
  ASSERT_TRUE(recorder.WaitForRevision(11));
  client.reset();
  watch->RequestProgress();
}

// --- stress -----------------------------------------------------------------------------------

// Calls from several threads, watches that start and end, endpoints that stop and start, and a
// client that is destroyed during all of that: each call ends exactly once.
TEST(EtcdClientStress, EveryCallEndsOnce) {
  constexpr int kRounds = 3;
  constexpr int kThreads = 3;
  constexpr int kCallsPerThread = 200;
  WatchScript watch_script(
      [](int, const pb::WatchCreateRequest& request, auto&, FakeEtcd::WatchStream& stream) {
        stream.Write(Puts({{"k/a", request.start_revision() + 1}}));
        return AnswerProgress(stream, request.start_revision() + 2);
      });
  FakeEtcd a({.watch = watch_script.watch()});
  FakeEtcd b({.watch = watch_script.watch()});
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
            WatchRecorder recorder;
            const auto watch = client->Watch("k/", 10, recorder.callback());
            watch->RequestProgress();
            if (i % 40 == 0) (void)Put(*client, "k/a", "v");  // gives the watch time to start
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
