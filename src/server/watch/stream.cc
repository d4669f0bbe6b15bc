#include "server/watch/stream.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/thread/async_loop.h"
#include "base/thread/mutex.h"
#include "server/events/stored_event.h"
#include "server/watch/shared_frames.h"

namespace herald::server {
namespace {

// Changes that a stream takes from the store at a time. The stream holds those that do not fit into
// the client's buffer, so the number is small.
constexpr std::size_t kMaxChangesAtOnce = 32;
// Initial events are read in chunks of kInitialChunkBytes (stored size), and only while fewer than
// kMaxInitialQueuedBytes wait for the client. A reconnecting client opens many watches; if it does
// not read, each should cost at most 150 KB.
constexpr std::size_t kInitialChunkBytes = 32 * 1024;
constexpr std::size_t kMaxInitialQueuedBytes = 64 * 1024;
// Small frames that are ready at the same time are sent together, up to this size.
constexpr std::size_t kChunkBytes = 64 * 1024;
// Frames of at least this size are sent alone, because then all streams can share the bytes. A copy
// of a large frame for each of a thousand slow clients would use too much memory.
constexpr std::size_t kSharedBytes = 4 * 1024;
// Precision of deadlines and bookmarks.
constexpr std::chrono::seconds kTick{1};

constexpr std::string_view kInitialEventsEnd = "k8s.io/initial-events-end";

Status Expired() {
  return Status(StatusReason::kExpired, "The resourceVersion for the provided watch is too old.");
}

}  // namespace

// The state that all streams share. It outlives WatchStreams while a stream still runs.
//
// Thread-safe.
class WatchStreams::State : public std::enable_shared_from_this<State> {
 public:
  State(store::Store* store, Executor* executor, WatchLimits limits)
      : store_(store), executor_(executor), limits_(limits) {}

  store::Store* store() const { return store_; }
  const Clock& clock() const { return executor_->clock(); }
  RecentFrames* frames() { return &frames_; }

  Status Add(const std::shared_ptr<Stream>& stream, const std::string& user);
  void Remove(const std::shared_ptr<Stream>& stream, const std::string& user);
  // Schedules a Pump() of the stream on the executor.
  void Wake(std::shared_ptr<Stream> stream);
  void Stop();
  std::size_t size() const;

 private:
  void PumpWoken();
  void Tick();
  void ScheduleTick();

  store::Store* const store_;
  Executor* const executor_;
  const WatchLimits limits_;
  RecentFrames frames_;

  mutable Mutex mu_;  // a leaf: no callback and no other module is called under it
  std::unordered_set<std::shared_ptr<Stream>> streams_ GUARDED_BY(mu_);
  std::map<std::string, std::size_t, std::less<>> per_user_ GUARDED_BY(mu_);
  std::vector<std::shared_ptr<Stream>> woken_ GUARDED_BY(mu_);
  bool pumping_ GUARDED_BY(mu_) = false;  // a task is posted or runs
  bool ticking_ GUARDED_BY(mu_) = false;
  bool stopped_ GUARDED_BY(mu_) = false;
};

// One watch. Pump() does its work. Any thread may call it; one thread at a time runs it and also
// does what the others asked for.
//
//   reading ---chunk---> initial ---all written---> live ---> done
//      ^-------------------'  more chunks
class WatchStreams::Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(std::shared_ptr<State> state, WatchRequest request,
         std::shared_ptr<http::Responder> responder)
      : state_(std::move(state)),
        request_(std::move(request)),
        responder_(std::move(responder)),
        deadline_(state_->clock().Steady() + request_.timeout),
        bookmark_at_(state_->clock().Steady() + kBookmarkInterval),
        needs_columns_(request_.form.shape == Shape::kTable) {}

  void Begin() {
    responder_->Observe(
        [self = weak_from_this()] {
          if (const auto stream = self.lock()) stream->Pump();
        },
        [self = weak_from_this()] {
          if (const auto stream = self.lock()) stream->Order(kClose);
        });
    Order(request_.initial_events ? kReadFirst : kOpenWatch);
  }

