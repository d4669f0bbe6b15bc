#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/thread/mutex.h"
#include "herald/record/broadcaster.h"
#include "record/broadcast/event_handler.h"
#include "record/channel/channel.h"
#include "record/channel/published.h"
#include "record/delivery/delivery.h"
#include "record/executor_lease.h"

namespace herald {

// A Core is the part of a Broadcaster that its recorders and watchers share and may keep alive.
//
// Recorded events are queued under one lock, which also gives each event its position. One
// distributor, a strand, takes them from the queue in batches and offers each batch to every
// channel, which costs one lock per channel and batch. Under WhenFull::kWait a channel may accept
// only a part of a batch. The distributor then returns, and is scheduled again when that channel
// has room. It never blocks, so it needs no thread of its own.
//
// Thread-safe.
class Broadcaster::Core : public std::enable_shared_from_this<Core> {
 public:
  // The executor is borrowed until EndUseOfExecutor().
  Core(BroadcasterOptions options, Executor* executor);

  // The time of an event. After EndUseOfExecutor() it is the system's, because recorders may
  // outlive the clock of the caller.
  WallTime Now() const { return lease_->revoked() ? SystemClock().Now() : clock_.Now(); }
  const BroadcasterOptions& options() const { return options_; }

  // Queues an event. Returns kTooManyRequests if the queue is full, and kGone after Shutdown().
  // Never blocks.
  Status Publish(Published published) EXCLUDES(mu_);
  // As Publish(), but blocks while the queue is full.
  Status PublishWaiting(Published published) EXCLUDES(mu_);
  // Counts an event that is invalid.
  void CountInvalid(const Published& published, const Status& why) EXCLUDES(mu_);

  // Adds a channel that receives all events queued from now on. Null after Shutdown().
  std::shared_ptr<Channel> AddChannel(Channel::Hooks hooks, std::vector<Published> prefix)
      EXCLUDES(mu_);
  void RemoveChannel(const std::shared_ptr<Channel>& channel) EXCLUDES(mu_);

  Status AddHandler(std::function<void(const Event&)> handler) EXCLUDES(mu_);
  Status AddSink(std::shared_ptr<Sink> sink, SinkOptions options) EXCLUDES(mu_);

  std::vector<std::pair<std::string, SinkStats>> Stats() const EXCLUDES(mu_);
  std::uint64_t without_sink() const EXCLUDES(mu_);

  DrainReport Flush(std::chrono::nanoseconds patience) EXCLUDES(mu_);
  DrainReport Shutdown(std::chrono::nanoseconds patience) EXCLUDES(mu_);

  // Nothing is posted to the executor after this. It is the last call of a Broadcaster.
  void EndUseOfExecutor() { lease_->Revoke(); }

 private:
  struct SinkEntry {
    std::shared_ptr<Delivery> delivery;
    std::uint64_t first_position = 0;  // earlier events were recorded before the sink was added
    // The counts at the time when the sink was added.
    std::uint64_t invalid_before = 0;
    std::uint64_t dropped_before = 0;
    std::uint64_t lost_before = 0;
  };

  // The state of the distributor, which decides whether a new event must wake it:
  //
  //   idle --event--> working --distributed--> lingering --nothing after kLinger--> idle
  //                      ^                         |
  //                      `------ many events ------' or some after kLinger
  enum class Distributor : std::uint8_t { kIdle, kWorking, kLingering };

