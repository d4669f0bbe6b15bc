#include "record/delivery.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "herald/api/reference.h"
#include "record/count_correlator.h"
#include "record/series_correlator.h"

namespace herald {
namespace {

// How many events the sequencer takes in at most, beyond those that wait in the
// channel. It must see some way ahead to find other objects to go on with while one
// is blocked; more would only move the bound of the channel.
constexpr std::size_t kMaxAdmitted = 1000;

// A server that asks for more patience than this would hold an event longer than
// most servers keep it.
constexpr std::chrono::minutes kMaxRetryAfter{5};

// How often losses are reported at most.
constexpr std::chrono::minutes kReportInterval{1};

bool IsOldStyle(const Event& event) { return event.event_time.is_zero(); }

// Outcomes that a reader of events would miss without noticing.
constexpr Outcome kLosses[] = {Outcome::kDropped, Outcome::kRejected, Outcome::kGaveUp};

Status ShutDown() { return Status(StatusReason::kCancelled, "the broadcaster was shut down"); }

bool NamespaceIsTerminating(const Status& status) {
  const auto& causes = status.details().causes;
  return std::any_of(causes.begin(), causes.end(), [](const StatusCause& cause) {
    return cause.reason == "NamespaceTerminating";
  });
}

}  // namespace

Judgement Judge(const SinkRequest& request, const Status& status, bool upstream_exact) {
  if (status.ok()) return Judgement::kDone;
  if (status.origin() == Status::Origin::kLocal) {
    // What was never sent because it could not be put together never will be.
    const bool unsendable = status.Is(StatusReason::kBadRequest) ||
                            status.Is(StatusReason::kInvalid) ||
                            status.Is(StatusReason::kRequestEntityTooLarge);
    return unsendable ? Judgement::kReject : Judgement::kRetry;
  }
  if (request.verb == SinkRequest::Verb::kPatch && status.code() == 404) {
    return Judgement::kCreateInstead;
  }
  if (status.Is(StatusReason::kAlreadyExists)) {
    // A series whose first event is still on its way from elsewhere.
    const bool is_series = request.event->series && !IsOldStyle(*request.event);
    return is_series ? Judgement::kRetry : Judgement::kRejectQuietly;
  }
  if (status.code() == 403 && NamespaceIsTerminating(status)) {
    // tools/events does not know this case and complains.
    const bool complains = upstream_exact && !IsOldStyle(*request.event);
    return complains ? Judgement::kReject : Judgement::kRejectQuietly;
  }
  if (!upstream_exact && (status.code() == 429 || status.code() >= 500)) return Judgement::kRetry;
  return Judgement::kReject;
}

// One write, from its first try to its outcome.
struct Delivery::Attempt {
  Published published;  // without an event where a series is written for its count
  Correlation correlation;
  std::string object;
  std::optional<std::string> patch;  // what a create took the place of
  int tries = 0;
  int sends = 0;    // tries, and creates that took the place of a patch
  int awaited = 0;  // which of the sends has no answer yet; 0: none
};

Delivery::Delivery(Setup setup)
    : sink_(std::move(setup.sink)),
      options_(std::move(setup.options)),
      clock_(*setup.clock),
      executor_(std::move(setup.executor)),
      log_(std::move(setup.log)),
      upstream_exact_(setup.upstream_exact),
      max_bytes_(setup.max_bytes),
      on_progress_(std::move(setup.on_progress)),
      strand_(executor_.get()),
      count_(std::make_unique<CountCorrelator>(options_.count, upstream_exact_)),
      series_(std::make_unique<SeriesCorrelator>(options_.series, upstream_exact_)),
      random_(RandomSeed()) {}

void Delivery::Attach(std::shared_ptr<Channel> channel) { channel_ = std::move(channel); }

void Delivery::PostAndPump(std::function<void()> task) {
  ++wakes_;
  strand_.Post([self = shared_from_this(), task = std::move(task)] {
    if (task) task();
    self->Pump();
    --self->wakes_;
    if (self->idle_) self->on_progress_();
  });
}

void Delivery::Wake() { PostAndPump(nullptr); }

void Delivery::CountDropped(const Published& published) {
  if (closing_) return Resolve(published, Outcome::kLost, ShutDown());
  Resolve(published, Outcome::kDropped, Status(StatusReason::kTooManyRequests, "queue is full"));
  // Drops come by the thousand; one look at them is enough.
  if (report_posted_.exchange(true)) return;
  PostAndPump([this] {
    report_posted_ = false;
    ReportLosses();
  });
}

void Delivery::RequestFlush() {
  PostAndPump([this] {
    // Once now, whatever else may be stuck, and once more when all else is written.
    TakeDue(true);
    flush_requested_ = true;
  });
}

bool Delivery::Idle() const { return wakes_ == 0 && idle_; }

void Delivery::Abandon() {
  closing_ = true;
  channel_->Close();
  PostAndPump([this] { AbandonHere(); });
}

SinkStats Delivery::Stats() const {
  SinkStats stats;
  for (std::size_t i = 0; i < kOutcomes; ++i) stats.outcomes[i] = outcomes_[i];
  stats.requests = requests_;
  stats.retries = retries_;
  return stats;
}

// One object for all keeps the strict order of upstream. Its new-style events have no
// order at all: each is written as soon as it is there.
std::string Delivery::ObjectKey(const Event& event) {
  if (upstream_exact_) return IsOldStyle(event) ? "" : fmt::format("{}", ++object_numbers_);
  const ObjectReference& object = event.involved_object;
  return fmt::format("{}\n{}\n{}\n{}", object.namespace_, object.name, object.kind, object.uid);
}

Correlator& Delivery::CorrelatorFor(const Event& event) {
  return IsOldStyle(event) ? *count_ : *series_;
}

void Delivery::Log(LogLevel level, std::string_view message, const Event& event,
                   const Status& status) const {
  if (!log_) return;
  const std::string name = event.metadata.namespace_ + "/" + event.metadata.name;
  const std::string why = status.ToString();
  try {
    log_({.level = level,
          .message = message,
          .fields = {{"event", name}, {"reason", event.reason}, {"err", why}}});
  } catch (...) {  // NOLINT(bugprone-empty-catch): a log that fails stops nothing
  }
}

void Delivery::Pump() {
  if (abandoned_) return;
  std::vector<Published> batch;
  const std::size_t room = HasRoom(admitted_) ? kMaxAdmitted - admitted_.events : 0;
  if (room > 0) channel_->Take(room, &batch);
  for (Published& published : batch) Admit(std::move(published));
  if (!batch.empty()) ReportLosses();
  TakeDue(false);
  StartReady();
  // What was merged, filtered or parked has made room, and no answer will come to say so.
  if (batch.size() == room && HasRoom(admitted_) && !channel_->empty()) Wake();
  if (flush_requested_ && objects_.empty() && channel_->empty()) {
    flush_requested_ = false;
    TakeDue(true);
    StartReady();
  }
  ScheduleDue();
  UpdateIdle();
}

void Delivery::Load::Add(const Published& published) {
  ++events;
  bytes += published.bytes;
}

void Delivery::Load::Remove(const Published& published) {
  --events;
  bytes -= published.bytes;
}

bool Delivery::HasRoom(const Load& load) const {
  return load.events < kMaxAdmitted && load.bytes < max_bytes_;
}

void Delivery::Admit(Published published) {
  const auto object = objects_.try_emplace(ObjectKey(*published.event)).first;
  Load& load = object->second.parked ? parked_ : admitted_;
  if (object->second.parked && !HasRoom(load)) {
    Resolve(published, Outcome::kDropped,
            Status(StatusReason::kTooManyRequests, "too many events wait to be tried again"));
    return;
  }
  load.Add(published);
  object->second.waiting.push_back(std::move(published));
  MarkReady(object);
}

// Counts the events of an object among those that wait behind a sleeping write, or
// among the others again. REQUIRES: object->current
void Delivery::Park(Object* object, bool park) {
  // Upstream knows no other object that could go on; and where there is no room left,
  // this one keeps its place among the others.
  if (upstream_exact_ || object->parked == park || (park && !HasRoom(parked_))) return;
  object->parked = park;
  Load& from = park ? admitted_ : parked_;
  Load& to = park ? parked_ : admitted_;
  const auto move = [&](const Published& published) {
    from.Remove(published);
    to.Add(published);
  };
  if (object->current->published.event) move(object->current->published);
  for (const Published& published : object->waiting) move(published);
}

// To be called after each thing that is put into an object; the first makes it ready.
void Delivery::MarkReady(Objects::iterator object) {
  const Object& state = object->second;
  if (!state.current && state.waiting.size() + state.due.size() == 1)
    ready_.push_back(object->first);
}

void Delivery::StartReady() {
  while (under_way_ < options_.max_in_flight) {
    if (!awake_.empty()) {
      std::shared_ptr<Attempt> attempt = std::move(awake_.front());
      awake_.pop_front();
      ++under_way_;
      Send(attempt);
      continue;
    }
    if (ready_.empty()) break;
    const auto object = objects_.find(ready_.front());
    ready_.pop_front();
    Start(object);
  }
}

// Correlates what waits for this object until something is to be sent.
void Delivery::Start(Objects::iterator object) {
  Object& state = object->second;
  while (!state.current && (!state.due.empty() || !state.waiting.empty())) {
    auto attempt = std::make_shared<Attempt>();
    attempt->object = object->first;
    if (!state.due.empty()) {
      attempt->correlation = std::move(state.due.front());
      state.due.pop_front();
    } else {
      attempt->published = std::move(state.waiting.front());
      state.waiting.pop_front();
      const std::shared_ptr<const Event>& event = attempt->published.event;
      attempt->correlation = CorrelatorFor(*event).Correlate(event, clock_.Now(), clock_.Steady());
      if (attempt->correlation.action == Correlation::Action::kMerge) {
        admitted_.Remove(attempt->published);
        Merged& merged = merged_[attempt->correlation.key];
        ++merged.count;
        if (attempt->published.interested) {
          merged.interested.push_back(std::move(attempt->published.interested));
        }
        continue;
      }
      if (attempt->correlation.action == Correlation::Action::kSuppress) {
        admitted_.Remove(attempt->published);
        Resolve(attempt->published, Outcome::kFiltered, Status());
        continue;
      }
    }
    state.current = attempt;
    ++under_way_;
    Send(attempt);
    return;
  }
  if (!state.current) objects_.erase(object);
}

void Delivery::TakeDue(bool all) {
  for (Correlation& due : series_->TakeDue(clock_.Steady(), all)) {
    const auto object = objects_.try_emplace(ObjectKey(*due.request.event)).first;
    object->second.due.push_back(std::move(due));
    MarkReady(object);
  }
}

void Delivery::ScheduleDue() {
  const std::optional<SteadyTime> due = series_->NextDue();
  if (!due || (due_timer_ && *due_timer_ <= *due)) return;
  due_timer_ = due;
  executor_->PostAt(*due, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->PostAndPump([self] { self->due_timer_.reset(); });
    }
  });
}

