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

// Who is at the other end of a connection. Immutable once the handshake is done.
struct Peer {
  // The names in a client certificate that was verified against ServerTls::client_ca.
  struct Certificate {
    std::string common_name{};
    std::vector<std::string> organizations{};
    std::string subject{};  // RFC 2253, for logs
    // The SHA-256 of the CA in client_ca that vouches for it, as lower-case hex: there may
    // be CAs for users and others for front proxies.
    std::string anchor_sha256{};
    std::string sha256{};  // of the certificate itself, as lower-case hex
    // When the certificate and every CA up to that one are valid, both ends included. They were
    // at the handshake; a connection may outlast them, so whoever trusts the certificate compares
    // these with the time of the request. Seconds, because a certificate may be valid until 9999.
    std::chrono::sys_seconds not_before = std::chrono::sys_seconds::min();
    std::chrono::sys_seconds not_after = std::chrono::sys_seconds::max();
  };

  std::string address{};         // "127.0.0.1:43210"
  std::uint64_t connection = 0;  // counts up from 1, for logs and limits
  bool tls = false;
  int http_version = 1;  // 1 or 2
  std::optional<Certificate> certificate{};
};

// How a handler takes the body of a request. See Responder::ReadBody().
struct BodyReader {
  std::size_t max_bytes = 0;  // a longer body is not read: kRequestEntityTooLarge
  // Called before memory is spent on the body, with the bytes that it is going to need in all:
  // its announced length, or a growing amount where none was announced. False: there is no room,
  // kTooManyRequests. It runs on the connection's thread. Empty: there is always room.
  std::function<bool(std::size_t bytes)> reserve{};
  // Called once, on the connection's thread or within ReadBody(): with the whole body, or with one
  // of the reasons above, kTimeout (ServerOptions::body_timeout), or kCancelled where the peer has
  // gone or the request has been answered meanwhile. It must not throw.
  std::function<void(Result<std::string> body)> done{};
};

// The response to one request: either Send(), or Start(), any number of Write() and
// End(). Implemented by the HTTP/1.1 and the HTTP/2 connection, and by tests.
//
// Destroying it before the response is complete cuts the response off: a stream ends with
// an error, and a response that was never begun becomes a plain 500.
//
// Thread-safe: responses come from store threads as well as from the connection's own.
class Responder {
 public:
  virtual ~Responder() = default;

  // Asks for the body of the request. Without this call a body is not read: the peer can send no
  // more than one window of it (HTTP/2) or one buffer (HTTP/1.1), and what it sends is dropped when
  // the response is given. So a request can be refused by its head at no cost.
  // REQUIRES: called at most once
  virtual void ReadBody(BodyReader reader) = 0;

  // The whole response.
  virtual void Send(Response response) = 0;

  // The head of a response whose body comes in pieces: a stream, unless it says that it is
  // finite. It is flushed at once: a client that watches waits for it before it waits for events.
  //
  // Status 101 takes the offer of a request with `websocket`; the head must then have
  // sec-websocket-accept. From there on each piece is one or several whole frames
  // (websocket.h); pings are answered and the closing frame is sent without the writer.
  virtual void Start(ResponseHead head) = 0;
  // Queues a piece and returns how many bytes are now queued and not yet on their way.
  // The writer stops at a bound of its own choice and goes on when told below; what is
  // written after End() or after the peer has gone is dropped.
  virtual std::size_t Write(Chunk chunk) = 0;
  virtual void End() = 0;
  // Ends the stream in a way that the client notices as an error.
  virtual void Abort() = 0;

  // Bytes queued and not yet on their way.
  virtual std::size_t queued() const = 0;
  // How many there may be so that all streams of the connection find room, however many there
  // are by now. A writer that knows no tighter bound stops here; one piece is always taken.
  virtual std::size_t fair_share() const = 0;

  // `drained` is called on the connection's thread each time the queue has become
  // empty, `closed` once when the peer has gone away or, of a stream, the server stops, before
  // End() and Abort() only. Either may be empty. REQUIRES: called at most once, by the handler
  // or soon after; if the peer has gone by then, `closed` is called at once.
  virtual void Observe(std::function<void()> drained, std::function<void()> closed) = 0;
};