  Status PublishLocked(Published&& published, bool* wake) REQUIRES(mu_);
  bool HasRoom(std::size_t bytes) const REQUIRES(mu_);
  // Whether the queue may become full before the distributor runs by its timer.
  bool FillingUp() const REQUIRES(mu_);
  // Schedules Distribute(): soon, or after all tasks that the executor has now. At most one call is
  // scheduled at a time.
  void ScheduleDistribution();
  void DistributeAfterOthers();
  // Runs Distribute() on the calling thread, which would only wait for it otherwise.
  void HelpDistribute();
  void Linger();
  void Distribute() EXCLUDES(mu_);
  // False if there is nothing to distribute.
  bool TakeBatch() EXCLUDES(mu_);
  std::shared_ptr<Channel> AddChannelLocked(const Channel::Options& options, Channel::Hooks hooks,
                                            std::vector<Published> prefix) REQUIRES(mu_);
  Channel::Options ChannelOptions() const;
  std::vector<std::shared_ptr<Delivery>> Deliveries() const EXCLUDES(mu_);
  // Flush(), or the first part of Shutdown() with `last`.
  DrainReport Drain(std::chrono::nanoseconds patience, bool last) EXCLUDES(mu_);
  // Whether all events before that position were offered to the listeners.
  bool IsDistributed(std::uint64_t position) const EXCLUDES(mu_);
  // Whether no work is left.
  bool Drained() const EXCLUDES(mu_);
  bool WaitUntil(std::chrono::nanoseconds patience, const std::function<bool()>& condition);
  // To be called after every change that WaitUntil() may wait for.
  void NotifyProgress() EXCLUDES(progress_mu_);
  std::uint64_t InFlight() const EXCLUDES(mu_);

  const BroadcasterOptions options_;
  Executor& executor_;  // for calls of the Broadcaster, which it outlives
  // For everything else: recorders, watchers and sinks may call after the Broadcaster is destroyed.
  const std::shared_ptr<ExecutorLease> lease_;
  const Clock& clock_;
  const bool may_linger_;
  LeasedStrand strand_;
  std::atomic<bool> scheduled_{false};  // a call of Distribute() is posted
  std::atomic<bool> timer_set_{false};  // the timer of Linger() is set

  // The batch that is being distributed. Confined to the strand.
  std::vector<Published> batch_;
  std::size_t batch_size_ = 0;  // kept here, because the last listener takes the events
  std::size_t batch_bytes_ = 0;
  std::uint64_t batch_base_ = 0;
  std::vector<std::pair<std::shared_ptr<Channel>, std::size_t>> batch_progress_;

  // Two cache lines, because processors fetch them in pairs.
  static constexpr std::size_t kTogether = 128;

  // Guards all below but the last three. No other lock is taken under it.
  //
  // The lock and the members that change with each event share cache lines, and nothing else is in
  // these: threads that record at the same time take them from each other.
  alignas(kTogether) mutable Mutex mu_;
  std::vector<Published> incoming_ GUARDED_BY(mu_);
  std::size_t occupied_ GUARDED_BY(mu_) = 0;  // incoming_ and batch_ together
  std::size_t occupied_bytes_ GUARDED_BY(mu_) = 0;
  std::uint64_t next_position_ GUARDED_BY(mu_) = 0;  // the number of events queued so far
  std::uint32_t epoch_ GUARDED_BY(mu_) = 0;          // see Published
  Distributor distributor_ GUARDED_BY(mu_) = Distributor::kIdle;
  bool stopped_ GUARDED_BY(mu_) = false;

  // These change rarely.
  alignas(kTogether) CondVar room_;
  int yields_ GUARDED_BY(mu_) = 0;  // in this round, of calls that found the queue full
  std::vector<std::shared_ptr<Channel>> channels_ GUARDED_BY(mu_);
  std::vector<std::shared_ptr<EventHandler>> handlers_ GUARDED_BY(mu_);
  std::vector<SinkEntry> sinks_ GUARDED_BY(mu_);
  std::uint64_t invalid_ GUARDED_BY(mu_) = 0;
  std::uint64_t dropped_ GUARDED_BY(mu_) = 0;  // because incoming_ was full
  std::uint64_t lost_ GUARDED_BY(mu_) = 0;     // recorded after Shutdown()
  std::uint64_t without_sink_ GUARDED_BY(mu_) = 0;

  // WaitUntil() waits here. Lock order: before mu_, which the condition takes.
  mutable Mutex progress_mu_;
  CondVar progress_;
  std::atomic<int> waiting_{0};  // callers of WaitUntil(); mostly none
};

}  // namespace herald
