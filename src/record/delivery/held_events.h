#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "record/channel/published.h"
#include "record/delivery/event_budget.h"

namespace herald {

// HeldEvents keeps events whose recorder has an ApiChoice that is not made yet. They cannot be
// correlated, because the API decides how.
//
// Invariant: the events of one choice leave in the order in which they came. So before an event
// whose choice is made is queued, the caller queues the held ones (TakeDecided()).
//
// Which API a server accepts is not known here; that is ApiChoice's job.
//
// Thread-confined: the sequencer of a sink owns one.
class HeldEvents {
 public:
  // The budget is borrowed and outlives this.
  explicit HeldEvents(EventBudget* budget) : budget_(*budget) {}
  HeldEvents(const HeldEvents&) = delete;
  HeldEvents& operator=(const HeldEvents&) = delete;

  // Whether the event must wait for its choice.
  static bool IsUndecided(const Published& published);

  bool HasRoom() const { return budget_.HasRoom(); }
  // Returns whether it is the first held event of its choice: then the caller asks the choice
  // to call when it is made. REQUIRES: IsUndecided(), HasRoom()
  bool Add(Published published);

  // The events whose choice is made by now, in order.
  std::vector<Published> TakeDecided();
  std::vector<Published> TakeAll();
  bool empty() const { return events_.empty(); }

 private:
  EventBudget& budget_;
  std::deque<Published> events_;
};

// The event in the style of the API of its choice, or unchanged without a choice. Where
// no choice is made even at the very end: in the style of events.k8s.io/v1, which every server
// since 1.19 has.
std::shared_ptr<const Event> InChosenStyle(const Published& published, bool upstream_exact);

// Whether the event has a choice, and that is not `api`.
bool ChoseOtherApi(const Published& published, EventApi api);

}  // namespace herald
