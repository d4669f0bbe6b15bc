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

// The responses that have something new for their connections, gathered for one event
// loop. A thousand responses given by a store thread while the loop is busy are a
// thousand entries here and one wake-up.
//
// Thread-safe.
class ReadyList {
 public:
  // `wake` is called each time the list stops being empty, with the lock held, so that
  // Close() can promise that it is called no more; it must only post.
  explicit ReadyList(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Push(std::shared_ptr<PendingResponse> response);
  // Swaps what has gathered into `into`, which must be empty.
  void Take(std::vector<std::shared_ptr<PendingResponse>>& into);
  // Nothing is accepted, and `wake` is not called, from now on. Whoever made the list must
  // call it in the end, because the responses in it keep it alive.
  void Close();

 private:
  mutable Mutex mu_;
  std::function<void()> wake_ GUARDED_BY(mu_);
  std::vector<std::shared_ptr<PendingResponse>> ready_ GUARDED_BY(mu_);
};

// What a server counts, changed by all its threads.
struct ServerCounters {
  std::atomic<std::uint64_t> connections_accepted{0};
  std::atomic<std::uint64_t> connections_refused{0};
  std::atomic<std::uint64_t> connections_cut{0};
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::size_t> connections{0};
  std::atomic<std::size_t> streams{0};
};

// What all responses of one connection have in common. It outlives the connection when
// somebody keeps a Responder for longer. Thread-safe.
struct ResponseGroup {
  ResponseGroup(std::shared_ptr<ReadyList> ready_list,
                std::shared_ptr<ServerCounters> server_counters, std::uint64_t connection_number,
                std::size_t max_queued)
      : ready(std::move(ready_list)),
        counters(std::move(server_counters)),
        connection(connection_number),
        max_queued_bytes(max_queued) {}

  // Whole and finite responses, and single pieces of streams, may add up to so many times
  // max_queued_bytes. They are exempt from the bound itself, because a long list is larger
  // than any bound that would be fit for streams, but a peer that asks for a thousand of
  // them and reads none is not.
  static constexpr std::size_t kWholeFactor = 16;

  const std::shared_ptr<ReadyList> ready;
  const std::shared_ptr<ServerCounters> counters;
  const std::uint64_t connection;
  const std::size_t max_queued_bytes;
  std::atomic<std::size_t> streams{0};         // responses without an end in sight
  std::atomic<std::size_t> streamed_bytes{0};  // queued by these
  std::atomic<std::size_t> whole_bytes{0};     // queued by all others
  std::atomic<bool> overflow{false};           // over a bound: the connection is to be cut
};

// The response to one request, on its way from whoever gives it (any thread, through the
// Responder of MakeResponder()) to the connection's codec (the connection's thread).
//
// It is a queue and nothing else: giving a response never touches a codec or a socket,
// so neither has to expect calls from other threads or in the middle of its work.
//
// Thread-safe; the codec's half is confined to the connection's thread.
class PendingResponse : public std::enable_shared_from_this<PendingResponse> {
 public:
  PendingResponse(std::shared_ptr<ResponseGroup> group, std::int32_t stream);
  ~PendingResponse();
  PendingResponse(const PendingResponse&) = delete;
  PendingResponse& operator=(const PendingResponse&) = delete;

  // What Responder promises.
  void ReadBody(BodyReader reader);
  void Send(Response response);
  void Start(ResponseHead head);
  std::size_t Write(Chunk chunk);
  void End();
  void Abort();
  std::size_t queued() const;
  std::size_t fair_share() const;
  void Observe(std::function<void()> drained, std::function<void()> closed);

  // The last Responder has gone, or the handler threw.
  void Abandon();

  // The codec's half.

  const ResponseGroup& group() const { return *group_; }
  std::int32_t stream() const { return stream_; }

  // What is given from now on is not pushed to the ready list, until Acknowledge(): the codec looks
  // at the response itself as soon as its call to the handler returns.
  void Hold();

