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
#include "store/etcd/client.h"
#include "store/etcd/endpoints.h"
#include "store/etcd/error.h"
#include "store/etcd/etcd.grpc.pb.h"
#include "store/etcd/unary_channel.h"

namespace herald::store {

class EtcdRpc;

// What a completion queue is lent, and gives back to one of its threads, which then runs it.
class EtcdTag {
 public:
  EtcdTag() = default;
  virtual ~EtcdTag() = default;
  EtcdTag(const EtcdTag&) = delete;
  EtcdTag& operator=(const EtcdTag&) = delete;

  // What was written before Lend() is seen by Run(). gRPC sees to that, too, but where the
  // compiler (and ThreadSanitizer) cannot look.
  void* Lend() {
    lent_.store(true, std::memory_order_release);
    return this;
  }
  static void GiveBack(void* tag, bool ok) {
    auto* const self = static_cast<EtcdTag*>(tag);
    self->lent_.load(std::memory_order_acquire);
    self->Run(ok);
  }

 private:
  virtual void Run(bool ok) = 0;

  std::atomic<bool> lent_ = false;
};

// One connection to one member, for all but writes. What is sent over it is completed on `queue`,
// whose one thread also serves its socket. Thread-safe, as gRPC's stubs are.
struct EtcdConnection {
  EtcdConnection(const std::shared_ptr<grpc::Channel>& channel, grpc::CompletionQueue* queue_in);

  grpc::CompletionQueue* const queue;
  etcdserverpb::KV::Stub kv;
  etcdserverpb::Watch::Stub watch;
  etcdserverpb::Lease::Stub lease;
  etcdserverpb::Maintenance::Stub maintenance;
  etcdserverpb::Auth::Stub auth;
};

// One call with one answer, through all of its tries. Confined: EtcdRpc hands it from thread
// to thread.
class EtcdCall {
 public:
  struct Options {
    bool repeatable = false;   // doing it twice is as good as once
    bool needs_leader = true;  // a member without one refuses it at once
    bool needs_token = true;   // where there is a user
  };

  explicit EtcdCall(const Options& options) : options_(options) {}
  virtual ~EtcdCall() = default;
  EtcdCall(const EtcdCall&) = delete;
  EtcdCall& operator=(const EtcdCall&) = delete;

  // How the last try ended.
  const EtcdVerdict& verdict() const { return verdict_; }

 protected:
  // Where a try goes.
  struct Try {
    UnaryChannel* writes = nullptr;
    std::shared_ptr<EtcdConnection> connection{};
    std::shared_ptr<const std::string> token{};
    std::chrono::nanoseconds left{0};  // until it is given up
  };
  const Options& options() const { return options_; }

  // Before a try: makes what Cancel() needs, lets go of what the try before left.
  virtual void Reset() = 0;
  // Ends with Over(), perhaps before it returns.
  virtual void Send(Try to) = 0;
  // After Reset(), on any thread, perhaps before Send(). Does not call Over() inside.
  virtual void Cancel() = 0;
  virtual void Done(const Status& status) = 0;

  // The try is over; so is the call, perhaps.
  void Over(UnaryEnd end);

 private:
  friend class EtcdRpc;

  const Options options_;
  EtcdRpc* rpc_ = nullptr;
  SteadyTime deadline_{};

  // Of the try that is under way.
  UnaryEnd end_;
  std::shared_ptr<const std::string> token_;
  EtcdEndpoints::Index endpoint_ = 0;
  SteadyTime sent_{};
  // Guarded by the lock of EtcdRpc: its list of what is under way, and whether this try was
  // ended to go on elsewhere.
  EtcdCall* before_ = nullptr;
  EtcdCall* behind_ = nullptr;
  bool moved_ = false;

  // Of the tries before.
  EtcdVerdict verdict_;
  EtcdEndpoints::Set tried_ = 0;
  int new_tokens_ = 0;
};

UnaryEnd ToUnaryEnd(const grpc::Status& status);

// What gRPC's contexts carry besides their deadline.
void PrepareContext(grpc::ClientContext* context, bool needs_leader,
                    const std::shared_ptr<const std::string>& token);

// A call over grpc++ whose response its completion takes apart: completion(call, status, response).
template <typename Request, typename Response, typename Prepare, typename Completion>
class EtcdUnaryCall final : public EtcdCall, private EtcdTag {
 public:
  EtcdUnaryCall(const Options& options, Request request, Prepare prepare, Completion completion)
      : EtcdCall(options),
        request_(std::move(request)),
        prepare_(std::move(prepare)),
        completion_(std::move(completion)) {}

