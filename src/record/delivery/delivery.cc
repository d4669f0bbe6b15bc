#include "record/delivery/delivery.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "record/correlate/count_correlator.h"
#include "record/correlate/series_correlator.h"

namespace herald {
namespace {

// How many events the sequencer takes in, besides those in the channel. It must look some way
// ahead to find other objects while one is blocked; more would only move the limit of the
// channel.
constexpr std::size_t kMaxAdmitted = 1000;

bool IsOldStyle(const Event& event) { return event.event_time.is_zero(); }

Status ShutDown() { return Status(StatusReason::kCancelled, "the broadcaster was shut down"); }

bool IsSuccess(Outcome outcome) {
  return outcome == Outcome::kWritten || outcome == Outcome::kMerged;
}

// The outcome of the events that the count of a write contains.
Outcome OutcomeOfCounted(Outcome outcome_of_write) {
  return IsSuccess(outcome_of_write) ? Outcome::kMerged : outcome_of_write;
}

}  // namespace

Delivery::Delivery(Setup setup)
    : options_(std::move(setup.options)),
      clock_(*setup.clock),
      executor_(std::move(setup.executor)),
      log_(std::move(setup.log)),
      upstream_exact_(setup.upstream_exact),
      on_progress_(std::move(setup.on_progress)),
      strand_(executor_),
      count_(std::make_unique<CountCorrelator>(options_.count, upstream_exact_)),
      series_(std::make_unique<SeriesCorrelator>(options_.series, upstream_exact_)),
      admitted_(kMaxAdmitted, setup.max_bytes),
      parked_(kMaxAdmitted, setup.max_bytes),
      held_(&parked_),
      queues_(upstream_exact_, &admitted_, &parked_),
      sender_({.sink = std::move(setup.sink),
               .options = &options_,
               .upstream_exact = upstream_exact_,
               .strand = &strand_,
               .counters = &counters_,
               .log = &log_,
               .owner = this}),
      in_flight_(options_.max_in_flight),
      counted_(upstream_exact_),
      spool_(setup.spool ? std::make_unique<SpoolReplay>(std::move(setup.spool)) : nullptr) {
  if (options_.self && !upstream_exact_) loss_report_.emplace(*options_.self);
}

void Delivery::Attach(std::shared_ptr<Channel> channel) {
  channel_ = std::move(channel);
  sender_.SetSelf(std::shared_ptr<WriteSender>(shared_from_this(), &sender_));
}

void Delivery::PostAndPump(std::function<void()> task) {
  ++wakes_;
  strand_.Post([self = shared_from_this(), task = std::move(task)] {
    if (task) task();
    self->Pump();
    --self->wakes_;
    if (self->idle_) self->on_progress_();
  });
}

void Delivery::PostAndPumpAt(SteadyTime when, std::function<void(Delivery*)> task) {
  executor_->PostAt(when, [weak = weak_from_this(), task = std::move(task)] {
    if (const auto self = weak.lock()) self->PostAndPump([self, task] { task(self.get()); });
  });
}

void Delivery::Wake() { PostAndPump(nullptr); }

void Delivery::CountDropped(const Published& published) {
  if (sender_.closed()) return EndEvent(published, Outcome::kLost, ShutDown());
  EndEvent(published, Outcome::kDropped, Status(StatusReason::kTooManyRequests, "queue is full"));
  // Events are dropped by the thousand; one check is enough for all.
  if (loss_check_posted_.exchange(true)) return;
  PostAndPump([this] {
    loss_check_posted_ = false;
    ReportLosses();
  });
}

Ticket Delivery::RequestFlush(std::uint32_t epoch, bool last) {
  auto done = std::make_shared<std::atomic<bool>>(false);
  PostAndPump([this, epoch, last, done] {
    if (abandoned_) {
      *done = true;
      return;
    }
    if (last && spool_) spool_->Stop();
    flushes_.Add(epoch, done);
  });
  return done;
}

void Delivery::RequestCounts() {
  PostAndPump([this] { PlanCounts(/*all=*/true); });
}

bool Delivery::Idle() const { return wakes_ == 0 && idle_; }

void Delivery::Abandon() {
  sender_.Close();
  channel_->Close();
  PostAndPump([this] { AbandonHere(); });
}

SinkStats Delivery::Stats() const {
  SinkStats stats = counters_.Stats();
  if (spool_) {
    const Spool::Stats spool = spool_->stats();
    stats.spool_bytes = spool.bytes;
    stats.spool_dropped = spool.dropped;
    stats.spool_corrupted = spool.corrupted;
  }
  return stats;
}

Correlator& Delivery::CorrelatorFor(const Event& event) {
  return IsOldStyle(event) ? *count_ : *series_;
}

void Delivery::Pump() {
  if (abandoned_) return;
  const std::size_t room = admitted_.room();
  const std::size_t taken = TakeFromChannel();
  PlanCounts(/*all=*/false);
  StartReplay();
  StartReady();
  if (counted_.ShouldWriteEarly()) {
    PlanCounts(/*all=*/true);
    StartReady();
  }
  // Events that were counted, filtered or parked have made room, and no answer will come that
  // takes more events.
  if (taken == room && admitted_.HasRoom() && !channel_->empty()) Wake();
  CheckFlushes();
  ScheduleCounts();
  UpdateIdle();
}

std::size_t Delivery::TakeFromChannel() {
  std::vector<Published> batch;
  const std::size_t room = admitted_.room();
  if (room > 0) channel_->Take(room, &batch);
  for (Published& published : batch) {
    flushes_.BeginTaken(published.epoch);
    Admit(std::move(published));
  }
  if (!batch.empty()) ReportLosses();
  return batch.size();
}

void Delivery::Admit(Published published) {
  if (!HeldEvents::IsUndecided(published)) {
    // Events that were held came before this one.
    if (!held_.empty()) EnqueueDecided();
    return Enqueue(std::move(published));
  }
  if (!held_.HasRoom()) {
    EndEvent(
        published, Outcome::kDropped,
        Status(StatusReason::kTooManyRequests, "too many events wait for the choice of an API"));
    flushes_.EndWork(published.epoch);
    return;
  }
  ApiChoice& choice = *published.handling->api_choice;
  if (!held_.Add(std::move(published))) return;
  choice.WhenSet([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->PostAndPump([self] { self->EnqueueDecided(); });
  });
}

void Delivery::EnqueueDecided() {
  for (Published& published : held_.TakeDecided()) Enqueue(std::move(published));
}

void Delivery::Enqueue(Published published) {
  if (queues_.Add(&published)) return;
  EndEvent(published, Outcome::kDropped,
           Status(StatusReason::kTooManyRequests, "too many events wait for a retry"));
  flushes_.EndWork(published.epoch);
}

void Delivery::StartReady() {
  while (in_flight_.HasSlot()) {
    if (const auto awake = in_flight_.BeginAwake()) {
      sender_.Send(awake);
      continue;
    }
    const std::shared_ptr<EventWrite> write = queues_.Start();
    if (!write) return;
    bool is_sent = false;
    do {
      is_sent = CorrelateWrite(write.get());
    } while (!is_sent && queues_.StartNextOf(write.get()));
    if (!is_sent) continue;
    in_flight_.Begin();
    sender_.Send(write);
  }
}

bool Delivery::CorrelateWrite(EventWrite* write) {
  Published& published = write->published;
  if (!published.event) return true;  // a planned write
  const std::shared_ptr<const Event> event = InChosenStyle(published, upstream_exact_);
  write->correlation = CorrelatorFor(*event).Correlate(event, clock_.Now(), clock_.Steady());
  switch (write->correlation.action) {
    case Correlation::Action::kSend:
      write->counted = counted_.Take(write->correlation.key);
      return true;
    case Correlation::Action::kMerge:
      queues_.Release(published);
      flushes_.WorkBecomesCounted(published.epoch);
      counted_.Add(write->correlation.key, std::move(published));
      return false;
    case Correlation::Action::kSuppress:
      queues_.Release(published);
      EndEvent(published, Outcome::kFiltered, Status());
      flushes_.EndWork(published.epoch);
      return false;
  }
  return false;
}

void Delivery::PlanCounts(bool all) {
  for (Correlation& due : series_->TakeDue(clock_.Steady(), all)) {
    CountedEvents counted = counted_.Take(due.key);
    queues_.AddPlanned({.correlation = std::move(due), .counted = std::move(counted)});
  }
}

void Delivery::ScheduleCounts() {
  const std::optional<SteadyTime> due = series_->NextDue();
  if (!due || (counts_timer_ && *counts_timer_ <= *due)) return;
  counts_timer_ = due;
  PostAndPumpAt(*due, [](Delivery* self) { self->counts_timer_.reset(); });
}

void Delivery::OnFinished(const std::shared_ptr<EventWrite>& write, const WriteSender::End& end) {
  Correlator& correlator = CorrelatorFor(*write->correlation.request.event);
  if (end.answer != nullptr) correlator.Learn(write->correlation.key, *end.answer);
  if (end.rejected) correlator.Drop(write->correlation.key);

  Outcome outcome = end.outcome;
  // What blocks a create for good would block it after a restart too.
  if (outcome == Outcome::kGaveUp && spool_ && !end.status.Is(StatusReason::kAlreadyExists) &&
      (write->replay || Keep(*write))) {
    outcome = Outcome::kSpooled;
  }
  if (const auto replay = write->replay) EndReplayed(*replay, outcome);
  if (write->published.event) {
    queues_.Release(write->published);
    EndEvent(write->published, outcome, end.status);
    flushes_.EndWork(write->published.epoch);
  }
  EndCounted(write->counted, OutcomeOfCounted(outcome), end.status);
  queues_.End(write.get());
  GoOnAfterWrite();
}

void Delivery::OnPostponed(const std::shared_ptr<EventWrite>& write) {
  counted_.PutBack(write->correlation.key, std::move(write->counted));
  queues_.End(write.get());
  GoOnAfterWrite();
}

void Delivery::OnRequeued(const std::shared_ptr<EventWrite>& write, const Status& status) {
  CorrelatorFor(*write->correlation.request.event).Drop(write->correlation.key);
  EndCounted(write->counted, Outcome::kRejected, status);
  queues_.EndAndRequeue(write.get());
  GoOnAfterWrite();
}

void Delivery::OnSleeps(const std::shared_ptr<EventWrite>& write, std::chrono::nanoseconds delay) {
  in_flight_.Sleep();
  queues_.Park(write.get());
  PostAndPumpAt(clock_.Steady() + delay, [write](Delivery* self) {
    if (self->abandoned_) return;
    self->queues_.Unpark(write.get());
    self->in_flight_.Wake(write);
  });
  Pump();
}

void Delivery::GoOnAfterWrite() {
  in_flight_.End();
  ReportLosses();
  Pump();
}

void Delivery::EndEvent(const Published& published, Outcome outcome, const Status& status) {
  counters_.CountOutcome(outcome);
  NotifyOutcome(published.handling.get(), outcome, status);
}

void Delivery::EndCounted(const CountedEvents& counted, Outcome outcome, const Status& status) {
  counters_.CountOutcome(outcome, counted.count);
  flushes_.EndCounted(counted);
  counted_.End(counted);
  for (const auto& handling : counted.to_notify) NotifyOutcome(handling.get(), outcome, status);
}

bool Delivery::Keep(const EventWrite& write) {
  const std::uint64_t events = write.EventCount();
  if (events == 0) return false;
  SinkRequest request = write.IntendedRequest();
  const std::shared_ptr<const Event> event = request.event;
  const Status status = spool_->Append(std::move(request), events);
  if (!status.ok()) {
    log_.Log(LogLevel::kError, "Unable to spool event", *event, status);
    return false;
  }
  ScheduleReplay();
  return true;
}

void Delivery::StartReplay() {
  if (!spool_) return;
  std::vector<PlannedWrite> writes = spool_->TakeSegment();
  if (writes.empty()) return;
  spool_->set_epoch(flushes_.BeginOther(writes.size()));
  for (PlannedWrite& write : writes) {
    if (const auto replay = write.replay) counters_.CountReplayed(spool_->events(*replay));
    queues_.AddPlanned(std::move(write));
  }
}

void Delivery::EndReplayed(std::size_t index, Outcome outcome) {
  // The event of the write itself, and those that its count contains besides.
  counters_.CountOutcome(outcome);
  counters_.CountOutcome(OutcomeOfCounted(outcome), spool_->events(index) - 1);
  flushes_.EndWork(spool_->epoch());
  switch (spool_->End(index, /*for_good=*/outcome != Outcome::kSpooled)) {
    case SpoolReplay::Next::kWait:
      break;
    case SpoolReplay::Next::kTakeNow:
      Wake();  // there may be no answer to wait for
      break;
    case SpoolReplay::Next::kTakeLater:
      ScheduleReplay();
      break;
  }
}

void Delivery::ScheduleReplay() {
  if (abandoned_ || std::exchange(replay_timer_, true)) return;
  PostAndPumpAt(clock_.Steady() + SpoolReplay::kInterval, [](Delivery* self) {
    self->replay_timer_ = false;
    self->spool_->Resume();
  });
}

void Delivery::CheckFlushes() {
  if (flushes_.empty()) return;
  if (flushes_.WantsCounts(/*all_taken=*/channel_->empty())) {
    PlanCounts(/*all=*/true);
    StartReady();
  }
  if (flushes_.CompleteDone()) on_progress_();
}

void Delivery::ReportLosses() {
  if (!loss_report_ || abandoned_) return;
  LossReport::Result result =
      loss_report_->Check(counters_.Outcomes(), clock_.Now(), clock_.Steady());
  if (result.event) {
    queues_.AddPlanned({.correlation = {.request = {.verb = SinkRequest::Verb::kCreate,
                                                    .api = EventApi::kCoreV1,
                                                    .event = std::move(result.event)}}});
  }
  if (!result.check_again || std::exchange(loss_timer_, true)) return;
  PostAndPumpAt(*result.check_again, [](Delivery* self) {
    self->loss_timer_ = false;
    self->ReportLosses();
  });
}

void Delivery::AbandonHere() {
  if (std::exchange(abandoned_, true)) return;
  std::vector<Published> rest = held_.TakeAll();
  std::vector<Published> batch;
  while (channel_->Take(kMaxAdmitted, &batch) > 0) {
    for (Published& published : batch) {
      flushes_.BeginTaken(published.epoch);
      rest.push_back(std::move(published));
    }
    batch.clear();
  }
  for (ObjectQueue& object : queues_.TakeAll()) {
    if (object.current) Abandon(*object.current);
    for (PlannedWrite& planned : object.planned) {
      Abandon(EventWrite{.correlation = std::move(planned.correlation),
                         .counted = std::move(planned.counted),
                         .replay = planned.replay});
    }
    for (Published& published : object.waiting) Abandon(std::move(published));
  }
  for (Published& published : rest) Abandon(std::move(published));
  if (spool_) {
    // The counts of open series go to disk, too.
    for (Correlation& due : series_->TakeDue(clock_.Steady(), /*all=*/true)) {
      CountedEvents counted = counted_.Take(due.key);
      Abandon(EventWrite{.correlation = std::move(due), .counted = std::move(counted)});
    }
    spool_->Close();
  }
  for (const CountedEvents& counted : counted_.TakeAll()) {
    EndCounted(counted, Outcome::kLost, ShutDown());
  }
  in_flight_.Clear();
  flushes_.CompleteAll();
  sender_.ReleaseSink();
  idle_ = true;
}

void Delivery::Abandon(const EventWrite& write) {
  if (write.replay) return EndReplayed(*write.replay, Outcome::kSpooled);
  const Status status = ShutDown();
  const Outcome outcome = spool_ && Keep(write) ? Outcome::kSpooled : Outcome::kLost;
  if (write.published.event) {
    if (!spool_) {
      log_.Log(LogLevel::kError, "Unable to write event (broadcaster is shut down)",
               *write.published.event, status);
    }
    EndEvent(write.published, outcome, status);
  }
  EndCounted(write.counted, outcome, status);
}

void Delivery::Abandon(Published published) {
  if (!spool_) return EndEvent(published, Outcome::kLost, ShutDown());
  const std::shared_ptr<const Event> event = InChosenStyle(published, upstream_exact_);
  Correlation correlation = CorrelatorFor(*event).Correlate(event, clock_.Now(), clock_.Steady());
  switch (correlation.action) {
    case Correlation::Action::kSend: {
      CountedEvents counted = counted_.Take(correlation.key);
      return Abandon(EventWrite{.published = std::move(published),
                                .correlation = std::move(correlation),
                                .counted = std::move(counted)});
    }
    case Correlation::Action::kMerge:
      flushes_.WorkBecomesCounted(published.epoch);
      return counted_.Add(correlation.key, std::move(published));
    case Correlation::Action::kSuppress:
      return EndEvent(published, Outcome::kFiltered, Status());
  }
}

void Delivery::UpdateIdle() {
  const bool idle = abandoned_ || (queues_.empty() && in_flight_.empty() && held_.empty() &&
                                   flushes_.empty() && channel_->empty());
  idle_ = idle;
  if (idle && wakes_ == 0) on_progress_();
}

}  // namespace herald
