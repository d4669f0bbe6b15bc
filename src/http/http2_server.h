#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/token_bucket.h"
#include "http/server_codec.h"

struct nghttp2_session;

namespace herald::http {

// The server's side of one HTTP/2 connection, by nghttp2.
//
// What one connection may cost:
//   streams        ServerOptions::max_streams at once; more are refused
//   heads          max_header_bytes and max_header_fields: 431; a block of more than
//                  kMaxHeadFactor times the bytes, or of more than kMaxContinuations
//                  frames: the connection is cut
//   bodies         the first kWindowBytes of each stream, and beyond that what fits into
//                  kMaxLargeBodies bodies of max_body_bytes: the other streams get no
//                  further window until one of these has been answered. They wait in
//                  turn, each for all that it needs, so they cannot block each other
//   answers        see AnswerGroup; while more than max_queued_bytes wait to be read, new
//                  requests wait as well
//   cheap frames   what costs the peer nothing and us something: see the limits below
//
// Thread-confined.
class Http2Server final : public ServerCodec {
 public:
  Http2Server(const CodecContext& context, SteadyTime now);
  ~Http2Server() override;

  void Receive(std::string_view bytes, SteadyTime now) override;
  void ReceiveEof(SteadyTime now) override;
  void OnAnswer(Answer& answer, SteadyTime now) override;
  void Produce(std::string& out, std::size_t limit, SteadyTime now) override;
  void Tick(SteadyTime now) override;
  void Drain(SteadyTime now) override;
  void Abandon() override;

  bool wants_input() const override { return true; }
  bool finished() const override;
  std::string_view fault() const override { return fault_; }

  // A stream's window for its body, HTTP/2's own default: an event fits many times over.
  static constexpr std::int32_t kWindowBytes = 65'535;
  // The window of all streams together, so that a burst of small bodies needs no update.
  static constexpr std::int32_t kConnectionWindowBytes = 1024 * 1024;
  static constexpr std::size_t kMaxLargeBodies = 4;
  static constexpr std::size_t kMaxHeadFactor = 4;
  static constexpr std::size_t kMaxContinuations = 8;  // frames of one head, 16 KiB each

  // A request that was answered before it was complete is reset, for its rest is not
  // wanted; but only so much later, because there are clients (curl 7.88) that forget the
  // answer over a reset that comes with it.
  static constexpr std::chrono::milliseconds kResetDelay{250};

  // Streams that the peer resets, or makes us reset by breaking or exceeding what it was
  // told: each may have made us do all the work of a request ("rapid reset",
  // CVE-2023-44487, and "made you reset", CVE-2025-8671). A client that stops a thousand
  // watches at once is served; one that goes on like that is not.
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
  // False: the block is beyond all measure.
  bool AddField(Stream& stream, std::string_view name, std::string_view value);
  void EndHead(Stream& stream, bool end_stream);
  void AddBody(Stream& stream, std::string_view bytes);
  void GrantWaiting();
  void EndRequest(Stream& stream);
  void Dispatch(Stream& stream);
  void DispatchHeld();
  void Refuse(Stream& stream, int status);
  void SubmitAnswer(Stream& stream);
  void CloseStream(std::int32_t id);
  // Counts a frame of the peer against a bucket; cuts the connection when it is empty.
  void Charge(TokenBucket& bucket, const TokenBucket::Limits& limits, std::string_view what);
  void Cut(std::uint32_t code, std::string_view fault);

  const CodecContext context_;
  nghttp2_session* session_ = nullptr;
  std::unordered_map<std::int32_t, std::unique_ptr<Stream>> streams_;
  std::string_view fault_;
  SteadyTime now_;                 // of the call that is being served
  SteadyTime idle_since_;          // when the last stream ended
  SteadyTime block_since_;         // when the head that is being read began
  bool in_block_ = false;          // HEADERS has come, END_HEADERS has not
  std::size_t continuations_ = 0;  // frames of that head
  bool draining_ = false;
  bool greeted_ = false;  // the peer's SETTINGS have come
  bool leaving_ = false;  // and its GOAWAY: it asks for nothing more
  bool gone_ = false;     // nothing is received or produced any more

  std::size_t large_bytes_ = 0;                // reserved for bodies over the window
  std::deque<std::int32_t> waiting_bodies_;    // streams that wait for such room
  std::deque<std::int32_t> held_;              // requests that wait for answers to be read
  std::vector<std::shared_ptr<Answer>> read_;  // answers read from in this Produce()

  TokenBucket resets_;
  TokenBucket controls_;
  std::int64_t updates_left_ = kUpdatesInAdvance;
};

}  // namespace herald::http