 private:
  void Reset() override {
    reader_.reset();
    response_.Clear();
    context_ = std::make_unique<grpc::ClientContext>();  // gRPC wants a new one for each
  }
  void Send(Try to) override {
    connection_ = std::move(to.connection);
    context_->set_deadline(
        std::chrono::system_clock::now() +
        std::chrono::duration_cast<std::chrono::system_clock::duration>(to.left));
    PrepareContext(context_.get(), options().needs_leader, to.token);
    reader_ = prepare_(*connection_, context_.get(), request_);
    reader_->StartCall();
    reader_->Finish(&response_, &status_, Lend());
  }
  void Cancel() override { context_->TryCancel(); }
  void Run(bool) override { Over(ToUnaryEnd(status_)); }
  void Done(const Status& status) override { completion_(*this, status, response_); }

  const Request request_;
  Response response_;
  const Prepare prepare_;
  Completion completion_;
  std::unique_ptr<grpc::ClientContext> context_;
  grpc::Status status_;
  std::shared_ptr<EtcdConnection> connection_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader_;
};

// A write, over the channel for writes.
class EtcdTransaction final : public EtcdCall {
 public:
  using Completion =
      std::function<void(const EtcdTransaction&, const Status&, etcdserverpb::TxnResponse&)>;
  EtcdTransaction(etcdserverpb::TxnRequest request, Completion completion)
      : EtcdCall({.repeatable = false}),
        request_(std::move(request)),
        completion_(std::move(completion)) {}

  const etcdserverpb::TxnRequest& request() const { return request_; }

 private:
  void Reset() override;
  void Send(Try to) override;
  void Cancel() override { canceller_->Cancel(); }
  void Done(const Status& status) override { completion_(*this, status, response_); }

  const etcdserverpb::TxnRequest request_;
  etcdserverpb::TxnResponse response_;
  const Completion completion_;
  std::shared_ptr<UnaryChannel::Canceller> canceller_;  // of the try that is under way
};

// A stream that EtcdRpc may have to end. Cancel() is called with EtcdRpc's lock held.
class EtcdStream {
 public:
  virtual ~EtcdStream() = default;
  virtual void Cancel() = 0;
};

// EtcdRpc carries calls and streams to whichever member of etcd answers: it keeps the
// connections, knows who works (EtcdEndpoints), tries again what may be tried again, fetches
// tokens, and probes who is lost. What the calls mean is EtcdClient's and EtcdWatch's affair.
//
// Writes, and the probes that tell whether a member takes them, go over a UnaryChannel; all else
// goes over grpc++: so no write waits until a page of a list is decoded, and what is sent
// thousands of times a second costs the least.
//
// With grpc++, completion queues with a thread of our own, and not gRPC's callback interface,
// because the threads behind that one sleep for 100 ms at a time once nothing has happened for a
// second (grpc 1.51, src/cpp/common/completion_queue_cc.cc): a quiet watch would be late by as
// much.
//
// Thread-safe.
class EtcdRpc {
 public:
  static Result<std::unique_ptr<EtcdRpc>> Open(EtcdClientOptions options);
  ~EtcdRpc();
  EtcdRpc(const EtcdRpc&) = delete;
  EtcdRpc& operator=(const EtcdRpc&) = delete;

  // Fails all that is under way with kCancelled and waits for that. Idempotent. Not from a
  // completion.
  void Stop();

  // `prepare` makes the reader for one try: prepare(connection, context, request).
  template <typename Response, typename Request, typename Prepare, typename Completion>
  void Start(const EtcdCall::Options& options, Request request, Prepare prepare,
             Completion completion) {
    StartCall(std::make_unique<EtcdUnaryCall<Request, Response, Prepare, Completion>>(
        options, std::move(request), std::move(prepare), std::move(completion)));
  }

  void Write(etcdserverpb::TxnRequest request, EtcdTransaction::Completion completion) {
    StartCall(std::make_unique<EtcdTransaction>(std::move(request), std::move(completion)));
  }

  // Where a stream may run.
  struct Place {
    EtcdEndpoints::Index endpoint = 0;
    std::shared_ptr<EtcdConnection> connection{};
    std::shared_ptr<const std::string> token{};
    SteadyTime since{};  // when it was given
  };
  // Calls back when there is a token, at once where none is needed; or with the reason why not.
  void AwaitToken(std::function<void(const Status&)> done);
  // Nothing where no endpoint works, or when we are stopping. Else whoever got the place calls
  // EndStream(), even if the stream never began.
  std::optional<Place> BeginStream(EtcdStream* stream, EtcdEndpoints::Set avoid);
  void EndStream(EtcdStream* stream, const Place& place, const EtcdVerdict* verdict);
  // Something is wrong with it: probe it before it is asked anything else.
  void Suspect(EtcdEndpoints::Index endpoint);
  void RefuseToken(const std::shared_ptr<const std::string>& token);

  // Asks the member at that place for its version, over the same connection; nothing where it
  // does not say. Where we are stopping, `done` is not called.
  using VersionDone = std::function<void(std::optional<bool> progress_is_sound)>;
  void AskVersion(const Place& place, VersionDone done);

  // Runs the task on the thread of the completion queue once that has done what it finds there now,
  // or much of it. REQUIRES: called on that thread
  void Postpone(std::function<void()> task);

