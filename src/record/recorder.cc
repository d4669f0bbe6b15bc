#include "herald/record/recorder.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <utility>

#include "base/bytes/copy_bytes.h"
#include "herald/api/reference.h"
#include "record/event/event_style.h"
#include "record/event/text_limits.h"
#include "record/recorder_state.h"

namespace herald {
namespace {

// A wall time that no other call in this process returns. Names of events are made of it;
// client-go's names collide if two calls happen in the same nanosecond.
WallTime Unique(WallTime now) {
  static std::atomic<std::int64_t> last{0};
  std::int64_t mine = now.time_since_epoch().count();
  std::int64_t before = last.load(std::memory_order_relaxed);
  do {
    if (mine <= before) mine = before + 1;
  } while (!last.compare_exchange_weak(before, mine, std::memory_order_relaxed));
  return WallTime(std::chrono::nanoseconds(mine));
}

// Whether this thread is inside an outcome function or a log function that reports that an event
// could not be recorded. If that function records another event, which cannot be recorded
// either, that one is only counted: to report it would never end.
thread_local bool is_reporting = false;

class ReportingScope {
 public:
  ReportingScope() { is_reporting = true; }
  ~ReportingScope() { is_reporting = false; }
  ReportingScope(const ReportingScope&) = delete;
  ReportingScope& operator=(const ReportingScope&) = delete;
};

bool IsEvent(const ObjectReference& object) {
  return object.kind == "Event" &&
         (object.api_version == "v1" || object.api_version.starts_with("events.k8s.io/"));
}

void SetReference(const ObjectReference& reference, ObjectReference* out) {
  OverwriteText(reference.kind, &out->kind);
  OverwriteText(reference.namespace_, &out->namespace_);
  OverwriteText(reference.name, &out->name);
  OverwriteText(reference.uid, &out->uid);
  OverwriteText(reference.api_version, &out->api_version);
  OverwriteText(reference.resource_version, &out->resource_version);
  OverwriteText(reference.field_path, &out->field_path);
}

std::shared_ptr<const EventHandling> HandlingOf(const RecorderOptions& options) {
  if (!options.on_outcome && !options.api_choice) return nullptr;
  return std::make_shared<const EventHandling>(
      EventHandling{.on_outcome = options.on_outcome, .api_choice = options.api_choice});
}

// The style of the reporting fields. While the API is not known it is the old one.
EventApi StyleOf(const RecorderOptions& options) {
  return options.api_choice ? EventApi::kCoreV1 : options.api;
}

}  // namespace

Recorder::State::State(std::shared_ptr<Broadcaster::Core> core, RecorderOptions options,
                       LogFunction log)
    : core_(std::move(core)),
      options_(std::move(options)),
      handling_(HandlingOf(options_)),
      reporting_controller_(ReportingController(options_.component, StyleOf(options_),
                                                core_->options().upstream_exact)),
      reporting_instance_(ReportingInstance(options_.component, options_.host, StyleOf(options_),
                                            core_->options().upstream_exact)),
      log_(std::move(log)) {}

std::shared_ptr<const Recorder::State> Recorder::State::WithLog(LogFunction log) const {
  return std::make_shared<const State>(core_, options_, std::move(log));
}

std::shared_ptr<const EventHandling> Recorder::State::HandlingFor(Occurrence* occurrence) const {
  if (!occurrence->on_outcome) return handling_;
  return std::make_shared<const EventHandling>(
      EventHandling{.on_outcome = options_.on_outcome,
                    .on_outcome_of_occurrence = std::move(occurrence->on_outcome),
                    .api_choice = options_.api_choice});
}

// Sets the same members in either style, because the event may have been used by another recorder
// before.
void Recorder::State::SetCommon(herald::Event* event) const {
  const bool old_style = !options_.api_choice && options_.api == EventApi::kCoreV1;
  const bool has_source = options_.api_choice || old_style;
  event->reporting_controller = reporting_controller_;
  event->reporting_instance = reporting_instance_;
  event->source = has_source ? EventSource{options_.component, options_.host} : EventSource();
  event->first_timestamp = event->last_timestamp = Time();
  event->event_time = MicroTime();
  event->count = old_style ? 1 : 0;
}

std::shared_ptr<const herald::Event> Recorder::State::MakeEvent(const ObjectReference& object,
                                                                Occurrence* occurrence,
                                                                std::string_view message) const {
  const bool exact = core_->options().upstream_exact;
  const WallTime now = core_->Now();
  const WallTime unique = exact ? now : Unique(now);
  const Timestamp when(occurrence->when.value_or(now));

  auto [event, is_mine] = TakePooledEvent(maker_id_);
  if (!is_mine) SetCommon(event.get());
  // These are all set, for the same reason.
  OverwriteText(object.namespace_.empty() ? std::string_view("default") : object.namespace_,
                &event->metadata.namespace_);
  MakeEventName(object.name, unique, &event->metadata.name);
  event->metadata.annotations = std::move(occurrence->annotations);
  SetReference(object, &event->involved_object);
  OverwriteText(occurrence->type, &event->type);
  OverwriteText(occurrence->reason, &event->reason);
  OverwriteText(occurrence->action, &event->action);
  OverwriteText(message, &event->message);
  event->related = std::move(occurrence->related);
  if (options_.api_choice) {
    // The style is set when the event is delivered (InStyleOf).
    event->event_time = MicroTime(when.seconds(), when.nanos() / 1000 * 1000);
    if (!exact) CutText(kMaxMessage, &event->message);
  } else if (options_.api == EventApi::kCoreV1) {
    event->first_timestamp = event->last_timestamp = Time(when.seconds(), when.nanos());
    if (!exact) CutText(kMaxMessage, &event->message);
  } else {
    event->event_time = MicroTime(when.seconds(), when.nanos() / 1000 * 1000);
    if (!exact) FitNewStyle(event.get());
  }
  return std::move(event);  // a structured binding is not moved implicitly
}

void Recorder::State::LogError(std::string_view message, const Status& status) const {
  if (!log_) return;
  const std::string error = status.ToString();
  log_({.level = LogLevel::kError, .message = message, .fields = {{"err", error}}});
}

void Recorder::State::RejectInvalid(const Published& published, std::string_view message,
                                    const Status& status) const {
  if (is_reporting) return core_->CountInvalid({}, status);
  const ReportingScope scope;
  core_->CountInvalid(published, status);
  LogError(message, status);
}

void Recorder::State::Write(const ObjectReference& object, Occurrence&& occurrence,
                            std::string_view message) const {
  Published published;
  published.handling = HandlingFor(&occurrence);
  const bool exact = core_->options().upstream_exact;
  if (!exact && object.name.empty() && object.kind.empty()) {
    return RejectInvalid(
        published, "Could not construct reference, will not report event",
        Status(StatusReason::kInvalid, "the reference must have a kind or a name"));
  }
  if (!exact && IsEvent(object)) {
    return RejectInvalid(published, "Could not construct reference, will not report event",
                         Status(StatusReason::kInvalid, "an event must not be about an event"));
  }
  if (occurrence.type != kNormal && occurrence.type != kWarning) {
    return RejectInvalid(
        published, "Unsupported event type",
        Status(StatusReason::kInvalid,
               fmt::format("invalid type '{}': must be Normal or Warning", occurrence.type)));
  }
  published.event = MakeEvent(object, &occurrence, message);
  published.bytes = ApproximateBytes(*published.event);
  const std::shared_ptr<const EventHandling> handling = published.handling;
  const Status status = core_->Publish(std::move(published));
  if (status.ok() || is_reporting) return;
  const ReportingScope scope;
  const bool full = status.Is(StatusReason::kTooManyRequests);
  NotifyOutcome(handling.get(), full ? Outcome::kDropped : Outcome::kLost, status);
  // tools/events does not notice that its broadcaster was shut down.
  if (exact && !full && options_.api == EventApi::kEventsV1) return;
  LogError(full ? "Unable to record event: too many queued events, dropped event"
                : "Unable to record event (will not retry!)",
           status);
}

void Recorder::State::RejectUnformatted(Occurrence&& occurrence, std::string_view error) const {
  Published published;
  published.handling = HandlingFor(&occurrence);
  RejectInvalid(published, "Could not format the message, will not report event",
                Status(StatusReason::kInvalid, std::string(error)));
}

// No error reaches the caller. At worst there is no memory for the event, and then none for a log
// message either.
void Recorder::Write(const ObjectReference& object, Occurrence occurrence,
                     std::string_view message) noexcept {
  if (!state_) return;
  try {
    state_->Write(object, std::move(occurrence), message);
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
}

void Recorder::WriteFormatted(const ObjectReference& object, Occurrence occurrence,
                              fmt::string_view format, fmt::format_args args) noexcept {
  if (!state_) return;
  try {
    fmt::memory_buffer message;
    try {
      fmt::vformat_to(fmt::appender(message), format, args);
    } catch (const std::exception& e) {  // thrown by a formatter of the caller
      return state_->RejectUnformatted(std::move(occurrence), e.what());
    }
    state_->Write(object, std::move(occurrence), {message.data(), message.size()});
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
}

Recorder Recorder::WithLogger(LogFunction log) const {
  return state_ ? Recorder(state_->WithLog(std::move(log))) : Recorder();
}

}  // namespace herald
