#pragma once

// clang-format off: before gRPC, whose absl defines macros of the same names and meaning
#include "base/thread/mutex.h"
// clang-format on

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "store/etcd/connection.h"
#include "store/etcd/endpoints.h"
#include "store/etcd/error.h"
#include "store/etcd/etcd.grpc.pb.h"
#include "store/etcd/unary_channel.h"

namespace herald::store {

class EtcdRpc;

// A tag for a gRPC completion queue. A thread of the queue runs it when the operation completes.
class CompletionTag {
 public:
  CompletionTag() = default;
  virtual ~CompletionTag() = default;
  CompletionTag(const CompletionTag&) = delete;
  CompletionTag& operator=(const CompletionTag&) = delete;

  // Registers the tag for one operation. Run() sees all writes made before Publish(). gRPC ensures
  // this too, but in code that the compiler and ThreadSanitizer cannot see.
  void* Publish() {
    published_.store(true, std::memory_order_release);
    return this;
  }
  static void Complete(void* tag, bool ok) {
    auto* const self = static_cast<CompletionTag*>(tag);
    self->published_.load(std::memory_order_acquire);
    self->Run(ok);
  }

 private:
  virtual void Run(bool ok) = 0;

  std::atomic<bool> published_ = false;
};

// One unary call, including all of its attempts. Not thread-safe: EtcdRpc passes it from thread to
// thread.
class EtcdCall {
 public:
  struct Options {
    bool repeatable = false;   // executing it twice has the same effect as once
    bool needs_leader = true;  // a member without a leader rejects it at once
    bool needs_token = true;   // if a user is configured
  };

  explicit EtcdCall(const Options& options) : options_(options) {}
  virtual ~EtcdCall() = default;
  EtcdCall(const EtcdCall&) = delete;
  EtcdCall& operator=(const EtcdCall&) = delete;

  // How the last attempt failed.
  const EtcdErrorInfo& error_info() const { return error_info_; }

 protected:
  // Where one attempt is sent.
  struct AttemptTarget {
    UnaryChannel* write_channel = nullptr;
    std::shared_ptr<EtcdConnection> connection{};
    std::shared_ptr<const std::string> token{};
    std::chrono::nanoseconds timeout{0};
  };
  const Options& options() const { return options_; }

  // Called before each attempt: creates what Cancel() needs and frees the previous attempt's state.
  virtual void Reset() = 0;
  // Calls AttemptEnded() once, possibly before it returns.
  virtual void Send(AttemptTarget to) = 0;
  // Called on any thread after Reset(), possibly before Send(). Does not call AttemptEnded()
  // itself.
  virtual void Cancel() = 0;
  // Called once, when the whole call has ended.
  virtual void Done(const Status& status) = 0;

  // The attempt has ended. EtcdRpc decides whether there is another one.
  void AttemptEnded(UnaryResult result);

 private:
  friend class EtcdRpc;

  const Options options_;
  EtcdRpc* rpc_ = nullptr;
  SteadyTime deadline_{};

  // The attempt in progress.
  UnaryResult result_;
  std::shared_ptr<const std::string> token_;
  EtcdEndpoints::Index endpoint_ = 0;
  SteadyTime sent_at_{};
  // Guarded by EtcdRpc's lock: the list of calls in progress, and whether this attempt was
  // cancelled in order to retry it on another member.
  EtcdCall* previous_ = nullptr;
  EtcdCall* next_ = nullptr;
  bool moved_ = false;

  // The previous attempts.
  EtcdErrorInfo error_info_;
  EtcdEndpoints::Set tried_ = 0;
  int new_tokens_ = 0;
};

UnaryResult ToUnaryResult(const grpc::Status& status);
// ClassifyEtcdError() for a unary call. REQUIRES: result.code != kOk
EtcdErrorInfo ClassifyResult(const UnaryResult& result);

// A call over grpc++. It ends with completion(call, status, response).
template <typename Request, typename Response, typename Prepare, typename Completion>
class EtcdUnaryCall final : public EtcdCall, private CompletionTag {
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
    context_ = std::make_unique<grpc::ClientContext>();  // gRPC needs a new one for each attempt
  }
  void Send(AttemptTarget to) override {
    connection_ = std::move(to.connection);
    context_->set_deadline(
        std::chrono::system_clock::now() +
        std::chrono::duration_cast<std::chrono::system_clock::duration>(to.timeout));
    PrepareContext(context_.get(), options().needs_leader, to.token);
    reader_ = prepare_(*connection_, context_.get(), request_);
    reader_->StartCall();
    reader_->Finish(&response_, &status_, Publish());
  }
  void Cancel() override { context_->TryCancel(); }
  void Run(bool) override { AttemptEnded(ToUnaryResult(status_)); }
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

// A write. It uses the channel for writes.
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
  void Send(AttemptTarget to) override;
  void Cancel() override { canceller_->Cancel(); }
  void Done(const Status& status) override { completion_(*this, status, response_); }

  const etcdserverpb::TxnRequest request_;
  etcdserverpb::TxnResponse response_;
  const Completion completion_;
  std::shared_ptr<UnaryChannel::Canceller> canceller_;  // of the attempt in progress
};

}  // namespace herald::store
