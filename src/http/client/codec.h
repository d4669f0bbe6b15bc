#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace herald::http {

// How one exchange (a request and its response on one connection) ended. A value type.
struct ExchangeEnd {
  enum class Outcome : std::uint8_t {
    kWhole,         // the response is complete
    kNotProcessed,  // the server has certainly not processed the request
    kBroken,        // any other failure: the server may have processed it or not
  };

  Outcome outcome = Outcome::kWhole;
  std::string cause{};  // for error messages; empty with kWhole
  Headers trailers{};   // fields after the body; HTTP/2 only

  bool operator==(const ExchangeEnd&) const = default;
};

// The callbacks of a codec. For each exchange `head` is called at most once, `data` only after it,
// and `end` once and last; after Cancel() none is called. They run within calls of the codec and
// must not call it.
struct ClientCodecEvents {
  std::function<void(std::uint64_t exchange, ResponseHead head)> head{};
  std::function<void(std::uint64_t exchange, std::string_view data)> data{};
  std::function<void(std::uint64_t exchange, ExchangeEnd end)> end{};
};

// The client's side of HTTP on one connection: bytes in, bytes out, no I/O, so that tests and
// fuzzers can simulate any server. Implemented by Http1Client and Http2Client.
//
// Thread-confined.
class ClientCodec {
 public:
  virtual ~ClientCodec() = default;

  // Whether Start() may be called now.
  virtual bool CanStart() const = 0;
  // Queues a request. REQUIRES: CanStart(); `exchange` is not in use; the request
  // outlives the exchange, that is until `end` or Cancel()
  virtual void Start(std::uint64_t exchange, const Request& request) = 0;
  // Cancels an exchange. Ids that are not in use are ignored.
  virtual void Cancel(std::uint64_t exchange) = 0;

  // Processes bytes from the server.
  virtual void Receive(std::string_view bytes) = 0;
  // The server sends no more bytes. `clean`: it has closed the connection itself (over TLS with
  // close_notify), which marks the end of some responses. Otherwise `cause` is the error.
  virtual void ReceiveEnd(bool clean, std::string_view cause) = 0;

  // Appends the bytes to send, until there are no more or `out` has about `limit` bytes.
  virtual void Send(std::string* out, std::size_t limit) = 0;

  // Number of exchanges that have started and not ended.
  virtual std::size_t active() const = 0;
  // No exchange can start any more; started ones continue.
  virtual bool draining() const = 0;
  // All exchanges have ended, and none can start: send the remaining output, then close.
  virtual bool finished() const = 0;

  // Announces the end of the connection if the protocol can (GOAWAY). Draining from then on.
  virtual void Shutdown() = 0;
};

}  // namespace herald::http
