#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "herald/base/clock.h"
#include "herald/base/log.h"
#include "herald/record/broadcaster.h"
#include "record/channel/channel.h"
#include "record/channel/published.h"
#include "record/correlate/correlator.h"
#include "record/delivery/counted_events.h"
#include "record/delivery/delivery_counters.h"
#include "record/delivery/event_budget.h"
#include "record/delivery/event_write.h"
#include "record/delivery/flush_tracker.h"
#include "record/delivery/held_events.h"
#include "record/delivery/in_flight_writes.h"
#include "record/delivery/loss_report.h"
#include "record/delivery/object_queues.h"
#include "record/delivery/spool_replay.h"
#include "record/delivery/write_log.h"
#include "record/delivery/write_sender.h"
#include "record/executor_lease.h"
#include "record/spool/spool.h"

namespace herald {

// A Delivery carries the events of one sink from the broadcaster's channel to the server. It is
// the sequencer: it joins parts that each have one job, and moves every event through them until
// the event has exactly one outcome.
//
//   channel ──> HeldEvents ──> ObjectQueues ──> Correlator ──> WriteSender ──> outcome
//               until its API   by object          │            ^       │
//               is chosen                          │            └───────┘ sleeps (InFlightWrites)
//                                                  └──> CountedEventTable: a later write carries it
//
// FlushTracker knows which events a flush still waits for, LossReport writes about losses, and
// SpoolReplay keeps on disk what would be lost otherwise. DeliveryCounters has the statistics.
//
// An event is correlated when no write about the same object is under way, because the answer to
// the last write (a name, a count) decides what the next one is.
//
// Up to kMaxAdmitted events wait for their turn, and as many are held or wait behind writes that
// sleep. More of the latter are dropped; more of the former wait in the channel.
//
// With a spool, a write that would be given up or lost goes to disk, and comes back later, before
// everything else that waits for the same object. Its events then count as recorded again. A patch
// from disk never lowers a count: later writes may have reached the server since, from this
// process or an earlier one, and patches on disk may be in any order. So an empty patch is sent
// first, whose answer is the server's event, and the patch follows only if the server's count is
// lower. Between the two nothing else about the same object is written.
//
// Thread-safe. Everything below "The strand's" runs on one strand. Nothing is posted to the
// executor after its lease is revoked, so calls may come at any time.
class Delivery final : public std::enable_shared_from_this<Delivery>, private WriteSender::Owner {
 public:
  struct Setup {
    std::shared_ptr<Sink> sink;
    SinkOptions options;
    std::shared_ptr<ExecutorLease> executor;
    const Clock* clock = nullptr;  // the executor's; only its tasks read it
    LogFunction log;
    bool upstream_exact = false;
    std::unique_ptr<Spool> spool;  // null: none
    // How much memory events may take, besides those in the channel.
    std::size_t max_bytes = 16 << 20;
    std::function<void()> on_progress;  // Idle() or a ticket may have become true
  };

  explicit Delivery(Setup setup);

  // Sets where events come from. To be called once, before anything else.
  void Attach(std::shared_ptr<Channel> channel);

  // The channel has events.
  void Wake();

  // Counts an event that was not taken from the channel: the channel was full, or closed.
  void CountDropped(const Published& published);

  // Flushes all events up to that epoch, which are in the channel by now: once they are written,
  // the counts of open series are written too. With `last`, nothing more is taken from the
  // spool.
  Ticket RequestFlush(std::uint32_t epoch, bool last);
  // Writes the counts of open series now, even if other writes do not end.
  void RequestCounts();

  // Whether every event that was offered has its outcome.
  bool Idle() const;

  // Closes the channel and ends everything that has no outcome yet: as kLost, or kSpooled.
  void Abandon();

  // The counters so far. `recorded` contains only events that came back from disk, and
  // `in_flight` is 0: only the broadcaster knows what was recorded.
  SinkStats Stats() const;
  const std::string& name() const { return options_.name; }

 private:
  // Runs a task on the strand, and Pump() after it. Empty: only Pump().
  void PostAndPump(std::function<void()> task);
  // The same, at a time. Does not keep this alive until then.
  void PostAndPumpAt(SteadyTime when, std::function<void(Delivery*)> task);

  // The strand's, as all below.

  // Moves everything on as far as it goes without an answer.
  void Pump();
  std::size_t TakeFromChannel();
  void Admit(Published published);
  void Enqueue(Published published);
  void EnqueueDecided();
  void StartReady();
  // Makes the write of an event one that can be sent. False if nothing is to be sent: the event
  // was counted or filtered.
  bool CorrelateWrite(EventWrite* write);
  void PlanCounts(bool all);
  void ScheduleCounts();

  void OnFinished(const std::shared_ptr<EventWrite>& write, const WriteSender::End& end) override;
  void OnPostponed(const std::shared_ptr<EventWrite>& write) override;
  void OnRequeued(const std::shared_ptr<EventWrite>& write, const Status& status) override;
  void OnSleeps(const std::shared_ptr<EventWrite>& write, std::chrono::nanoseconds delay) override;
  // A write has ended, and its object is free for the next one.
  void GoOnAfterWrite();

  void EndEvent(const Published& published, Outcome outcome, const Status& status);
  void EndCounted(const CountedEvents& counted, Outcome outcome, const Status& status);
  void EndReplayed(std::size_t index, Outcome outcome);

  // Puts a write on disk; false if that fails, or if it carries no event.
  bool Keep(const EventWrite& write);
  void StartReplay();
  void ScheduleReplay();
  void CheckFlushes();
  void ReportLosses();
  void UpdateIdle();

  void AbandonHere();
  // Ends what a write carries: on disk if there is a spool, or else as lost.
  void Abandon(const EventWrite& write);
  void Abandon(Published published);

  Correlator& CorrelatorFor(const Event& event);

  const SinkOptions options_;
  const Clock& clock_;
  const std::shared_ptr<ExecutorLease> executor_;
  const WriteLog log_;
  const bool upstream_exact_;
  const std::function<void()> on_progress_;
  std::shared_ptr<Channel> channel_;  // set once, by Attach()

  // Tasks of PostAndPump() that have not run. While there is one, idle_ is out of date.
  std::atomic<int> wakes_{0};
  std::atomic<bool> idle_{true};
  std::atomic<bool> loss_check_posted_{false};
  DeliveryCounters counters_;

  LeasedStrand strand_;

  // The strand's, as all below.

  const std::unique_ptr<Correlator> count_;
  const std::unique_ptr<Correlator> series_;
  EventBudget admitted_;
  EventBudget parked_;
  HeldEvents held_;
  ObjectQueues queues_;
  WriteSender sender_;  // closed once Abandon() was called
  InFlightWrites in_flight_;
  CountedEventTable counted_;
  FlushTracker flushes_;
  const std::unique_ptr<SpoolReplay> spool_;  // null: none. Any thread reads its statistics.
  std::optional<LossReport> loss_report_;     // unset: none is written
  bool abandoned_ = false;

  // Timers that are set.
  std::optional<SteadyTime> counts_timer_;
  bool replay_timer_ = false;
  bool loss_timer_ = false;
};

}  // namespace herald
