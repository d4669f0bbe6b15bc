#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace herald::http {

// WebSocket (RFC 6455) for a server that only sends. It writes whole, unmasked frames. Of the
// frames that it reads, only pings and the close frame matter. It offers no extensions.

enum class WebSocketOpcode : std::uint8_t {
  kContinuation = 0,
  kText = 1,
  kBinary = 2,
  kClose = 8,
  kPing = 9,
  kPong = 10,
};

// Status codes of a close frame.
enum class WebSocketClose : std::uint16_t { kNormal = 1000, kProtocolError = 1002 };

// The value of sec-websocket-accept for a client's sec-websocket-key.
std::string WebSocketAccept(std::string_view key);

void AppendWebSocketFrame(WebSocketOpcode opcode, std::string_view payload, std::string* out);
void AppendWebSocketClose(WebSocketClose why, std::string* out);

// Reads the frames of a client. Messages of any length are discarded while they arrive, so it never
// buffers more than the head of a frame and the 125 bytes that a ping may have.
//
// Thread-confined.
class WebSocketReader {
 public:
  enum class State : std::uint8_t {
    kOpen,
    kClosed,  // the client has sent a close frame
    kBroken,  // the client has violated the protocol
  };

  // Takes all bytes. `on_ping` is called with the payload of each ping, which the pong must repeat.
  // After a close frame or an error, bytes are ignored.
  State Receive(std::string_view bytes, const std::function<void(std::string_view)>& on_ping);

  State state() const { return state_; }

 private:
  // Takes one byte of a frame's head; true if it was the last one.
  bool TakeHead(unsigned char byte);
  void FinishFrame(const std::function<void(std::string_view)>& on_ping);
  std::size_t HeadSize() const;

  // Two bytes, up to eight bytes of length, four bytes of mask.
  static constexpr std::size_t kMaxHeadBytes = 14;
  static constexpr std::size_t kMaxControlBytes = 125;
  static constexpr std::size_t kMaskBytes = 4;

  State state_ = State::kOpen;
  std::array<unsigned char, kMaxHeadBytes> head_{};
  std::size_t head_size_ = 0;   // bytes of it that were received
  std::uint64_t length_ = 0;    // of the payload
  std::uint64_t received_ = 0;  // of the payload
  std::string control_;         // the payload of a control frame
};

}  // namespace herald::http