  // Whether the handler has asked for the body and waits for it.
  bool wants_body() const;
  // Whether the handler has room for a body of that many bytes in all. If not, the handler has been
  // notified, and the body is not wanted any more. ReserveBody() is for an announced length (0
  // where there is none), GrowBody() for what comes without one, for which it asks in steps that
  // double. REQUIRES: wants_body(); ReserveBody() comes first
  bool ReserveBody(std::size_t bytes);
  bool GrowBody(std::size_t bytes);
  // Hands the body over, or why there is none. Does nothing where none is wanted.
  void GiveBody(Result<std::string> body);
  // The same with kCancelled.
  void DropBody();

  struct Head {
    int status = 200;
    Headers headers{};
    bool whole = false;          // the body is complete, body_bytes long
    std::size_t body_bytes = 0;  // of a whole one
    bool finite = false;         // its end will come soon, or is there
  };
  // The head, once; nothing before it is there.
  std::optional<Head> TakeHead();

  struct Piece {
    std::size_t bytes = 0;
    bool end = false;      // this was the last of it
    bool aborted = false;  // there will be no end
  };
  // Moves up to `max` bytes of the body to `to`.
  Piece Read(char* to, std::size_t max);
  // Whether what was read so far ends where a piece that was written ends.
  bool is_between_pieces() const;
  // From now on a change is pushed to the ready list again. Called before looking at it.
  void Acknowledge();
  // Calls `drained` if the queue has become empty since the last time.
  void NotifyDrained();
  // Streams are told `closed`, now or when they begin; they may still end in good order.
  void Drain();
  // The codec is done with it: nothing is accepted any more, and where the response was
  // not complete, `closed` is called.
  void Release();

 private:
  enum class Phase : std::uint8_t { kNothing, kWhole, kPieces };

  // Each returns whether the response must be pushed to the ready list.
  bool Schedule() REQUIRES(mu_);
  bool SendLocked(Response response) REQUIRES(mu_);
  bool is_stream() const REQUIRES(mu_) { return phase_ == Phase::kPieces && !head_.finite; }
  // Counts what is about to be queued. False: it is too much, and the connection is to be cut.
  bool Charge(std::size_t bytes) REQUIRES(mu_);
  bool AbortLocked() REQUIRES(mu_);
  void Push(bool wanted);
  void Discard() REQUIRES(mu_);
  std::atomic<std::size_t>& Queued() REQUIRES(mu_);
  // Hands out what is to be called to say that the peer has gone; empty the second time.
  std::function<void()> TakeClosed() REQUIRES(mu_);

  const std::shared_ptr<ResponseGroup> group_;
  const std::int32_t stream_;

  // Of the body; the codec's.
  std::size_t reserved_ = 0;
  std::size_t max_body_bytes_ = 0;

  mutable Mutex mu_;  // no callback runs and no other lock is taken under it
  Phase phase_ GUARDED_BY(mu_) = Phase::kNothing;
  bool head_taken_ GUARDED_BY(mu_) = false;
  bool ended_ GUARDED_BY(mu_) = false;
  bool aborted_ GUARDED_BY(mu_) = false;
  bool released_ GUARDED_BY(mu_) = false;
  bool draining_ GUARDED_BY(mu_) = false;
  bool closed_notified_ GUARDED_BY(mu_) = false;
  bool scheduled_ GUARDED_BY(mu_) = false;
  bool emptied_ GUARDED_BY(mu_) = false;
  std::unique_ptr<BodyReader> reader_ GUARDED_BY(mu_);  // null: no body is wanted
  ResponseHead head_ GUARDED_BY(mu_);
  std::vector<Chunk> chunks_ GUARDED_BY(mu_);
  std::size_t first_ GUARDED_BY(mu_) = 0;   // chunks before it have been read
  std::size_t offset_ GUARDED_BY(mu_) = 0;  // into chunks_[first_]
  std::size_t queued_ GUARDED_BY(mu_) = 0;
  std::function<void()> drained_ GUARDED_BY(mu_);
  std::function<void()> closed_ GUARDED_BY(mu_);
};

// What the handler is given: when the last reference to it goes, the response is cut off
// or becomes a 500.
std::shared_ptr<Responder> MakeResponder(std::shared_ptr<PendingResponse> response);

}  // namespace herald::http
