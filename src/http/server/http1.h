#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "http/server/codec.h"
#include "http/server/websocket.h"

namespace herald::http {

class Http1RequestParser;

// The server's side of one HTTP/1.1 (or 1.0) connection.
//
//   kHead --> kDecide --body wanted--> kBody --body read--> kRespond --> kHead
//                `-------- response without the body ----------^  `--> kDiscard --> kHead
//   any --- rejected, timed out, drained, or "connection: close" ---> kFinished
//
// The handler gets the head in kDecide, and the body is not read until the handler asks for it. A
// body that it does not want is discarded after the response if it is short; otherwise the
// connection is closed.
//
// A request for a WebSocket may get the response 101. From then on both sides send frames, and the
// connection ends with the WebSocket.
//
// Pipelined requests wait unparsed until the request before them is complete, so responses keep
// their order, and a client cannot have more than one request at a time.
//
// Http1RequestParser parses the requests.
//
// Thread-confined.
class Http1Server final : public ServerCodec {
 public:
  Http1Server(const CodecContext& context, SteadyTime now);
  ~Http1Server() override;

  void Receive(std::string_view bytes, SteadyTime now) override;
  void ReceiveEof(SteadyTime now) override;
  void OnResponse(PendingResponse& response, SteadyTime now) override;
  void Produce(std::string& out, std::size_t limit, SteadyTime now) override;
  void Tick(SteadyTime now) override;
  void Drain(SteadyTime now) override;
  void Abandon() override;

  bool has_more_work() const override { return false; }
  bool wants_input() const override;
  bool finished() const override { return state_ == State::kFinished && out_.empty(); }
  std::string_view fault() const override { return fault_; }

 private:
  enum class State : std::uint8_t { kHead, kDecide, kBody, kRespond, kDiscard, kFinished };

  // Unparsed input that is buffered until a response is complete, in bytes: room for many small
  // pipelined requests. Over it the socket is not read.
  static constexpr std::size_t kMaxHeldBytes = std::size_t{64} * 1024;

  // Parses as much of the input as possible and returns the rest.
  std::string_view Parse(std::string_view input, SteadyTime now);
  void ParseHeld(SteadyTime now);
  // Passes the head to the handler.
  void Dispatch(SteadyTime now);
  // Acts on what the handler has done since the last call: asked for the body, or aborted.
  void UpdateFromHandler(SteadyTime now);
  // The rest of the body is not wanted. The connection ends after the response.
  void RejectBody();
  void SendContinue();
  // Returns whether the response is complete.
  bool WriteResponse(std::string& out, std::size_t limit);
  void WriteHead(std::string& out, PendingResponse::Head head);
  void WriteUpgrade(std::string& out, PendingResponse::Head head);
  void ReceiveFrames(std::string_view bytes);
  void FinishResponse(SteadyTime now);
  // Sends a response of the codec itself and ends the connection.
  void Reject(int status, std::string_view message);
  void Finish(std::string_view fault);

  const CodecContext context_;
  State state_ = State::kHead;
  SteadyTime since_;                  // when the current state of the client began
  bool before_first_request_ = true;  // no request has begun
  bool eof_ = false;                  // the client has closed its half of the connection
  bool draining_ = false;
  std::string in_;   // not parsed yet
  std::string out_;  // sent before the response: 100 Continue, or a rejection
  std::string_view fault_;

  // Of the request that is being read or whose response is being sent.
  std::unique_ptr<Http1RequestParser> parser_;
  bool continue_sent_ = false;
  bool discarding_input_ = false;  // what the client still sends is ignored

  // Of the response that is being sent.
  std::shared_ptr<PendingResponse> response_;
  bool keep_alive_ = false;
  bool http10_ = false;
  bool is_head_ = false;  // the method is HEAD
  bool head_written_ = false;
  bool has_body_ = false;
  bool is_stream_ = false;
  bool chunked_ = false;
  bool websocket_offered_ = false;
  std::unique_ptr<WebSocketReader> frames_;  // null: not a WebSocket
};

}  // namespace herald::http
