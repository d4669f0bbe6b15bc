#pragma once

#include <cstdint>
#include <memory>

#include "herald/api/event.h"

namespace herald {

struct PooledEvent {
  std::shared_ptr<Event> event;
  // Whether it was the same maker's before: what that sets in all of its events is there
  // already.
  bool is_makers = false;
};

// An event to be filled in by a recorder. It comes with what an earlier event left in
// it: the caller sets every member that any caller ever sets, and leaves the others
// alone. The texts keep their memory, so most events are recorded without an
// allocation.
//
// It exists because events are made on one thread and let go on another. malloc has to
// lock the one out while the other frees, and with five texts an event that was more
// than half of what recording it took.
//
// The memory is the process's: what nobody uses is kept for whoever records next, up to
// as much as one full queue.
//
// Thread-safe; the event may be let go on any thread.
// REQUIRES: `maker` comes from MakeMakerId()
PooledEvent TakePooledEvent(std::uint64_t maker);

// A number that no other maker of events has had.
std::uint64_t MakeMakerId();

// Not under AddressSanitizer, which could not tell who uses an event too late.
bool EventsArePooled();

}  // namespace herald
