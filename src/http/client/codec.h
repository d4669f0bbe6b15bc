#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace herald::http {

// How one exchange (a request and its response) ended.
struct ExchangeEnd {
  enum class Outcome : std::uint8_t {
    kWhole,         // the response is complete
    kNotProcessed,  // the server has surely done nothing about the request
    kBroken,        // anything else: the server may or may not have acted
  };

  Outcome outcome = Outcome::kWhole;
  std::string cause{};  // why, for people; empty with kWhole
  Headers trailers{};   // behind the body; HTTP/2 only

  bool operator==(const ExchangeEnd&) const = default;
};

// Where a codec reports to. For each exchange `head` comes at most once, `data` only
// after it, and `end` once and last; after Cancel() nothing comes any more. They are
// called from inside of the codec and must not call it back.
struct ClientCodecEvents {
  std::function<void(std::uint64_t exchange, ResponseHead head)> head{};
  std::function<void(std::uint64_t exchange, std::string_view data)> data{};
  std::function<void(std::uint64_t exchange, ExchangeEnd end)> end{};
};

// The client's side of HTTP on one connection: bytes in, bytes out, no I/O, so that
// tests and fuzzers can play any peer. Http1Client and Http2Client are the two.
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
  // Gives an exchange up. Ids that are not (or no more) in use are ignored.
  virtual void Cancel(std::uint64_t exchange) = 0;

  // What the peer sent.
  virtual void Receive(std::string_view bytes) = 0;
  // No more bytes will come. `clean`: the peer said so itself (and over TLS proved that
  // it was the peer), which some responses need as their end; else `cause` tells why.
  virtual void ReceiveEnd(bool clean, std::string_view cause) = 0;

  // Appends what is to be sent until `out` holds about `limit` bytes or there is no more.
  virtual void Send(std::string* out, std::size_t limit) = 0;

  // Exchanges under way.
  virtual std::size_t active() const = 0;
  // No exchange will ever start here again; those under way go on.
  virtual bool draining() const = 0;
  // Nothing at all will happen here any more: send what is left, then close.
  virtual bool finished() const = 0;

  // Says goodbye, where the protocol has a word for it. Draining from then on.
  virtual void Shutdown() = 0;
};

}  // namespace herald::http
