#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "herald/base/clock.h"
#include "http/message.h"
#include "http/response_head.h"
#include "http/server/pending_response.h"
#include "http/server/server.h"

namespace herald::http {

// Where a codec's requests go. Implemented by the connection, by tests and by fuzzers.
class RequestReceiver {
 public:
  virtual ~RequestReceiver() = default;
  // Called with the head of a request in the middle of ServerCodec::Receive() or Produce(). The
  // response may be given in this call, but it must not call the codec.
  virtual void OnRequest(Request request, const std::shared_ptr<PendingResponse>& response) = 0;
};

// What a codec shares with its connection. All references outlive the codec.
struct CodecContext {
  const ServerOptions& options;
  DateValue& date;
  RequestReceiver& receiver;
  const std::shared_ptr<ResponseGroup>& group;
};

// One side of a conversation in HTTP/1.1 or HTTP/2: bytes in, requests out, responses in,
// bytes out. It does no I/O, has no thread and is told the time, so that a test or a
// fuzzer is as good a peer as a socket, and so that TLS is none of its business.
//
// Thread-confined.
class ServerCodec {
 public:
  virtual ~ServerCodec() = default;

  // Bytes from the peer. All are taken, also when wants_input() is false.
  virtual void Receive(std::string_view bytes, SteadyTime now) = 0;
  // The peer sends no more.
  virtual void ReceiveEof(SteadyTime now) = 0;
  // A response has come out of the ready list.
  virtual void OnResponse(PendingResponse& response, SteadyTime now) = 0;
  // Appends what is to be sent, until there is no more or `out` has about `limit` bytes.
  virtual void Produce(std::string& out, std::size_t limit, SteadyTime now) = 0;
  // Watches the clock: gives up what has taken too long.
  virtual void Tick(SteadyTime now) = 0;
  // No more requests; what is being answered is finished.
  virtual void Drain(SteadyTime now) = 0;
  // The connection is gone: every response is told so.
  virtual void Abandon() = 0;

  // False while reading on would only fill memory.
  virtual bool wants_input() const = 0;
  // True while the codec has work that it left for the next Produce(), so that one connection does
  // not hold up the others of its thread.
  virtual bool has_more_work() const = 0;
  // True when the connection is to be closed once all that Produce() gives is sent.
  virtual bool finished() const = 0;
  // Why the peer has to be cut off, in a few words for the log; empty while it behaves.
  // The connection is then finished() as well.
  virtual std::string_view fault() const = 0;
};

}  // namespace herald::http
