#include "record/broadcast/broadcaster_core.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/bytes/prefetch.h"
#include "base/check.h"

namespace herald {
namespace {

// How long the distributor waits for more events after a round. A wake-up takes ten times as long
// as recording an event, and so does a round, for one event or for a hundred. Where threads record
// on all processors, a round also takes a processor from them. The delay is too short to be
// noticed, and the distributor runs earlier when the queue fills up.
constexpr std::chrono::microseconds kLinger{100};

// How many calls per round of the distributor may yield when the queue is full, and then try once
// more. These calls may be what keeps the distributor from running: without the yield, four threads
// that record on two processors lose two thirds of their events. If the queue is full for another
// reason, only these few calls are delayed, and the others drop at once.
constexpr int kMaxYields = 16;

// How many entries of the queue are prefetched. A listener used this memory before, so it is in the
// cache of another processor.
constexpr std::size_t kPrefetched = 8;

Status AlreadyStopped() { return Status(StatusReason::kGone, "broadcaster already stopped"); }

}  // namespace

Broadcaster::Core::Core(BroadcasterOptions options, Executor* executor)
    : options_(std::move(options)),
      executor_(*executor),
      lease_(std::make_shared<ExecutorLease>(executor)),
      clock_(executor_.clock()),
      // With a fake clock no timer would fire by itself.
      may_linger_(executor_.threads() > 0 && &clock_ == &SystemClock()),
      strand_(lease_) {
  HERALD_CHECK(options_.clock == nullptr || options_.clock == &clock_,
               "BroadcasterOptions::clock is not the clock of the executor");
}

bool Broadcaster::Core::HasRoom(std::size_t bytes) const {
  return occupied_ < options_.incoming_events &&
         (occupied_ == 0 || occupied_bytes_ + bytes <= options_.queue_bytes);
}

bool Broadcaster::Core::FillingUp() const {
  // Under kWait no event is dropped, so fewer and larger rounds are better.
  const std::size_t part = options_.when_full == WhenFull::kWait ? 2 : 4;
  return occupied_ > options_.incoming_events / part ||
         occupied_bytes_ > options_.queue_bytes / part;
}

Status Broadcaster::Core::PublishLocked(Published&& published, bool* wake) {
  if (stopped_) {
    ++lost_;
    return AlreadyStopped();
  }
  if (!HasRoom(published.bytes)) {
    ++dropped_;
    return Status(StatusReason::kTooManyRequests, "too many queued events");
  }
  ++occupied_;
  occupied_bytes_ += published.bytes;
  ++next_position_;
  published.epoch = epoch_;
  if (incoming_.size() + kPrefetched < incoming_.capacity()) {
    PrefetchForWrite(incoming_.data() + incoming_.size() + kPrefetched);
  }
  incoming_.push_back(std::move(published));
  *wake = distributor_ == Distributor::kIdle ||
          (distributor_ == Distributor::kLingering && FillingUp());
  if (*wake) distributor_ = Distributor::kWorking;
  return Status();
}

Status Broadcaster::Core::Publish(Published published) {
  bool wake = false;
  Status status;
  {
    MutexLock lock(mu_);
    if (may_linger_ && !stopped_ && !HasRoom(published.bytes) && yields_ < kMaxYields) {
      ++yields_;
      lock.Unlock();
      std::this_thread::yield();
      lock.Lock();
    }
    status = PublishLocked(std::move(published), &wake);
  }
  if (wake) ScheduleDistribution();
  return status;
}

Status Broadcaster::Core::PublishWaiting(Published published) {
  bool wake = false;
  bool filling_up = false;
  Status status;
  {
    MutexLock lock(mu_);
    room_.Wait(lock, [&]() REQUIRES(mu_) { return stopped_ || HasRoom(published.bytes); });
    status = PublishLocked(std::move(published), &wake);
    filling_up = FillingUp();
  }
  if (wake && filling_up) {
    HelpDistribute();
  } else if (wake) {
    ScheduleDistribution();
  }
  return status;
}

void Broadcaster::Core::CountInvalid(const Published& published, const Status& why) {
  {
    MutexLock lock(mu_);
    ++invalid_;
  }
  NotifyOutcome(published.handling.get(), Outcome::kInvalid, why);
}

void Broadcaster::Core::ScheduleDistribution() {
  if (scheduled_.exchange(true)) return;
  strand_.Post([self = shared_from_this()] { self->Distribute(); });
}

void Broadcaster::Core::HelpDistribute() {
  const bool helped = may_linger_ && strand_.TryRun([this] { Distribute(); });
  if (!helped) ScheduleDistribution();
}

void Broadcaster::Core::DistributeAfterOthers() {
  if (scheduled_.exchange(true)) return;
  // Through the executor, because a strand runs what its own tasks post before it gives way.
  lease_->Post([self = shared_from_this()] { self->strand_.Post([self] { self->Distribute(); }); });
}

bool Broadcaster::Core::TakeBatch() {
  std::size_t unseen = 0;  // the number of events in the batch that no sink receives
  {
    MutexLock lock(mu_);
    if (incoming_.empty()) {
      distributor_ = Distributor::kIdle;
      return false;
    }
    distributor_ = Distributor::kWorking;
    yields_ = 0;
    batch_.swap(incoming_);
    batch_size_ = batch_.size();
    batch_bytes_ = occupied_bytes_;  // all of it is in the batch
    batch_base_ = next_position_ - batch_size_;
    for (const auto& channel : channels_) batch_progress_.emplace_back(channel, 0);
    // Sinks are never removed, so the first one receives the most events.
    const std::uint64_t seen_from = sinks_.empty() ? next_position_ : sinks_.front().first_position;
    if (seen_from > batch_base_) {
      unseen = std::min<std::uint64_t>(seen_from - batch_base_, batch_.size());
    }
    without_sink_ += unseen;
  }
  if (unseen > 0) {
    const Status why(StatusReason::kServiceUnavailable, "no sink was started");
    for (std::size_t i = 0; i < unseen; ++i) {
      // Mostly null, and then this check is the whole loop.
      const EventHandling* const handling = batch_[i].handling.get();
      if (handling != nullptr) NotifyOutcome(handling, Outcome::kNoSink, why);
    }
  }
  return true;
}

void Broadcaster::Core::Distribute() {
  scheduled_ = false;
  if (batch_.empty() && !TakeBatch()) {
    NotifyProgress();
    return;
  }
  bool waits = false;
  for (auto& [channel, taken] : batch_progress_) {
    const bool is_last = &channel == &batch_progress_.back().first;
    // The events may be moved into the last channel only if no other channel still needs them.
    taken = is_last && !waits ? channel->OfferLast(&batch_, batch_base_, taken, batch_bytes_)
                              : channel->Offer(batch_, batch_base_, taken);
    waits |= taken < batch_size_;
  }
  if (waits) return;  // the on_room hook of the channel schedules the next call

  bool linger = false;
  {
    MutexLock lock(mu_);
    occupied_ -= batch_size_;
    occupied_bytes_ -= batch_bytes_;
    linger = may_linger_ && !FillingUp();
    if (linger) distributor_ = Distributor::kLingering;
  }
  room_.NotifyAll();
  NotifyProgress();
  batch_.clear();
  batch_progress_.clear();
  if (linger) {
    Linger();
    NotifyProgress();
  } else {
    DistributeAfterOthers();
  }
}

void Broadcaster::Core::Linger() {
  if (timer_set_.exchange(true)) return;
  lease_->PostAt(clock_.Steady() + kLinger, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->timer_set_ = false;
    self->ScheduleDistribution();
  });
}