  Executor& executor() { return executor_; }
  SteadyTime Now() const { return executor_.clock().Steady(); }
  const EtcdClientOptions& options() const { return options_; }
  void Log(LogLevel level, std::string_view message,
           std::vector<std::pair<std::string_view, std::string_view>> fields) const;

  bool progress_is_sound() const;
  // Ok where a member is known to take writes: it has answered a probe, or a call, within the last
  // seconds, and the connection for writes still exists. A member that stops to answer is noticed
  // within kSilence and a probe's time-out, whether or not anybody calls it.
  Status Health() const;

 private:
  friend class EtcdCall;
  class Probe;

  // The files' contents.
  struct Tls {
    std::string ca{};
    std::string cert{};
    std::string key{};

    bool operator==(const Tls&) const = default;
  };
  static Result<Tls> ReadTls(const EtcdClientOptions& options);

  EtcdRpc(EtcdClientOptions options, std::vector<EtcdAddress> addresses, Tls tls,
          std::vector<std::unique_ptr<UnaryChannel>> writes);

  std::shared_ptr<EtcdConnection> Connect(EtcdEndpoints::Index endpoint);
  void RunQueue();
  void StartCall(std::unique_ptr<EtcdCall> call);
  void Attempt(std::unique_ptr<EtcdCall> call, bool on_own_thread);
  void Ended(std::unique_ptr<EtcdCall> call);
  void Finish(std::unique_ptr<EtcdCall> call, const Status& status);
  void Fail(std::unique_ptr<EtcdCall> call, const Status& status, bool on_own_thread);
  void Authenticate();
  void Authenticated(const EtcdVerdict& verdict, const Status& status, std::string token);
  void Tick();
  void StartProbe(EtcdEndpoints::Index endpoint);
  void ProbeEnded(Probe& probe);
  // `asked`: when what was answered now was sent.
  void SeenAnswer(EtcdEndpoints::Index endpoint, SteadyTime asked);
  void SeenVerdict(EtcdEndpoints::Index endpoint, const EtcdVerdict& verdict, SteadyTime asked);
  void OneLess();

  Status NoEndpoint(SteadyTime now) const REQUIRES(mu_);
  bool TokenIsMissing() const REQUIRES(mu_);
  // Whether somebody has to call Authenticate(), now that somebody waits for a token.
  bool Wait(std::unique_ptr<EtcdCall>& call) REQUIRES(mu_);
  void Lost(EtcdEndpoints::Index endpoint) REQUIRES(mu_);

  const EtcdClientOptions options_;
  const std::vector<EtcdAddress> addresses_;
  const std::chrono::nanoseconds tick_;
  const std::chrono::nanoseconds silence_;
  const std::chrono::nanoseconds probe_timeout_;
  Tls tls_;  // the ticking thread's alone

  const std::vector<std::unique_ptr<UnaryChannel>> writes_;  // to each endpoint
  grpc::CompletionQueue queue_;
  std::vector<std::function<void()>> postponed_;  // the queue's thread's alone

  // Guards all below. No completion is called under it; what cancels takes the locks of gRPC and of
  // our HTTP client inside, and these call nobody back.
  mutable Mutex mu_;
  CondVar idle_;
  bool stopping_ GUARDED_BY(mu_) = false;
  std::size_t outstanding_ GUARDED_BY(mu_) = 0;  // calls, streams and probes
  EtcdEndpoints endpoints_ GUARDED_BY(mu_);
  std::vector<std::shared_ptr<EtcdConnection>> connections_ GUARDED_BY(mu_);
  std::vector<bool> stale_ GUARDED_BY(mu_);          // connect anew before the next probe
  std::vector<std::string> errors_ GUARDED_BY(mu_);  // why each endpoint was lost
  // A probe was answered over the channel for writes, which is connected since then or was lost.
  std::vector<bool> probed_ GUARDED_BY(mu_);
  EtcdCall* calls_ GUARDED_BY(mu_) = nullptr;  // under way
  std::vector<std::pair<EtcdStream*, EtcdEndpoints::Index>> streams_ GUARDED_BY(mu_);
  std::vector<Probe*> probes_ GUARDED_BY(mu_);

  std::shared_ptr<const std::string> token_ GUARDED_BY(mu_);
  bool no_authentication_ GUARDED_BY(mu_) = false;  // etcd wants no token
  bool authenticating_ GUARDED_BY(mu_) = false;
  Status refusal_ GUARDED_BY(mu_);  // of our user and password
  SteadyTime refused_until_ GUARDED_BY(mu_){};
  std::vector<std::unique_ptr<EtcdCall>> awaiting_token_ GUARDED_BY(mu_);
  std::vector<std::function<void(const Status&)>> streams_awaiting_token_ GUARDED_BY(mu_);

  Executor executor_;   // ticks, and completes what failed before it was sent
  std::thread thread_;  // the queue's
};

}  // namespace herald::store