// Called on the connection's thread with the head of each request; `request.body` is empty, and
// Responder::ReadBody() reads it. The handler must not block; the response may be given later and
// from any thread. It must not throw; if it does, the response is a plain 500.
using Handler =
    std::function<void(Request request, const Peer& peer, std::shared_ptr<Responder> responder)>;

// A Handler that reads each body of up to `max_bytes` and then calls `handler` with the whole
// request. For those who trust their clients: every client can make it buffer `max_bytes` for each
// of its requests.
Handler WithBodies(Handler handler, std::size_t max_bytes = std::size_t{16} * 1024 * 1024);

// PEM texts. No client_ca: certificates of clients are not asked for.
struct ServerTls {
  std::string certificate{};  // chain, leaf first
  std::string key{};
  std::string client_ca{};
};

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free one
  int threads = 1;         // each with its own event loop; a connection stays on one
  std::optional<ServerTls> tls{};

  // Bounds, so that no client can cost the others more than this. What is over one is
  // answered with 4xx where HTTP allows it, and cut off otherwise.
  std::size_t max_connections = 12'000;      // over it new ones are closed at once
  std::size_t max_header_bytes = 64 * 1024;  // of one request, all fields together
  std::size_t max_header_fields = 200;       // of one request
  // Unread responses of one connection. Streams over it are cut off with the connection, but one
  // piece of a stream of which nothing else is unread may exceed it.
  // Whole and finite responses may be larger, as long lists are: while they are, HTTP/2 requests
  // of that connection wait, and at 16 times the bound (several such responses) it is cut.
  std::size_t max_queued_bytes = 4 * 1024 * 1024;
  std::uint32_t max_streams = 1000;                  // HTTP/2: at once on one connection
  std::chrono::milliseconds header_timeout{10'000};  // from first byte (or accept) to whole head
  std::chrono::milliseconds body_timeout{30'000};    // for a whole body, since it was asked for
  std::chrono::milliseconds idle_timeout{120'000};   // connection without any request
  std::chrono::milliseconds write_timeout{30'000};   // a peer that reads nothing for so long is cut
  // The least that a peer must read of whole and finite responses while some of them wait for it,
  // in each window of write_timeout; otherwise one that takes a byte now and then would hold them
  // for ever. An HTTP/2 stream whose own window is closed is reset for it, and the connection is
  // cut where it is to blame. Slower than any link in use: a modem of 56 kbit/s takes 7 times as
  // much. 0: no minimum. (Other streams are their writers' concern: a watch may be slow.)
  std::size_t min_read_bytes_per_second = 1024;
  std::chrono::milliseconds handshake_timeout{10'000};
  LogFunction log{};  // connections that break, at debug; what an operator must know, at warn
};

// What a server counts; monotonic but for the gauges.
struct ServerStats {
  std::uint64_t connections_accepted = 0;  // with those refused
  std::uint64_t connections_refused = 0;   // over max_connections
  std::uint64_t connections_cut = 0;       // for breaking a bound or a rule of the protocol
  std::uint64_t requests = 0;
  std::size_t connections = 0;  // gauge
  std::size_t streams = 0;      // gauge: requests being answered
};

// An HTTP server: HTTP/1.1 with keep-alive, HTTP/2 by ALPN over TLS or with prior
// knowledge on a plain connection. A request is handed over as soon as its head is
// read, its body when the handler asks for it; responses are whole or streamed.
//
// Thread-safe.
class Server {
 public:
  // Listens when it returns. A busy port, a bad certificate or a key that does not fit
  // is a Status that says so.
  static Result<std::unique_ptr<Server>> Start(ServerOptions options, Handler handler);

  // Stops.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;

  // For connections from now on. On an error the old certificate stays.
  Status SetTls(ServerTls tls);

  // No more connections and no more requests: HTTP/2 peers get GOAWAY, HTTP/1.1 ones
  // "connection: close"; streams are told `closed`. Returns when all is quiet or the
  // time is over. Stop() then cuts off what is left. Both idempotent, and neither may be
  // called by a handler or an observer, because they wait for these.
  void Drain(std::chrono::milliseconds timeout);
  void Stop();

  ServerStats Stats() const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald::http