void Delivery::Send(const std::shared_ptr<Attempt>& attempt) {
  SinkRequest& request = attempt->correlation.request;
  if (request.verb == SinkRequest::Verb::kCreate &&
      !request.event->metadata.resource_version.empty()) {
    // The server refuses a create that carries one.
    auto event = std::make_shared<Event>(*request.event);
    event->metadata.resource_version.clear();
    request.event = std::move(event);
  }
  ++requests_;
  if (attempt->tries++ > 0) ++retries_;
  const int send = attempt->awaited = ++attempt->sends;
  // Weak, because a sink that never answers may keep this for ever, and we keep the sink.
  const auto done = [weak = weak_from_this(), attempt, send](Result<Event> answer) {
    const auto self = weak.lock();
    if (!self || self->closing_) return;
    self->strand_.Post([self, attempt, send, answer = std::move(answer)]() mutable {
      // A sink may call back twice, the second time when the next try is under way.
      if (attempt->awaited != send) return;
      attempt->awaited = 0;
      self->OnAnswer(attempt, std::move(answer));
    });
  };
  try {
    sink_->Send(attempt->correlation.request, done);
  } catch (const std::exception& e) {
    done(Status(StatusReason::kInternalError, std::string("sink threw: ") + e.what()));
  } catch (...) {
    done(Status(StatusReason::kInternalError, "sink threw"));
  }
}

