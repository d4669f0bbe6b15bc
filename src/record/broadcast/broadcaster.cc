#include "herald/record/broadcaster.h"

#include <utility>

#include "record/broadcast/broadcaster_core.h"
#include "record/event/event_text.h"
#include "record/recorder_state.h"

namespace herald {
namespace {

Published Publishable(WatchType type, std::shared_ptr<const Event> event) {
  const std::size_t bytes = ApproximateBytes(*event);
  return {.type = type, .event = std::move(event), .handling = nullptr, .bytes = bytes};
}

Status NoEvent() { return Status(StatusReason::kInvalid, "the event is null"); }

}  // namespace

class Watcher::Impl {
 public:
  Impl(std::weak_ptr<Broadcaster::Core> core, std::shared_ptr<Channel> channel)
      : core_(std::move(core)), channel_(std::move(channel)) {}

  Channel& channel() { return *channel_; }

  // An empty vector to take events into, with the memory of the one that was returned last. The
  // channel exchanges it for its own.
  std::vector<Published> BorrowBuffer() {
    MutexLock lock(mu_);
    return std::exchange(buffer_, {});
  }
  void ReturnBuffer(std::vector<Published> buffer) {
    buffer.clear();
    MutexLock lock(mu_);
    buffer_.swap(buffer);
  }

  void Stop() {
    if (const auto core = core_.lock()) {
      core->RemoveChannel(channel_);
    } else {
      channel_->CloseAndDiscard();
    }
  }

 private:
  const std::weak_ptr<Broadcaster::Core> core_;
  const std::shared_ptr<Channel> channel_;
  Mutex mu_;
  std::vector<Published> buffer_ GUARDED_BY(mu_);
};

Watcher::Watcher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Watcher::~Watcher() { Stop(); }

void Watcher::Stop() { impl_->Stop(); }

std::uint64_t Watcher::dropped() const { return impl_->channel().dropped(); }

std::optional<Watcher::Item> Watcher::Next() {
  std::vector<Item> items = NextBatch(1);
  if (items.empty()) return std::nullopt;
  return std::move(items.front());
}

std::optional<Watcher::Item> Watcher::TryNext() {
  std::vector<Published> taken;
  if (impl_->channel().Take(1, &taken) == 0) return std::nullopt;
  return Item{taken[0].type, std::move(taken[0].event)};
}

std::vector<Watcher::Item> Watcher::NextBatch(std::size_t max) {
  std::vector<Published> taken = impl_->BorrowBuffer();
  impl_->channel().WaitAndTake(max, &taken);
  std::vector<Item> items;
  items.reserve(taken.size());
  for (Published& published : taken) items.push_back({published.type, std::move(published.event)});
  impl_->ReturnBuffer(std::move(taken));
  return items;
}

Broadcaster::Broadcaster(const BroadcasterOptions& options)
    : own_executor_(options.executor == nullptr ? std::make_unique<Executor>(Executor::Options{
                                                      .threads = 1, .clock = options.clock})
                                                : nullptr),
      core_(std::make_shared<Core>(options,
                                   own_executor_ ? own_executor_.get() : options.executor)) {}

Broadcaster::~Broadcaster() {
  Shutdown(core_->options().drain);
  core_->EndUseOfExecutor();
}

Recorder Broadcaster::NewRecorder(RecorderOptions options) {
  return Recorder(
      std::make_shared<const Recorder::State>(core_, std::move(options), core_->options().log));
}

Result<std::unique_ptr<Watcher>> Broadcaster::Watch() { return WatchWithPrefix({}); }

Result<std::unique_ptr<Watcher>> Broadcaster::WatchWithPrefix(std::vector<Watcher::Item> prefix) {
  std::vector<Published> published;
  published.reserve(prefix.size());
  for (Watcher::Item& item : prefix) {
    if (!item.event) return NoEvent();
    published.push_back(Publishable(item.type, std::move(item.event)));
  }
  std::shared_ptr<Channel> channel = core_->AddChannel({}, std::move(published));
  if (!channel) return Status(StatusReason::kGone, "broadcaster already stopped");
  return std::unique_ptr<Watcher>(
      new Watcher(std::make_unique<Watcher::Impl>(core_, std::move(channel))));
}

Status Broadcaster::StartEventWatcher(std::function<void(const Event&)> handler) {
  return core_->AddHandler(std::move(handler));
}

Status Broadcaster::StartLogging(std::function<void(std::string_view)> print) {
  return core_->AddHandler(
      [print = std::move(print)](const Event& event) { print(EventText(event)); });
}

Status Broadcaster::StartStructuredLogging(LogFunction log) {
  return core_->AddHandler([log = std::move(log)](const Event& event) { LogEvent(event, log); });
}

Status Broadcaster::StartRecordingToSink(std::shared_ptr<Sink> sink, SinkOptions options) {
  if (!sink) return Status(StatusReason::kInvalid, "the sink is null");
  return core_->AddSink(std::move(sink), std::move(options));
}

Status Broadcaster::Action(WatchType type, std::shared_ptr<const Event> event) {
  if (!event) return NoEvent();
  return core_->PublishWaiting(Publishable(type, std::move(event)));
}

Status Broadcaster::ActionOrDrop(WatchType type, std::shared_ptr<const Event> event) {
  if (!event) return NoEvent();
  return core_->Publish(Publishable(type, std::move(event)));
}

std::vector<SinkStats> Broadcaster::Stats() const {
  std::vector<SinkStats> all;
  for (auto& [name, stats] : core_->Stats()) all.push_back(stats);
  return all;
}

std::uint64_t Broadcaster::without_sink() const { return core_->without_sink(); }

void Broadcaster::WritePrometheusText(std::string* out) const {
  herald::WritePrometheusText(core_->Stats(), out);
}

DrainReport Broadcaster::Flush(std::chrono::nanoseconds patience) { return core_->Flush(patience); }

DrainReport Broadcaster::Shutdown(std::chrono::nanoseconds patience) {
  return core_->Shutdown(patience);
}

}  // namespace herald
