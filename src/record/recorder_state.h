#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "herald/base/log.h"
#include "herald/record/recorder.h"
#include "record/broadcast/broadcaster_core.h"
#include "record/event/event_pool.h"

namespace herald {

// The state that all copies of a Recorder share. Immutable.
class Recorder::State {
 public:
  State(std::shared_ptr<Broadcaster::Core> core, RecorderOptions options, LogFunction log);

  void Write(const ObjectReference& object, Occurrence&& occurrence,
             std::string_view message) const;
  // Counts an event whose message could not be formatted.
  void RejectUnformatted(Occurrence&& occurrence, std::string_view error) const;
  std::shared_ptr<const State> WithLog(LogFunction log) const;

 private:
  std::shared_ptr<const herald::Event> MakeEvent(const ObjectReference& object,
                                                 Occurrence* occurrence,
                                                 std::string_view message) const;
  // Sets the members that are the same in all events of this recorder.
  void SetCommon(herald::Event* event) const;
  std::shared_ptr<const EventHandling> HandlingFor(Occurrence* occurrence) const;
  // Counts an event as invalid, and reports it.
  void RejectInvalid(const Published& published, std::string_view message,
                     const Status& status) const;
  void LogError(std::string_view message, const Status& status) const;

  const std::shared_ptr<Broadcaster::Core> core_;
  const RecorderOptions options_;
  const std::shared_ptr<const EventHandling> handling_;  // without Occurrence::on_outcome
  const std::string reporting_controller_;
  const std::string reporting_instance_;
  const std::uint64_t maker_id_ = MakeMakerId();
  const LogFunction log_;
};

}  // namespace herald
