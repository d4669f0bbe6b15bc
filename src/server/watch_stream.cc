#include "server/watch_stream.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "server/stored_event.h"

namespace herald::server {
namespace {

// What is there at the beginning is read in pages: a small one first, to see how large the
// events are, then as many as fill the client's queue, but no more than this.
constexpr std::int64_t kFirstPageEvents = 16;
constexpr std::int64_t kMaxPageEvents = 250;
// How many changes a stream takes from the store at once. Those for which there is no room
// are kept for later, so it is not many.
constexpr std::size_t kMaxChangesAtOnce = 32;
// Small frames that are ready together travel together.
constexpr std::size_t kChunkBytes = 64 * 1024;
// From this size on a frame travels alone, because then all streams can share it; copies of
// large ones, one for each of a thousand slow clients, would fill memory.
constexpr std::size_t kSharedBytes = 4 * 1024;
// How exact deadlines and bookmarks are.
constexpr std::chrono::seconds kTick{1};

constexpr std::string_view kInitialEventsEnd = "k8s.io/initial-events-end";

Status Expired() {
  return Status(StatusReason::kExpired, "The resourceVersion for the provided watch is too old.");
}

// What there was before the change. When it went, by being deleted or by no longer matching, is
// told by its version; from there a client goes on, so it is not that of a revision of which more
// is to come.
Result<Event> DecodePrevious(const store::Change& change, const store::Entry& previous) {
  Result<Event> event = DecodeStored(previous);
  if (event) event->metadata.resource_version = ToResourceVersion(change.resume_revision());
  return event;
}

// What streams have made of one change, kept with it: the store shares changes among
// watches and keeps the latest for those that lag a little. Thread-safe.
class SharedFrames {
 public:
  struct Decoded {
    std::optional<Event> current{};   // what there is now; none where it was deleted
    std::optional<Event> previous{};  // what there was before; none where it was created
    Status status{};                  // not ok where one of them is no event
  };

  // For streams with selectors, which have to look at what was as well.
  std::shared_ptr<const Decoded> Decode(const store::Change& change) {
    {
      MutexLock lock(mu_);
      if (decoded_ != nullptr) return decoded_;
    }
    Decoded made;
    const auto take = [&made](Result<Event> event, std::optional<Event>* out) {
      if (event) {
        *out = *std::move(event);
      } else {
        made.status = event.error();
      }
    };
    if (!change.deleted()) take(DecodeStored(change.current()), &made.current);
    if (const std::optional<store::Entry>& previous = change.previous()) {
      take(DecodePrevious(change, *previous), &made.previous);
    }
    auto decoded = std::make_shared<const Decoded>(std::move(made));
    MutexLock lock(mu_);
    if (!forgotten_) decoded_ = decoded;
    return decoded;
  }

  // Null where nobody has asked for it yet.
  http::Chunk Find(WatchType type, const Form& form) {
    MutexLock lock(mu_);
    for (const Made& made : frames_) {
      if (made.type == type && made.form == form) return made.bytes;
    }
    return nullptr;
  }
  http::Chunk Make(WatchType type, const Event& event, const Form& form, WallTime now) {
    auto bytes = std::make_shared<const std::string>(EncodeFrame(type, event, form, false, now));
    MutexLock lock(mu_);
    if (!forgotten_) frames_.push_back({type, form, bytes});
    return bytes;
  }

  // Keeps nothing from now on.
  void Forget() {
    std::shared_ptr<const Decoded> decoded;
    std::vector<Made> frames;
    MutexLock lock(mu_);
    forgotten_ = true;
    decoded.swap(decoded_);
    frames.swap(frames_);
  }

 private:
  struct Made {
    WatchType type;
    Form form;
    http::Chunk bytes;
  };

