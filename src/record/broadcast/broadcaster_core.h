#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "herald/record/broadcaster.h"
#include "record/broadcast/event_handler.h"
#include "record/channel/channel.h"
#include "record/channel/published.h"
#include "record/delivery/delivery.h"
#include "record/executor_lease.h"

namespace herald {

// What a Broadcaster shares with its recorders and watchers, which may outlive it.
//
// Recorded events are queued under one lock, which also gives each its position. A
// single distributor, a strand, takes them out in batches and offers each batch to
// every channel; a batch costs each channel one lock. Under WhenFull::kWait a channel
// may take only a part: then the distributor stops, and goes on when that channel has
// room. It never blocks, so it needs no thread of its own.
//
// Thread-safe.
class Broadcaster::Core : public std::enable_shared_from_this<Core> {
 public:
  // The executor is borrowed until EndUseOfExecutor().
  Core(BroadcasterOptions options, Executor* executor);

  // What recorders take for the time. Reads no clock of the caller's after
  // EndUseOfExecutor(), because recorders may outlive it.
  WallTime Now() const { return lease_->revoked() ? SystemClock().Now() : clock_.Now(); }
  const BroadcasterOptions& options() const { return options_; }

  // Queues an event, or refuses it: kTooManyRequests when the queue is full, kGone
  // after the end. Never blocks.
  Status Publish(Published published) EXCLUDES(mu_);
  // The same, but waits for room.
  Status PublishWaiting(Published published) EXCLUDES(mu_);
  // Counts an event that could not be one.
  void CountInvalid(const Published& published, const Status& why) EXCLUDES(mu_);

  // Adds a channel that sees all events queued from now on. Null after the end.
  std::shared_ptr<Channel> AddChannel(Channel::Hooks hooks, std::vector<Published> prefix)
      EXCLUDES(mu_);
  void RemoveChannel(const std::shared_ptr<Channel>& channel) EXCLUDES(mu_);

  Status AddHandler(std::function<void(const Event&)> handler) EXCLUDES(mu_);
  Status AddSink(std::shared_ptr<Sink> sink, SinkOptions options) EXCLUDES(mu_);

  std::vector<std::pair<std::string, SinkStats>> Stats() const EXCLUDES(mu_);
  std::uint64_t without_sink() const EXCLUDES(mu_);

  DrainReport Flush(std::chrono::nanoseconds patience) EXCLUDES(mu_);
  DrainReport Shutdown(std::chrono::nanoseconds patience) EXCLUDES(mu_);

  // Nothing is posted to the executor after this. The last call that a Broadcaster makes.
  void EndUseOfExecutor() { lease_->Revoke(); }

 private:
  struct SinkEntry {
    std::shared_ptr<Delivery> delivery;
    std::uint64_t first_position = 0;  // events before it were recorded before it was there
    // What had been counted before this sink was there.
    std::uint64_t invalid_before = 0;
    std::uint64_t dropped_before = 0;
    std::uint64_t lost_before = 0;
  };

  // What the distributor does, and so whether a new event has to wake it:
  //
  //   idle --event--> working --handed out--> lingering --nothing, after a while--> idle
  //                      ^                        |
  //                      `----- many events ------' or some, after a while
  enum class Distributor : std::uint8_t { kIdle, kWorking, kLingering };