Channel::Options Broadcaster::Core::ChannelOptions() const {
  return {.max_events = options_.watcher_events,
          .max_bytes = options_.queue_bytes,
          .when_full = options_.when_full,
          .prefer_warnings = false,
          .first_position = 0};
}

std::shared_ptr<Channel> Broadcaster::Core::AddChannelLocked(const Channel::Options& options,
                                                             Channel::Hooks hooks,
                                                             std::vector<Published> prefix) {
  Channel::Options positioned = options;
  positioned.first_position = next_position_;
  if (options.when_full == WhenFull::kWait) {
    hooks.on_room = [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->ScheduleDistribution();
    };
  }
  auto channel = std::make_shared<Channel>(positioned, std::move(hooks));
  channel->Preload(std::move(prefix));
  channels_.push_back(channel);
  return channel;
}

std::shared_ptr<Channel> Broadcaster::Core::AddChannel(Channel::Hooks hooks,
                                                       std::vector<Published> prefix) {
  Channel::Options options = ChannelOptions();
  // As in client-go, the queue of a watcher has room for its prefix and one more event.
  options.max_events = std::max(options.max_events, prefix.size() + 1);
  MutexLock lock(mu_);
  if (stopped_) return nullptr;
  return AddChannelLocked(options, std::move(hooks), std::move(prefix));
}