  Mutex mu_;
  std::shared_ptr<const Decoded> decoded_ GUARDED_BY(mu_);
  std::vector<Made> frames_ GUARDED_BY(mu_);  // a handful: as many as there are forms
  bool forgotten_ GUARDED_BY(mu_) = false;
};

// Bounds what is kept with changes, for the store knows nothing of it and may keep a
// change for long. Whoever lags behind this many changes encodes for itself. Thread-safe.
class RecentFrames {
 public:
  // Those of the change, made at the first call.
  std::shared_ptr<SharedFrames> Of(const store::Change& change) {
    std::shared_ptr<void> found = change.attachment();
    if (found == nullptr) {
      auto made = std::make_shared<SharedFrames>();
      found = change.Attach(made);
      if (found == made) Remember(std::move(made), BytesOf(change));
    }
    return std::static_pointer_cast<SharedFrames>(found);
  }

 private:
  // Some 1 KB each where nobody selects, else 5 KB (two events and their frames in two forms): 16
  // MB of small events, at most 80.
  static constexpr std::size_t kMaxRemembered = 16'384;
  // Of the values that they were made of, for large events: of these what was made takes up to
  // three times as much.
  static constexpr std::size_t kMaxRememberedBytes = 16u << 20;

  struct Remembered {
    std::shared_ptr<SharedFrames> frames;
    std::size_t bytes;
  };

  static std::size_t BytesOf(const store::Change& change) {
    std::size_t bytes = change.deleted() ? 0 : change.current().value->size();
    if (const std::optional<store::Entry>& previous = change.previous()) {
      bytes += previous->value->size();
    }
    return bytes;
  }

  void Remember(std::shared_ptr<SharedFrames> frames, std::size_t bytes) {
    std::vector<Remembered> oldest;
    {
      MutexLock lock(mu_);
      remembered_.push_back({std::move(frames), bytes});
      bytes_ += bytes;
      while (remembered_.size() > kMaxRemembered || bytes_ > kMaxRememberedBytes) {
        bytes_ -= remembered_.front().bytes;
        oldest.push_back(std::move(remembered_.front()));
        remembered_.pop_front();
      }
    }
    for (const Remembered& one : oldest) one.frames->Forget();
  }

  Mutex mu_;
  std::deque<Remembered> remembered_ GUARDED_BY(mu_);
  std::size_t bytes_ GUARDED_BY(mu_) = 0;  // of all that are remembered
};

}  // namespace

// What all streams share. Outlives WatchStreams while a stream still runs.
class WatchStreams::State : public std::enable_shared_from_this<State> {
 public:
  State(store::Store* store, Executor* executor, WatchLimits limits)
      : store_(store), executor_(executor), limits_(limits) {}

  store::Store* store() const { return store_; }
  const Clock& clock() const { return executor_->clock(); }
  RecentFrames* frames() { return &frames_; }

  Status Add(const std::shared_ptr<Stream>& stream, const std::string& user);
  void Remove(const std::shared_ptr<Stream>& stream, const std::string& user);
  // Lets the stream look for changes soon, on a thread of the executor.
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

  mutable Mutex mu_;  // no call out is made under it
  std::unordered_set<std::shared_ptr<Stream>> streams_ GUARDED_BY(mu_);
  std::map<std::string, std::size_t, std::less<>> per_user_ GUARDED_BY(mu_);
  std::vector<std::shared_ptr<Stream>> woken_ GUARDED_BY(mu_);
  bool pumping_ GUARDED_BY(mu_) = false;  // a task is posted or runs
  bool ticking_ GUARDED_BY(mu_) = false;
  bool stopped_ GUARDED_BY(mu_) = false;
};

// One watch. Its work is done by Pump(), which any thread may call; only one of them runs
// it at a time, and what the others wanted is done by that one.
//
//   reading ---page---> initial ---all written---> live ---> done
//      ^------------------'  more pages
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

  // Looks at the clock: about each second.
  void OnTick(SteadyTime now) {
    if (now >= deadline_) {
      Order(request_.bookmarks ? kBookmark | kEnd : kEnd);
    } else if (request_.bookmarks && now >= bookmark_at_.load(std::memory_order_relaxed)) {
      bookmark_at_.store(now + kBookmarkInterval, std::memory_order_relaxed);
      Order(kBookmark);
    }
  }

  void Stop() { Order(kEnd); }

