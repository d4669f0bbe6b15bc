#include "herald/record/fakes.h"

#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/bytes/uuid.h"
#include "base/thread/mutex.h"
#include "herald/api/patch.h"

namespace herald {
namespace {

// A map as Go prints it, sorted: map[a:b c:d].
std::string MapText(const StringMap& map) {
  std::string text;
  for (const auto& [key, value] : map) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", key, value);
  }
  return "map[" + text + "]";
}

std::string KindText(const ObjectReference& object) {
  return fmt::format("{{kind={},apiVersion={}}}", object.kind, object.api_version);
}

// The line of the fake of tools/record.
std::string OldLine(const Event& event, const FakeRecorder::Options& options) {
  std::string line = fmt::format("{} {} {}", event.type, event.reason, event.message);
  if (options.include_object) line += " involvedObject" + KindText(event.involved_object);
  if (!event.metadata.annotations.empty()) line += " " + MapText(event.metadata.annotations);
  return line;
}

// The line of the fake of tools/events.
std::string NewLine(const Event& event, const FakeRecorder::Options& options) {
  if (!options.verbose) {
    return fmt::format("{} {} {}", event.type, event.reason, event.message);
  }
  std::string line =
      fmt::format("{} {} {} {}", event.type, event.reason, event.action, event.message);
  if (!event.involved_object.kind.empty()) line += " " + KindText(event.involved_object);
  if (event.related && !event.related->kind.empty()) line += " " + KindText(*event.related);
  if (!event.metadata.annotations.empty()) line += " " + MapText(event.metadata.annotations);
  return line;
}

Status NotFound(const std::string& name) {
  return Status({.reason = StatusReason::kNotFound,
                 .message = fmt::format("events \"{}\" not found", name),
                 .details = StatusDetails{.name = name, .kind = "events"},
                 .origin = Status::Origin::kServer});
}

Status AlreadyExists(const std::string& name) {
  return Status({.reason = StatusReason::kAlreadyExists,
                 .message = fmt::format("events \"{}\" already exists", name),
                 .details = StatusDetails{.name = name, .kind = "events"},
                 .origin = Status::Origin::kServer});
}

}  // namespace

class FakeRecorder::Impl {
 public:
  explicit Impl(Options options)
      : options_(options),
        broadcaster_({.incoming_events = options.max_events,
                      .watcher_events = options.max_events,
                      .executor = &executor_}),
        recorder_(broadcaster_.NewRecorder(
            {.component = "fake",
             .api = options.api,
             .on_outcome =
                 [dropped = dropped_before_](Outcome outcome, const Status&) {
                   if (outcome == Outcome::kDropped) ++*dropped;
                 }})),
        watcher_(std::move(broadcaster_.Watch()).value()) {}

  const Recorder& recorder() const { return recorder_; }
  const Options& options() const { return options_; }

  std::shared_ptr<const Event> Next() {
    executor_.RunUntilIdle();
    std::optional<Watcher::Item> item = watcher_->TryNext();
    return item ? std::move(item->event) : nullptr;
  }

  std::uint64_t dropped() {
    executor_.RunUntilIdle();
    return *dropped_before_ + watcher_->dropped();
  }

 private:
  const Options options_;
  // The number of events that did not reach the watcher. Shared, because the recorder may outlive
  // this.
  const std::shared_ptr<std::atomic<std::uint64_t>> dropped_before_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  Executor executor_{{.threads = 0}};
  Broadcaster broadcaster_;
  const Recorder recorder_;
  const std::unique_ptr<Watcher> watcher_;
};

FakeRecorder::FakeRecorder(Options options) : impl_(std::make_unique<Impl>(options)) {}
FakeRecorder::~FakeRecorder() = default;

Recorder FakeRecorder::recorder() const { return impl_->recorder(); }
std::shared_ptr<const Event> FakeRecorder::NextEvent() { return impl_->Next(); }
std::uint64_t FakeRecorder::dropped() const { return impl_->dropped(); }

std::optional<std::string> FakeRecorder::Next() {
  const std::shared_ptr<const Event> event = NextEvent();
  if (!event) return std::nullopt;
  return impl_->options().api == EventApi::kEventsV1 ? NewLine(*event, impl_->options())
                                                     : OldLine(*event, impl_->options());
}

class MemorySink::Impl {
 public:
  Result<Event> Handle(const SinkRequest& request) EXCLUDES(mu_) {
    Fault fault;
    {
      MutexLock lock(mu_);
      requests_.push_back(request);
      fault = fault_;
    }
    if (fault) {
      if (std::optional<Status> status = fault(request)) return std::move(*status);
    }
    MutexLock lock(mu_);
    return Apply(request);
  }

  void SetFault(Fault fault) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    fault_ = std::move(fault);
  }

  std::vector<Event> Events() const EXCLUDES(mu_) {
    std::vector<Event> events;
    MutexLock lock(mu_);
    for (const auto& [key, event] : events_) events.push_back(event);
    return events;
  }

  std::vector<SinkRequest> Requests() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return requests_;
  }

  void Expire(std::string_view namespace_, std::string_view name) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    events_.erase({std::string(namespace_), std::string(name)});
  }

 private:
  using Key = std::pair<std::string, std::string>;

  Result<Event> Apply(const SinkRequest& request) REQUIRES(mu_) {
    const ObjectMeta& metadata = request.event->metadata;
    const auto found = events_.find({metadata.namespace_, metadata.name});
    if (request.verb == SinkRequest::Verb::kCreate) {
      if (found != events_.end()) return AlreadyExists(metadata.name);
      Event event = *request.event;
      event.metadata.uid = RandomUuid();
      return Store(std::move(event));
    }
    if (request.verb == SinkRequest::Verb::kUpdate) return Store(*request.event);
    if (found == events_.end()) return NotFound(metadata.name);
    Result<Event> patched =
        ApplyPatch(found->second, request.api, PatchType::kStrategicMerge, request.patch);
    if (!patched) return patched;
    return Store(std::move(*patched));
  }

  Event Store(Event event) REQUIRES(mu_) {
    event.metadata.resource_version = std::to_string(++revision_);
    Event& stored = events_[{event.metadata.namespace_, event.metadata.name}];
    stored = std::move(event);
    return stored;
  }

  mutable Mutex mu_;
  std::map<Key, Event> events_ GUARDED_BY(mu_);
  std::vector<SinkRequest> requests_ GUARDED_BY(mu_);
  std::uint64_t revision_ GUARDED_BY(mu_) = 0;
  Fault fault_ GUARDED_BY(mu_);
};

MemorySink::MemorySink() : impl_(std::make_unique<Impl>()) {}
MemorySink::~MemorySink() = default;

void MemorySink::Send(SinkRequest request, Completion done) { done(impl_->Handle(request)); }
void MemorySink::SetFault(Fault fault) { impl_->SetFault(std::move(fault)); }
std::vector<Event> MemorySink::Events() const { return impl_->Events(); }
std::vector<SinkRequest> MemorySink::Requests() const { return impl_->Requests(); }
void MemorySink::Expire(std::string_view namespace_, std::string_view name) {
  impl_->Expire(namespace_, name);
}

}  // namespace herald