void Broadcaster::Core::RemoveChannel(const std::shared_ptr<Channel>& channel) {
  channel->CloseAndDiscard();
  MutexLock lock(mu_);
  std::erase(channels_, channel);
}

Status Broadcaster::Core::AddHandler(std::function<void(const Event&)> function) {
  const auto handler = std::make_shared<EventHandler>(lease_, &clock_, std::move(function),
                                                      [weak = weak_from_this()] {
                                                        if (const auto self = weak.lock()) {
                                                          self->NotifyProgress();
                                                        }
                                                      });
  MutexLock lock(mu_);
  if (stopped_) return AlreadyStopped();
  // Weak, because the handler owns the channel.
  handler->Attach(AddChannelLocked(ChannelOptions(),
                                   {.on_items =
                                        [weak = std::weak_ptr(handler)] {
                                          if (const auto self = weak.lock()) self->Wake();
                                        }},
                                   {}));
  handlers_.push_back(handler);
  return Status();
}

Status Broadcaster::Core::AddSink(std::shared_ptr<Sink> sink, SinkOptions options) {
  std::unique_ptr<Spool> spool;
  if (options.spool) {
    if (options_.upstream_exact) {
      return Status(StatusReason::kInvalid, "a spool cannot be used with upstream_exact");
    }
    Result<std::unique_ptr<Spool>> opened = Spool::Open(*options.spool);
    if (!opened) return opened.error();
    spool = *std::move(opened);
  }
  const bool starts_now = options_.upstream_exact || spool;
  Channel::Options channel_options = ChannelOptions();
  channel_options.prefer_warnings = options.prefer_warnings;
  const auto delivery = std::make_shared<Delivery>(Delivery::Setup{
      .sink = std::move(sink),
      .options = std::move(options),
      .executor = lease_,
      .clock = &clock_,
      .log = options_.log,
      .upstream_exact = options_.upstream_exact,
      .spool = std::move(spool),
      .max_bytes = options_.queue_bytes,
      .on_progress =
          [weak = weak_from_this()] {
            if (const auto self = weak.lock()) self->NotifyProgress();
          },
  });
  {
    MutexLock lock(mu_);
    if (stopped_) return AlreadyStopped();
    delivery->Attach(
        AddChannelLocked(channel_options,
                         {.on_items =
                              [weak = std::weak_ptr(delivery)] {
                                if (const auto self = weak.lock()) self->Wake();
                              },
                          .on_drop =
                              [weak = std::weak_ptr(delivery)](const Published& published) {
                                if (const auto self = weak.lock()) self->CountDropped(published);
                              }},
                         {}));
    sinks_.push_back({.delivery = delivery,
                      .first_position = next_position_,
                      .invalid_before = invalid_,
                      .dropped_before = dropped_,
                      .lost_before = lost_});
  }
  // client-go's timers start now, not with the first event; and events on disk are retried now.
  if (starts_now) delivery->Wake();
  return Status();
}

std::vector<std::pair<std::string, SinkStats>> Broadcaster::Core::Stats() const {
  std::vector<SinkEntry> sinks;
  {
    MutexLock lock(mu_);
    sinks = sinks_;
  }
  std::vector<std::pair<std::string, SinkStats>> all;
  for (const SinkEntry& sink : sinks) {
    // Outcomes are read first. An event that is recorded and ends in between then counts as
    // recorded only, so in_flight is never negative.
    SinkStats stats = sink.delivery->Stats();
    {
      MutexLock lock(mu_);
      const std::uint64_t invalid = invalid_ - sink.invalid_before;
      const std::uint64_t dropped = dropped_ - sink.dropped_before;
      const std::uint64_t lost = lost_ - sink.lost_before;
      stats.recorded += next_position_ - sink.first_position + invalid + dropped + lost;
      stats[Outcome::kInvalid] += invalid;
      stats[Outcome::kDropped] += dropped;
      stats[Outcome::kLost] += lost;
    }
    std::uint64_t ended = 0;
    for (const std::uint64_t count : stats.outcomes) ended += count;
    stats.in_flight = stats.recorded - ended;
    all.emplace_back(sink.delivery->name(), stats);
  }
  return all;
}

std::uint64_t Broadcaster::Core::without_sink() const {
  MutexLock lock(mu_);
  return without_sink_;
}

std::vector<std::shared_ptr<Delivery>> Broadcaster::Core::Deliveries() const {
  std::vector<std::shared_ptr<Delivery>> deliveries;
  MutexLock lock(mu_);
  for (const SinkEntry& sink : sinks_) deliveries.push_back(sink.delivery);
  return deliveries;
}

