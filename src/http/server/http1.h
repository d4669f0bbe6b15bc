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
//   kHead --head read--> kDecide --body wanted--> kBody --body read--> kRespond --> kHead
//                           `------- answered without reading it ---------^  `--> kDiscard -->
//                           kHead
//   any --- refused, timed out, drained, or "connection: close" ---> kFinished
//
// The handler gets the head in kDecide, and the body is not read before it asks for it. A body that
// it does not want is discarded after the response if it is short, and ends the connection
// otherwise.
//
// A request that offers to go on as a WebSocket may be answered with 101: what is written then
// are frames, what the client sends is read as frames, and the connection ends with it.
//
// Requests that a client sends ahead wait unparsed until it is their turn, so responses
// cannot overtake each other and a client cannot have more than one at a time.
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

  // Unparsed input that is held while a request is being answered, in bytes: room for a
  // good many small requests sent ahead. Over it the peer is not read from.
  static constexpr std::size_t kMaxHeldBytes = std::size_t{64} * 1024;

  // Takes as much of the input as it can and returns the rest.
  std::string_view Parse(std::string_view input, SteadyTime now);
  void ParseHeld(SteadyTime now);
  // Hands the head to the handler.
  void Dispatch(SteadyTime now);
  // Follows what the handler has done with the request so far.
  void UpdateFromHandler(SteadyTime now);
  // The rest of the body is not wanted, and nothing can follow it.
  void RejectBody();
  void SendContinue();
  // Returns whether the response is complete.
  bool WriteResponse(std::string& out, std::size_t limit);
  void WriteHead(std::string& out, PendingResponse::Head head);
  void WriteUpgrade(std::string& out, PendingResponse::Head head);
  void ReceiveFrames(std::string_view bytes);
  void FinishResponse(SteadyTime now);
  void Reject(int status, std::string_view text);
  void Finish(std::string_view fault);

  const CodecContext context_;
  State state_ = State::kHead;
  SteadyTime since_;                  // when the peer began what it is doing
  bool before_first_request_ = true;  // nothing has been asked yet
  bool eof_ = false;                  // the peer has closed its half
  bool draining_ = false;
  std::string in_;   // not parsed yet
  std::string out_;  // what precedes the response: 100 Continue, or a rejection
  std::string_view fault_;

  // Of the request being read or answered.
  std::unique_ptr<Http1RequestParser> parser_;
  bool continue_sent_ = false;
  bool discarding_input_ = false;  // what the peer still sends is thrown away

  // Of the request being answered.
  std::shared_ptr<PendingResponse> response_;
  bool keep_alive_ = false;
  bool http10_ = false;
  bool is_head_ = false;  // the method is HEAD
  bool head_written_ = false;
  bool has_body_ = false;
  bool endless_ = false;  // a stream
  bool chunked_ = false;
  bool websocket_offered_ = false;
  std::unique_ptr<WebSocketReader> frames_;  // null: the conversation is HTTP
};

}  // namespace herald::http