void Delivery::OnAnswer(const std::shared_ptr<Attempt>& attempt, Result<Event> answer) {
  if (abandoned_) return;
  SinkRequest& request = attempt->correlation.request;
  const Status status = answer ? Status() : answer.error();
  switch (Judge(request, status, upstream_exact_)) {
    case Judgement::kDone: {
      CorrelatorFor(*request.event).Learn(attempt->correlation.key, *answer);
      const bool is_new = request.verb == SinkRequest::Verb::kCreate;
      Finish(attempt, is_new ? Outcome::kWritten : Outcome::kMerged, status);
      break;
    }
    case Judgement::kCreateInstead: {
      // 404 is ordinary here: the event outlived its time on the server (one hour by
      // default) while we still remember it. Create it anew under the same name.
      request.verb = SinkRequest::Verb::kCreate;
      attempt->patch = std::exchange(request.patch, {});
      --attempt->tries;  // the same try goes on
      Send(attempt);
      break;
    }
    case Judgement::kRetry:
      Retry(attempt, status);
      break;
    case Judgement::kReject:
      Log(LogLevel::kError,
          status.origin() == Status::Origin::kServer
              ? "Server rejected event (will not retry!)"
              : "Unable to construct event (will not retry!)",
          *request.event, status);
      Finish(attempt, Outcome::kRejected, status);
      break;
    case Judgement::kRejectQuietly:
      Log(LogLevel::kDebug, "Server rejected event (will not retry!)", *request.event, status);
      // A repeated create that meets its own first try, whose answer was lost.
      Finish(attempt,
             attempt->tries > 1 && status.Is(StatusReason::kAlreadyExists) ? Outcome::kWritten
                                                                           : Outcome::kRejected,
             status);
      break;
  }
}