  // Called about once a second.
  void OnTick(SteadyTime now) {
    if (now >= deadline_) {
      Order(request_.bookmarks ? kBookmark | kEnd : kEnd);
    } else if (request_.bookmarks && now >= bookmark_at_.load(std::memory_order_relaxed)) {
      bookmark_at_.store(now + kBookmarkInterval, std::memory_order_relaxed);
      Order(kBookmark);
    }
  }

  void Stop() { Order(kEnd); }

  // Returns at once if another thread is running it; that thread then does the work.
  void Pump() {
    one_at_a_time_.Run([this] { Work(); });
  }

 private:
  enum class Phase : std::uint8_t { kReading, kInitial, kLive, kDone };

  // Orders that other threads give to the pumping thread.
  static constexpr std::uint32_t kOpenWatch = 1;
  static constexpr std::uint32_t kChunk = 2;     // arrived_ has a chunk of initial events
  static constexpr std::uint32_t kBookmark = 4;  // send a bookmark
  static constexpr std::uint32_t kEnd = 8;       // end cleanly
  static constexpr std::uint32_t kClose = 16;    // the client has disconnected
  static constexpr std::uint32_t kReadFirst = 32;

  void Order(std::uint32_t orders) {
    orders_.fetch_or(orders, std::memory_order_acq_rel);
    Pump();
  }

  // Everything below is called only by the pumping thread.

  void Work() {
    if (phase_ == Phase::kDone) return;
    const std::uint32_t orders = orders_.exchange(0, std::memory_order_acq_rel);
    if ((orders & kClose) != 0) return Finish();
    if ((orders & kReadFirst) != 0) ReadInitial();
    if ((orders & kOpenWatch) != 0) OpenWatch(request_.after);
    if ((orders & kChunk) != 0) TakeChunk();
    if (phase_ == Phase::kInitial) GoOnWithInitial();
    if (phase_ == Phase::kLive) WriteChanges();
    if (phase_ == Phase::kDone) return;
    // A bookmark is useless if the last frame had the same resource version.
    const bool mark = (orders & kBookmark) != 0 && phase_ == Phase::kLive && progress_ > sent_;
    if (mark && !is_full()) WriteBookmark(false);
    if ((orders & kEnd) != 0) {
      Flush();
      responder_->End();
      Finish();
    }
  }

  bool is_full() const {
    const std::size_t waiting = buffer_.size() + (shared_ != nullptr ? shared_->size() : 0);
    const std::size_t most = phase_ == Phase::kInitial ? kMaxInitialQueuedBytes : kMaxQueuedBytes;
    return responder_->queued() + waiting >= std::min(most, responder_->fair_share());
  }

  // Reads the existing events in any order: watchers do not need one, and sorting costs memory.
  void ReadInitial() {
    ReadContext context;
    context.flow = request_.flow;
    context.background = true;
    context.cancelled = cancelled_;
    context.chunk_bytes = kInitialChunkBytes;
    Result<std::shared_ptr<EventListReader>> reader =
        EventListReader::Make(state_->store(), request_.filter, ListOptions(), std::move(context),
                              EventListReader::Order::kAny);
    if (!reader) return Fail(reader.error());
    reader_ = *std::move(reader);
    ReadChunk();
  }

  void ReadChunk() {
    phase_ = Phase::kReading;
    reader_->Next([self = shared_from_this()](Result<std::vector<store::Entry>> chunk) {
      {
        MutexLock lock(self->arrived_mu_);
        self->arrived_.emplace(std::move(chunk));
      }
      self->Order(kChunk);
    });
  }

