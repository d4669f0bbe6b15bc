#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "herald/api/codec.h"
#include "herald/api/event.h"
#include "herald/record/api_choice.h"
#include "herald/record/outcome.h"

namespace herald {

// What the recorder wants for an event: the functions to call with its outcome, and the choice
// of an API. Each may be empty. Shared by all events of a recorder that have no function of their
// own. Immutable.
struct EventHandling {
  bool HasOutcomeFunction() const { return on_outcome || on_outcome_of_occurrence; }

  OutcomeFunction on_outcome{};                // RecorderOptions::on_outcome
  OutcomeFunction on_outcome_of_occurrence{};  // Occurrence::on_outcome
  // If set, the event has the style of neither API yet; see event/event_style.h.
  std::shared_ptr<ApiChoice> api_choice{};
};

// One event on its way through the broadcaster. Copies share the event.
struct Published {
  WatchType type = WatchType::kAdded;
  // How many times Flush() was called before it was recorded.
  std::uint32_t epoch = 0;
  std::shared_ptr<const Event> event{};
  std::shared_ptr<const EventHandling> handling{};  // null: nothing is wanted
  std::size_t bytes = 0;                            // ApproximateBytes() of the event
};

// Becomes true when everything that was there when it was requested has its outcome.
using Ticket = std::shared_ptr<const std::atomic<bool>>;

// Roughly how much memory an event takes, to limit queues.
std::size_t ApproximateBytes(const Event& event);

// Calls the outcome functions, if there are any. What they throw is ignored: the outcome of an
// event is counted in any case. `handling` may be null.
void NotifyOutcome(const EventHandling* handling, Outcome outcome, const Status& status) noexcept;

}  // namespace herald
