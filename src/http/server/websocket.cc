#include "http/server/websocket.h"

#include <openssl/sha.h>

#include <algorithm>

#include "base/bytes/base64.h"

namespace herald::http {
namespace {

constexpr unsigned kFinal = 0x80;
constexpr unsigned kReserved = 0x70;
constexpr unsigned kOpcode = 0x0f;
constexpr unsigned kMasked = 0x80;
constexpr unsigned kLength = 0x7f;
// Length values that mean: the length follows in two or in eight bytes.
constexpr unsigned kTwoBytes = 126;
constexpr unsigned kEightBytes = 127;

void AppendNumber(std::uint64_t number, int bytes, std::string* out) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
    out->push_back(static_cast<char>(number >> shift & 0xffU));
}

bool IsControl(unsigned opcode) { return opcode >= 8; }

}  // namespace

std::string WebSocketAccept(std::string_view key) {
  std::string input(key);
  input += "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";  // RFC 6455, 1.3
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
  SHA1(reinterpret_cast<const unsigned char*>(input.data()), input.size(), digest.data());
  return Base64Encode({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

void AppendWebSocketFrame(WebSocketOpcode opcode, std::string_view payload, std::string* out) {
  out->push_back(static_cast<char>(kFinal | static_cast<unsigned>(opcode)));
  if (payload.size() < kTwoBytes) {
    AppendNumber(payload.size(), 1, out);
  } else if (payload.size() <= 0xffff) {
    AppendNumber(kTwoBytes, 1, out);
    AppendNumber(payload.size(), 2, out);
  } else {
    AppendNumber(kEightBytes, 1, out);
    AppendNumber(payload.size(), 8, out);
  }
  out->append(payload);
}

void AppendWebSocketClose(WebSocketClose why, std::string* out) {
  std::string code;
  AppendNumber(static_cast<std::uint16_t>(why), 2, &code);
  AppendWebSocketFrame(WebSocketOpcode::kClose, code, out);
}

WebSocketReader::State WebSocketReader::Receive(
    std::string_view bytes, const std::function<void(std::string_view)>& on_ping) {
  while (state_ == State::kOpen && !bytes.empty()) {
    if (head_size_ < HeadSize()) {
      const auto byte = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      if (TakeHead(byte) && length_ == 0) FinishFrame(on_ping);
      continue;
    }
    const auto taken =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), length_ - received_));
    if (IsControl(head_[0] & kOpcode)) {
      const unsigned char* const mask = &head_[HeadSize() - kMaskBytes];
      for (const char c : bytes.substr(0, taken)) {
        const auto byte = static_cast<unsigned char>(c);
        control_.push_back(static_cast<char>(byte ^ mask[control_.size() % kMaskBytes]));
      }
    }
    received_ += taken;
    bytes.remove_prefix(taken);
    if (received_ == length_) FinishFrame(on_ping);
  }
  return state_;
}

std::size_t WebSocketReader::HeadSize() const {
  if (head_size_ < 2) return 2;
  const unsigned length = head_[1] & kLength;
  return 2 + (length == kTwoBytes ? 2U : length == kEightBytes ? 8U : 0U) + kMaskBytes;
}

bool WebSocketReader::TakeHead(unsigned char byte) {
  head_[head_size_++] = byte;
  if (head_size_ == 2) {
    const unsigned opcode = head_[0] & kOpcode;
    const unsigned length = head_[1] & kLength;
    const bool known = opcode <= 2 || (opcode >= 8 && opcode <= 10);
    const bool good_control =
        !IsControl(opcode) || ((head_[0] & kFinal) != 0 && length <= kMaxControlBytes);
    if ((head_[0] & kReserved) != 0 || (head_[1] & kMasked) == 0 || !known || !good_control) {
      state_ = State::kBroken;
      return false;
    }
  }
  if (head_size_ < HeadSize()) return false;
  length_ = head_[1] & kLength;
  if (length_ >= kTwoBytes) {
    length_ = 0;
    for (std::size_t i = 2; i < HeadSize() - kMaskBytes; ++i) length_ = length_ << 8 | head_[i];
    if (length_ >> 63 != 0) state_ = State::kBroken;
  }
  return state_ == State::kOpen;
}

void WebSocketReader::FinishFrame(const std::function<void(std::string_view)>& on_ping) {
  const auto opcode = static_cast<WebSocketOpcode>(head_[0] & kOpcode);
  if (opcode == WebSocketOpcode::kPing) on_ping(control_);
  if (opcode == WebSocketOpcode::kClose) state_ = State::kClosed;
  head_size_ = 0;
  length_ = 0;
  received_ = 0;
  control_.clear();
}

}  // namespace herald::http