  // Does what there is to do. Returns soon if another thread is at it.
  void Pump() {
    std::uint32_t wanted = wanted_.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (wanted != 1) return;
    do {
      Work();
    } while ((wanted = wanted_.fetch_sub(wanted, std::memory_order_acq_rel) - wanted) != 0);
  }

 private:
  enum class Phase : std::uint8_t { kReading, kInitial, kLive, kDone };

  // What others may ask for between two turns.
  static constexpr std::uint32_t kOpenWatch = 1;
  static constexpr std::uint32_t kPage = 2;      // page_ has arrived
  static constexpr std::uint32_t kBookmark = 4;  // tell how far it has come
  static constexpr std::uint32_t kEnd = 8;       // end cleanly
  static constexpr std::uint32_t kClose = 16;    // the client has gone
  static constexpr std::uint32_t kReadFirst = 32;

  void Order(std::uint32_t orders) {
    orders_.fetch_or(orders, std::memory_order_acq_rel);
    Pump();
  }

  // Below: only by the thread that pumps.

  void Work() {
    if (phase_ == Phase::kDone) return;
    const std::uint32_t orders = orders_.exchange(0, std::memory_order_acq_rel);
    if ((orders & kClose) != 0) return Finish();
    if ((orders & kReadFirst) != 0) ReadPage({});
    if ((orders & kOpenWatch) != 0) OpenWatch(request_.after);
    if ((orders & kPage) != 0) TakePage();
    if (phase_ == Phase::kInitial) WriteInitial();
    if (phase_ == Phase::kLive) WriteChanges();
    if (phase_ == Phase::kDone) return;
    // A bookmark tells nothing where the last frame told it already.
    const bool mark = (orders & kBookmark) != 0 && phase_ == Phase::kLive && progress_ > told_;
    if (mark && !is_full()) WriteBookmark(false);
    if ((orders & kEnd) != 0) {
      Flush();
      responder_->End();
      Finish();
    }
  }

  bool is_full() const {
    const std::size_t waiting = buffer_.size() + (shared_ != nullptr ? shared_->size() : 0);
    return responder_->queued() + waiting >= std::min(kMaxQueuedBytes, responder_->fair_share());
  }

  void ReadPage(std::string continue_token) {
    phase_ = Phase::kReading;
    ListOptions options;
    options.limit = page_limit_;
    options.continue_ = std::move(continue_token);
    ReadEventPage(state_->store(), request_.filter, options,
                  [self = shared_from_this()](Result<EventPage> page) {
                    {
                      MutexLock lock(self->page_mu_);
                      self->arrived_.emplace(std::move(page));
                    }
                    self->Order(kPage);
                  });
  }

  void TakePage() {
    std::optional<Result<EventPage>> arrived;
    {
      MutexLock lock(page_mu_);
      arrived = std::exchange(arrived_, std::nullopt);
    }
    if (!arrived) return;
    if (!*arrived) {
      const Status& error = arrived->error();
      return Fail(error.Is(StatusReason::kExpired) ? Expired() : error);
    }
    page_ = std::move(*arrived).value();
    next_in_page_ = 0;
    // A slow client keeps a page waiting, so that must not be large either.
    std::size_t bytes = 0;
    for (const store::Entry& entry : page_.entries) bytes += entry.value->size();
    if (bytes > 0) {
      const auto fit = static_cast<std::int64_t>(kMaxQueuedBytes * page_.entries.size() / bytes);
      page_limit_ = std::clamp<std::int64_t>(fit, 1, kMaxPageEvents);
    }
    phase_ = Phase::kInitial;
    if (request_.not_older_than > static_cast<std::uint64_t>(page_.revision)) {
      Fail(TooLargeResourceVersion(request_.not_older_than, page_.revision, kTick));
    }
  }

