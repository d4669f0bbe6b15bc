#include "http/server/http1.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/beast/http/error.hpp>
#include <utility>

#include "http/server/http1_request_parser.h"

namespace herald::http {

namespace beast = boost::beast;

Http1Server::Http1Server(const CodecContext& context, SteadyTime now)
    : context_(context), since_(now) {}

Http1Server::~Http1Server() { Http1Server::Abandon(); }

void Http1Server::Receive(std::string_view bytes, SteadyTime now) {
  if (state_ == State::kFinished || discarding_input_) return;
  if (frames_) return ReceiveFrames(bytes);
  if (state_ == State::kDecide || state_ == State::kRespond || !in_.empty()) {
    in_.append(bytes);
    ParseHeld(now);
    return;
  }
  in_ = Parse(bytes, now);
}

void Http1Server::ParseHeld(SteadyTime now) {
  if (in_.empty()) return;
  const std::size_t left = Parse(in_, now).size();
  in_.erase(0, in_.size() - left);
  if (in_.empty()) in_.shrink_to_fit();
}

std::string_view Http1Server::Parse(std::string_view input, SteadyTime now) {
  while (state_ == State::kHead || state_ == State::kBody || state_ == State::kDiscard) {
    if (!parser_) {
      // RFC 9112 2.2: some clients end a body with a line break that is not part of it.
      constexpr std::string_view kLineBreak = "\r\n";
      while (input.starts_with(kLineBreak)) input.remove_prefix(kLineBreak.size());
      if (input.empty() || input == kLineBreak.substr(0, 1)) return input;
      // The time limit of the first request began when the connection was accepted.
      if (!before_first_request_) since_ = now;
      before_first_request_ = false;
      parser_ = std::make_unique<Http1RequestParser>(context_.options);
    }
    beast::error_code error;
    const std::size_t used = state_ == State::kHead ? parser_->ParseHead(input, error)
                                                    : parser_->ParseBody(input, error);
    input.remove_prefix(used);
    const bool more = error == beast::http::error::need_more;
    if (parser_->body_rejected()) {
      RejectBody();
      UpdateFromHandler(now);
      return {};
    }
    if (error && !more) {
      if (state_ == State::kDiscard) {  // the response to its request is complete
        Finish("malformed request body");
        return {};
      }
      const int status = parser_->RejectionStatus(error);
      Reject(status, status == 400 ? "malformed HTTP request" : ReasonPhrase(status));
      return {};
    }
    if (state_ == State::kHead && parser_->is_header_done()) {
      Dispatch(now);
      continue;
    }
    if (parser_->is_done()) {
      if (state_ == State::kDiscard) {
        parser_.reset();
        state_ = State::kHead;
        since_ = now;
      } else {
        state_ = State::kRespond;
        response_->Hold();
        response_->GiveBody(parser_->TakeBody());
        UpdateFromHandler(now);
      }
      continue;
    }
    // The line before a chunk, or a trailer, is too long.
    if (more && input.size() > context_.options.max_header_bytes) {
      Reject(431, ReasonPhrase(431));
      return {};
    }
    if (state_ == State::kBody && input.empty()) SendContinue();
    if (more || input.empty()) return input;
  }
  return discarding_input_ ? std::string_view() : input;
}

void Http1Server::SendContinue() {
  if (parser_->expects_continue() && !parser_->http10() && !std::exchange(continue_sent_, true))
    out_ += "HTTP/1.1 100 Continue\r\n\r\n";
}

void Http1Server::Dispatch(SteadyTime now) {
  state_ = State::kDecide;
  since_ = now;
  keep_alive_ = parser_->keep_alive() && !draining_;
  http10_ = parser_->http10();
  continue_sent_ = false;
  head_written_ = false;
  is_stream_ = false;
  Request request = parser_->TakeRequest();
  is_head_ = request.method == "HEAD";
  websocket_offered_ = request.websocket;
  response_ = std::make_shared<PendingResponse>(context_.group, 0);
  if (draining_) response_->Drain();
  response_->Hold();
  context_.receiver.OnRequest(std::move(request), response_);
  UpdateFromHandler(now);
}

void Http1Server::UpdateFromHandler(SteadyTime now) {
  response_->Acknowledge();
  if (state_ == State::kDecide && response_->wants_body()) {
    if (parser_->is_done()) {
      state_ = State::kRespond;
      response_->Hold();
      response_->GiveBody(std::string());
      response_->Acknowledge();
    } else if (const auto length = parser_->content_length_remaining();
               !response_->ReserveBody(static_cast<std::size_t>(length.value_or(0)))) {
      RejectBody();
    } else {
      parser_->BeginBody(response_.get());
      state_ = State::kBody;
      since_ = now;
    }
  }
  // Aborted: the client sees that the response is missing or incomplete.
  if (response_->Read(nullptr, 0).aborted) Finish({});
}

void Http1Server::RejectBody() {
  state_ = State::kRespond;
  keep_alive_ = false;
  discarding_input_ = true;
}

void Http1Server::ReceiveEof(SteadyTime /*now*/) {
  eof_ = true;
  // A client that has closed its half may wait for a response, but not for a stream.
  const bool is_whole =
      state_ == State::kRespond || (state_ == State::kDecide && parser_->is_done());
  if (!is_whole || is_stream_) Finish({});
}

void Http1Server::OnResponse(PendingResponse& response, SteadyTime now) {
  if (response_.get() != &response) return response.Acknowledge();
  UpdateFromHandler(now);
  if (state_ != State::kBody) return;
  if (in_.empty()) SendContinue();
  ParseHeld(now);
}

void Http1Server::Produce(std::string& out, std::size_t limit, SteadyTime now) {
  for (;;) {
    out += std::exchange(out_, {});
    if (!response_ || out.size() >= limit || !WriteResponse(out, limit)) break;
    FinishResponse(now);
  }
  if (response_) response_->NotifyDrained();
}

bool Http1Server::WriteResponse(std::string& out, std::size_t limit) {
  if (!head_written_) {
    std::optional<PendingResponse::Head> head = response_->TakeHead();
    if (!head) return false;
    // The handler responds without the body, or before all of it was read.
    if (!parser_->is_done()) {
      if (!parser_->is_discardable() || (parser_->expects_continue() && !continue_sent_))
        RejectBody();
      response_->DropBody();
    }
    state_ = State::kRespond;
    if (eof_ && !head->finite) {
      Finish({});
      return false;
    }
    if (head->status == 101 && websocket_offered_ && !head->finite) {
      WriteUpgrade(out, *std::move(head));
      if (!response_) return false;  // the client has closed the WebSocket already
    } else {
      WriteHead(out, *std::move(head));
    }
  }
  if (!has_body_) return true;
  while (out.size() < limit) {
    const std::size_t bytes = std::min(response_->queued(), limit - out.size());
    const std::size_t before = out.size();
    if (chunked_ && bytes > 0) out += fmt::format("{:x}\r\n", bytes);
    const std::size_t begin = out.size();
    out.resize(begin + bytes);
    const PendingResponse::Piece piece = response_->Read(out.data() + begin, bytes);
    if (piece.aborted) {
      // Another thread has aborted it, maybe after queued() was called, and then there was less to
      // read. The client sees that the response is incomplete.
      out.resize(before);
      Finish({});
      return false;
    }
    if (chunked_ && bytes > 0) out += "\r\n";
    if (piece.end) {
      if (chunked_) out += "0\r\n\r\n";
      if (frames_) AppendWebSocketClose(WebSocketClose::kNormal, &out);
      return true;
    }
    if (bytes == 0) break;
  }
  return false;
}

void Http1Server::WriteHead(std::string& out, PendingResponse::Head head) {
  MakeSendable(head.status, head.headers);
  head_written_ = true;
  has_body_ = !is_head_ && !IsBodiless(head.status);
  is_stream_ = !head.finite;
  const bool in_pieces = !head.whole && has_body_;
  chunked_ = in_pieces && !http10_;
  // A body without a length ends with the connection.
  if (in_pieces && !chunked_) keep_alive_ = false;
  if (draining_ || (eof_ && in_.empty())) keep_alive_ = false;

  out += http10_ ? "HTTP/1.0 " : "HTTP/1.1 ";
  out += fmt::format("{} {}\r\n", head.status, ReasonPhrase(head.status));
  for (const Headers::Field& field : head.headers) {
    out += field.name;
    out += ": ";
    out += field.value;
    out += "\r\n";
  }
  if (head.headers.Find("date") == nullptr) {
    out += "date: ";
    out += context_.date.Get();
    out += "\r\n";
  }
  if (chunked_) {
    out += "transfer-encoding: chunked\r\n";
  } else if (head.whole && !IsBodiless(head.status)) {
    out += fmt::format("content-length: {}\r\n", head.body_bytes);
  }
  if (!keep_alive_) {
    out += "connection: close\r\n";
  } else if (http10_) {
    out += "connection: keep-alive\r\n";
  }
  out += "\r\n";
}

void Http1Server::WriteUpgrade(std::string& out, PendingResponse::Head head) {
  head_written_ = true;
  has_body_ = true;
  is_stream_ = true;
  chunked_ = false;
  keep_alive_ = false;
  int unused = 200;
  MakeSendable(unused, head.headers);
  out += fmt::format("HTTP/1.1 101 {}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n",
                     ReasonPhrase(101));
  for (const Headers::Field& field : head.headers)
    out += fmt::format("{}: {}\r\n", field.name, field.value);
  out += "\r\n";
  frames_ = std::make_unique<WebSocketReader>();
  ReceiveFrames(std::exchange(in_, {}));
}

void Http1Server::ReceiveFrames(std::string_view bytes) {
  std::string pongs;
  const WebSocketReader::State state = frames_->Receive(bytes, [&pongs](std::string_view payload) {
    AppendWebSocketFrame(WebSocketOpcode::kPong, payload, &pongs);
  });
  if (!pongs.empty()) {
    // Sent after the queued bytes, which may end within a frame. If nothing is queued, sent at
    // once, because a close frame that came with the ping would discard the queue.
    if (out_.empty() && response_->queued() == 0 && response_->is_between_pieces()) {
      out_ += pongs;
    } else {
      response_->Write(std::make_shared<const std::string>(std::move(pongs)));
    }
  }
  if (state == WebSocketReader::State::kOpen) return;
  const bool broken = state == WebSocketReader::State::kBroken;
  if (response_->is_between_pieces())
    AppendWebSocketClose(broken ? WebSocketClose::kProtocolError : WebSocketClose::kNormal, &out_);
  Finish(broken ? "WebSocket protocol error" : "");
}

void Http1Server::FinishResponse(SteadyTime now) {
  std::exchange(response_, nullptr)->Release();
  if (!keep_alive_ || draining_) {
    state_ = State::kFinished;
    return;
  }
  if (parser_->is_done()) {
    parser_.reset();
    state_ = State::kHead;
  } else {
    parser_->BeginBody(nullptr);
    state_ = State::kDiscard;
  }
  since_ = now;
  ParseHeld(now);
  if (eof_ && !response_) Finish({});
}

void Http1Server::Tick(SteadyTime now) {
  const ServerOptions& options = context_.options;
  const SteadyTime::duration waited = now - since_;
  switch (state_) {
    case State::kHead:
      if (parser_) {
        if (waited >= options.header_timeout)
          Reject(408, "timed out while reading the request head");
      } else if (waited >=
                 (before_first_request_ ? options.header_timeout : options.idle_timeout)) {
        Finish(before_first_request_ ? "no request received in time" : "");
      }
      break;
    case State::kBody:
      if (waited < options.body_timeout) break;
      RejectBody();
      response_->GiveBody(
          Status(StatusReason::kTimeout, "timed out while reading the request body"));
      break;
    case State::kDiscard:
      if (waited >= options.body_timeout) Finish("timed out while reading the request body");
      break;
    case State::kDecide:
    case State::kRespond:
    case State::kFinished:
      break;
  }
}

void Http1Server::Drain(SteadyTime /*now*/) {
  draining_ = true;
  if (state_ == State::kHead && !parser_) return Finish({});
  if (response_) response_->Drain();
}

void Http1Server::Abandon() {
  state_ = State::kFinished;
  if (response_) std::exchange(response_, nullptr)->Release();
}

bool Http1Server::wants_input() const {
  return (state_ != State::kRespond && state_ != State::kDecide) || in_.size() < kMaxHeldBytes;
}

void Http1Server::Reject(int status, std::string_view message) {
  Response rejection = PlainResponse(status, message);
  keep_alive_ = false;
  http10_ = false;
  is_head_ = false;
  WriteHead(out_, {.status = status,
                   .headers = std::move(rejection.headers),
                   .whole = true,
                   .body_bytes = rejection.body.size(),
                   .finite = true});
  out_ += rejection.body;
  Finish(ReasonPhrase(status));
}

void Http1Server::Finish(std::string_view fault) {
  fault_ = fault;
  Abandon();
  parser_.reset();
}

}  // namespace herald::http
