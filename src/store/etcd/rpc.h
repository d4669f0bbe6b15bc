#pragma once

// clang-format off: before gRPC, whose absl defines macros of the same names and meaning
#include "base/thread/mutex.h"
// clang-format on

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "herald/base/executor.h"
#include "herald/base/status.h"
#include "store/etcd/call.h"
#include "store/etcd/client.h"
#include "store/etcd/connection.h"
#include "store/etcd/endpoints.h"
#include "store/etcd/error.h"
#include "store/etcd/etcd.grpc.pb.h"
#include "store/etcd/unary_channel.h"

namespace herald::store {

// A stream that EtcdRpc can cancel. Cancel() is called with EtcdRpc's lock held.
class EtcdStream {
 public:
  virtual ~EtcdStream() = default;
  virtual void Cancel() = 0;
};

// EtcdRpc sends calls and streams to a member of etcd that answers. It keeps the connections and
// the state of the members (EtcdEndpoints), retries calls, fetches tokens and probes lost members.
// It does not know what the calls mean; EtcdClient and EtcdWatcher do.
//
// Writes, and the probes that check whether a member accepts writes, use a UnaryChannel. Everything
// else uses grpc++. So no write waits while a page of a list is decoded, and writes, which are sent
// thousands of times a second, have the cheapest path.
//
// With grpc++ it uses completion queues with a thread of its own, not gRPC's callback interface.
// The threads of that interface sleep for 100 ms at a time after a second without activity
// (grpc 1.51, src/cpp/common/completion_queue_cc.cc), which would delay a quiet watch by 100 ms.
//
// Thread-safe.
class EtcdRpc {
 public:
  static Result<std::unique_ptr<EtcdRpc>> Open(EtcdClientOptions options);
  ~EtcdRpc();
  EtcdRpc(const EtcdRpc&) = delete;
  EtcdRpc& operator=(const EtcdRpc&) = delete;

  // Fails all calls and streams with kCancelled and waits for them. Idempotent. Must not be called
  // from a completion.
  void Stop();

  // `prepare` creates the reader for one attempt: prepare(connection, context, request).
  template <typename Response, typename Request, typename Prepare, typename Completion>
  void Start(const EtcdCall::Options& options, Request request, Prepare prepare,
             Completion completion) {
    StartCall(std::make_unique<EtcdUnaryCall<Request, Response, Prepare, Completion>>(
        options, std::move(request), std::move(prepare), std::move(completion)));
  }

  void Write(etcdserverpb::TxnRequest request, EtcdTransaction::Completion completion) {
    StartCall(std::make_unique<EtcdTransaction>(std::move(request), std::move(completion)));
  }

  // Where a stream or a probe runs.
  struct StreamTarget {
    EtcdEndpoints::Index endpoint = 0;
    std::shared_ptr<EtcdConnection> connection{};
    std::shared_ptr<const std::string> token{};
    SteadyTime since{};  // when the target was chosen
  };
  // Calls `done` when there is a token or none is needed, or with the error if there is none.
  void AwaitToken(std::function<void(const Status&)> done);
  // Returns nothing if no endpoint works or if EtcdRpc is stopping. Otherwise the caller must call
  // EndStream(), even if the stream never starts.
  std::optional<StreamTarget> BeginStream(EtcdStream* stream, EtcdEndpoints::Set avoid);
  void EndStream(EtcdStream* stream, const StreamTarget& target, const EtcdErrorInfo* error_info);
  // Marks the endpoint as suspect: it is probed before it gets any other call.
  void Suspect(EtcdEndpoints::Index endpoint);
  void DiscardToken(const std::shared_ptr<const std::string>& token);

  // Gets the version of the target's member over the same connection; nothing if the member does
  // not return it. Does not call `done` if EtcdRpc is stopping.
  using VersionDone = std::function<void(std::optional<bool> progress_is_sound)>;
  void RequestVersion(const StreamTarget& target, VersionDone done);

  // Runs the task on the completion queue's thread after the completions that are ready now, up to
  // a limit. REQUIRES: called on that thread
  void Postpone(std::function<void()> task);

  Executor& executor() { return executor_; }
  SteadyTime Now() const { return executor_.clock().Steady(); }
  const EtcdClientOptions& options() const { return options_; }
  void Log(LogLevel level, std::string_view message,
           std::vector<std::pair<std::string_view, std::string_view>> fields) const;

