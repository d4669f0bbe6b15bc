#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "record/delivery/event_budget.h"
#include "record/delivery/event_write.h"

namespace herald {

// What is to be written about one object.
struct ObjectQueue {
  std::deque<PlannedWrite> planned{};
  std::deque<Published> waiting{};        // after everything in `planned`
  std::shared_ptr<EventWrite> current{};  // the write that is under way or sleeps
  bool parked = false;                    // its events count as parked, not as admitted
  const std::string* key = nullptr;       // of this entry
};

// ObjectQueues keeps what is to be written by object, and gives it out such that at most one
// write about an object is under way: the answer to a write decides what the next one is. So
// events about one object stay in order, and an object that the server rejects or that sleeps
// delays no other object.
//
// Events are counted in one of two budgets:
//
//   admitted  waits for its turn, or is under way
//   parked    waits behind a write that sleeps, or sleeps itself
//
// Each has its own limit, or one object that the server does not accept would fill the queues
// and stop all others. Planned writes are few and are not counted.
//
// With `upstream_exact` all old-style events are about one object, and each new-style event is
// about an object of its own. That is client-go's order: old-style events one at a time, each
// waiting for those before, and new-style events in no order.
//
// Invariants:
// 1. An object is in the map while it has a current write, a planned one or waiting events.
// 2. It is in ready_, once, if it has something to write and no current write.
//
// Thread-confined: the sequencer of a sink owns one.
class ObjectQueues {
 public:
  // The budgets are borrowed and outlive this.
  ObjectQueues(bool upstream_exact, EventBudget* admitted, EventBudget* parked);
  ObjectQueues(const ObjectQueues&) = delete;
  ObjectQueues& operator=(const ObjectQueues&) = delete;

  // Adds an event behind all others about its object. False, and nothing is changed, if it
  // would have to wait behind a write that sleeps and there is no room for that.
  bool Add(Published* published);
  void AddPlanned(PlannedWrite planned);

  // Starts a write about the object that has been ready for longest; null if none is ready.
  // The write has its `published` set, or what a PlannedWrite has.
  std::shared_ptr<EventWrite> Start();
  // Nothing is to be sent for this write: it becomes the next one about its object. False if
  // there is none, and then the write has ended.
  bool StartNextOf(EventWrite* write);
  // The write has ended. Its event, if it has one, stays in its budget until Release().
  void End(EventWrite* write);
  // The same, but its event is to be correlated again, before all others about its object.
  void EndAndRequeue(EventWrite* write);
  // The event of a write leaves the admitted ones.
  void Release(const Published& published) { admitted_.Remove(published); }

  // The write sleeps, or has slept: moves the events about its object from one budget to the
  // other. They stay where they are if there is no room among the parked ones.
  void Park(EventWrite* write);
  void Unpark(EventWrite* write);

  bool empty() const { return objects_.empty(); }
  // Everything, at the end. Writes that have started do not end any more.
  std::vector<ObjectQueue> TakeAll();

 private:
  std::string KeyOf(const Event& event);
  ObjectQueue* Obtain(const Event& event);
  void MarkReady(ObjectQueue* object);
  // Takes the next thing to write; false if there is none.
  static bool TakeNext(ObjectQueue* object, EventWrite* write);
  static void Move(const ObjectQueue& object, EventBudget* from, EventBudget* to);

  const bool upstream_exact_;
  EventBudget& admitted_;
  EventBudget& parked_;
  std::unordered_map<std::string, ObjectQueue> objects_;
  std::deque<ObjectQueue*> ready_;
  std::uint64_t last_number_ = 0;  // for keys that are all different
};

}  // namespace herald
