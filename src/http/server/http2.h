#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/limit/token_bucket.h"
#include "http/server/codec.h"
#include "http/server/http2_frame_guard.h"
#include "http/server/read_rate.h"

struct nghttp2_session;

namespace herald::http {

// The server's side of one HTTP/2 connection, on nghttp2.
//
// Limits of one connection:
//   streams        ServerOptions::max_streams at once; more are rejected with REFUSED_STREAM
//   heads          max_header_bytes and max_header_fields: 431. Any header block, also a trailer
//                  or one that is ignored: at most kMaxContinuations frames and kMaxHeadFactor
//                  times max_header_bytes, compressed and, unless ignored, decoded (decoding an
//                  ignored block costs no more than its bytes); otherwise the connection is closed
//   bodies         kConnectionWindowBytes for all streams together, until the handler asks for a
//                  body; then the handler decides how much it accepts
//   responses      see ResponseGroup; while more than max_queued_bytes are unread, new requests
//                  wait. A finite response is reset if the client opens the window of its stream
//                  at less than min_read_bytes_per_second; the connection is closed if its window,
//                  or the socket, takes less than that of all responses together
//   cheap frames   that cost the client nothing and the server something: see the limits below
//
// Thread-confined.
class Http2Server final : public ServerCodec {
 public:
  Http2Server(const CodecContext& context, SteadyTime now);
  ~Http2Server() override;

  void Receive(std::string_view bytes, SteadyTime now) override;
  void ReceiveEof(SteadyTime now) override;
  void OnResponse(PendingResponse& response, SteadyTime now) override;
  void Produce(std::string& out, std::size_t limit, SteadyTime now) override;
  void Tick(SteadyTime now) override;
  void Drain(SteadyTime now) override;
  void Abandon() override;

  bool wants_input() const override { return true; }
  bool has_more_work() const override {
    return !abandoned_ && fault_.empty() && !waiting_.empty() && HasRoom();
  }
  bool finished() const override;
  std::string_view fault() const override { return fault_; }

  // The window of a stream for its body. HTTP/2's default: an event fits in many times.
  static constexpr std::int32_t kWindowBytes = 65'535;
  // The window of the connection, so that a burst of small bodies needs no WINDOW_UPDATE.
  static constexpr std::int32_t kConnectionWindowBytes = 1024 * 1024;
  // Requests that one Produce() passes to the handler, so that a connection with hundreds of them
  // does not delay the others of its thread.
  static constexpr int kMaxDispatches = 16;
  static constexpr std::size_t kMaxHeadFactor = 4;
  static constexpr std::size_t kMaxContinuations = 8;  // frames of one head, 16 KiB each

  // A request whose response is complete before the request is, is reset, because its rest is not
  // wanted. The reset is delayed by this much, because some clients (curl 7.88) discard the
  // response if a reset arrives with it.
  static constexpr std::chrono::milliseconds kResetDelay{250};

  // Streams that the client resets, or makes the server reset by violating the protocol or a limit:
  // each may have caused all the work of a request ("rapid reset", CVE-2023-44487, and "made you
  // reset", CVE-2025-8671). A client may stop a thousand watches at once, but not continue like
  // that. Ignored header blocks count as well, because decoding them is work.
  static constexpr TokenBucket::Limits kResets{.qps = 50, .burst = 1'000};
  // SETTINGS and PING, which the server must acknowledge, PRIORITY, empty DATA and invalid frames.
  // Real clients send a few, and a ping now and then. (nghttp2 skips frames of unknown types, which
  // cost no more than their bytes.)
  static constexpr TokenBucket::Limits kControls{.qps = 20, .burst = 500};
  // WINDOW_UPDATE frames: kUpdatesPerFrame for each DATA or HEADERS frame that was sent, and
  // kUpdatesInAdvance in addition.
  static constexpr std::int64_t kUpdatesPerFrame = 4;
  static constexpr std::int64_t kUpdatesInAdvance = 10'000;

 private:
  struct Stream;
  struct Callbacks;
  friend struct Callbacks;

  Stream* Find(std::int32_t id);
  void BeginRequest(std::int32_t id);
  // Counts a field of any header block. False: over the limit, the connection is terminated.
  bool CountField(std::string_view name, std::string_view value);
  void AddField(Stream& stream, std::string_view name, std::string_view value);
  void EndHead(Stream& stream, bool end_stream);
  void AddBody(Stream& stream, std::string_view bytes);
  void EndRequest(Stream& stream);
  void Dispatch(Stream& stream);
  // Dispatches requests of waiting_, at most *budget, which it reduces. Returns whether there were
  // any.
  bool DispatchWaiting(int* budget);
  // Whether so few bytes of responses are unread that more requests may be dispatched.
  bool HasRoom() const;
  // Acts on what the handler has done since the last call: asked for the body, or responded.
  void UpdateFromHandler(Stream& stream);
  // The handler asked for the body: reads it, or passes it on if it is complete.
  void BeginBody(Stream& stream);
  // Discards the body: what was received and what is still to come.
  void DropBody(Stream& stream);
  // Returns the received bytes to the windows, so that the client may send more.
  void Consume(Stream& stream);
  void Reject(Stream& stream, int status);
  void SubmitResponse(Stream& stream);
  // Whether the window of the stream, and not the connection, delays the response.
  bool IsBlocked(const Stream& stream) const;
  void CloseStream(std::int32_t id);
  // Counts a frame of the client against a bucket; terminates the connection if it is empty.
  void Charge(TokenBucket& bucket, const TokenBucket::Limits& limits, std::string_view fault);
  // Sends GOAWAY with this error code and closes the connection.
  void Terminate(std::uint32_t code, std::string_view fault);

  const CodecContext context_;
  nghttp2_session* session_ = nullptr;
  std::unordered_map<std::int32_t, std::unique_ptr<Stream>> streams_;
  std::string_view fault_;
  SteadyTime now_;               // of the current call
  SteadyTime idle_since_;        // when the last stream was closed
  Http2FrameGuard guard_;        // checks all bytes before nghttp2
  std::size_t block_bytes_ = 0;  // decoded bytes of the current header block
  bool block_ignored_ = false;   // nghttp2 has not reported the begin of the last HEADERS
  bool draining_ = false;
  bool settings_received_ = false;
  bool goaway_received_ = false;  // the client sends no more requests
  bool abandoned_ = false;        // nothing is received or produced any more

  std::deque<std::int32_t> waiting_;  // requests that are not dispatched yet
  std::vector<std::shared_ptr<PendingResponse>>
      read_;       // responses that this Produce() has read from
  ReadRate rate_;  // of all responses, while a finite one is unread

  TokenBucket resets_;
  TokenBucket controls_;
  std::int64_t updates_left_ = kUpdatesInAdvance;
};

}  // namespace herald::http