  void WriteInitial() {
    const WallTime now = state_->clock().Now();
    while (next_in_page_ < page_.entries.size()) {
      if (is_full()) return Flush();
      const Result<Event> event = DecodeStored(page_.entries[next_in_page_++]);
      if (!event) return Fail(event.error());
      Put(EncodeFrame(WatchType::kAdded, *event, request_.form, TakeColumns(), now));
    }
    if (!page_.metadata.continue_.empty()) {
      Flush();
      return ReadPage(page_.metadata.continue_);
    }
    progress_ = page_.revision;
    page_ = EventPage();
    if (request_.bookmarks) WriteBookmark(true);
    Flush();
    OpenWatch(progress_);
  }

  void OpenWatch(store::Revision after) {
    progress_ = after;
    told_ = after;
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
        progress_ = std::max(progress_, change->revision());
      }
      if (next_in_batch_ < batch_.changes.size()) continue;
      progress_ = std::max(progress_, batch_.revision);
      if (batch_.changes.empty()) break;
    }
    Flush();
  }

  void WriteChange(const store::Change& change, WallTime now) {
    const std::shared_ptr<SharedFrames> frames = state_->frames()->Of(change);
    if (request_.filter.matches_all()) return WriteUnseen(change, frames.get(), now);
    const std::shared_ptr<const SharedFrames::Decoded> decoded = frames->Decode(change);
    if (!decoded->status.ok()) return Fail(decoded->status);
    const std::optional<Event>& current = decoded->current;
    const std::optional<Event>& previous = decoded->previous;
    const bool matches = current && request_.filter.Matches(*current);
    const bool matched = previous && request_.filter.Matches(*previous);
    if (matches || matched) told_ = change.resume_revision();
    // To a watcher with a selector, what begins to match is new and what ceases is gone.
    if (matches && current) {
      PutShared(matched ? WatchType::kModified : WatchType::kAdded, *current, frames.get(), now);
    } else if (matched && previous) {
      PutShared(WatchType::kDeleted, *previous, frames.get(), now);
    }
  }

  // Whoever wants to see all needs to look at none: another stream may have encoded it.
  void WriteUnseen(const store::Change& change, SharedFrames* frames, WallTime now) {
    const std::optional<store::Entry>& previous = change.previous();
    const store::Entry* shown = &change.current();
    WatchType type = previous ? WatchType::kModified : WatchType::kAdded;
    if (change.deleted()) {
      if (!previous) return;  // nobody knows what it was
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
    told_ = change.resume_revision();
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
    told_ = progress_;
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
  // A frame that others get, too: alone it travels as it is, among others it is copied, unless
  // it is large.
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

  // The stream cannot go on, and its client is told why.
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
    page_ = EventPage();
    state_->Remove(shared_from_this(), request_.user);
  }

  const std::shared_ptr<State> state_;
  const WatchRequest request_;
  const std::shared_ptr<http::Responder> responder_;
  const SteadyTime deadline_;
  std::atomic<SteadyTime> bookmark_at_;

  std::atomic<std::uint32_t> wanted_{0};  // calls of Pump() that are not done with yet
  std::atomic<std::uint32_t> orders_{0};

  Mutex page_mu_;
  std::optional<Result<EventPage>> arrived_ GUARDED_BY(page_mu_);

  // Only the thread that pumps touches these.
  Phase phase_ = Phase::kReading;
  EventPage page_;
  std::size_t next_in_page_ = 0;
  std::int64_t page_limit_ = kFirstPageEvents;
  std::unique_ptr<store::Watch> watch_;
  store::Watch::Batch batch_;  // what was taken from it last
  std::size_t next_in_batch_ = 0;
  store::Revision progress_ = 0;  // all changes up to here have been seen
  store::Revision told_ = 0;      // and the client knows it up to here
  bool needs_columns_;
  std::string buffer_;  // frames that are not written yet
  http::Chunk shared_;  // the same, if it is one that others have, too; buffer_ is empty then
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
  // Gives way to whatever else the executor has to do.
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
  if (Status refused = state_->Add(stream, user); !refused.ok()) return refused;
  start();
  stream->Begin();
  return Status();
}

void WatchStreams::Stop() { state_->Stop(); }

std::size_t WatchStreams::size() const { return state_->size(); }

}  // namespace herald::server
