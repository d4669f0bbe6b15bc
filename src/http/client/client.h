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

// PEM texts. Read each time a connection is made, so that they rotate without a
// restart: see ClientOptions::tls.
struct ClientTls {
  std::string ca{};           // empty: the system's
  std::string certificate{};  // with key: shown to servers that ask
  std::string key{};
  std::string server_name{};  // SNI and the name that is verified; empty: the URL's host
  bool insecure_skip_verify = false;

  bool operator==(const ClientTls&) const = default;
};

struct ClientOptions {
  // "https://10.0.0.1:6443", with or without a path, which is put before every target.
  std::string url{};
  // Asked on the client's thread when a connection is made, and every tls_check_interval
  // while there are connections; null: defaults. When what it returns has changed,
  // connections made with the old response are used no more. It must not block for long.
  std::function<Result<ClientTls>()> tls{};
  // "http://[user:password@]host:port"; empty: none. It is asked by CONNECT for a tunnel,
  // for plain servers as well. With https:// it is spoken to over TLS, by the rules of
  // `tls`, as Go's client does; with socks5:// it is asked by SOCKS5.
  std::string proxy_url{};
  bool allow_http2 = true;  // false: HTTP/1.1 only
  // Plain connections, too, are HTTP/2: the server is known to speak it (etcd).
  bool plain_http2 = false;

  // At once. HTTP/2 uses one, or a few where long calls (watches) take all the streams that
  // the server allows on it.
  std::size_t max_http1_connections = 32;
  std::size_t max_header_bytes = 256 * 1024;          // of one response
  std::chrono::milliseconds connect_timeout{10'000};  // TCP, proxy and TLS together
  std::chrono::milliseconds idle_timeout{90'000};     // an unused connection is closed
  std::chrono::milliseconds ping_interval{30'000};    // HTTP/2: quiet for so long, then ping
  std::chrono::milliseconds ping_timeout{15'000};     // no pong for so long: connection is dead
  bool ping_without_calls = true;                     // gRPC's servers hang up on who does
  std::chrono::milliseconds tls_check_interval{60'000};
  LogFunction log{};
};

struct CallOptions {
  // From the start of the call to its end; 0: none (watches).
  std::chrono::milliseconds timeout{0};
  // A body over this is an error; only for Fetch().
  std::size_t max_body_bytes = 512 * 1024 * 1024;
  // The request may be sent again on another connection when the one it went out on
  // broke, or was closed by GOAWAY, before any response. Requests that are known not to have
  // been processed (refused streams, those above a GOAWAY's last) are repeated in any case.
  // Either is done three times at most.
  bool repeatable = false;
};

// Whether the server has surely done nothing about a call that ended with this error: there was no
// connection for it, or the server said so.
bool IsUnprocessed(const Status& error);

struct ClientStats {
  std::uint64_t connections_opened = 0;
  std::uint64_t connections_failed = 0;
  std::uint64_t requests = 0;
  std::uint64_t repeated = 0;
  std::size_t connections = 0;  // gauge
  std::size_t calls = 0;        // gauge
};

// An HTTP client for one server: HTTP/2 by ALPN with all calls on one connection,
// HTTP/1.1 with a pool otherwise. Bodies are decoded from gzip, for which it asks
// unless the request has an accept-encoding of its own. Redirects are not followed.
//
// One thread of its own does all the work and runs all callbacks, which must not block.
// (Names of hosts are looked up on another, because that blocks.)
//
// Errors are kUnreachable (no connection, or it broke before the response was whole, with a
// message that names the server and the cause: refused, no such host, certificate expired,
// ...), kTimeout, kCancelled, kRequestEntityTooLarge (of a body over max_body_bytes) or
// kBadRequest (a request that cannot be put on the wire), origin local. A response with
// whatever status is a success here: judging it is the caller's business.
//
// Thread-safe.
class Client {
 public:
  // Names a call, for Cancel(). Never used twice.
  using CallId = std::uint64_t;

  // Each is called on the client's thread. `head` once, `data` any number of times,
  // `done` once and last, whatever happened. While `data` has not returned the peer is
  // not read from further than the window, so a slow reader slows down its peer.
  struct Callbacks {
    std::function<void(const ResponseHead&)> head{};
    std::function<void(std::string_view)> data{};
    std::function<void(const Status&)> done{};
  };

  // An error where the URL or the proxy's makes no sense. Connects only when needed.
  static Result<std::unique_ptr<Client>> Open(ClientOptions options);

  // Cancels all calls, runs what was posted and drops what was posted for later, waits for
  // the callbacks, closes. It may have to wait for a name lookup, which no system can
  // interrupt. Not from a callback.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  CallId Start(Request request, CallOptions options, Callbacks callbacks);
  // `done` comes with kCancelled, unless it is on its way already. Unknown ids are ignored.
  void Cancel(CallId call);

  // The whole response, by callback or by waiting for it (not from a callback).
  CallId Fetch(Request request, CallOptions options, std::function<void(Result<Response>)> done);
  Result<Response> Fetch(Request request, CallOptions options = {}, std::stop_token stop = {});

  // What is sent from now on goes over a new connection; what was sent stays where it is.
  void Renew();

  // Runs the task on the client's thread, at once or later.
  void Post(std::function<void()> task);
  void PostAfter(std::chrono::nanoseconds delay, std::function<void()> task);

  ClientStats Stats() const;

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald::http
