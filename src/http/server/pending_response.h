#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "http/message.h"
#include "http/server/server.h"

namespace herald::http {

class PendingResponse;

// The responses that have something new for their connections, collected for one event loop. A
// thousand responses that a store thread sends while the loop is busy are a thousand entries here
// and one wake-up.
//
// Thread-safe.
class ReadyList {
 public:
  // `wake` is called each time the list becomes non-empty. The lock is held meanwhile, so that
  // `wake` is not called after Close(); it must only post a task.
  explicit ReadyList(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Push(std::shared_ptr<PendingResponse> response);
  // Moves all responses to `into`. REQUIRES: into is empty
  void Take(std::vector<std::shared_ptr<PendingResponse>>& into);
  // From now on nothing is accepted and `wake` is not called. The owner of the list must call this
  // at the end, because the responses in the list keep it alive.
  void Close();

 private:
  mutable Mutex mu_;
  std::function<void()> wake_ GUARDED_BY(mu_);
  std::vector<std::shared_ptr<PendingResponse>> ready_ GUARDED_BY(mu_);
};

// Counters of a server, updated by all its threads.
struct ServerCounters {
  std::atomic<std::uint64_t> connections_accepted{0};
  std::atomic<std::uint64_t> connections_refused{0};
  std::atomic<std::uint64_t> connections_cut{0};
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::size_t> connections{0};
  std::atomic<std::size_t> streams{0};
};

// The state that all responses of one connection share. It outlives the connection if a Responder
// does. Thread-safe.
struct ResponseGroup {
  ResponseGroup(std::shared_ptr<ReadyList> ready_list,
                std::shared_ptr<ServerCounters> server_counters, std::uint64_t connection_number,
                std::size_t max_queued)
      : ready(std::move(ready_list)),
        counters(std::move(server_counters)),
        connection(connection_number),
        max_queued_bytes(max_queued) {}

  // Whole and finite responses, and single pieces of streams, may add up to this many times
  // max_queued_bytes. They are exempt from the limit itself, because a long list is larger than any
  // limit that suits streams. But a client that requests a thousand lists and reads none must be
  // stopped.
  static constexpr std::size_t kWholeFactor = 16;

  const std::shared_ptr<ReadyList> ready;
  const std::shared_ptr<ServerCounters> counters;
  const std::uint64_t connection;
  const std::size_t max_queued_bytes;
  std::atomic<std::size_t> streams{0};         // number of responses that are streams
  std::atomic<std::size_t> streamed_bytes{0};  // queued by streams
  std::atomic<std::size_t> whole_bytes{0};     // queued by all other responses
  std::atomic<bool> overflow{false};           // over a limit: the connection must be closed
};

// The response to one request, passed from the handler (any thread, through the Responder of
// MakeResponder()) to the connection's codec (the connection's thread).
//
// It is only a queue: sending a response does not call a codec or a socket, so these need no
// protection against calls from other threads or from within their own work.
//
// Thread-safe, except for the functions of the codec, which are confined to the connection's
// thread.
class PendingResponse : public std::enable_shared_from_this<PendingResponse> {
 public:
  PendingResponse(std::shared_ptr<ResponseGroup> group, std::int32_t stream);
  ~PendingResponse();
  PendingResponse(const PendingResponse&) = delete;
  PendingResponse& operator=(const PendingResponse&) = delete;

  // The functions of Responder.
  void ReadBody(BodyReader reader);
  void Send(Response response);
  void Start(ResponseHead head);
  std::size_t Write(Chunk chunk);
  void End();
  void Abort();
  std::size_t queued() const;
  std::size_t fair_share() const;
  void Observe(std::function<void()> drained, std::function<void()> closed);

  // The last reference to the Responder was destroyed, or the handler threw.
  void Abandon();

  // The functions of the codec follow.

  const ResponseGroup& group() const { return *group_; }
  std::int32_t stream() const { return stream_; }

  // Until Acknowledge(), changes are not pushed to the ready list: the codec checks the response
  // itself when its call of the handler returns.
  void Hold();

