#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "herald/base/log.h"
#include "herald/base/status.h"
#include "http/message.h"

namespace herald::http {

// The client at the other end of a connection. Immutable after the TLS handshake.
struct Peer {
  // The names in a client certificate that was verified against ServerTls::client_ca.
  struct Certificate {
    std::string common_name{};
    std::vector<std::string> organizations{};
    std::string subject{};  // RFC 2253, for logs
    // The SHA-256 of the CA in client_ca by which it was verified, as lower-case hex: there may be
    // CAs for users and others for front proxies.
    std::string anchor_sha256{};
    std::string sha256{};  // of the certificate itself, as lower-case hex
    // When the certificate and every CA up to that one are valid, both ends included. They were
    // valid at the handshake. A connection may live longer, so code that trusts the certificate
    // must compare these with the time of the request. Seconds, because a certificate may be valid
    // until 9999.
    std::chrono::sys_seconds not_before = std::chrono::sys_seconds::min();
    std::chrono::sys_seconds not_after = std::chrono::sys_seconds::max();
  };

  std::string address{};         // "127.0.0.1:43210"
  std::uint64_t connection = 0;  // counts up from 1, for logs and limits
  bool tls = false;
  int http_version = 1;  // 1 or 2
  std::optional<Certificate> certificate{};
};

// How a handler reads the body of a request. See Responder::ReadBody().
struct BodyReader {
  std::size_t max_bytes = 0;  // a longer body is not read: kRequestEntityTooLarge
  // Called before memory is allocated for the body, with the total number of bytes needed: its
  // announced length, or a growing number if none was announced. If it returns false, there is no
  // room, and the body fails with kTooManyRequests. Runs on the connection's thread. Empty: there
  // is always room.
  std::function<bool(std::size_t bytes)> reserve{};
  // Called once, on the connection's thread or within ReadBody(): with the whole body, or with one
  // of the errors above, kTimeout (ServerOptions::body_timeout), or kCancelled if the client has
  // disconnected or the response was sent meanwhile. It must not throw.
  std::function<void(Result<std::string> body)> done{};
};

// Sends the response to one request: either Send(), or Start(), any number of Write() and End().
// Implemented in pending_response.cc and by tests.
//
// Destroying it before the response is complete aborts the response: a stream ends with an error,
// and a response that was not started becomes a plain 500.
//
// Thread-safe: responses are sent from the store's threads and from the connection's own.
class Responder {
 public:
  virtual ~Responder() = default;

  // Reads the body of the request. Without this call a body is not read: the client can send at
  // most one window of it (HTTP/2) or one buffer (HTTP/1.1), and what it has sent is discarded when
  // the response is sent. So rejecting a request by its head costs nothing. REQUIRES: called at
  // most once
  virtual void ReadBody(BodyReader reader) = 0;

  // Sends a whole response.
  virtual void Send(Response response) = 0;

  // Sends the head of a response whose body comes in pieces: a stream, unless `head.finite` is set.
  // The head is flushed at once, because a client that watches waits for it first.
  //
  // Status 101 accepts the WebSocket of a request with `websocket`; the head must then have
  // sec-websocket-accept. Each piece must then be one or more whole frames (websocket.h). The codec
  // answers pings and sends the close frame itself.
  virtual void Start(ResponseHead head) = 0;
  // Queues a piece and returns how many bytes are now queued and not yet sent. The writer stops at
  // a limit of its own choice and continues when `drained` (see Observe()) is called. Pieces that
  // are written after End() or after the client has disconnected are dropped.
  virtual std::size_t Write(Chunk chunk) = 0;
  virtual void End() = 0;
  // Ends the stream so that the client sees an error.
  virtual void Abort() = 0;

  // Bytes queued and not yet sent.
  virtual std::size_t queued() const = 0;
  // How many bytes one stream may have queued so that all current streams of the connection have
  // room. A writer without a lower limit of its own stops here; one piece is always accepted.
  virtual std::size_t fair_share() const = 0;

