#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "herald/base/clock.h"

namespace herald::http {

// Checks the frame headers of an HTTP/2 client before nghttp2 reads them, and detects what nghttp2
// (1.52) does not report:
//
//   header blocks  nghttp2 decodes a block that it ignores (its stream is closed or was rejected,
//   or
//                  an earlier field was invalid) without any callback, so a limit that is checked
//                  in callbacks does not cover the rest of it
//   closed streams nghttp2 ignores DATA and HEADERS on a stream that it has forgotten, and it is
//                  configured to forget streams as soon as they close. The guard remembers the
//                  last few streams that the client ended: on these both are errors (RFC 9113, 5.1)
//   stream ids     an id that the client has skipped must not be used later (5.1.1)
//   PRIORITY       is ignored by nghttp2 under SETTINGS_NO_RFC7540_PRIORITIES, even if invalid
//
// The result depends only on the bytes, not on how they are split. Memory is fixed; an id that is
// no longer remembered is ignored, as nghttp2 does.
//
// Thread-confined.
class Http2FrameGuard {
 public:
  struct Limits {
    std::size_t max_continuations;  // CONTINUATION frames of one header block
    std::size_t max_block_bytes;    // payload of all frames of one header block
  };

  struct Violation {
    std::size_t at;          // offset in the bytes given; earlier bytes may still be processed
    std::uint32_t code;      // for GOAWAY
    std::string_view fault;  // for the log
  };

  explicit Http2FrameGuard(const Limits& limits) : limits_(limits) {}

  // Checks the bytes that follow those of the last call; the stream of bytes begins with the
  // client's connection preface. After a violation the connection must be closed.
  std::optional<Violation> Check(std::string_view bytes, SteadyTime now);

  // Whether a header block has begun and is incomplete, and when it began.
  bool in_block() const { return expects_continuation_ || (is_block_frame_ && skip_ > 0); }
  SteadyTime block_since() const { return block_since_; }

  // Number of streams ended by the client that are remembered. The frames that matter come right
  // after the end; the search is a scan over 256 bytes.
  static constexpr std::size_t kEndedStreams = 64;
  // Number of ranges of skipped ids that are remembered. Clients skip ids at most once, at the
  // start.
  static constexpr std::size_t kSkippedRanges = 8;

 private:
  struct Error {
    std::uint32_t code;
    std::string_view fault;
  };
  struct IdRange {
    std::uint32_t first = 1;
    std::uint32_t last = 0;  // before `first`: empty
  };

  static constexpr std::size_t kPrefaceBytes = 24;
  static constexpr std::size_t kHeaderBytes = 9;
  // In the payload of PRIORITY only the stream dependency is read.
  static constexpr std::size_t kDependencyBytes = 4;

  std::optional<Error> CheckFrame(SteadyTime now);
  std::optional<Error> CheckHeaders(std::uint8_t flags, std::uint32_t id);
  std::optional<Error> CheckBlock() const;
  std::uint32_t Number(std::size_t at, std::size_t bytes) const;
  bool HasEnded(std::uint32_t id) const;
  void SetEnded(std::uint32_t id);

  const Limits limits_;
  std::size_t skip_ = kPrefaceBytes;  // bytes to skip: the preface, or a payload
  std::array<char, kHeaderBytes + kDependencyBytes>
      frame_{};                  // the first bytes of the current frame
  std::size_t frame_bytes_ = 0;  // of frame_ that were received

  bool is_block_frame_ = false;        // the current frame is HEADERS or CONTINUATION
  bool expects_continuation_ = false;  // after it
  SteadyTime block_since_{};
  std::size_t block_continuations_ = 0;
  std::size_t block_bytes_ = 0;

  std::uint32_t last_id_ = 0;                         // the highest id of an opened stream
  std::array<std::uint32_t, kEndedStreams> ended_{};  // ring; 0: unused
  std::size_t next_ended_ = 0;
  std::array<IdRange, kSkippedRanges> skipped_{};  // ring
  std::size_t next_skipped_ = 0;
};

}  // namespace herald::http
