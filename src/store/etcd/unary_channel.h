#pragma once

#include <google/protobuf/message_lite.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "herald/base/status.h"
#include "http/client/client.h"
#include "store/etcd/error.h"

namespace herald::store {

// How a call ended, as a gRPC status.
struct UnaryResult {
  GrpcCode code = GrpcCode::kOk;
  std::string message{};     // of an error
  bool unprocessed = false;  // the server certainly did not process the call; false with kOk
};

// A UnaryChannel makes unary gRPC calls over Herald's own HTTP/2 client, for calls that are made
// thousands of times a second. It sends all calls that start in one turn of its thread with one
// write, and reads all available responses at once. grpc++ writes and wakes up for each call
// (doc/benchmarks.md compares them).
//
// It connects for the first call, and again when the connection breaks. It does not compress, and
// retries a call only if the server certainly did not process it.
//
// Thread-safe. Must not be destroyed by a callback. Destroying it fails the calls in progress with
// GrpcCode::kCancelled.
class UnaryChannel {
 public:
  struct Options {
    std::string url{};                               // "https://a:2379", "http://127.0.0.1:2379"
    std::function<Result<http::ClientTls>()> tls{};  // called for each new connection
    std::chrono::milliseconds connect_timeout{5'000};
    std::chrono::milliseconds ping_interval{10'000};
    std::chrono::milliseconds ping_timeout{5'000};
  };
  static Result<std::unique_ptr<UnaryChannel>> Open(Options options);

  struct Call {
    std::string_view method{};  // "/etcdserverpb.KV/Txn"
    std::chrono::milliseconds timeout{5'000};
    bool needs_leader = true;
    std::shared_ptr<const std::string> token{};
  };
  // Cancels one call. Thread-safe: it may be used before, while and after the call starts.
  class Canceller {
   public:
    // Ends the call with GrpcCode::kCancelled if it is in progress. REQUIRES: the channel exists
    void Cancel();

   private:
    friend class UnaryChannel;
    static constexpr http::Client::CallId kCancelled = ~http::Client::CallId{0};
    http::Client* client_ = nullptr;           // written before id_
    std::atomic<http::Client::CallId> id_{0};  // 0: not started yet
  };
  // Fills `response` and then calls `done` exactly once, on the channel's thread or before this
  // returns. `canceller` must not be shared with another call.
  // REQUIRES: `response` lives until `done` is called, `request` until this returns
  void Start(const Call& call, const google::protobuf::MessageLite& request,
             google::protobuf::MessageLite* response, std::shared_ptr<Canceller> canceller,
             std::function<void(UnaryResult)> done);

  // Makes new calls use a new connection, because the current one may be broken.
  void Renew() { client_->Renew(); }
  bool connected() const { return client_->Stats().connections > 0; }

 private:
  UnaryChannel(std::string url, std::unique_ptr<http::Client> client)
      : url_(std::move(url)), client_(std::move(client)) {}

  UnaryResult FailedResult(const Status& error) const;

  const std::string url_;
  const std::unique_ptr<http::Client> client_;
};

// A gRPC message as it is in an HTTP body: the compression flag, the length, the message.
std::string FrameGrpcMessage(const google::protobuf::MessageLite& message);

// Parses the HTTP response to a unary call; `response` gets its message. Accepts arbitrary input.
UnaryResult ParseUnaryResponse(const http::Response& answer,
                               google::protobuf::MessageLite* response);

}  // namespace herald::store
