#pragma once

#include <deque>
#include <memory>
#include <stop_token>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/limit/token_bucket.h"
#include "base/thread/mutex.h"
#include "client/config/credentials.h"
#include "client/rest/transport.h"
#include "herald/base/executor.h"
#include "herald/client/rest.h"

namespace herald {

// The implementation of RestClient. A pending request is in exactly one of these places:
//
//   throttled_   waits for a token of the QPS limit
//   refreshing_  waits for credentials
//   (a timer)    waits for the time of a Retry-After header
//   (transport)  is under way
//
// In the first three it is also in waiting_, so that the destructor can end it. A request moves
// from one place to the next on the transport's thread. The first step runs on the caller's thread
// if the request has no stop token.
//
// Thread-safe.
class RestClient::Impl {
 public:
  Impl(ClientConfig config, RestOptions options, std::shared_ptr<Credentials> credentials,
       std::unique_ptr<Transport> transport);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void Send(RestRequest request, Done done, const std::stop_token& stop);
  void Stream(RestRequest request, StreamCallbacks callbacks, const std::stop_token& stop);

  const ClientConfig& config() const { return config_; }
  const RestOptions& options() const { return options_; }
  Transport& transport() { return *transport_; }
  RestStats Stats() const;
  // Whether the caller is on the transport's thread.
  bool RunsHere() const { return transport_->RunsHere(); }

 private:
  struct PendingRequest;
  using PendingPtr = std::shared_ptr<PendingRequest>;

  void Begin(const PendingPtr& pending);
  // Waits for the QPS limit, then gets credentials, then sends.
  void Proceed(const PendingPtr& pending);
  void Authorize(const PendingPtr& pending);
  void Dispatch(const PendingPtr& pending, const Credentials::Authorization& authorization);
  http::Request MakeRequest(const PendingRequest& pending,
                            const Credentials::Authorization& authorization) const;
  void OnResponse(const PendingPtr& pending, Result<http::Response> response);
  // Retries if the answer allows it. Returns false if the answer is final.
  bool Retry(const PendingPtr& pending, int code, const http::Headers& headers);
  void Refresh(const PendingPtr& pending);
  void OnRefreshed(const Status& status);
  void Finish(const PendingPtr& pending, Result<RestResponse> result);
  void Cancel(const PendingPtr& pending);
  void ArmThrottle() REQUIRES(mu_);
  void OnThrottleTimer();
  // Adds the request to waiting_. If the client is closed, ends the request and returns false.
  bool Wait(const PendingPtr& pending);
  void EndWait(const PendingPtr& pending);

  const ClientConfig config_;
  const RestOptions options_;
  const std::string user_agent_;
  const TokenBucket::Limits limits_;
  const std::shared_ptr<Credentials> credentials_;  // shared with the TLS callback
  std::stop_source stopping_;

  // Guards all below. No callback runs under it.
  mutable Mutex mu_;
  bool closed_ GUARDED_BY(mu_) = false;
  std::unordered_set<PendingPtr> waiting_ GUARDED_BY(mu_);
  std::deque<PendingPtr> throttled_ GUARDED_BY(mu_);
  TokenBucket bucket_ GUARDED_BY(mu_);
  bool throttle_armed_ GUARDED_BY(mu_) = false;
  std::vector<PendingPtr> refreshing_ GUARDED_BY(mu_);
  RestStats stats_ GUARDED_BY(mu_);

  // Runs the exec plugin, which may take a minute. Null if there is no plugin.
  std::unique_ptr<Executor> worker_;

  // Protects the transport from a stop request that comes from another thread during destruction.
  // Held only while a task is posted.
  Mutex stop_mu_;
  bool gone_ GUARDED_BY(stop_mu_) = false;
  // Owned. A raw pointer, because it must stay valid while the transport is being destroyed, until
  // its last callback has returned.
  Transport* const transport_;
};

}  // namespace herald
