#include "record/broadcaster_core.h"

#include <algorithm>
#include <utility>

namespace herald {
namespace {

// How many batches the distributor hands out before it lets others on the executor
// have a turn.
constexpr int kBatchesPerTurn = 8;

// How many events a handler is called with per turn, likewise.
constexpr std::size_t kEventsPerTurn = 64;

Status AlreadyStopped() { return Status(StatusReason::kGone, "broadcaster already stopped"); }

}  // namespace

// Thread-safe. The handler runs on the strand alone.
class Broadcaster::Core::Handler : public std::enable_shared_from_this<Handler> {
 public:
  Handler(Executor* executor, std::function<void(const Event&)> function,
          std::function<void()> on_progress)
      : strand_(executor), function_(std::move(function)), on_progress_(std::move(on_progress)) {}

  void Attach(std::shared_ptr<Channel> channel) { channel_ = std::move(channel); }

  void Wake() {
    ++wakes_;
    Post();
  }

  bool Idle() const { return wakes_ == 0; }

 private:
  void Post() {
    strand_.Post([self = shared_from_this()] { self->Run(); });
  }

  void Run() {
    std::vector<Published> events;
    channel_->Take(kEventsPerTurn, &events);
    for (const Published& published : events) {
      try {
        function_(*published.event);
      } catch (...) {  // NOLINT(bugprone-empty-catch): it hurts nobody but itself
      }
    }
    if (!channel_->empty()) return Post();
    --wakes_;
    on_progress_();
  }