std::uint64_t Broadcaster::Core::InFlight() const {
  std::uint64_t in_flight = 0;
  for (const auto& [name, stats] : Stats()) in_flight += stats.in_flight;
  return in_flight;
}

bool Broadcaster::Core::Drained() const {
  std::vector<std::shared_ptr<EventHandler>> handlers;
  {
    MutexLock lock(mu_);
    if (distributor_ == Distributor::kWorking || occupied_ > 0) return false;
    handlers = handlers_;
  }
  for (const auto& handler : handlers) {
    if (!handler->Idle()) return false;
  }
  for (const auto& delivery : Deliveries()) {
    if (!delivery->Idle()) return false;
  }
  return true;
}

void Broadcaster::Core::NotifyProgress() {
  if (waiting_ == 0) return;
  // Locked once, so that no waiter is between its check of the condition and its wait.
  {
    MutexLock lock(progress_mu_);
  }
  progress_.NotifyAll();
}

bool Broadcaster::Core::IsDistributed(std::uint64_t position) const {
  MutexLock lock(mu_);
  return next_position_ - occupied_ >= position;
}

bool Broadcaster::Core::WaitUntil(std::chrono::nanoseconds patience,
                                  const std::function<bool()>& condition) {
  if (executor_.threads() == 0) {
    executor_.RunUntilIdle();
    return condition();
  }
  ++waiting_;
  bool good = false;
  {
    MutexLock lock(progress_mu_);
    good = progress_.WaitFor(lock, patience, [&] { return condition(); });
  }
  --waiting_;
  return good;
}

DrainReport Broadcaster::Core::Flush(std::chrono::nanoseconds patience) {
  return Drain(patience, /*last=*/false);
}

DrainReport Broadcaster::Core::Drain(std::chrono::nanoseconds patience, bool last) {
  const auto start = std::chrono::steady_clock::now();
  const auto left_of = [&](std::chrono::nanoseconds time) {
    const std::chrono::nanoseconds left = time - (std::chrono::steady_clock::now() - start);
    return std::max(left, std::chrono::nanoseconds::zero());
  };
  std::uint64_t position = 0;
  std::uint32_t epoch = 0;
  std::vector<std::shared_ptr<EventHandler>> handlers;
  {
    MutexLock lock(mu_);
    position = next_position_;
    epoch = epoch_++;
    handlers = handlers_;
  }
  const bool distributed = WaitUntil(patience / 2, [&] { return IsDistributed(position); });
  std::vector<Ticket> tickets;
  for (const auto& handler : handlers) tickets.push_back(handler->RequestFlush(epoch));
  for (const auto& delivery : Deliveries()) tickets.push_back(delivery->RequestFlush(epoch, last));
  const auto is_done = [&] {
    // At the end no event is added, so this can wait for writes without a recorded event as well: a
    // report of losses, or a last count.
    return std::ranges::all_of(tickets, [](const Ticket& ticket) { return ticket->load(); }) &&
           (!last || Drained());
  };
  bool done = WaitUntil(left_of(patience / 2), is_done);
  if (!done) {
    // An object whose writes do not end must not prevent that the counts of others are written.
    for (const auto& delivery : Deliveries()) delivery->RequestCounts();
    done = WaitUntil(left_of(patience), is_done);
  }
  const bool complete = done && distributed;
  return {.complete = complete, .in_flight = complete ? 0 : InFlight()};
}

DrainReport Broadcaster::Core::Shutdown(std::chrono::nanoseconds patience) {
  {
    MutexLock lock(mu_);
    stopped_ = true;
  }
  room_.NotifyAll();
  DrainReport report = Drain(patience, /*last=*/true);

  std::vector<std::shared_ptr<Channel>> channels;
  std::vector<std::shared_ptr<EventHandler>> handlers;
  {
    MutexLock lock(mu_);
    channels = channels_;
    handlers = handlers_;
  }
  for (const auto& handler : handlers) handler->Stop();
  // Before the channels are closed: when the channel of a watcher is closed that all others waited
  // for, events reach the sinks, which must be closed by then.
  for (const auto& delivery : Deliveries()) delivery->Abandon();
  for (const auto& channel : channels) channel->Close();
  // Abandon() does not wait for anything, so this is short. It makes the statistics final.
  WaitUntil(std::chrono::seconds(1), [this] { return Drained(); });
  // A handler may own a recorder, which owns this.
  {
    MutexLock lock(mu_);
    handlers_.clear();  // `handlers` still has them: none is destroyed under the lock
  }
  return report;
}

}  // namespace herald
