#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "store/etcd/testing/fake_etcd.h"
#include "store/store.h"

namespace herald::store {

inline void AddPut(etcdserverpb::WatchResponse& response, const std::string& key,
                   Revision revision) {
  etcdserverpb::Event& event = *response.add_events();
  event.mutable_kv()->set_key(key);
  event.mutable_kv()->set_value("v");
  event.mutable_kv()->set_mod_revision(revision);
}

inline etcdserverpb::WatchResponse Puts(std::vector<std::pair<std::string, Revision>> puts,
                                        bool fragment = false) {
  etcdserverpb::WatchResponse response;
  for (const auto& [key, revision] : puts) AddPut(response, key, revision);
  response.set_fragment(fragment);
  return response;
}

inline etcdserverpb::WatchResponse Progress(Revision revision) {
  etcdserverpb::WatchResponse response;
  response.mutable_header()->set_revision(revision);
  return response;
}

// The server's side of a watch: it reads the request, sends "created", and calls the test's
// function. Thread-safe.
class WatchScript {
 public:
  // What a stream does after "created"; `number` counts the streams from 0.
  using StreamFunction =
      std::function<grpc::Status(int number, const etcdserverpb::WatchCreateRequest& request,
                                 grpc::ServerContext&, FakeEtcd::WatchStream&)>;
  explicit WatchScript(StreamFunction run_stream) : run_stream_(std::move(run_stream)) {}

  auto watch() {
    return [this](grpc::ServerContext& context, FakeEtcd::WatchStream& stream) {
      etcdserverpb::WatchRequest request;
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
      etcdserverpb::WatchResponse created;
      created.set_created(true);
      stream.Write(created);
      return run_stream_(next_++, request.create_request(), context, stream);
    };
  }

  std::vector<Revision> starts() const {
    MutexLock lock(mu_);
    return starts_;
  }

 private:
  const StreamFunction run_stream_;
  std::atomic<int> next_ = 0;
  mutable Mutex mu_;
  std::vector<Revision> starts_ GUARDED_BY(mu_);
};

// Reads requests without answering, until the client ends the stream.
inline grpc::Status StayOpen(FakeEtcd::WatchStream& stream) {
  etcdserverpb::WatchRequest request;
  while (stream.Read(&request)) {
  }
  return grpc::Status::OK;
}

// Answers each progress request.
inline grpc::Status AnswerProgress(FakeEtcd::WatchStream& stream, Revision revision) {
  etcdserverpb::WatchRequest request;
  while (stream.Read(&request)) {
    if (request.has_progress_request()) stream.Write(Progress(revision));
  }
  return grpc::Status::OK;
}

}  // namespace herald::store