std::chrono::nanoseconds Delivery::RetryDelay(const Attempt& attempt, const Status& why) {
  if (!upstream_exact_ && why.retry_after().count() > 0) {
    return std::min<std::chrono::nanoseconds>(why.retry_after(), kMaxRetryAfter);
  }
  const double base = std::chrono::duration<double, std::nano>(options_.retry_after).count();
  double factor = 1;
  if (!IsOldStyle(*attempt.correlation.request.event)) {
    factor = 1 + 0.25 * random_.Unit();
  } else if (attempt.tries == 1) {
    // So that many programs do not all come back at the same moment.
    factor = random_.Unit();
  }
  return std::chrono::nanoseconds(static_cast<std::int64_t>(base * factor));
}

void Delivery::Retry(const std::shared_ptr<Attempt>& attempt, const Status& why) {
  const Event& event = *attempt->correlation.request.event;
  const bool is_last = attempt->tries >= options_.max_tries;
  // A series that meets its own first event is nobody's fault.
  if (!why.Is(StatusReason::kAlreadyExists) && (!is_last || upstream_exact_)) {
    Log(LogLevel::kWarn, "Unable to write event (may retry after sleeping)", event, why);
  }
  if (is_last) {
    Log(LogLevel::kError, "Unable to write event (retry limit exceeded!)", event, why);
    Finish(attempt, Outcome::kGaveUp, why);
    return;
  }
  // Whoever was in the way of a create may be there to be patched by then.
  if (attempt->patch) {
    SinkRequest& request = attempt->correlation.request;
    request.verb = SinkRequest::Verb::kPatch;
    request.patch = std::exchange(attempt->patch, std::nullopt).value_or("");
  }
  // Its object stays busy, but its turn goes to another one.
  --under_way_;
  ++sleeping_;
  Park(&objects_.at(attempt->object), true);
  executor_->PostAt(clock_.Steady() + RetryDelay(*attempt, why),
                    [weak = weak_from_this(), attempt] {
                      const auto self = weak.lock();
                      if (!self) return;
                      self->PostAndPump([self, attempt] {
                        if (self->abandoned_) return;
                        --self->sleeping_;
                        self->Park(&self->objects_.at(attempt->object), false);
                        self->awake_.push_back(attempt);
                      });
                    });
  Pump();
}

void Delivery::Finish(const std::shared_ptr<Attempt>& attempt, Outcome outcome,
                      const Status& status) {
  --under_way_;
  if (attempt->published.event) {
    admitted_.Remove(attempt->published);
    Resolve(attempt->published, outcome, status);
  }
  // What was counted into this write shares its fate: merged where it succeeded.
  if (auto merged = merged_.extract(attempt->correlation.key)) {
    const bool good = outcome == Outcome::kWritten || outcome == Outcome::kMerged;
    Resolve(merged.mapped(), good ? Outcome::kMerged : outcome, status);
  }
  const auto object = objects_.find(attempt->object);
  object->second.current.reset();
  if (object->second.waiting.empty() && object->second.due.empty()) {
    objects_.erase(object);
  } else {
    ready_.push_back(object->first);
  }
  ReportLosses();
  Pump();
}