  void TakeChunk() {
    std::optional<Result<std::vector<store::Entry>>> arrived;
    {
      MutexLock lock(arrived_mu_);
      arrived = std::exchange(arrived_, std::nullopt);
    }
    if (!arrived) return;
    if (!*arrived) {
      const Status& error = arrived->error();
      return Fail(error.Is(StatusReason::kExpired) ? Expired() : error);
    }
    const store::Revision revision = reader_->revision();
    if (request_.not_older_than > static_cast<std::uint64_t>(revision)) {
      return Fail(TooLargeResourceVersion(request_.not_older_than, revision, kTick));
    }
    // Encodes the whole chunk, because frames take little more memory than its entries.
    const WallTime now = state_->clock().Now();
    for (const store::Entry& entry : **arrived) {
      const Result<Event> event = DecodeStored(entry);
      if (!event) return Fail(event.error());
      Put(EncodeFrame(WatchType::kAdded, *event, request_.form, TakeColumns(), now));
    }
    Flush();
    phase_ = Phase::kInitial;
  }

  // Reads the next chunk when the client has read enough of the last one.
  void GoOnWithInitial() {
    if (!reader_->is_done()) {
      if (!is_full()) ReadChunk();
      return;
    }
    progress_ = reader_->revision();
    reader_.reset();
    if (request_.bookmarks) WriteBookmark(true);
    OpenWatch(progress_);
  }

  void OpenWatch(store::Revision after) {
    progress_ = after;
    sent_ = after;
    Result<std::unique_ptr<store::Watch>> watch =
        state_->store()->NewWatch(EventKeyPrefix(request_.filter.namespace_()), after,
                                  [self = weak_from_this(), state = state_] {
                                    if (auto stream = self.lock()) state->Wake(std::move(stream));
                                  });
    if (!watch) {
      return Fail(watch.error().Is(StatusReason::kExpired) ? Expired() : watch.error());
    }
    watch_ = *std::move(watch);
    phase_ = Phase::kLive;
  }

  void WriteChanges() {
    const WallTime now = state_->clock().Now();
    while (!is_full()) {
      if (next_in_batch_ == batch_.changes.size()) {
        Result<store::Watch::Batch> batch = watch_->Next(kMaxChangesAtOnce);
        if (!batch) {
          return Fail(batch.error().Is(StatusReason::kExpired) ? Expired() : batch.error());
        }
        batch_ = *std::move(batch);
        next_in_batch_ = 0;
      }
      if (!batch_.changes.empty()) {
        const std::shared_ptr<const store::Change> change =
            std::move(batch_.changes[next_in_batch_++]);
        WriteChange(*change, now);
        if (phase_ == Phase::kDone) return;
        // Not the revision of the change, because more changes of that revision may follow: an etcd
        // lease deletes many keys at one revision, and a client that resumes there would miss the
        // others.
        progress_ = std::max(progress_, change->resume_revision());
      }
      if (next_in_batch_ < batch_.changes.size()) continue;
      progress_ = std::max(progress_, batch_.revision);
      if (batch_.changes.empty()) break;
    }
    Flush();
  }

  void WriteChange(const store::Change& change, WallTime now) {
    const std::shared_ptr<SharedFrames> frames = state_->frames()->Of(change);
    if (request_.filter.matches_all()) return WriteUnselected(change, frames.get(), now);
    const std::shared_ptr<const SharedFrames::Decoded> decoded = frames->Decode(change);
    if (!decoded->status.ok()) return Fail(decoded->status);
    const std::optional<Event>& current = decoded->current;
    const std::optional<Event>& previous = decoded->previous;
    const bool matches = current && request_.filter.Matches(*current);
    const bool matched = previous && request_.filter.Matches(*previous);
    if (matches || matched) sent_ = change.resume_revision();
    // A watch with a selector sends ADDED when an event starts to match and DELETED when it stops.
    if (matches && current) {
      PutShared(matched ? WatchType::kModified : WatchType::kAdded, *current, frames.get(), now);
    } else if (matched && previous) {
      PutShared(WatchType::kDeleted, *previous, frames.get(), now);
    }
  }

