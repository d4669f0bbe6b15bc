#pragma once

// clang-format off: before gRPC, whose absl defines macros of the same names and meaning
#include "base/thread/mutex.h"
// clang-format on

#include <fmt/core.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "store/etcd/etcd.grpc.pb.h"

namespace herald::store {

// A server of etcd's protocol whose behaviour the test defines: errors, wrong answers, silence,
// broken streams. Tests that a real etcd can do use a real one.
//
// The functions must be set before the first call, or in Change(). They run concurrently on gRPC's
// threads. Thread-safe otherwise.
class FakeEtcd {
 public:
  using WatchStream =
      grpc::ServerReaderWriter<etcdserverpb::WatchResponse, etcdserverpb::WatchRequest>;

  struct Behaviour {
    std::function<grpc::Status(const etcdserverpb::RangeRequest&, etcdserverpb::RangeResponse&)>
        range{};
    std::function<grpc::Status(const etcdserverpb::TxnRequest&, etcdserverpb::TxnResponse&)> txn{};
    std::function<grpc::Status(const etcdserverpb::AuthenticateRequest&,
                               etcdserverpb::AuthenticateResponse&)>
        authenticate{};
    std::function<grpc::Status(grpc::ServerContext&, WatchStream&)> watch{};
    std::string version = "3.7.3";
    bool leader = true;
    bool silent = false;  // no call is answered
    std::string token{};  // if not empty, calls need it
  };

  explicit FakeEtcd(Behaviour behaviour) : behaviour_(std::move(behaviour)) { Start(); }
  FakeEtcd() : FakeEtcd(Behaviour()) {}
  ~FakeEtcd() { Stop(); }
  FakeEtcd(const FakeEtcd&) = delete;
  FakeEtcd& operator=(const FakeEtcd&) = delete;

  std::string endpoint() const { return fmt::format("http://127.0.0.1:{}", port_); }

  template <typename F>
  void Change(F change) {
    MutexLock lock(mu_);
    change(behaviour_);
    changed_.NotifyAll();
  }

  // Ends all calls and rejects connections until Start().
  void Stop() {
    if (!server_) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_.reset();
  }
  // Uses the same port as before.
  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(fmt::format("127.0.0.1:{}", port_), grpc::InsecureServerCredentials(),
                             &port_);
    // Another server of a test must not get this one's calls while it is stopped.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1);
    builder.RegisterService(&kv_);
    builder.RegisterService(&watch_);
    builder.RegisterService(&lease_);
    builder.RegisterService(&maintenance_);
    builder.RegisterService(&auth_);
    server_ = builder.BuildAndStart();
    HERALD_CHECK(server_ != nullptr && port_ != 0);
  }

  std::atomic<int> ranges = 0;
  std::atomic<int> txns = 0;
  std::atomic<int> watches = 0;
  std::atomic<int> statuses = 0;
  std::atomic<int> authentications = 0;

 private:
  using Context = grpc::ServerContext;

  Behaviour Current() {
    MutexLock lock(mu_);
    return behaviour_;
  }

  // The first step of each call.
  grpc::Status Enter(Context* context, bool needs_token = true) {
    MutexLock lock(mu_);
    // gRPC does not notify of a cancelled call, so this polls.
    while (behaviour_.silent && !context->IsCancelled()) {
      changed_.WaitFor(lock, std::chrono::milliseconds(10),
                       [&]() REQUIRES(mu_) { return !behaviour_.silent; });
    }
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    if (needs_token && !behaviour_.token.empty()) {
      const auto& metadata = context->client_metadata();
      const auto token = metadata.find("token");
      if (token == metadata.end()) {
        return {grpc::StatusCode::INVALID_ARGUMENT, "etcdserver: user name is empty"};
      }
      if (token->second != behaviour_.token) {
        return {grpc::StatusCode::UNAUTHENTICATED, "etcdserver: invalid auth token"};
      }
    }
    return grpc::Status::OK;
  }

  struct Kv final : etcdserverpb::KV::Service {
    explicit Kv(FakeEtcd* fake_in) : fake(fake_in) {}
    grpc::Status Range(Context* context, const etcdserverpb::RangeRequest* request,
                       etcdserverpb::RangeResponse* response) override {
      ++fake->ranges;
      if (auto status = fake->Enter(context); !status.ok()) return status;
      response->mutable_header()->set_revision(1);
      const auto range = fake->Current().range;
      return range ? range(*request, *response) : grpc::Status::OK;
    }
    grpc::Status Txn(Context* context, const etcdserverpb::TxnRequest* request,
                     etcdserverpb::TxnResponse* response) override {
      ++fake->txns;
      if (auto status = fake->Enter(context); !status.ok()) return status;
      response->set_succeeded(true);
      response->mutable_header()->set_revision(2);
      response->add_responses()->mutable_response_put();
      const auto txn = fake->Current().txn;
      return txn ? txn(*request, *response) : grpc::Status::OK;
    }
    FakeEtcd* const fake;
  };
  struct WatchService final : etcdserverpb::Watch::Service {
    explicit WatchService(FakeEtcd* fake_in) : fake(fake_in) {}
    grpc::Status Watch(Context* context, WatchStream* stream) override {
      ++fake->watches;
      if (auto status = fake->Enter(context); !status.ok()) return status;
      const auto watch = fake->Current().watch;
      return watch ? watch(*context, *stream) : grpc::Status::OK;
    }
    FakeEtcd* const fake;
  };
  struct Lease final : etcdserverpb::Lease::Service {
    explicit Lease(FakeEtcd* fake_in) : fake(fake_in) {}
    grpc::Status LeaseGrant(Context* context, const etcdserverpb::LeaseGrantRequest* request,
                            etcdserverpb::LeaseGrantResponse* response) override {
      if (auto status = fake->Enter(context); !status.ok()) return status;
      response->set_id(1);
      response->set_ttl(request->ttl());
      return grpc::Status::OK;
    }
    FakeEtcd* const fake;
  };
  struct Maintenance final : etcdserverpb::Maintenance::Service {
    explicit Maintenance(FakeEtcd* fake_in) : fake(fake_in) {}
    grpc::Status Status(Context* context, const etcdserverpb::StatusRequest*,
                        etcdserverpb::StatusResponse* response) override {
      ++fake->statuses;
      if (auto status = fake->Enter(context); !status.ok()) return status;
      const Behaviour behaviour = fake->Current();
      response->set_version(behaviour.version);
      response->set_leader(behaviour.leader ? 1 : 0);
      return grpc::Status::OK;
    }
    FakeEtcd* const fake;
  };
  struct Auth final : etcdserverpb::Auth::Service {
    explicit Auth(FakeEtcd* fake_in) : fake(fake_in) {}
    grpc::Status Authenticate(Context* context, const etcdserverpb::AuthenticateRequest* request,
                              etcdserverpb::AuthenticateResponse* response) override {
      ++fake->authentications;
      if (auto status = fake->Enter(context, false); !status.ok()) return status;
      const auto authenticate = fake->Current().authenticate;
      return authenticate ? authenticate(*request, *response) : grpc::Status::OK;
    }
    FakeEtcd* const fake;
  };

  Kv kv_{this};
  WatchService watch_{this};
  Lease lease_{this};
  Maintenance maintenance_{this};
  Auth auth_{this};

  Mutex mu_;
  CondVar changed_;
  Behaviour behaviour_ GUARDED_BY(mu_);

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace herald::store
