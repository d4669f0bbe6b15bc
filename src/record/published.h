#pragma once

#include <cstddef>
#include <memory>

#include "herald/api/codec.h"
#include "herald/api/event.h"
#include "herald/record/outcome.h"

namespace herald {

// Who wants to know what became of one event. Either may be empty.
struct Interested {
  OutcomeFunction recorder;
  OutcomeFunction occurrence;
};

// One event on its way through the broadcaster. Copies share the event.
struct Published {
  WatchType type = WatchType::kAdded;
  std::shared_ptr<const Event> event;
  std::shared_ptr<const Interested> interested;  // null: nobody
  std::size_t bytes = 0;                         // roughly what the event takes in memory
};

// Roughly what an event takes in memory: enough to bound queues by.
std::size_t ApproximateBytes(const Event& event);

// Tells whoever is interested, which may be nobody: null. What their functions throw is dropped: an
// event's outcome is counted whether or not somebody could be told.
void Tell(const Interested* interested, Outcome outcome, const Status& status) noexcept;

}  // namespace herald
