#pragma once

#include <memory>
#include <optional>

#include "herald/api/event.h"
#include "herald/base/clock.h"
#include "herald/record/outcome.h"

namespace herald {

// A LossReport makes events about the program itself (SinkOptions::self) that say how many
// events were lost and why, at most one per minute. Lost are those that a reader of events would
// miss without noticing: dropped, rejected and given up. What is lost within the minute is
// reported at its end.
//
// Thread-confined: the sequencer of a sink owns one.
class LossReport {
 public:
  explicit LossReport(ObjectReference self) : self_(std::move(self)) {}

  struct Result {
    std::shared_ptr<const Event> event{};     // to be written; null: none
    std::optional<SteadyTime> check_again{};  // losses wait for their time
  };
  // `outcomes` are the counts since the sink was started.
  Result Check(const OutcomeCounts& outcomes, WallTime now, SteadyTime steady);

 private:
  std::shared_ptr<const Event> MakeEvent(std::uint64_t lost, std::string_view causes,
                                         WallTime now) const;

  const ObjectReference self_;
  OutcomeCounts reported_{};
  std::optional<SteadyTime> last_report_;
};

}  // namespace herald
