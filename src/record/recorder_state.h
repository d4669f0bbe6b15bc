#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "herald/base/log.h"
#include "herald/record/recorder.h"
#include "record/broadcaster_core.h"
#include "record/event_pool.h"

namespace herald {

// What all copies of one Recorder share. Immutable.
class Recorder::State {
 public:
  State(std::shared_ptr<Broadcaster::Core> core, RecorderOptions options, LogFunction log);

  void Write(const ObjectReference& object, Occurrence&& occurrence,
             std::string_view message) const;
  // Counts an event whose message could not be put together.
  void RefuseUnformatted(Occurrence&& occurrence, std::string_view why) const;
  std::shared_ptr<const State> WithLog(LogFunction log) const;

 private:
  std::shared_ptr<const herald::Event> MakeEvent(const ObjectReference& object,
                                                 Occurrence* occurrence,
                                                 std::string_view message) const;
  // What is the same in all events of this recorder.
  void SetCommon(herald::Event* event) const;
  std::shared_ptr<const Interested> WhoIsInterested(Occurrence* occurrence) const;
  void Refuse(const Published& published, std::string_view complaint, const Status& why) const;
  void Complain(std::string_view message, const Status& why) const;

  const std::shared_ptr<Broadcaster::Core> core_;
  const RecorderOptions options_;
  const std::shared_ptr<const Interested> interested_;  // null: nobody is
  const std::string reporting_controller_;
  const std::string reporting_instance_;
  const std::uint64_t maker_id_ = MakeMakerId();
  const LogFunction log_;
};

}  // namespace herald