void Delivery::Resolve(const Published& published, Outcome outcome, const Status& status) {
  ++outcomes_[static_cast<std::size_t>(outcome)];
  Tell(published.interested.get(), outcome, status);
}

void Delivery::Resolve(const Merged& merged, Outcome outcome, const Status& status) {
  outcomes_[static_cast<std::size_t>(outcome)] += merged.count;
  for (const auto& interested : merged.interested) Tell(interested.get(), outcome, status);
}

// After a loss one event about the program itself says how many were lost and why.
void Delivery::ReportLosses() {
  if (upstream_exact_ || !options_.self || abandoned_) return;
  std::uint64_t lost = 0;
  std::string causes;
  for (const Outcome outcome : kLosses) {
    const auto i = static_cast<std::size_t>(outcome);
    const std::uint64_t count = outcomes_[i] - reported_[i];
    if (count == 0) continue;
    lost += count;
    causes += fmt::format("{}{} {}", causes.empty() ? "" : ", ", count, OutcomeName(outcome));
  }
  if (lost == 0) return;
  const SteadyTime now = clock_.Steady();
  if (last_report_ && now - *last_report_ < kReportInterval) {
    return ScheduleReport(*last_report_ + kReportInterval);
  }
  last_report_ = now;
  for (const Outcome outcome : kLosses) {
    const auto i = static_cast<std::size_t>(outcome);
    reported_[i] = outcomes_[i];
  }
  const WallTime wall = clock_.Now();
  auto event = std::make_shared<Event>();
  event->involved_object = *options_.self;
  event->metadata.namespace_ =
      options_.self->namespace_.empty() ? "default" : options_.self->namespace_;
  event->metadata.name = MakeEventName(options_.self->name, wall);
  event->reason = "EventsLost";
  event->message = fmt::format("{} events were lost: {}", lost, causes);
  event->type = kWarning;
  event->count = 1;
  event->first_timestamp = event->last_timestamp = Time(Timestamp(wall).seconds(), 0);
  event->source.component = event->reporting_controller = "herald";

  auto attempt = std::make_shared<Attempt>();
  attempt->correlation.request = {
      .verb = SinkRequest::Verb::kCreate, .api = EventApi::kCoreV1, .event = std::move(event)};
  attempt->object = ObjectKey(*attempt->correlation.request.event);
  objects_[attempt->object].due.push_back(std::move(attempt->correlation));
  MarkReady(objects_.find(attempt->object));
}

void Delivery::ScheduleReport(SteadyTime when) {
  if (std::exchange(report_scheduled_, true)) return;
  executor_->PostAt(when, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->PostAndPump([self] {
        self->report_scheduled_ = false;
        self->ReportLosses();
      });
    }
  });
}

void Delivery::AbandonHere() {
  if (std::exchange(abandoned_, true)) return;
  const Status why = ShutDown();
  std::vector<Published> rest;
  while (channel_->Take(kMaxAdmitted, &rest) > 0) {
  }
  for (const Published& published : rest) Resolve(published, Outcome::kLost, why);
  for (const auto& [key, object] : objects_) {
    if (object.current && object.current->published.event) {
      Log(LogLevel::kError, "Unable to write event (broadcaster is shut down)",
          *object.current->published.event, why);
      Resolve(object.current->published, Outcome::kLost, why);
    }
    for (const Published& published : object.waiting) Resolve(published, Outcome::kLost, why);
  }
  for (const auto& [key, merged] : merged_) Resolve(merged, Outcome::kLost, why);
  objects_.clear();
  merged_.clear();
  awake_.clear();
  idle_ = true;
}

void Delivery::UpdateIdle() {
  const bool idle = abandoned_ || (objects_.empty() && under_way_ == 0 && sleeping_ == 0 &&
                                   awake_.empty() && !flush_requested_ && channel_->empty());
  idle_ = idle;
  if (idle && wakes_ == 0) on_progress_();
}

}  // namespace herald
