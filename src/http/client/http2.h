#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "http/client/codec.h"

struct nghttp2_session;

namespace herald::http {

// HTTP/2 on nghttp2: many exchanges at once, up to the limit of the server. Interim responses are
// skipped; pushes are rejected.
//
// Thread-confined.
class Http2Client final : public ClientCodec {
 public:
  // REQUIRES: events outlives the codec
  Http2Client(const ClientCodecEvents& events, std::size_t max_header_bytes, bool https);
  ~Http2Client() override;
  Http2Client(const Http2Client&) = delete;
  Http2Client& operator=(const Http2Client&) = delete;

  // False while the server's limit of streams is reached.
  bool CanStart() const override;
  void Start(std::uint64_t exchange, const Request& request) override;
  void Cancel(std::uint64_t exchange) override;
  void Receive(std::string_view bytes) override;
  void ReceiveEnd(bool clean, std::string_view cause) override;
  void Send(std::string* out, std::size_t limit) override;
  std::size_t active() const override { return exchanges_; }
  bool draining() const override;
  bool finished() const override { return finished_; }
  void Shutdown() override;

  // Sends a PING. Any bytes that the server sends show that it is alive.
  void Ping();

 private:
  struct Stream {
    std::uint64_t exchange = 0;
    std::int32_t id = 0;
    const Request* request = nullptr;  // null once the exchange has ended
    std::size_t body_sent = 0;
    bool head_sent = false;
    bool all_sent = false;
    bool head_received = false;
    std::size_t header_bytes = 0;  // of all header blocks and trailers so far
    ResponseHead head{};
    Headers trailers{};
    std::string error{};  // why the client has reset it
  };
  struct Callbacks;  // what nghttp2 calls

  // Ends the exchange of a stream. The stream exists until nghttp2 closes it.
  void End(Stream& stream, ExchangeEnd end);
  // Ends all exchanges: the server sends nothing more.
  void EndAll(std::string_view cause);
  // Ends all exchanges if nghttp2 has nothing more to do.
  void CheckFinished();

  const ClientCodecEvents& events_;
  const std::size_t max_header_bytes_;
  const bool https_;
  nghttp2_session* session_ = nullptr;

  // By exchange. A stream is removed when nghttp2 closes it, which is after the end of its exchange
  // if it is reset.
  std::unordered_map<std::uint64_t, Stream> streams_{};
  std::size_t exchanges_ = 0;  // streams whose exchange has not ended
  bool finished_ = false;
  bool shutting_down_ = false;
  std::string error_{};  // protocol error found by nghttp2 or reported by the server
};

}  // namespace herald::http
