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

#include "herald/base/log.h"
#include "herald/base/status.h"
#include "http/message.h"

namespace herald::http {

// TLS material, all in PEM. Read each time a connection is made, so that it can be rotated without
// a restart: see ClientOptions::tls. A value type.
struct ClientTls {
  std::string ca{};           // empty: the system's
  std::string certificate{};  // with key: sent to servers that ask for one
  std::string key{};
  std::string server_name{};  // for SNI and verification; empty: the URL's host
  bool insecure_skip_verify = false;

  bool operator==(const ClientTls&) const = default;
};

struct ClientOptions {
  // "https://10.0.0.1:6443". A path is allowed; it is prepended to every target.
  std::string url{};
  // Called on the client's thread when a connection is made, and every tls_check_interval while
  // there are connections; null: defaults. When the result changes, connections made with the old
  // one get no more calls. It must not block for long.
  std::function<Result<ClientTls>()> tls{};
  // "http://[user:password@]host:port"; empty: none. The tunnel is requested with CONNECT, also for
  // http:// servers. With https:// the connection to the proxy uses TLS with the material of `tls`,
  // as Go's client does. With socks5:// the tunnel is requested with SOCKS5.
  std::string proxy_url{};
  bool allow_http2 = true;  // false: HTTP/1.1 only
  // Use HTTP/2 without TLS, too: the server is known to support it (etcd).
  bool plain_http2 = false;

  // At the same time. HTTP/2 uses one connection, or a few if long calls (watches) use all streams
  // that the server allows on it.
  std::size_t max_http1_connections = 32;
  std::size_t max_header_bytes = 256 * 1024;          // of one response
  std::chrono::milliseconds connect_timeout{10'000};  // TCP, proxy and TLS together
  std::chrono::milliseconds idle_timeout{90'000};     // an unused connection is closed
  std::chrono::milliseconds ping_interval{30'000};    // HTTP/2: ping after this time without input
  std::chrono::milliseconds ping_timeout{15'000};     // no acknowledgement: connection is closed
  bool ping_without_calls = true;  // false for gRPC servers, which reject such pings
  std::chrono::milliseconds tls_check_interval{60'000};
  LogFunction log{};
};

struct CallOptions {
  // From the start of the call to its end; 0: none (watches).
  std::chrono::milliseconds timeout{0};
  // A body over this is an error; only for Fetch().
  std::size_t max_body_bytes = 512 * 1024 * 1024;
  // The request may be sent again on another connection if its connection failed or was closed by
  // GOAWAY before any response. Requests that were certainly not processed (REFUSED_STREAM, or a
  // stream above the last one of a GOAWAY) are sent again in any case. Both at most three times.
  bool repeatable = false;
};

// Whether the server has certainly not processed a call that ended with this error: there was no
// connection for it, or the server has reported so.
bool IsUnprocessed(const Status& error);

struct ClientStats {
  std::uint64_t connections_opened = 0;
  std::uint64_t connections_failed = 0;
  std::uint64_t requests = 0;
  std::uint64_t repeated = 0;
  std::size_t connections = 0;  // gauge
  std::size_t calls = 0;        // gauge
};

// An HTTP client for one server: HTTP/2 by ALPN with all calls on one connection, otherwise
// HTTP/1.1 with a pool. It asks for gzip and decodes it, unless the request has its own
// accept-encoding. Redirects are not followed. A call is a request with its response.
//
// One thread of the client does all the work and runs all callbacks, which must not block. (Host
// names are resolved on another thread, because that blocks.)
//
// Errors are kUnreachable (no connection, or it failed before the response was complete; the
// message has the server and the cause: connection refused, no such host, certificate expired,
// ...), kTimeout, kCancelled, kRequestEntityTooLarge (a body over max_body_bytes) or kBadRequest (a
// request that cannot be sent), all with origin local. A response with any status code is a success
// here; the caller evaluates it.
//
// Thread-safe.
class Client {
 public:
  // Identifies a call, for Cancel(). Never reused.
  using CallId = std::uint64_t;

  // All are called on the client's thread. `head` is called at most once, `data` any number of
  // times, `done` always, once and last. Until `data` returns, no more than the window is received,
  // so a slow callback slows down the server.
  struct Callbacks {
    std::function<void(const ResponseHead&)> head{};
    std::function<void(std::string_view)> data{};
    std::function<void(const Status&)> done{};
  };

  // Fails if the URL of the server or of the proxy is invalid. Connects only when needed.
  static Result<std::unique_ptr<Client>> Open(ClientOptions options);

  // Cancels all calls, runs posted tasks, drops tasks that are posted for later, waits for the
  // callbacks and closes. It may have to wait for the resolution of a host name, which cannot be
  // interrupted. Must not be called from a callback.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  CallId Start(Request request, CallOptions options, Callbacks callbacks);
  // `done` is called with kCancelled, unless the call has ended already. Unknown ids are ignored.
  void Cancel(CallId call);

  // Fetches a whole response: with a callback, or blocking. The second must not be called from a
  // callback.
  CallId Fetch(Request request, CallOptions options, std::function<void(Result<Response>)> done);
  Result<Response> Fetch(Request request, CallOptions options = {}, std::stop_token stop = {});

  // New calls use a new connection; started ones stay on theirs.
  void Renew();

  // Runs the task on the client's thread, as soon as possible or after a delay.
  void Post(std::function<void()> task);
  void PostAfter(std::chrono::nanoseconds delay, std::function<void()> task);

  ClientStats Stats() const;

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald::http
