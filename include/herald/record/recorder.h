#pragma once

#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "herald/api/event.h"
#include "herald/base/clock.h"
#include "herald/base/export.h"
#include "herald/base/log.h"
#include "herald/record/api_choice.h"
#include "herald/record/outcome.h"

namespace herald {

// Who a recorder speaks for.
struct RecorderOptions {
  std::string component{};  // "node-agent"; `kubectl describe` shows it under From
  std::string host{};       // the node it runs on
  // In which style to record. Old-style events are counted and written to core/v1,
  // new-style ones form series and are written to events.k8s.io/v1, which every
  // server since 1.19 offers. This is the whole difference: the calls are the same.
  EventApi api = EventApi::kCoreV1;
  // Decides instead of `api` if set: what is recorded waits in memory until it has, at
  // most as much as of events that wait to be tried again. Watchers and logs see events
  // at once, in a form that is neither: event_time, source and the whole message.
  std::shared_ptr<ApiChoice> api_choice{};
  // Told what became of each event of this recorder. Optional.
  OutcomeFunction on_outcome{};
};

// All that one event can say. Type and reason are needed, the rest is not.
struct Occurrence {
  std::string_view type = kNormal;  // kNormal or kWarning
  std::string_view reason{};        // short, for machines: "BackOff"; at most 128 bytes
  std::string_view action{};        // what was attempted: "Binding"; at most 128 bytes
  std::optional<ObjectReference> related{};
  StringMap annotations{};
  std::optional<WallTime> when{};  // when it happened, if not now
  OutcomeFunction on_outcome{};    // told what became of this event, besides the recorder's
};

// A Recorder says what happens to objects. Recording never blocks, never throws and
// never fails visibly: an event that cannot be kept is counted under its reason.
//
//   recorder.Eventf(pod, kWarning, "BackOff", "Back-off restarting container {}", name);
//
// A handle, cheap to copy and safe to use from any thread, also after its
// Broadcaster is gone.
class HERALD_EXPORT Recorder {
 public:
  // Records nothing, as after the end of its Broadcaster.
  Recorder() = default;

  void Event(const ObjectReference& object, std::string_view type, std::string_view reason,
             std::string_view message) noexcept {
    Write(object, {.type = type, .reason = reason}, message);
  }

  template <typename... Args>
  void Eventf(const ObjectReference& object, std::string_view type, std::string_view reason,
              fmt::format_string<Args...> format, Args&&... args) noexcept {
    WriteFormatted(object, {.type = type, .reason = reason}, format,
                   fmt::make_format_args(args...));
  }

  template <typename... Args>
  void AnnotatedEventf(const ObjectReference& object, const StringMap& annotations,
                       std::string_view type, std::string_view reason,
                       fmt::format_string<Args...> format, Args&&... args) noexcept {
    WriteFormatted(object, {.type = type, .reason = reason, .annotations = annotations}, format,
                   fmt::make_format_args(args...));
  }

  // For something that happened before now.
  template <typename... Args>
  void PastEventf(const ObjectReference& object, WallTime when, std::string_view type,
                  std::string_view reason, fmt::format_string<Args...> format,
                  Args&&... args) noexcept {
    WriteFormatted(object, {.type = type, .reason = reason, .when = when}, format,
                   fmt::make_format_args(args...));
  }

  // With everything an event can have.
  template <typename... Args>
  void Record(const ObjectReference& regarding, Occurrence occurrence,
              fmt::format_string<Args...> format, Args&&... args) noexcept {
    WriteFormatted(regarding, std::move(occurrence), format, fmt::make_format_args(args...));
  }

  // The same recorder, with its complaints sent elsewhere.
  Recorder WithLogger(LogFunction log) const;

 private:
  friend class Broadcaster;
  class State;
  explicit Recorder(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  void Write(const ObjectReference& object, Occurrence occurrence,
             std::string_view message) noexcept;
  void WriteFormatted(const ObjectReference& object, Occurrence occurrence, fmt::string_view format,
                      fmt::format_args args) noexcept;

  std::shared_ptr<const State> state_;
};

}  // namespace herald
