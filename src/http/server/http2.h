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

// The server's side of one HTTP/2 connection, by nghttp2.
//
// What one connection may cost:
//   streams        ServerOptions::max_streams at once; more are refused
//   heads          max_header_bytes and max_header_fields: 431. Any header block, also a trailer
//                  or one that is ignored: at most kMaxContinuations frames and kMaxHeadFactor
//                  times max_header_bytes, compressed and, unless ignored, decoded (decoding what
//                  is ignored costs no more than its bytes); otherwise the connection is cut
//   bodies         kConnectionWindowBytes for all streams together, until the handler
//                  asks for a body; from then on it decides how much it has room for
//   responses        see ResponseGroup; while more than max_queued_bytes wait to be read, new
//                  requests wait as well. A finite response whose stream's window the peer opens at
//                  less than min_read_bytes_per_second is reset; where the connection's window, or
//                  the socket, takes less than that of all responses, the connection is cut
//   cheap frames   what costs the peer nothing and us something: see the limits below
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

  // A stream's window for its body, HTTP/2's own default: an event fits many times over.
  static constexpr std::int32_t kWindowBytes = 65'535;
  // The window of all streams together, so that a burst of small bodies needs no update.
  static constexpr std::int32_t kConnectionWindowBytes = 1024 * 1024;
  // Requests that one Produce() hands over, so that a connection with hundreds of them does not
  // hold up the others of its thread.
  static constexpr int kMaxDispatches = 16;
  static constexpr std::size_t kMaxHeadFactor = 4;
  static constexpr std::size_t kMaxContinuations = 8;  // frames of one head, 16 KiB each

  // A request that was answered before it was complete is reset, for its rest is not
  // wanted; but only so much later, because there are clients (curl 7.88) that forget the
  // response over a reset that comes with it.
  static constexpr std::chrono::milliseconds kResetDelay{250};

  // Streams that the peer resets, or makes us reset by breaking or exceeding what it was
  // told: each may have made us do all the work of a request ("rapid reset",
  // CVE-2023-44487, and "made you reset", CVE-2025-8671). A client that stops a thousand
  // watches at once is served; one that goes on like that is not. Header blocks that are
  // ignored count as well, because decoding them is work.
  static constexpr TokenBucket::Limits kResets{.qps = 50, .burst = 1'000};
  // SETTINGS and PING, which must be answered, PRIORITY, empty DATA and frames that are
  // invalid. Honest clients send a handful, and a ping now and then. (Frames of unknown
  // types are skipped by nghttp2 and cost no more than the bytes.)
  static constexpr TokenBucket::Limits kControls{.qps = 20, .burst = 500};
  // WINDOW_UPDATE comes with what is read: so many for each frame of data that was sent
  // and for each request, and these many in advance.
  static constexpr std::int64_t kUpdatesPerFrame = 4;
  static constexpr std::int64_t kUpdatesInAdvance = 10'000;

 private:
  struct Stream;
  struct Callbacks;
  friend struct Callbacks;

  Stream* Find(std::int32_t id);
  void BeginRequest(std::int32_t id);
  // Counts a field of any header block. False: the connection was cut for it.
  bool CountField(std::string_view name, std::string_view value);
  void AddField(Stream& stream, std::string_view name, std::string_view value);
  void EndHead(Stream& stream, bool end_stream);
  void AddBody(Stream& stream, std::string_view bytes);
  void EndRequest(Stream& stream);
  void Dispatch(Stream& stream);
  // Hands over requests of waiting_, at most *budget, which it reduces. Returns whether there were
  // any.
  bool DispatchWaiting(int* budget);
  // Whether few enough responses wait to be read that more requests may be handed over.
  bool HasRoom() const;
  // Follows what the handler has done with the request so far.
  void UpdateFromHandler(Stream& stream);
  // The body was asked for: reads it, or hands it over where it is there.
  void BeginBody(Stream& stream);
  // What has been received of the body, and what is still to come, is not wanted.
  void DropBody(Stream& stream);
  // Gives back to the windows what has been received and is in its place.
  void Consume(Stream& stream);
  void Reject(Stream& stream, int status);
  void SubmitResponse(Stream& stream);
  // Whether the window of the stream, rather than the connection, keeps the response from being
  // sent.
  bool IsBlocked(const Stream& stream) const;
  void CloseStream(std::int32_t id);
  // Counts a frame of the peer against a bucket; cuts the connection when it is empty.
  void Charge(TokenBucket& bucket, const TokenBucket::Limits& limits, std::string_view what);
  void Cut(std::uint32_t code, std::string_view fault);

  const CodecContext context_;
  nghttp2_session* session_ = nullptr;
  std::unordered_map<std::int32_t, std::unique_ptr<Stream>> streams_;
  std::string_view fault_;
  SteadyTime now_;               // of the call that is being served
  SteadyTime idle_since_;        // when the last stream ended
  Http2FrameGuard guard_;        // sees all bytes before nghttp2
  std::size_t block_bytes_ = 0;  // decoded, of the header block that is being read
  bool block_ignored_ = false;   // nghttp2 has not announced the fields of the last HEADERS
  bool draining_ = false;
  bool settings_received_ = false;  // the peer's SETTINGS have come
  bool goaway_received_ = false;    // and its GOAWAY: it asks for nothing more
  bool abandoned_ = false;          // nothing is received or produced any more

  std::deque<std::int32_t> waiting_;                    // requests that are not handed over yet
  std::vector<std::shared_ptr<PendingResponse>> read_;  // responses read from in this Produce()
  ReadRate rate_;  // of all responses, while a finite one waits

  TokenBucket resets_;
  TokenBucket controls_;
  std::int64_t updates_left_ = kUpdatesInAdvance;
};

}  // namespace herald::http