  bool progress_is_sound() const;
  // Ok if a member is known to accept writes: it has answered a probe or a call within the last
  // seconds, and the connection for writes still exists. A member that stops answering is noticed
  // within kProbeAfterSilence plus the timeout of a probe, even if there are no calls.
  Status Health() const;

 private:
  friend class EtcdCall;
  class Probe;

  EtcdRpc(EtcdClientOptions options, std::vector<EtcdAddress> addresses, EtcdTls tls,
          std::vector<std::unique_ptr<UnaryChannel>> write_channels);

  void RunQueue();
  void StartCall(std::unique_ptr<EtcdCall> call);
  void Attempt(std::unique_ptr<EtcdCall> call, bool on_own_thread);
  void OnAttemptEnded(std::unique_ptr<EtcdCall> call);
  void Finish(std::unique_ptr<EtcdCall> call, const Status& status);
  void Fail(std::unique_ptr<EtcdCall> call, const Status& status, bool on_own_thread);
  void Authenticate();
  void OnAuthenticated(const EtcdErrorInfo& error_info, const Status& status, std::string token);
  void Tick();
  void StartProbe(EtcdEndpoints::Index endpoint);
  void OnProbeEnded(Probe& probe);
  void CancelProbes() REQUIRES(mu_);
  // `sent_at` is when the request was sent.
  void OnResponse(EtcdEndpoints::Index endpoint, SteadyTime sent_at);
  void OnError(EtcdEndpoints::Index endpoint, const EtcdErrorInfo& error_info, SteadyTime sent_at);
  void OperationEnded();

  Status NoEndpointStatus(SteadyTime now) const REQUIRES(mu_);
  bool TokenIsMissing() const REQUIRES(mu_);
  // Queues the call until there is a token. Returns whether the caller must call Authenticate().
  bool QueueForToken(std::unique_ptr<EtcdCall>& call) REQUIRES(mu_);
  // Cancels streams and repeatable calls at a lost endpoint, so that they continue at another.
  void LeaveEndpoint(EtcdEndpoints::Index endpoint) REQUIRES(mu_);

  const EtcdClientOptions options_;
  const std::vector<EtcdAddress> addresses_;
  const std::chrono::nanoseconds tick_;
  const std::chrono::nanoseconds probe_after_silence_;
  const std::chrono::nanoseconds probe_timeout_;
  EtcdTls tls_;  // used by the executor's thread only

  const std::vector<std::unique_ptr<UnaryChannel>> write_channels_;  // one per endpoint
  grpc::CompletionQueue queue_;
  std::vector<std::function<void()>> postponed_;  // used by the queue's thread only

  // Guards all below. No completion is called while it is held. Cancel() takes locks of gRPC and of
  // our HTTP client; these do not call back.
  mutable Mutex mu_;
  CondVar idle_;
  bool stopping_ GUARDED_BY(mu_) = false;
  std::size_t outstanding_ GUARDED_BY(mu_) = 0;  // calls, streams and probes
  EtcdEndpoints endpoints_ GUARDED_BY(mu_);
  std::vector<std::shared_ptr<EtcdConnection>> connections_ GUARDED_BY(mu_);
  std::vector<bool> reconnect_ GUARDED_BY(mu_);      // replace the connection before the next probe
  std::vector<std::string> errors_ GUARDED_BY(mu_);  // why each endpoint was lost
  // A probe was answered over the channel for writes, so a missing connection means that it closed.
  std::vector<bool> probed_ GUARDED_BY(mu_);
  EtcdCall* calls_ GUARDED_BY(mu_) = nullptr;  // in progress
  std::vector<std::pair<EtcdStream*, EtcdEndpoints::Index>> streams_ GUARDED_BY(mu_);
  std::vector<Probe*> probes_ GUARDED_BY(mu_);

  std::shared_ptr<const std::string> token_ GUARDED_BY(mu_);
  bool no_authentication_ GUARDED_BY(mu_) = false;  // etcd's authentication is not enabled
  bool authenticating_ GUARDED_BY(mu_) = false;
  Status authentication_error_ GUARDED_BY(mu_);  // why etcd rejected the user and password
  SteadyTime authentication_retry_at_ GUARDED_BY(mu_){};
  std::vector<std::unique_ptr<EtcdCall>> awaiting_token_ GUARDED_BY(mu_);
  std::vector<std::function<void(const Status&)>> streams_awaiting_token_ GUARDED_BY(mu_);

  Executor executor_;   // runs Tick(), and completes calls that failed before they were sent
  std::thread thread_;  // of the completion queue
};

}  // namespace herald::store