  // A stream without a selector need not decode the change if another stream has encoded it.
  void WriteUnselected(const store::Change& change, SharedFrames* frames, WallTime now) {
    const std::optional<store::Entry>& previous = change.previous();
    const store::Entry* shown = &change.current();
    WatchType type = previous ? WatchType::kModified : WatchType::kAdded;
    if (change.deleted()) {
      if (!previous) return;  // the deleted event is unknown
      shown = &*previous;
      type = WatchType::kDeleted;
    }
    if (http::Chunk made = needs_columns_ ? nullptr : frames->Find(type, request_.form)) {
      Put(made);
    } else {
      const Result<Event> event =
          change.deleted() ? DecodePrevious(change, *shown) : DecodeStored(*shown);
      if (!event) return Fail(event.error());
      PutShared(type, *event, frames, now);
    }
    sent_ = change.resume_revision();
  }

  void PutShared(WatchType type, const Event& event, SharedFrames* frames, WallTime now) {
    if (needs_columns_) return Put(EncodeFrame(type, event, request_.form, TakeColumns(), now));
    const http::Chunk made = frames->Find(type, request_.form);
    Put(made != nullptr ? made : frames->Make(type, event, request_.form, now));
  }

  void WriteBookmark(bool ends_initial_events) {
    Event mark;
    mark.metadata.resource_version = ToResourceVersion(progress_);
    if (ends_initial_events) mark.metadata.annotations.emplace(kInitialEventsEnd, "true");
    sent_ = progress_;
    Put(EncodeFrame(WatchType::kBookmark, mark, request_.form, TakeColumns(),
                    state_->clock().Now()));
    Flush();
  }

  bool TakeColumns() { return std::exchange(needs_columns_, false); }

  void Put(std::string frame) {
    if (shared_ != nullptr && shared_->size() >= kSharedBytes) Flush();
    if (shared_ != nullptr) buffer_ = *std::exchange(shared_, nullptr);
    if (buffer_.empty()) {
      buffer_ = std::move(frame);
    } else {
      buffer_ += frame;
    }
    if (buffer_.size() >= kChunkBytes) Flush();
  }
  // A frame that other streams send, too. It is sent without a copy if it is large or the only one
  // that is ready.
  void Put(const http::Chunk& frame) {
    if (frame->size() >= kSharedBytes) Flush();
    if (shared_ == nullptr && buffer_.empty()) {
      shared_ = frame;
      return;
    }
    Put(*frame);
  }
  void Flush() {
    if (shared_ != nullptr) responder_->Write(std::exchange(shared_, nullptr));
    if (!buffer_.empty()) {
      responder_->Write(std::make_shared<const std::string>(std::exchange(buffer_, {})));
    }
  }

  // Sends the error to the client and ends the stream.
  void Fail(const Status& status) {
    Flush();
    Put(EncodeErrorFrame(status, request_.form));
    Flush();
    responder_->End();
    Finish();
  }

  void Finish() {
    phase_ = Phase::kDone;
    watch_.reset();
    batch_ = {};
    next_in_batch_ = 0;
    reader_.reset();
    cancelled_->store(true);
    state_->Remove(shared_from_this(), request_.user);
  }

  const std::shared_ptr<State> state_;
  const WatchRequest request_;
  const std::shared_ptr<http::Responder> responder_;
  const SteadyTime deadline_;
  std::atomic<SteadyTime> bookmark_at_;

  OneAtATime one_at_a_time_;
  std::atomic<std::uint32_t> orders_{0};

  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);

  Mutex arrived_mu_;
  std::optional<Result<std::vector<store::Entry>>> arrived_ GUARDED_BY(arrived_mu_);

  // Used only by the pumping thread.
  Phase phase_ = Phase::kReading;
  std::shared_ptr<EventListReader> reader_;  // of initial events
  std::unique_ptr<store::Watch> watch_;
  store::Watch::Batch batch_;  // the last one from watch_
  std::size_t next_in_batch_ = 0;
  store::Revision progress_ = 0;  // all changes up to this revision have been processed
  store::Revision sent_ = 0;      // the last resource version that was sent to the client
  bool needs_columns_;
  std::string buffer_;  // frames that are not written yet
  http::Chunk shared_;  // one such frame that other streams share; then buffer_ is empty
};

