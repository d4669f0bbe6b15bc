#include "record/delivery.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>
#include <utility>

#include "herald/api/reference.h"
#include "record/count_correlator.h"
#include "record/series_correlator.h"
#include "record/spelling.h"

namespace herald {
namespace {

// How many events the sequencer takes in at most, beyond those that wait in the
// channel. It must see some way ahead to find other objects to go on with while one
// is blocked; more would only move the bound of the channel.
constexpr std::size_t kMaxAdmitted = 1000;

// How many may wait to hear of events that were counted and not written yet. Those of
// one batch may come on top.
constexpr std::size_t kMaxInterested = 1000;

// A server that asks for more patience than this would hold an event longer than
// most servers keep it.
constexpr std::chrono::minutes kMaxRetryAfter{5};

// How often losses are reported at most.
constexpr std::chrono::minutes kReportInterval{1};

// How long what is on disk waits for another round of tries: a server that was away for
// two minutes, and all tries take as long, is seldom back in less.
constexpr std::chrono::minutes kReplayInterval{1};

bool IsOldStyle(const Event& event) { return event.event_time.is_zero(); }

// Outcomes that a reader of events would miss without noticing.
constexpr Outcome kLosses[] = {Outcome::kDropped, Outcome::kRejected, Outcome::kGaveUp};

Status ShutDown() { return Status(StatusReason::kCancelled, "the broadcaster was shut down"); }

// Where an event is on the server.
std::string PlaceOf(const Event& event) {
  return event.metadata.namespace_ + "/" + event.metadata.name;
}

// Whether the server's event has at least the count that a patch would set.
bool HasCountOf(const Event& on_server, const Event& patched) {
  if (!patched.series) return on_server.count >= patched.count;
  return on_server.series && on_server.series->count >= patched.series->count;
}

// A patch that changes nothing. The answer to it is the event as the server has it, and the
// account needs no permission besides that for the patch itself. The event of the request has
// no count, so that a sink that answers with the event that it was given claims nothing.
SinkRequest EmptyPatch(const SinkRequest& request) {
  auto event = std::make_shared<Event>(*request.event);
  event->count = 0;
  event->series.reset();
  return {.verb = SinkRequest::Verb::kPatch,
          .api = request.api,
          .event = std::move(event),
          .patch = "{}"};
}

bool IsGood(Outcome outcome) { return outcome == Outcome::kWritten || outcome == Outcome::kMerged; }

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
  Merged carried;  // the events that its count contains besides
  std::string object;
  std::optional<std::size_t> replay;  // as in Due
  std::optional<std::string> patch;   // what a create took the place of
  // A patch from disk is sent only if the server's count is lower, which an empty patch
  // finds out first, at each try.
  bool compares_count = false;  // the empty patch is under way
  bool count_is_lower = false;  // the server's is, as its answer to the empty patch says
  int tries = 0;
  int sends = 0;    // tries, empty patches, and creates that took the place of a patch
  int awaited = 0;  // which of the sends has no answer yet; 0: none
};

Delivery::Delivery(Setup setup)
    : options_(std::move(setup.options)),
      clock_(*setup.clock),
      executor_(std::move(setup.executor)),
      log_(std::move(setup.log)),
      upstream_exact_(setup.upstream_exact),
      max_bytes_(setup.max_bytes),
      on_progress_(std::move(setup.on_progress)),
      spool_(std::move(setup.spool)),
      strand_(executor_),
      sink_(std::move(setup.sink)),
      count_(std::make_unique<CountCorrelator>(options_.count, upstream_exact_)),
      series_(std::make_unique<SeriesCorrelator>(options_.series, upstream_exact_)),
      random_(RandomSeed()),
      replay_wanted_(spool_ != nullptr) {}

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

Ticket Delivery::RequestFlush(std::uint32_t epoch, bool last) {
  auto done = std::make_shared<std::atomic<bool>>(false);
  PostAndPump([this, epoch, last, done] {
    if (abandoned_) {
      *done = true;
      return;
    }
    draining_ |= last;
    epoch_ = std::max(epoch_, epoch + 1);
    flushes_.push_back({.done = done, .epoch = epoch});
  });
  return done;
}

void Delivery::RequestCounts() {
  PostAndPump([this] { TakeDue(true); });
}

void Delivery::EndWork(std::uint32_t epoch) {
  const auto open = open_.find(epoch);
  --open->second.work;
  EraseIfEnded(open);
}

void Delivery::EraseIfEnded(std::map<std::uint32_t, Open>::iterator open) {
  if (open->second.work == 0 && open->second.counted == 0) open_.erase(open);
}

void Delivery::CheckFlushes() {
  if (flushes_.empty()) return;
  const bool channel_is_empty = channel_->empty();
  const auto is_over = [&](Flush& flush) {
    const auto is_open = [&](std::uint64_t Open::* member) {
      return std::any_of(open_.begin(), open_.upper_bound(flush.epoch),
                         [&](const auto& open) { return open.second.*member > 0; });
    };
    // Events come in the order of their epochs.
    flush.all_taken = flush.all_taken || channel_is_empty || epoch_taken_ > flush.epoch;
    if (!flush.all_taken || is_open(&Open::work)) return false;
    if (!std::exchange(flush.counts_taken, true) && is_open(&Open::counted)) {
      TakeDue(true);
      StartReady();
    }
    if (is_open(&Open::counted)) return false;
    *flush.done = true;
    return true;
  };
  if (std::erase_if(flushes_, is_over) > 0) on_progress_();
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
  // After the outcomes, so that none is without its event.
  stats.recorded = come_back_;
  if (spool_) {
    const Spool::Stats spool = spool_->stats();
    stats.spool_bytes = spool.bytes;
    stats.spool_dropped = spool.dropped;
    stats.spool_corrupted = spool.corrupted;
  }
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
  const std::string name = PlaceOf(event);
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
  for (Published& published : batch) {
    epoch_taken_ = published.epoch;
    epoch_ = std::max(epoch_, published.epoch);
    ++open_[published.epoch].work;
    Admit(std::move(published));
  }
  if (!batch.empty()) ReportLosses();
  TakeDue(false);
  StartReplay();
  StartReady();
  if (interested_ >= kMaxInterested && !upstream_exact_) {
    TakeDue(true);
    StartReady();
  }
  // What was merged, filtered or parked has made room, and no answer will come to say so.
  if (batch.size() == room && HasRoom(admitted_) && !channel_->empty()) Wake();
  CheckFlushes();
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
  if (!Hold(&published)) Enter(std::move(published));
}

void Delivery::Enter(Published published) {
  const auto object = objects_.try_emplace(ObjectKey(*published.event)).first;
  Load& load = object->second.parked ? parked_ : admitted_;
  if (object->second.parked && !HasRoom(load)) {
    Resolve(published, Outcome::kDropped,
            Status(StatusReason::kTooManyRequests, "too many events wait to be tried again"));
    EndWork(published.epoch);
    return;
  }
  load.Add(published);
  object->second.waiting.push_back(std::move(published));
  MarkReady(object);
}

std::shared_ptr<const Event> Delivery::SpelledFor(const Published& published) const {
  if (!published.interested || !published.interested->choice) return published.event;
  // Where there is still no choice, at the very end: what all servers since 1.19 offer.
  const EventApi api = published.interested->choice->Get(published.event->metadata.namespace_)
                           .value_or(EventApi::kEventsV1);
  return Spelled(*published.event, api, upstream_exact_);
}

bool Delivery::Hold(Published* published) {
  if (!published->interested || !published->interested->choice) return false;
  ApiChoice& choice = *published->interested->choice;
  if (choice.Get()) {
    LetGo();  // what was held before comes before
    return false;
  }
  if (!HasRoom(parked_)) {
    Resolve(
        *published, Outcome::kDropped,
        Status(StatusReason::kTooManyRequests, "too many events wait for the choice of an API"));
    EndWork(published->epoch);
    return true;
  }
  const bool is_first =
      std::none_of(undecided_.begin(), undecided_.end(), [&](const Published& other) {
        return other.interested->choice == published->interested->choice;
      });
  parked_.Add(*published);
  undecided_.push_back(std::move(*published));
  if (is_first) {
    choice.WhenSet([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->PostAndPump([self] { self->LetGo(); });
    });
  }
  return true;
}

void Delivery::LetGo() {
  if (undecided_.empty()) return;
  std::deque<Published> all;
  all.swap(undecided_);
  // A choice that is made while we look at its events is left for the next time, or the
  // later ones would overtake the earlier.
  std::vector<const ApiChoice*> undecided;
  for (Published& published : all) {
    const ApiChoice* const choice = published.interested->choice.get();
    if (std::ranges::find(undecided, choice) == undecided.end()) {
      if (choice->Get()) {
        parked_.Remove(published);
        Enter(std::move(published));
        continue;
      }
      undecided.push_back(choice);
    }
    undecided_.push_back(std::move(published));
  }
}

bool Delivery::ChoseAnother(const Attempt& attempt) const {
  const Published& published = attempt.published;
  if (!published.event || !published.interested || !published.interested->choice) return false;
  return published.interested->choice->Get(published.event->metadata.namespace_) !=
         attempt.correlation.request.api;
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
      attempt->correlation = std::move(state.due.front().correlation);
      attempt->carried = std::move(state.due.front().carried);
      attempt->replay = state.due.front().replay;
      state.due.pop_front();
    } else {
      attempt->published = std::move(state.waiting.front());
      state.waiting.pop_front();
      const std::shared_ptr<const Event> event = SpelledFor(attempt->published);
      attempt->correlation = CorrelatorFor(*event).Correlate(event, clock_.Now(), clock_.Steady());
      if (attempt->correlation.action == Correlation::Action::kMerge) {
        admitted_.Remove(attempt->published);
        Merge(attempt->correlation.key, std::move(attempt->published));
        continue;
      }
      if (attempt->correlation.action == Correlation::Action::kSuppress) {
        admitted_.Remove(attempt->published);
        Resolve(attempt->published, Outcome::kFiltered, Status());
        EndWork(attempt->published.epoch);
        continue;
      }
      attempt->carried = TakeMerged(attempt->correlation.key);
    }
    state.current = attempt;
    ++under_way_;
    Send(attempt);
    return;
  }
  if (!state.current) objects_.erase(object);
}

