#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "herald/api/codec.h"
#include "herald/base/status.h"

namespace herald {

// A FrameBuffer splits a watch stream, which arrives in pieces of any size, into frames. A frame
// that arrives in one piece is not copied. Only an incomplete frame is kept, so the buffer holds
// at most one frame.
//
// Thread-confined.
class FrameBuffer {
 public:
  // The codec is borrowed: one of the two in codec.h.
  explicit FrameBuffer(const Codec& codec) : codec_(codec) {}

  // Calls on_frame with the payload of each complete frame. Stops at the first error and returns
  // it: an error of on_frame, or of a stream that is malformed.
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

  // Whether the buffer holds an incomplete frame.
  bool cut_off() const { return !rest_.empty(); }

 private:
  const Codec& codec_;
  std::string rest_;
};

}  // namespace herald