  Strand strand_;
  const std::function<void(const Event&)> function_;
  const std::function<void()> on_progress_;
  std::shared_ptr<Channel> channel_;  // set once, by Attach()
  std::atomic<int> wakes_{0};         // Wake() calls whose events are not all handled
};

Broadcaster::Core::Core(BroadcasterOptions options, std::shared_ptr<Executor> executor)
    : options_(std::move(options)),
      executor_(std::move(executor)),
      clock_(options_.clock != nullptr ? *options_.clock : executor_->clock()),
      strand_(executor_.get()) {}

Status Broadcaster::Core::PublishLocked(Published&& published, bool* wake) {
  ++recorded_;
  if (stopped_) {
    ++lost_;
    return AlreadyStopped();
  }
  if (occupied_ >= options_.incoming_events ||
      (occupied_ > 0 && occupied_bytes_ + published.bytes > options_.queue_bytes)) {
    ++dropped_;
    return Status(StatusReason::kTooManyRequests, "too many queued events");
  }
  ++occupied_;
  occupied_bytes_ += published.bytes;
  ++next_position_;
  incoming_.push_back(std::move(published));
  *wake = !std::exchange(distributing_, true);
  return Status();
}

Status Broadcaster::Core::Publish(Published published) {
  bool wake = false;
  Status status;
  {
    MutexLock lock(mu_);
    status = PublishLocked(std::move(published), &wake);
  }
  if (wake) ScheduleDistribution();
  return status;
}

Status Broadcaster::Core::PublishWaiting(Published published) {
  bool wake = false;
  Status status;
  {
    MutexLock lock(mu_);
    room_.Wait(lock, [&]() REQUIRES(mu_) {
      return stopped_ ||
             (occupied_ < options_.incoming_events &&
              (occupied_ == 0 || occupied_bytes_ + published.bytes <= options_.queue_bytes));
    });
    status = PublishLocked(std::move(published), &wake);
  }
  if (wake) ScheduleDistribution();
  return status;
}

void Broadcaster::Core::CountInvalid(const Published& published, const Status& why) {
  {
    MutexLock lock(mu_);
    ++recorded_;
    ++invalid_;
  }
  Tell(published, Outcome::kInvalid, why);
}

void Broadcaster::Core::ScheduleDistribution() {
  strand_.Post([self = shared_from_this()] { self->Distribute(); });
}

void Broadcaster::Core::Distribute() {
  for (int turn = 0; turn < kBatchesPerTurn; ++turn) {
    if (batch_.empty()) {
      bool has_sink = false;
      {
        MutexLock lock(mu_);
        if (incoming_.empty()) {
          distributing_ = false;
          break;
        }
        batch_.swap(incoming_);
        batch_base_ = next_position_ - batch_.size();
        for (const auto& channel : channels_) batch_progress_.emplace_back(channel, 0);
        has_sink = !sinks_.empty();
        if (!has_sink) without_sink_ += batch_.size();
      }
      if (!has_sink) {
        const Status why(StatusReason::kServiceUnavailable, "no sink was started");
        for (const Published& published : batch_) Tell(published, Outcome::kNoSink, why);
      }
    }
    bool waits = false;
    for (auto& [channel, taken] : batch_progress_) {
      taken = channel->Offer(batch_, batch_base_, taken);
      waits |= taken < batch_.size();
    }
    if (waits) return;  // the channel's on_room hook calls again

    std::size_t bytes = 0;
    for (const Published& published : batch_) bytes += published.bytes;
    {
      MutexLock lock(mu_);
      occupied_ -= batch_.size();
      occupied_bytes_ -= bytes;
    }
    room_.NotifyAll();
    batch_.clear();
    batch_progress_.clear();
    if (turn + 1 == kBatchesPerTurn) ScheduleDistribution();
  }
  NotifyProgress();
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
  // As upstream: a watcher's queue holds its prefix and at least one event more.
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
  const auto handler =
      std::make_shared<Handler>(executor_.get(), std::move(function), [weak = weak_from_this()] {
        if (const auto self = weak.lock()) {
          self->NotifyProgress();
        }
      });
  MutexLock lock(mu_);
  if (stopped_) return AlreadyStopped();
  // The channel must not keep alive who keeps the channel alive.
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
  Channel::Options channel_options = ChannelOptions();
  channel_options.prefer_warnings = options.prefer_warnings;
  const auto delivery = std::make_shared<Delivery>(Delivery::Setup{
      .sink = std::move(sink),
      .options = std::move(options),
      .executor = executor_,
      .clock = &clock_,
      .log = options_.log,
      .upstream_exact = options_.upstream_exact,
      .on_progress =
          [weak = weak_from_this()] {
            if (const auto self = weak.lock()) self->NotifyProgress();
          },
  });
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
                    .recorded_before = recorded_,
                    .invalid_before = invalid_,
                    .dropped_before = dropped_,
                    .lost_before = lost_});
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
    // Outcomes first: what is recorded and ends in between is then counted among the
    // recorded only, so that in_flight never falls below zero.
    SinkStats stats = sink.delivery->Stats();
    {
      MutexLock lock(mu_);
      stats.recorded = recorded_ - sink.recorded_before;
      stats[Outcome::kInvalid] += invalid_ - sink.invalid_before;
      stats[Outcome::kDropped] += dropped_ - sink.dropped_before;
      stats[Outcome::kLost] += lost_ - sink.lost_before;
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
  std::vector<std::shared_ptr<Handler>> handlers;
  {
    MutexLock lock(mu_);
    if (distributing_) return false;
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
  // Taken and given back so that nobody is between looking and waiting.
  {
    MutexLock lock(progress_mu_);
  }
  progress_.NotifyAll();
}

bool Broadcaster::Core::WaitUntilDrained(std::chrono::nanoseconds patience) {
  if (executor_->threads() == 0) {
    executor_->RunUntilIdle();
    return Drained();
  }
  MutexLock lock(progress_mu_);
  return progress_.WaitFor(lock, patience, [this] { return Drained(); });
}

DrainReport Broadcaster::Core::Flush(std::chrono::nanoseconds patience) {
  const auto start = std::chrono::steady_clock::now();
  // What was recorded must have reached the sinks before they are told to flush, or
  // they would take their series for complete too early.
  WaitUntilDrained(patience);
  for (const auto& delivery : Deliveries()) delivery->RequestFlush();
  const auto spent = std::chrono::steady_clock::now() - start;
  const bool drained = WaitUntilDrained(
      std::max<std::chrono::nanoseconds>(patience - spent, std::chrono::nanoseconds::zero()));
  return {.complete = drained, .in_flight = InFlight()};
}

DrainReport Broadcaster::Core::Shutdown(std::chrono::nanoseconds patience) {
  {
    MutexLock lock(mu_);
    stopped_ = true;
  }
  room_.NotifyAll();
  DrainReport report = Flush(patience);

  std::vector<std::shared_ptr<Channel>> channels;
  {
    MutexLock lock(mu_);
    channels = channels_;
  }
  for (const auto& delivery : Deliveries()) delivery->Abandon();
  for (const auto& channel : channels) channel->Close();
  // Abandoning is quick and waits for nobody; this lets it be counted.
  WaitUntilDrained(std::chrono::seconds(1));
  return report;
}

}  // namespace herald
