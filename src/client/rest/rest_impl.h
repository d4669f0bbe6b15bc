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

// A call is in exactly one of these places:
//
//   throttled_   waits for a token of the QPS limit
//   refreshing_  waits for credentials
//   (a timer)    waits for the time a server named in Retry-After
//   (transport)  is under way
//
// The first three are in waiting_ as well, so that the end of the client can tell
// them. The steps from one to the next happen on the transport's thread, except the first
// one, which happens on the caller's where nothing stands in the way.
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
  // Whether this is the transport's thread.
  bool RunsHere() const { return transport_->RunsHere(); }

 private:
  struct PendingRequest;
  using PendingPtr = std::shared_ptr<PendingRequest>;

  void Begin(const PendingPtr& pending);
  // Throttle, then credentials, then the wire.
  void Proceed(const PendingPtr& pending);
  void Authorize(const PendingPtr& pending);
  void Dispatch(const PendingPtr& pending, const Credentials::Shown& shown);
  http::Request MakeRequest(const PendingRequest& pending, const Credentials::Shown& shown) const;
  void OnResponse(const PendingPtr& pending, Result<http::Response> response);
  // Whether the call goes on in spite of this answer.
  bool TryAgain(const PendingPtr& pending, int code, const http::Headers& headers);
  void Refresh(const PendingPtr& pending);
  void OnRefreshed(const Status& status);
  void Finish(const PendingPtr& pending, Result<RestResponse> result);
  void Cancel(const PendingPtr& pending);
  void ArmThrottle() REQUIRES(mu_);
  void OnThrottleTimer();
  // False if the client has been closed: the call has been told.
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

  // Runs exec plugins, which may take a minute. Null where there is none.
  std::unique_ptr<Executor> worker_;

  // Keeps a stop, which may come from any thread at any time, from finding no transport.
  // Held while a task is posted, and over nothing else.
  Mutex stop_mu_;
  bool gone_ GUARDED_BY(stop_mu_) = false;
  // Owned. A plain pointer, because it has to be good until the last of its callbacks has
  // returned, while it is being destroyed.
  Transport* const transport_;
};

}  // namespace herald