  Status PublishLocked(Published&& published, bool* wake) REQUIRES(mu_);
  bool HasRoom(std::size_t bytes) const REQUIRES(mu_);
  // Whether the queue may be full before the distributor comes by itself.
  bool FillingUp() const REQUIRES(mu_);
  // Lets Distribute() run soon, or after all that the executor has to do by now. There
  // is never more than one call to come.
  void ScheduleDistribution();
  void DistributeAfterOthers();
  // Distributes on the calling thread, which would otherwise wait for it.
  void HelpDistribute();
  void Linger();
  void Distribute() EXCLUDES(mu_);
  // False if there is nothing to hand out.
  bool TakeBatch() EXCLUDES(mu_);
  std::shared_ptr<Channel> AddChannelLocked(const Channel::Options& options, Channel::Hooks hooks,
                                            std::vector<Published> prefix) REQUIRES(mu_);
  Channel::Options ChannelOptions() const;
  std::vector<std::shared_ptr<Delivery>> Deliveries() const EXCLUDES(mu_);
  // Flush(), or the first part of Shutdown(), which is `last`.
  DrainReport Drain(std::chrono::nanoseconds patience, bool last) EXCLUDES(mu_);
  // Whether all before that position has been handed to the listeners.
  bool IsDistributed(std::uint64_t position) const EXCLUDES(mu_);
  // Whether there is nothing left to be done at all.
  bool Drained() const EXCLUDES(mu_);
  bool WaitUntil(std::chrono::nanoseconds patience, const std::function<bool()>& condition);
  // To be called after something for which WaitUntil() may wait.
  void NotifyProgress() EXCLUDES(progress_mu_);
  std::uint64_t InFlight() const EXCLUDES(mu_);

  const BroadcasterOptions options_;
  Executor& executor_;  // for calls of the Broadcaster, which it outlives
  // For all others, which may come from recorders, watchers and sinks after its end.
  const std::shared_ptr<ExecutorLease> lease_;
  const Clock& clock_;
  const bool may_linger_;
  LeasedStrand strand_;
  std::atomic<bool> scheduled_{false};  // a call of Distribute() is to come
  std::atomic<bool> timer_set_{false};  // one will come when it has lingered

  // What the distributor is handing out; the strand's alone.
  std::vector<Published> batch_;
  std::size_t batch_size_ = 0;  // the last listener may take the events away
  std::size_t batch_bytes_ = 0;
  std::uint64_t batch_base_ = 0;
  std::vector<std::pair<std::shared_ptr<Channel>, std::size_t>> batch_progress_;

  // Two cache lines, because processors fetch them in pairs.
  static constexpr std::size_t kTogether = 128;

  // Guards all below but the last three. No other lock is taken under it.
  //
  // The lock and what changes with each event stand together: threads that record at the
  // same time take them away from one another, and with them whatever else is in their
  // cache lines.
  alignas(kTogether) mutable Mutex mu_;
  std::vector<Published> incoming_ GUARDED_BY(mu_);
  std::size_t occupied_ GUARDED_BY(mu_) = 0;  // incoming_ and batch_ together
  std::size_t occupied_bytes_ GUARDED_BY(mu_) = 0;
  std::uint64_t next_position_ GUARDED_BY(mu_) = 0;  // so many were queued so far
  std::uint32_t epoch_ GUARDED_BY(mu_) = 0;          // see Published
  Distributor distributor_ GUARDED_BY(mu_) = Distributor::kIdle;
  bool stopped_ GUARDED_BY(mu_) = false;

  // This changes seldom.
  alignas(kTogether) CondVar room_;
  int gave_way_ GUARDED_BY(mu_) = 0;  // calls that found the queue full, in this round
  std::vector<std::shared_ptr<Channel>> channels_ GUARDED_BY(mu_);
  std::vector<std::shared_ptr<EventHandler>> handlers_ GUARDED_BY(mu_);
  std::vector<SinkEntry> sinks_ GUARDED_BY(mu_);
  std::uint64_t invalid_ GUARDED_BY(mu_) = 0;
  std::uint64_t dropped_ GUARDED_BY(mu_) = 0;  // before any channel saw them
  std::uint64_t lost_ GUARDED_BY(mu_) = 0;     // recorded after the end
  std::uint64_t without_sink_ GUARDED_BY(mu_) = 0;

  // Whoever waits for the pipeline to empty waits here. Order: before mu_, which is
  // taken to see whether it is empty; never after.
  mutable Mutex progress_mu_;
  CondVar progress_;
  std::atomic<int> waiting_{0};  // how many; mostly nobody, and then nobody is told
};

}  // namespace herald
