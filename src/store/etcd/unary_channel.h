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

// How a call ended, in gRPC's terms.
struct UnaryEnd {
  GrpcCode code = GrpcCode::kOk;
  std::string message{};   // why not
  bool untouched = false;  // the server has surely done nothing about it; never with kOk
};

// A UnaryChannel makes gRPC calls that have one request and one answer, over Herald's own HTTP/2
// client: for the calls that are made thousands of times a second. All that begin in one turn of
// its thread leave in one write, and all answers that have come are read in one go, where grpc++
// writes and wakes up for each (doc/benchmarks.md has the difference).
//
// Connects when there is something to send, and again when the connection broke. Nothing is
// compressed and nothing is tried twice, unless the server has surely not seen it.
//
// Thread-safe. Not to be destroyed by a callback; destroying it fails what is under way with
// GrpcCode::kCancelled.
class UnaryChannel {
 public:
  struct Options {
    std::string url{};                               // "https://a:2379", "http://127.0.0.1:2379"
    std::function<Result<http::ClientTls>()> tls{};  // asked when a connection is made
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
  // What a call is cancelled by. Thread-safe: any thread, before, while and after it is started.
  class Canceller {
   public:
    // It ends with GrpcCode::kCancelled, unless it has ended. REQUIRES: the channel is there still
    void Cancel();

   private:
    friend class UnaryChannel;
    static constexpr http::Client::CallId kCancelled = ~http::Client::CallId{0};
    http::Client* client_ = nullptr;           // written before id_
    std::atomic<http::Client::CallId> id_{0};  // 0: not started yet
  };
  // `response` is filled before `done` comes, on the channel's thread, exactly once; it may come
  // before this returns. `canceller` is for this call alone.
  // REQUIRES: `response` lives until then; `request` until this returns
  void Start(const Call& call, const google::protobuf::MessageLite& request,
             google::protobuf::MessageLite* response, std::shared_ptr<Canceller> canceller,
             std::function<void(UnaryEnd)> done);

  // New calls go over a new connection: something is wrong with the one that there is.
  void Renew() { client_->Renew(); }
  bool connected() const { return client_->Stats().connections > 0; }

 private:
  UnaryChannel(std::string url, std::unique_ptr<http::Client> client)
      : url_(std::move(url)), client_(std::move(client)) {}

  UnaryEnd Failed(const Status& error) const;

  const std::string url_;
  const std::unique_ptr<http::Client> client_;
};

// A gRPC message as it stands in a body: a flag, its length, and itself.
std::string FrameGrpcMessage(const google::protobuf::MessageLite& message);

// What an HTTP answer says as the answer to a unary call; `response` gets the message that it
// holds. Whatever a server may send is fine.
UnaryEnd ReadUnaryAnswer(const http::Response& answer, google::protobuf::MessageLite* response);

}  // namespace herald::store
