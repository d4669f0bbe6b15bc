#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "http/client/codec.h"

namespace herald::http {

// HTTP/1.1, one exchange at a time, no pipelining. Interim responses (1xx) are skipped, and
// trailers are dropped. After a successful CONNECT the connection is a tunnel: see
// TakeTunnelBytes().
//
// Thread-confined.
class Http1Client final : public ClientCodec {
 public:
  // REQUIRES: events outlives the codec
  Http1Client(const ClientCodecEvents& events, std::size_t max_header_bytes);
  ~Http1Client() override;
  Http1Client(const Http1Client&) = delete;
  Http1Client& operator=(const Http1Client&) = delete;

  bool CanStart() const override;
  void Start(std::uint64_t exchange, const Request& request) override;
  // HTTP/1.1 can cancel a response only by closing the connection.
  void Cancel(std::uint64_t exchange) override;
  void Receive(std::string_view bytes) override;
  void ReceiveEnd(bool clean, std::string_view cause) override;
  void Send(std::string* out, std::size_t limit) override;
  std::size_t active() const override { return state_ == State::kActive ? 1 : 0; }
  bool draining() const override { return state_ == State::kFinished || last_; }
  bool finished() const override { return state_ == State::kFinished; }
  void Shutdown() override;

  // The bytes after the response to a CONNECT: the first bytes of the tunnel.
  std::string TakeTunnelBytes() { return std::move(pending_); }

 private:
  class Parser;
  enum class State : std::uint8_t { kIdle, kActive, kFinished };

  void Finish(ExchangeEnd end);
  void Fail(std::string cause);

  const ClientCodecEvents& events_;
  const std::size_t max_header_bytes_;

  State state_ = State::kIdle;
  bool last_ = false;  // no exchange can start after this one
  std::uint64_t exchange_ = 0;
  bool tunnel_ = false;  // the request is a CONNECT
  bool expect_no_body_ = false;
  const Request* request_ = nullptr;  // until its body is sent
  std::string head_{};                // of the request, until it is sent
  std::size_t body_sent_ = 0;
  bool anything_sent_ = false;
  bool anything_received_ = false;
  int interim_responses_ = 0;
  std::unique_ptr<Parser> parser_;
  std::string pending_{};  // bytes that the parser could not process yet
};

}  // namespace herald::http
