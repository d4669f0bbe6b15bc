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

// Who wants to know what became of one event, and who decides how it is written. Each
// may be empty. Shared by all events of a recorder that have no function of their own.
struct Interested {
  bool IsToBeTold() const { return recorder || occurrence; }

  OutcomeFunction recorder;
  OutcomeFunction occurrence;
  std::shared_ptr<ApiChoice> choice;  // set: the event is neutral, see spelling.h
};

// One event on its way through the broadcaster. Copies share the event.
struct Published {
  WatchType type = WatchType::kAdded;
  // How many times Flush() had been called when it was recorded.
  std::uint32_t epoch = 0;
  std::shared_ptr<const Event> event;
  std::shared_ptr<const Interested> interested;  // null: nobody
  std::size_t bytes = 0;                         // roughly what the event takes in memory
};

// Becomes true once all that was there when it was asked for has come to its end.
using Ticket = std::shared_ptr<const std::atomic<bool>>;

// Roughly what an event takes in memory: enough to bound queues by.
std::size_t ApproximateBytes(const Event& event);

// Tells whoever is interested, which may be nobody: null. What their functions throw is dropped: an
// event's outcome is counted whether or not somebody could be told.
void Tell(const Interested* interested, Outcome outcome, const Status& status) noexcept;

}  // namespace herald
