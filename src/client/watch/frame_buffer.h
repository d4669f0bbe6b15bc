#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "herald/api/codec.h"
#include "herald/base/status.h"

namespace herald {

// A FrameBuffer cuts a watch stream, which arrives in pieces of any size, into frames.
// A frame that came whole is handed out from where it lies; only its beginning is
// ever kept, so that memory stays at one frame, however long the watch.
//
// Thread-confined.
class FrameBuffer {
 public:
  // The codec is borrowed: one of the two of codec.h.
  explicit FrameBuffer(const Codec& codec) : codec_(codec) {}

  // Calls on_frame with the payload of each frame that is complete now. It stops at the
  // first that returns an error, and returns that; a stream that is broken is one, too.
  template <typename OnFrame>
  Status Append(std::string_view bytes, OnFrame&& on_frame) {
    if (!rest_.empty()) {
      rest_.append(bytes);
      bytes = rest_;
    }
    std::size_t done = 0;
    Status error;
    while (error.ok()) {
      const Result<std::optional<Codec::Frame>> frame = codec_.NextFrame(bytes.substr(done));
      if (!frame) {
        error = frame.error();
      } else if (const std::optional<Codec::Frame>& whole = *frame) {
        done += whole->consumed;
        error = on_frame(whole->payload);
      } else {
        break;
      }
    }
    if (rest_.empty()) {
      rest_ = bytes.substr(done);
    } else {
      rest_.erase(0, done);
    }
    return error;
  }

  // Whether the stream stopped in the middle of a frame.
  bool cut_off() const { return !rest_.empty(); }

 private:
  const Codec& codec_;
  std::string rest_;
};

}  // namespace herald
