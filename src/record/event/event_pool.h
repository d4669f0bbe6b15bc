#pragma once

#include <cstdint>
#include <memory>

#include "herald/api/event.h"

namespace herald {

struct PooledEvent {
  std::shared_ptr<Event> event;
  // Whether the same maker used it before: the members that it sets in all of its events are set
  // then.
  bool is_makers = false;
};

// Returns an event for a recorder to fill in. It still has the members of an earlier event, so the
// caller sets every member that any caller ever sets, and no others. Strings keep their memory, so
// most events are recorded without an allocation.
//
// The pool exists because events are made on one thread and destroyed on another. malloc then takes
// a lock for each of the five strings of an event, which was more than half of the time of
// recording it.
//
// The pool is shared by the whole process. It keeps unused events, at most as many as a full queue
// has.
//
// Thread-safe. The event may be released on any thread. REQUIRES: `maker` comes from MakeMakerId()
PooledEvent TakePooledEvent(std::uint64_t maker);

// A number that is unique in this process.
std::uint64_t MakeMakerId();

// False under AddressSanitizer, which could not detect a use after free of a pooled event.
bool EventsArePooled();

}  // namespace herald
