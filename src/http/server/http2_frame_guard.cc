#include "http/server/http2_frame_guard.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>

namespace herald::http {

std::optional<Http2FrameGuard::Violation> Http2FrameGuard::Check(std::string_view bytes,
                                                                 SteadyTime now) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (skip_ > 0) {
      const std::size_t n = std::min(skip_, bytes.size() - at);
      skip_ -= n;
      at += n;
      continue;
    }
    // Copies to frame_ until it has `wanted` bytes; false if the input ends before.
    const std::size_t begin = at;
    const auto take = [&](std::size_t wanted) {
      const std::size_t n = std::min(wanted - frame_bytes_, bytes.size() - at);
      std::copy_n(bytes.data() + at, n, frame_.data() + frame_bytes_);
      frame_bytes_ += n;
      at += n;
      return frame_bytes_ == wanted;
    };
    if (frame_bytes_ < kHeaderBytes && !take(kHeaderBytes)) break;
    const std::size_t length = Number(0, 3);
    const bool is_priority = Number(3, 1) == NGHTTP2_PRIORITY;
    // nghttp2 rejects a PRIORITY frame of any other length.
    const std::size_t needed = is_priority && length >= kDependencyBytes ? kDependencyBytes : 0;
    if (needed > 0 && !take(kHeaderBytes + needed)) break;
    frame_bytes_ = 0;
    skip_ = length - needed;
    if (const std::optional<Error> error = CheckFrame(now))
      return Violation{begin, error->code, error->fault};
  }
  return std::nullopt;
}

std::optional<Http2FrameGuard::Error> Http2FrameGuard::CheckFrame(SteadyTime now) {
  const std::size_t length = Number(0, 3);
  const std::uint32_t type = Number(3, 1);
  const auto flags = static_cast<std::uint8_t>(Number(4, 1));
  constexpr std::uint32_t kIdMask = 0x7fffffff;  // the first bit is reserved
  const std::uint32_t id = Number(5, 4) & kIdMask;
  // nghttp2 closes the connection for a frame that is not allowed here.
  if (expects_continuation_ != (type == NGHTTP2_CONTINUATION)) {
    expects_continuation_ = false;
    return std::nullopt;
  }
  is_block_frame_ = type == NGHTTP2_HEADERS || type == NGHTTP2_CONTINUATION;
  expects_continuation_ = is_block_frame_ && (flags & NGHTTP2_FLAG_END_HEADERS) == 0;
  switch (type) {
    case NGHTTP2_HEADERS:
      block_since_ = now;
      block_continuations_ = 0;
      block_bytes_ = length;
      if (const std::optional<Error> error = CheckHeaders(flags, id)) return error;
      return CheckBlock();
    case NGHTTP2_CONTINUATION:
      ++block_continuations_;
      block_bytes_ += length;
      return CheckBlock();
    case NGHTTP2_DATA:
      if (HasEnded(id)) return Error{NGHTTP2_STREAM_CLOSED, "DATA frame on a closed stream"};
      if ((flags & NGHTTP2_FLAG_END_STREAM) != 0) SetEnded(id);
      return std::nullopt;
    case NGHTTP2_RST_STREAM:
      SetEnded(id);
      return std::nullopt;
    case NGHTTP2_PRIORITY:
      if (id == 0) return Error{NGHTTP2_PROTOCOL_ERROR, "PRIORITY frame without a stream"};
      if (length >= kDependencyBytes && (Number(kHeaderBytes, kDependencyBytes) & kIdMask) == id)
        return Error{NGHTTP2_PROTOCOL_ERROR, "PRIORITY frame makes a stream depend on itself"};
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<Http2FrameGuard::Error> Http2FrameGuard::CheckHeaders(std::uint8_t flags,
                                                                    std::uint32_t id) {
  // nghttp2 rejects the ids of servers.
  if (id % 2 == 0) return std::nullopt;
  if (id > last_id_) {
    const std::uint32_t expected = last_id_ == 0 ? 1 : last_id_ + 2;
    if (id > expected) {
      skipped_.at(next_skipped_) = {.first = expected, .last = id - 2};
      next_skipped_ = (next_skipped_ + 1) % skipped_.size();
    }
    last_id_ = id;
  } else if (HasEnded(id)) {
    return Error{NGHTTP2_STREAM_CLOSED, "HEADERS frame on a closed stream"};
  } else if (std::any_of(skipped_.begin(), skipped_.end(), [id](const IdRange& range) {
               return id >= range.first && id <= range.last;
             })) {
    return Error{NGHTTP2_PROTOCOL_ERROR, "stream id lower than an earlier one"};
  }
  if ((flags & NGHTTP2_FLAG_END_STREAM) != 0) SetEnded(id);
  return std::nullopt;
}

std::optional<Http2FrameGuard::Error> Http2FrameGuard::CheckBlock() const {
  if (block_continuations_ > limits_.max_continuations)
    return Error{NGHTTP2_ENHANCE_YOUR_CALM, "too many CONTINUATION frames"};
  if (block_bytes_ > limits_.max_block_bytes)
    return Error{NGHTTP2_ENHANCE_YOUR_CALM, "header block far too large"};
  return std::nullopt;
}

std::uint32_t Http2FrameGuard::Number(std::size_t at, std::size_t bytes) const {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    number = (number << 8U) | static_cast<unsigned char>(frame_.at(at + i));
  return number;
}

bool Http2FrameGuard::HasEnded(std::uint32_t id) const {
  return id != 0 && std::find(ended_.begin(), ended_.end(), id) != ended_.end();
}

void Http2FrameGuard::SetEnded(std::uint32_t id) {
  // nghttp2 rejects a frame that ends a stream that was never opened.
  if (id > last_id_ || HasEnded(id)) return;
  ended_.at(next_ended_) = id;
  next_ended_ = (next_ended_ + 1) % ended_.size();
}

}  // namespace herald::http