  // Whether the handler waits for the body of the request.
  bool wants_body() const;
  // Returns whether the handler has room for a body of `bytes` in total. If not, the handler was
  // notified, and it does not want the body any more. ReserveBody() is for an announced length (0
  // if there is none). GrowBody() is for a body without one; it reserves in steps that double.
  // REQUIRES: wants_body(); ReserveBody() is called first
  bool ReserveBody(std::size_t bytes);
  bool GrowBody(std::size_t bytes);
  // Passes the body, or an error, to the handler. Does nothing if the handler does not wait for it.
  void GiveBody(Result<std::string> body);
  // The same with kCancelled.
  void DropBody();

  struct Head {
    int status = 200;
    Headers headers{};
    bool whole = false;          // the body is complete and has body_bytes
    std::size_t body_bytes = 0;  // if whole
    bool finite = false;         // it is whole, or its end follows soon
  };
  // The head, once; nullopt before the handler has set it.
  std::optional<Head> TakeHead();

  struct Piece {
    std::size_t bytes = 0;
    bool end = false;      // the body is complete
    bool aborted = false;  // the response was aborted
  };
  // Moves up to `max` bytes of the body to `to`.
  Piece Read(char* to, std::size_t max);
  // Whether the bytes read so far end at the end of a piece that was written.
  bool is_between_pieces() const;
  // From now on changes are pushed to the ready list again. Must be called before the codec checks
  // the response, so that no change is missed.
  void Acknowledge();
  // Calls `drained` if the queue has become empty since the last call.
  void NotifyDrained();
  // If this is a stream, or when it becomes one, `closed` is called; the stream may still end
  // normally.
  void Drain();
  // The codec does not need it any more: nothing is accepted from now on, and `closed` is called if
  // the response is incomplete.
  void Release();

 private:
  enum class Phase : std::uint8_t { kNothing, kWhole, kPieces };

  // Each returns whether the response must be pushed to the ready list.
  bool Schedule() REQUIRES(mu_);
  bool SendLocked(Response response) REQUIRES(mu_);
  bool is_stream() const REQUIRES(mu_) { return phase_ == Phase::kPieces && !head_.finite; }
  // Counts bytes that are about to be queued. False: over the limit, the connection must be closed.
  bool Charge(std::size_t bytes) REQUIRES(mu_);
  bool AbortLocked() REQUIRES(mu_);
  void Push(bool wanted);
  void Discard() REQUIRES(mu_);
  std::atomic<std::size_t>& Queued() REQUIRES(mu_);
  // Returns `closed` for the caller to call; empty from the second time on.
  std::function<void()> TakeClosed() REQUIRES(mu_);

  const std::shared_ptr<ResponseGroup> group_;
  const std::int32_t stream_;

  // Of the body; used by the codec only.
  std::size_t reserved_ = 0;
  std::size_t max_body_bytes_ = 0;

  mutable Mutex mu_;  // no callback runs and no lock is taken while it is held
  Phase phase_ GUARDED_BY(mu_) = Phase::kNothing;
  bool head_taken_ GUARDED_BY(mu_) = false;
  bool ended_ GUARDED_BY(mu_) = false;
  bool aborted_ GUARDED_BY(mu_) = false;
  bool released_ GUARDED_BY(mu_) = false;
  bool draining_ GUARDED_BY(mu_) = false;
  bool closed_notified_ GUARDED_BY(mu_) = false;
  bool scheduled_ GUARDED_BY(mu_) = false;
  bool emptied_ GUARDED_BY(mu_) = false;
  std::unique_ptr<BodyReader> reader_
      GUARDED_BY(mu_);  // null: the handler does not wait for a body
  ResponseHead head_ GUARDED_BY(mu_);
  std::vector<Chunk> chunks_ GUARDED_BY(mu_);
  std::size_t first_ GUARDED_BY(mu_) = 0;   // earlier chunks have been read
  std::size_t offset_ GUARDED_BY(mu_) = 0;  // bytes of chunks_[first_] that were read
  std::size_t queued_ GUARDED_BY(mu_) = 0;
  std::function<void()> drained_ GUARDED_BY(mu_);
  std::function<void()> closed_ GUARDED_BY(mu_);
};

// The Responder for a handler. When the last reference to it is destroyed, an incomplete response
// is aborted, and a response that was not started becomes a 500.
std::shared_ptr<Responder> MakeResponder(std::shared_ptr<PendingResponse> response);

}  // namespace herald::http
