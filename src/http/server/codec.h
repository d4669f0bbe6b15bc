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

// Receives the requests of a codec. Implemented by the connection, by tests and by fuzzers.
class RequestReceiver {
 public:
  virtual ~RequestReceiver() = default;
  // Called with the head of a request from within ServerCodec::Receive() or Produce(). It may send
  // the response, but it must not call the codec.
  virtual void OnRequest(Request request, const std::shared_ptr<PendingResponse>& response) = 0;
};

// What a codec gets from its connection. All references outlive the codec.
struct CodecContext {
  const ServerOptions& options;
  DateValue& date;
  RequestReceiver& receiver;
  const std::shared_ptr<ResponseGroup>& group;
};

// The server's side of one HTTP/1.1 or HTTP/2 connection: bytes in, requests out, responses in,
// bytes out. It does no I/O, has no thread and gets the time as an argument, so that tests and
// fuzzers can replace the socket and the clock, and so that it does not depend on TLS.
//
// Thread-confined.
class ServerCodec {
 public:
  virtual ~ServerCodec() = default;

  // Processes bytes from the client. All are taken, even if wants_input() is false.
  virtual void Receive(std::string_view bytes, SteadyTime now) = 0;
  // The client sends no more bytes.
  virtual void ReceiveEof(SteadyTime now) = 0;
  // The handler has changed this response: it was in the ready list.
  virtual void OnResponse(PendingResponse& response, SteadyTime now) = 0;
  // Appends the bytes to send, until there are no more or `out` has about `limit` bytes.
  virtual void Produce(std::string& out, std::size_t limit, SteadyTime now) = 0;
  // Called regularly; applies the timeouts.
  virtual void Tick(SteadyTime now) = 0;
  // Accepts no more requests; started responses are completed.
  virtual void Drain(SteadyTime now) = 0;
  // The connection is closed; `closed` is called for every incomplete response.
  virtual void Abandon() = 0;

  // False while reading more would only fill memory.
  virtual bool wants_input() const = 0;
  // True while the codec has left work for the next Produce(), so that one connection does not
  // delay the others of its thread.
  virtual bool has_more_work() const = 0;
  // True if the connection must be closed after all output of Produce() is sent.
  virtual bool finished() const = 0;
  // What the client did wrong, in a few words for the log; empty if nothing. The connection is then
  // finished() as well.
  virtual std::string_view fault() const = 0;
};

}  // namespace herald::http
