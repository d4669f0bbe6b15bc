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
  // Empty: the program's name and Herald's version. The server uses the part before the slash as
  // the field manager of writes.
  std::string user_agent{};
  // Limit of requests per second, without watches; 0: no limit. (client-go's defaults are 5 and a
  // burst of 10; servers since 1.20 limit requests themselves.)
  double qps = 0;
  int burst = 10;
  // For one attempt, from its start to the end of the answer. Longer than the 60 s after which an
  // API server times out.
  std::chrono::milliseconds timeout{65'000};
  // How many times a request is retried if the server asks for it (429 or 5xx with Retry-After),
  // as in client-go.
  int max_retries = 10;
  std::chrono::milliseconds connect_timeout{10'000};
  bool allow_http2 = true;
  // Use HTTP/2 without TLS (prior knowledge). The server must support it.
  bool plain_http2 = false;
  LogFunction log{};
};

// One request to the API server.
struct RestRequest {
  std::string method = "GET";
  std::string path{};  // "/api/v1/namespaces/default/events", escaped as in a URL
  std::vector<std::pair<std::string, std::string>> query{};
  std::string accept = "application/json";
  std::string content_type{};  // of the body; empty without a body
  std::string body{};
  // The object of the request, for error messages.
  std::string group{};
  std::string resource{};
  std::string name{};
  // Override those of the RestClient.
  std::optional<std::chrono::milliseconds> timeout{};
  std::optional<int> max_retries{};
};

struct RestResponse {
  int code = 200;
  std::string content_type{};
  std::string body{};
  std::vector<std::string> warnings{};  // of the Warning headers, for the user
};

// The counters of a client. All but the gauge only increase.
struct RestStats {
  std::uint64_t requests = 0;   // attempts
  std::uint64_t retries = 0;    // attempts that were repeats, for any reason
  std::uint64_t refused = 0;    // attempts that were answered with 4xx or 5xx
  std::uint64_t failed = 0;     // attempts without an answer
  std::uint64_t refreshes = 0;  // of credentials, after a 401 or because they expired
  std::uint64_t connections_opened = 0;
  std::size_t connections = 0;  // gauge
};

// A RestClient sends requests to one API server with the credentials of one account. It refreshes
// expired credentials (once per request after a 401), retries when the server asks for it, and
// turns every failure into a Status with client-go's message. A Status with origin server is the
// server's answer; the others are kUnreachable, kTimeout or kCancelled.
//
// All requests share one HTTP/2 connection, or a pool of connections if the server supports only
// HTTP/1.1. The client has one thread that does all the work and runs all callbacks. Callbacks
// must not block, so they must not make blocking calls of this client.
//
// Thread-safe.
class HERALD_EXPORT RestClient {
 public:
  using Done = std::function<void(Result<RestResponse>)>;

  // For an answer that arrives in pieces. On success `head` is called first and then `data` with
  // the bytes as they arrive. `done` is always called, once and last.
  struct StreamCallbacks {
    std::function<void(std::string_view content_type)> head{};
    std::function<void(std::string_view bytes)> data{};
    std::function<void(const Status&)> done{};
  };

  // An error if the configuration is invalid. Does not connect: the first request does.
  static Result<std::shared_ptr<RestClient>> Open(ClientConfig config, RestOptions options = {});

  // Requests under way end with kCancelled before the destructor returns, or soon after if it runs
  // in one of the client's own callbacks.
  ~RestClient();
  RestClient(const RestClient&) = delete;
  RestClient& operator=(const RestClient&) = delete;

  // Success is any 2xx. The callback runs on the client's thread. It may run before Send() returns,
  // then on the caller's thread, if the request cannot be sent. After a stop was requested it is
  // called soon, with kCancelled.
  void Send(RestRequest request, Done done, const std::stop_token& stop = {});
  Result<RestResponse> Send(RestRequest request, const std::stop_token& stop = {});
  void Stream(RestRequest request, StreamCallbacks callbacks, const std::stop_token& stop = {});

  const ClientConfig& config() const;
  RestStats Stats() const;

  class Impl;
  // For other classes of this library.
  Impl& impl() { return *impl_; }
  explicit RestClient(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace herald
