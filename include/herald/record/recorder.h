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

// The source of the events of a recorder, and how they are written.
struct RecorderOptions {
  std::string component{};  // "node-agent"; `kubectl describe` shows it under From
  std::string host{};       // the node that the component runs on
  // The style of the events. Old-style events are counted and written to core/v1. New-style
  // events form series and are written to events.k8s.io/v1, which every server since 1.19 has.
  // The calls are the same for both.
  EventApi api = EventApi::kCoreV1;
  // If set, it replaces `api`. Events wait in memory until the choice is made; their number is
  // limited, and further ones are dropped and counted. Watchers and logs receive events at once,
  // in the style of neither API: with event_time, source and the whole message.
  std::shared_ptr<ApiChoice> api_choice{};
  // Called with the outcome of each event of this recorder. Optional.
  OutcomeFunction on_outcome{};
};

// Everything that an event can have. Type and reason are required.
struct Occurrence {
  std::string_view type = kNormal;  // kNormal or kWarning
  std::string_view reason{};        // short and machine-readable: "BackOff"; up to 128 bytes
  std::string_view action{};        // what was attempted: "Binding"; up to 128 bytes
  std::optional<ObjectReference> related{};
  StringMap annotations{};
  std::optional<WallTime> when{};  // when it happened; unset: now
  OutcomeFunction on_outcome{};    // called with the outcome, after the recorder's function
};

// A Recorder records events about objects. Recording never blocks, never throws and never
// returns an error: an event that cannot be written is counted by its outcome.
//
//   recorder.Eventf(pod, kWarning, "BackOff", "Back-off restarting container {}", name);
//
// A Recorder is a handle that is cheap to copy. It may outlive its Broadcaster; events are then
// counted as lost.
//
// Thread-safe.
class HERALD_EXPORT Recorder {
 public:
  // A recorder without a Broadcaster: it records nothing.
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

  // For an event that happened in the past.
  template <typename... Args>
  void PastEventf(const ObjectReference& object, WallTime when, std::string_view type,
                  std::string_view reason, fmt::format_string<Args...> format,
                  Args&&... args) noexcept {
    WriteFormatted(object, {.type = type, .reason = reason, .when = when}, format,
                   fmt::make_format_args(args...));
  }

  // For an event with everything that an event can have.
  template <typename... Args>
  void Record(const ObjectReference& regarding, Occurrence occurrence,
              fmt::format_string<Args...> format, Args&&... args) noexcept {
    WriteFormatted(regarding, std::move(occurrence), format, fmt::make_format_args(args...));
  }

  // A recorder that logs its errors with another function, and is otherwise the same.
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