void Delivery::Merge(const std::string& key, Published published) {
  Merged& merged = merged_[key];
  ++merged.count;
  ++merged.by_epoch[published.epoch];
  ++open_[published.epoch].counted;
  EndWork(published.epoch);
  if (!published.interested || !published.interested->IsToBeTold()) return;
  // Upstream's writes have their time, whoever waits for them. Nobody is told then.
  if (upstream_exact_ && interested_ >= kMaxInterested) return;
  merged.interested.push_back(std::move(published.interested));
  ++interested_;
}

// What is counted later is for a later write.
Delivery::Merged Delivery::TakeMerged(const std::string& key) {
  auto merged = merged_.extract(key);
  return merged ? std::move(merged.mapped()) : Merged();
}

void Delivery::TakeDue(bool all) {
  for (Correlation& due : series_->TakeDue(clock_.Steady(), all)) {
    const auto object = objects_.try_emplace(ObjectKey(*due.request.event)).first;
    Merged carried = TakeMerged(due.key);
    object->second.due.push_back({.correlation = std::move(due), .carried = std::move(carried)});
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
  attempt->compares_count =
      attempt->replay && request.verb == SinkRequest::Verb::kPatch && !attempt->count_is_lower;
  try {
    sink_->Send(attempt->compares_count ? EmptyPatch(request) : request, done);
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
  if (std::exchange(attempt->compares_count, false) && answer) {
    if (HasCountOf(*answer, *request.event)) return Finish(attempt, Outcome::kMerged, status);
    attempt->count_is_lower = true;
    --attempt->tries;  // the same try goes on
    return Send(attempt);
  }
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
      if (ChoseAnother(*attempt)) {
        CorrelatorFor(*request.event).Drop(attempt->correlation.key);
        Resolve(attempt->carried, Outcome::kRejected, status);
        objects_.at(attempt->object).waiting.push_front(std::move(attempt->published));
        Release(attempt);
        break;
      }
      Log(LogLevel::kError,
          status.origin() == Status::Origin::kServer
              ? "Server rejected event (will not retry!)"
              : "Unable to construct event (will not retry!)",
          *request.event, status);
      CorrelatorFor(*request.event).Drop(attempt->correlation.key);
      Finish(attempt, Outcome::kRejected, status);
      break;
    case Judgement::kRejectQuietly:
      Log(LogLevel::kDebug, "Server rejected event (will not retry!)", *request.event, status);
      // A repeated create that meets its own first try, whose answer was lost. One from
      // disk was tried before, by this process or another.
      Finish(attempt,
             (attempt->tries > 1 || attempt->replay) && status.Is(StatusReason::kAlreadyExists)
                 ? Outcome::kWritten
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
  if (upstream_exact_ && !attempt->published.event) {
    // Upstream tries the count of a series once at each of its ticks. What was counted
    // into it waits for the next.
    Merged& merged = merged_[attempt->correlation.key];
    merged.count += attempt->carried.count;
    for (const auto& [epoch, count] : attempt->carried.by_epoch) merged.by_epoch[epoch] += count;
    std::ranges::move(attempt->carried.interested, std::back_inserter(merged.interested));
    return Release(attempt);
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
  attempt->count_is_lower = false;
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
  // What is in the way of a create for good would be in the way after a restart, too.
  if (outcome == Outcome::kGaveUp && spool_ && !status.Is(StatusReason::kAlreadyExists) &&
      (attempt->replay || Keep(RequestOf(*attempt), EventsOf(*attempt)))) {
    outcome = Outcome::kSpooled;
  }
  if (const auto replay = attempt->replay) EndReplayed(*replay, outcome);
  if (attempt->published.event) {
    admitted_.Remove(attempt->published);
    Resolve(attempt->published, outcome, status);
    EndWork(attempt->published.epoch);
  }
  // What was counted into this write shares its fate: merged where it succeeded.
  Resolve(attempt->carried, IsGood(outcome) ? Outcome::kMerged : outcome, status);
  Release(attempt);
}

// The attempt is over, and its object free for the next.
void Delivery::Release(const std::shared_ptr<Attempt>& attempt) {
  --under_way_;
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
  for (const auto& [epoch, count] : merged.by_epoch) {
    const auto open = open_.find(epoch);
    open->second.counted -= count;
    EraseIfEnded(open);
  }
  interested_ -= merged.interested.size();
  for (const auto& interested : merged.interested) Tell(interested.get(), outcome, status);
}

// What an attempt is about, whatever it came to in between.
SinkRequest Delivery::RequestOf(const Attempt& attempt) {
  SinkRequest request = attempt.correlation.request;
  if (attempt.patch) {
    request.verb = SinkRequest::Verb::kPatch;
    request.patch = *attempt.patch;
  }
  return request;
}

std::uint64_t Delivery::EventsOf(const Attempt& attempt) {
  return (attempt.published.event ? 1 : 0) + attempt.carried.count;
}

bool Delivery::Keep(SinkRequest request, std::uint64_t events) {
  if (events == 0) return false;  // it has no news for anybody
  const std::shared_ptr<const Event> event = request.event;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  const Status status =
      spool_->Append({.request = std::move(request),
                      .events = static_cast<std::uint32_t>(std::min(events, kMost))});
  if (!status.ok()) {
    Log(LogLevel::kError, "Unable to spool event", *event, status);
    return false;
  }
  ScheduleReplay();
  return true;
}

void Delivery::StartReplay() {
  if (!replay_wanted_ || draining_ || replay_.open > 0) return;
  std::optional<SpoolSegment> segment = spool_->Take();
  replay_wanted_ = segment.has_value();
  if (!segment) return;
  replay_.writes.clear();
  replay_.open = segment->writes.size();
  replay_.epoch = epoch_;
  open_[replay_.epoch].work += replay_.open;
  for (SpooledWrite& write : segment->writes) {
    come_back_ += write.events;
    const auto object = objects_.try_emplace(ObjectKey(*write.request.event)).first;
    object->second.due.push_back(
        {.correlation = {.request = write.request}, .replay = replay_.writes.size()});
    MarkReady(object);
    replay_.writes.push_back({.write = std::move(write)});
  }
}

void Delivery::EndReplayed(std::size_t index, Outcome outcome) {
  Replay::Write& ended = replay_.writes[index];
  // The write itself, and what it carries besides.
  ++outcomes_[static_cast<std::size_t>(outcome)];
  const Outcome carried = IsGood(outcome) ? Outcome::kMerged : outcome;
  outcomes_[static_cast<std::size_t>(carried)] += ended.write.events - 1;
  ended.delivered = outcome != Outcome::kSpooled;
  EndWork(replay_.epoch);
  if (--replay_.open == 0) EndReplay();
}

void Delivery::EndReplay() {
  const auto delivered = std::ranges::count(replay_.writes, true, &Replay::Write::delivered);
  const bool is_all = static_cast<std::size_t>(delivered) == replay_.writes.size();
  bool good = is_all || delivered > 0;
  for (const Replay::Write& write : replay_.writes) {
    if (good && !write.delivered) good = spool_->Append(write.write).ok();
  }
  // What was written again must not die with the machine after the old one has left.
  if (good && !is_all) good = spool_->Sync().ok();
  if (good) {
    spool_->Release();
  } else {
    spool_->PutBack();
  }
  if (is_all) return Wake();  // for the next; it may be that no answer is to come
  replay_wanted_ = false;
  ScheduleReplay();
}

void Delivery::ScheduleReplay() {
  if (abandoned_ || std::exchange(replay_scheduled_, true)) return;
  executor_->PostAt(clock_.Steady() + kReplayInterval, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->PostAndPump([self] {
        self->replay_scheduled_ = false;
        self->replay_wanted_ = true;
      });
    }
  });
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
  event->message = fmt::format(
      "{} lost: {}", lost == 1 ? "1 event was" : fmt::format("{} events were", lost), causes);
  event->type = kWarning;
  event->count = 1;
  event->first_timestamp = event->last_timestamp = Time(Timestamp(wall).seconds(), 0);
  event->source.component = event->reporting_controller = "herald";

  auto attempt = std::make_shared<Attempt>();
  attempt->correlation.request = {
      .verb = SinkRequest::Verb::kCreate, .api = EventApi::kCoreV1, .event = std::move(event)};
  attempt->object = ObjectKey(*attempt->correlation.request.event);
  objects_[attempt->object].due.push_back({.correlation = std::move(attempt->correlation)});
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
  std::ranges::move(undecided_, std::back_inserter(rest));
  undecided_.clear();
  while (channel_->Take(kMaxAdmitted, &rest) > 0) {
  }
  if (spool_) {
    for (Published& published : rest) {
      ++open_[published.epoch].work;
      objects_[ObjectKey(*published.event)].waiting.push_back(std::move(published));
    }
    rest.clear();
    KeepTheRest();
  }
  for (const Published& published : rest) Resolve(published, Outcome::kLost, why);
  for (const auto& [key, object] : objects_) {
    if (object.current && object.current->published.event) {
      Log(LogLevel::kError, "Unable to write event (broadcaster is shut down)",
          *object.current->published.event, why);
      Resolve(object.current->published, Outcome::kLost, why);
    }
    if (object.current) Resolve(object.current->carried, Outcome::kLost, why);
    for (const Due& due : object.due) Resolve(due.carried, Outcome::kLost, why);
    for (const Published& published : object.waiting) Resolve(published, Outcome::kLost, why);
  }
  for (const auto& [key, merged] : merged_) Resolve(merged, Outcome::kLost, why);
  objects_.clear();
  merged_.clear();
  awake_.clear();
  open_.clear();
  for (const Flush& flush : flushes_) *flush.done = true;
  flushes_.clear();
  sink_.reset();
  idle_ = true;
}

// Puts on disk what was not delivered, as the requests that it would have become, and
// leaves behind what cannot be kept.
void Delivery::KeepTheRest() {
  const Status why = ShutDown();
  const auto keep = [&](SinkRequest request, const Published& published, const Merged& carried) {
    const std::uint64_t events = carried.count + (published.event ? 1 : 0);
    const bool kept = Keep(std::move(request), events);
    const Outcome outcome = kept ? Outcome::kSpooled : Outcome::kLost;
    if (published.event) Resolve(published, outcome, why);
    Resolve(carried, outcome, why);
  };
  for (auto& [name, object] : objects_) {
    if (const std::shared_ptr<Attempt> attempt = std::exchange(object.current, nullptr)) {
      if (const auto replay = attempt->replay) {
        EndReplayed(*replay, Outcome::kSpooled);
      } else {
        keep(RequestOf(*attempt), attempt->published, attempt->carried);
      }
    }
    for (Due& due : object.due) {
      if (due.replay) {
        EndReplayed(*due.replay, Outcome::kSpooled);
      } else {
        keep(std::move(due.correlation.request), {}, due.carried);
      }
    }
    for (Published& published : object.waiting) {
      const std::shared_ptr<const Event> event = SpelledFor(published);
      Correlation correlation =
          CorrelatorFor(*event).Correlate(event, clock_.Now(), clock_.Steady());
      if (correlation.action == Correlation::Action::kSuppress) {
        Resolve(published, Outcome::kFiltered, Status());
      } else if (correlation.action == Correlation::Action::kMerge) {
        Merge(correlation.key, std::move(published));
      } else {
        keep(std::move(correlation.request), published, TakeMerged(correlation.key));
      }
    }
  }
  objects_.clear();
  for (Correlation& due : series_->TakeDue(clock_.Steady(), /*all=*/true)) {
    keep(std::move(due.request), {}, TakeMerged(due.key));
  }
  spool_->Close();
}

void Delivery::UpdateIdle() {
  const bool idle =
      abandoned_ || (objects_.empty() && under_way_ == 0 && sleeping_ == 0 && awake_.empty() &&
                     undecided_.empty() && flushes_.empty() && channel_->empty());
  idle_ = idle;
  if (idle && wakes_ == 0) on_progress_();
}

}  // namespace herald