  // `drained` is called on the connection's thread each time the queue becomes empty. `closed` is
  // called once, if the client disconnects or, for a stream, the server stops before End() or
  // Abort(). Either may be empty. If the client has disconnected already, `closed` is called at
  // once. REQUIRES: called at most once, by the handler or soon after it
  virtual void Observe(std::function<void()> drained, std::function<void()> closed) = 0;
};

// Called on the connection's thread with the head of each request; `request.body` is empty, and
// Responder::ReadBody() reads it. The handler must not block; it may send the response later and
// from any thread. It must not throw; if it does, the response is a plain 500.
using Handler =
    std::function<void(Request request, const Peer& peer, std::shared_ptr<Responder> responder)>;

// Returns a Handler that reads each body of up to `max_bytes` and then calls `handler` with the
// whole request. Only for trusted clients: every client can make it buffer `max_bytes` for each of
// its requests.
Handler WithBodies(Handler handler, std::size_t max_bytes = std::size_t{16} * 1024 * 1024);

// All in PEM. If client_ca is empty, clients are not asked for a certificate.
struct ServerTls {
  std::string certificate{};  // chain, leaf first
  std::string key{};
  std::string client_ca{};
};

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free port
  int threads = 1;         // each with its own event loop; a connection stays on one
  std::optional<ServerTls> tls{};

  // Limits on what one client can take from the others. A request over a limit gets a 4xx response
  // if HTTP allows it; otherwise the connection is closed.
  std::size_t max_connections = 12'000;      // new ones over it are closed at once
  std::size_t max_header_bytes = 64 * 1024;  // of one request, all fields together
  std::size_t max_header_fields = 200;       // of one request
  // Unread bytes of the responses of one connection. If streams exceed it, the connection is
  // closed, but one piece of a stream that has nothing else unread may exceed it. Whole and finite
  // responses may be larger, as long lists are. While they are, HTTP/2 requests of that connection
  // wait; at 16 times the limit (several such responses) the connection is closed.
  std::size_t max_queued_bytes = 4 * 1024 * 1024;
  std::uint32_t max_streams = 1000;                  // HTTP/2: open on one connection
  std::chrono::milliseconds header_timeout{10'000};  // first byte (or accept) to whole head
  std::chrono::milliseconds body_timeout{30'000};    // whole body, from ReadBody() on
  std::chrono::milliseconds idle_timeout{120'000};   // connection without requests
  std::chrono::milliseconds write_timeout{30'000};   // client reads nothing: closed
  // The minimum rate at which a client must read whole and finite responses, measured over each
  // period of write_timeout; otherwise a client that reads one byte now and then would hold them
  // for ever. If the window of an HTTP/2 stream is the cause, the stream is reset; if the
  // connection is the cause, it is closed. Slower than any link in use: a modem of 56 kbit/s reads
  // 7 times as much. 0: no minimum. Other streams have no minimum: a watch may be slow.
  std::size_t min_read_bytes_per_second = 1024;
  std::chrono::milliseconds handshake_timeout{10'000};
  LogFunction log{};  // debug: closed connections; warn: problems that an operator must know
};

// Counters of a server; all but the gauges only grow.
struct ServerStats {
  std::uint64_t connections_accepted = 0;  // including rejected ones
  std::uint64_t connections_refused = 0;   // over max_connections
  std::uint64_t connections_cut = 0;       // closed for exceeding a limit or violating the protocol
  std::uint64_t requests = 0;
  std::size_t connections = 0;  // gauge
  std::size_t streams = 0;      // gauge: requests whose response is not complete
};

// An HTTP server: HTTP/1.1 with keep-alive, HTTP/2 by ALPN over TLS or with prior knowledge on a
// connection without TLS. The handler gets a request as soon as its head is read, and the body when
// it asks for it; responses are whole or streamed.
//
// Thread-safe.
class Server {
 public:
  // The server accepts connections when this returns. Errors: the port is in use, the certificate
  // is invalid, or the key does not match it.
  static Result<std::unique_ptr<Server>> Start(ServerOptions options, Handler handler);

  // Calls Stop().
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;

  // Applies to new connections. On an error the old certificate stays in use.
  Status SetTls(ServerTls tls);

  // Accepts no more connections and requests: HTTP/2 clients get GOAWAY, HTTP/1.1 clients
  // "connection: close", and `closed` is called for streams. Returns when all connections are
  // closed or after `timeout`. Stop() then closes the remaining connections. Both are idempotent.
  // Neither may be called by a handler or an observer, because they wait for these.
  void Drain(std::chrono::milliseconds timeout);
  void Stop();

  ServerStats Stats() const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald::http