Status WatchStreams::State::Add(const std::shared_ptr<Stream>& stream, const std::string& user) {
  MutexLock lock(mu_);
  if (stopped_) {
    return Status(StatusReason::kServiceUnavailable,
                  "the server is currently unable to handle the request");
  }
  std::size_t& of_user = per_user_[user];
  if (streams_.size() >= limits_.max_watches || of_user >= limits_.max_watches_per_user) {
    if (of_user == 0) per_user_.erase(user);
    Status::Parts parts;
    parts.reason = StatusReason::kTooManyRequests;
    parts.message = "too many watches are open, please try again later";
    parts.retry_after = std::chrono::seconds(5);
    return Status(std::move(parts));
  }
  ++of_user;
  streams_.insert(stream);
  if (!std::exchange(ticking_, true)) {
    lock.Unlock();
    ScheduleTick();
    lock.Lock();
  }
  return Status();
}

void WatchStreams::State::Remove(const std::shared_ptr<Stream>& stream, const std::string& user) {
  MutexLock lock(mu_);
  if (streams_.erase(stream) == 0) return;
  const auto counted = per_user_.find(user);
  if (counted != per_user_.end() && --counted->second == 0) per_user_.erase(counted);
}

void WatchStreams::State::Wake(std::shared_ptr<Stream> stream) {
  {
    MutexLock lock(mu_);
    woken_.push_back(std::move(stream));
    if (std::exchange(pumping_, true)) return;
  }
  executor_->Post([self = shared_from_this()] { self->PumpWoken(); });
}

void WatchStreams::State::PumpWoken() {
  std::vector<std::shared_ptr<Stream>> woken;
  {
    MutexLock lock(mu_);
    woken.swap(woken_);
  }
  for (const std::shared_ptr<Stream>& stream : woken) stream->Pump();
  {
    MutexLock lock(mu_);
    if (woken_.empty()) {
      pumping_ = false;
      return;
    }
  }
  // Posted, so that other tasks of the executor can run in between.
  executor_->Post([self = shared_from_this()] { self->PumpWoken(); });
}

void WatchStreams::State::ScheduleTick() {
  executor_->PostAt(clock().Steady() + kTick, [self = weak_from_this()] {
    if (const auto state = self.lock()) state->Tick();
  });
}

void WatchStreams::State::Tick() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    MutexLock lock(mu_);
    if (streams_.empty() || stopped_) {
      ticking_ = false;
      return;
    }
    streams.assign(streams_.begin(), streams_.end());
  }
  const SteadyTime now = clock().Steady();
  for (const std::shared_ptr<Stream>& stream : streams) stream->OnTick(now);
  ScheduleTick();
}

void WatchStreams::State::Stop() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    MutexLock lock(mu_);
    stopped_ = true;
    streams.assign(streams_.begin(), streams_.end());
  }
  for (const std::shared_ptr<Stream>& stream : streams) stream->Stop();
}

std::size_t WatchStreams::State::size() const {
  MutexLock lock(mu_);
  return streams_.size();
}

WatchStreams::WatchStreams(store::Store* store, Executor* executor, WatchLimits limits)
    : state_(std::make_shared<State>(store, executor, limits)) {}

WatchStreams::~WatchStreams() { Stop(); }

Status WatchStreams::Open(WatchRequest request, std::shared_ptr<http::Responder> responder,
                          const std::function<void()>& start) {
  const std::string user = request.user;
  auto stream = std::make_shared<Stream>(state_, std::move(request), std::move(responder));
  if (Status rejected = state_->Add(stream, user); !rejected.ok()) return rejected;
  start();
  stream->Begin();
  return Status();
}

void WatchStreams::Stop() { state_->Stop(); }

std::size_t WatchStreams::size() const { return state_->size(); }

}  // namespace herald::server
