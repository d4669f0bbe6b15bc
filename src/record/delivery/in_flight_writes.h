#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "record/delivery/event_write.h"

namespace herald {

// The writes that have started and not ended, by what they do:
//
//   under way  has one of max_in_flight slots
//   sleeping   until its next try; its slot is free for another write
//   awake      has slept, and waits for a slot before writes that have not started
//
// Thread-confined: the sequencer of a sink owns one.
class InFlightWrites {
 public:
  explicit InFlightWrites(std::size_t max_in_flight) : max_in_flight_(max_in_flight) {}

  bool HasSlot() const { return under_way_ < max_in_flight_; }
  void Begin() { ++under_way_; }
  void End() { --under_way_; }
  void Sleep() {
    --under_way_;
    ++sleeping_;
  }
  void Wake(std::shared_ptr<EventWrite> write) {
    --sleeping_;
    awake_.push_back(std::move(write));
  }
  // Gives a slot to the write that woke first; null if none is awake.
  std::shared_ptr<EventWrite> BeginAwake() {
    if (awake_.empty()) return nullptr;
    std::shared_ptr<EventWrite> write = std::move(awake_.front());
    awake_.pop_front();
    ++under_way_;
    return write;
  }

  bool empty() const { return under_way_ == 0 && sleeping_ == 0 && awake_.empty(); }
  void Clear() { awake_.clear(); }

 private:
  const std::size_t max_in_flight_;
  std::size_t under_way_ = 0;
  std::size_t sleeping_ = 0;
  std::deque<std::shared_ptr<EventWrite>> awake_;
};

}  // namespace herald
