#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "herald/base/export.h"
#include "herald/base/log.h"
#include "herald/base/status.h"
#include "herald/client/config.h"

namespace herald {

struct RestOptions {
  // Empty: the program's name and Herald's version. The server keeps the part before
  // the slash as the manager of the fields that are written.
  std::string user_agent{};
  // At most so many requests a second, watches not counted; 0: no limit. (client-go
  // has 5 and 10 by default; servers since 1.20 protect themselves better.)
  double qps = 0;
  int burst = 10;
  // For one attempt, from its start to the whole answer. Above the 60 s that an API
  // server gives itself.
  std::chrono::milliseconds timeout{65'000};
  // How often a request is sent again that the server put off (429 or 5xx with
  // Retry-After), as client-go does.
  int max_retries = 10;
  std::chrono::milliseconds connect_timeout{10'000};
  bool allow_http2 = true;
  // Speak HTTP/2 also where there is no TLS to agree on it: for servers known to.
  bool plain_http2 = false;
  LogFunction log{};
};

// One request in the terms of Kubernetes.
struct RestRequest {
  std::string method = "GET";
  std::string path{};  // "/api/v1/namespaces/default/events", escaped as in a URL
  std::vector<std::pair<std::string, std::string>> query{};
  std::string accept = "application/json";
  std::string content_type{};  // of the body, if there is one
  std::string body{};
  // What it is about, for messages.
  std::string group{};
  std::string resource{};
  std::string name{};
  // Instead of the client's own.
  std::optional<std::chrono::milliseconds> timeout{};
  std::optional<int> max_retries{};
};

struct RestResponse {
  int code = 200;
  std::string content_type{};
  std::string body{};
  std::vector<std::string> warnings{};  // what the server wants the user to know
};

// What a client counts. Monotonic but for the gauge.
struct RestStats {
  std::uint64_t requests = 0;   // attempts
  std::uint64_t retries = 0;    // of which repeats, for any reason
  std::uint64_t refused = 0;    // answered with 4xx or 5xx
  std::uint64_t failed = 0;     // not answered
  std::uint64_t refreshes = 0;  // new credentials after a 401 or an expiry
  std::uint64_t connections_opened = 0;
  std::size_t connections = 0;  // gauge
};

// A RestClient talks to one API server on behalf of one account: it authenticates,
// takes care of expired credentials (401: new ones, once), of servers that ask to come back later,
// and turns every failure into a Status as client-go words it: one with origin server
// is the server's own answer, the others are kUnreachable, kTimeout or kCancelled.
//
// All requests share one HTTP/2 connection, or a pool where the server has only
// HTTP/1.1. One thread of the client's own does all the work and runs all callbacks,
// which must not block; the blocking calls must not be made from a callback.
//
// Thread-safe.
class HERALD_EXPORT RestClient {
 public:
  using Done = std::function<void(Result<RestResponse>)>;

  // An answer that comes in pieces. `data` is called with bytes as they arrive, `head`
  // before it and only for success, `done` once and last.
  struct StreamCallbacks {
    std::function<void(std::string_view content_type)> head{};
    std::function<void(std::string_view bytes)> data{};
    std::function<void(const Status&)> done{};
  };

  // An error where the configuration makes no sense. Connects only when needed.
  static Result<std::shared_ptr<RestClient>> Open(ClientConfig config, RestOptions options = {});

  // Calls that are under way end with kCancelled before it returns; soon after, if the last
  // reference was dropped in a callback of its own.
  ~RestClient();
  RestClient(const RestClient&) = delete;
  RestClient& operator=(const RestClient&) = delete;

  // Success is any 2xx. The callback runs on the client's thread, in rare cases before
  // Send() returns; after a stop was requested, soon and with kCancelled.
  void Send(RestRequest request, Done done, const std::stop_token& stop = {});
  Result<RestResponse> Send(RestRequest request, const std::stop_token& stop = {});
  void Stream(RestRequest request, StreamCallbacks callbacks, const std::stop_token& stop = {});

  const ClientConfig& config() const;
  RestStats Stats() const;

  class Impl;
  // For the other parts of the client.
  Impl& impl() { return *impl_; }
  explicit RestClient(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace herald
