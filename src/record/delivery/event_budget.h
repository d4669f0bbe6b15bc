#pragma once

#include <cstddef>

#include "record/channel/published.h"

namespace herald {

// An EventBudget counts events and their bytes against two limits. An event is added while
// there is room, so a single event may exceed the limit of bytes: else one that is larger than
// the limit would wait forever.
//
// Thread-confined: the sequencer of a sink owns its budgets.
class EventBudget {
 public:
  EventBudget(std::size_t max_events, std::size_t max_bytes)
      : max_events_(max_events), max_bytes_(max_bytes) {}

  bool HasRoom() const { return events_ < max_events_ && bytes_ < max_bytes_; }
  // How many events may be added by count.
  std::size_t room() const { return HasRoom() ? max_events_ - events_ : 0; }

  void Add(const Published& published) {
    ++events_;
    bytes_ += published.bytes;
  }
  // REQUIRES: it was added
  void Remove(const Published& published) {
    --events_;
    bytes_ -= published.bytes;
  }

 private:
  const std::size_t max_events_;
  const std::size_t max_bytes_;
  std::size_t events_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace herald
