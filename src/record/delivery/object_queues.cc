#include "record/delivery/object_queues.h"

#include <fmt/core.h>

#include <utility>

namespace herald {

ObjectQueues::ObjectQueues(bool upstream_exact, EventBudget* admitted, EventBudget* parked)
    : upstream_exact_(upstream_exact), admitted_(*admitted), parked_(*parked) {}

std::string ObjectQueues::KeyOf(const Event& event) {
  if (upstream_exact_) {
    const bool is_old_style = event.event_time.is_zero();
    return is_old_style ? "" : fmt::format("{}", ++last_number_);
  }
  const ObjectReference& object = event.involved_object;
  return fmt::format("{}\n{}\n{}\n{}", object.namespace_, object.name, object.kind, object.uid);
}

ObjectQueue* ObjectQueues::Obtain(const Event& event) {
  const auto [entry, is_new] = objects_.try_emplace(KeyOf(event));
  if (is_new) entry->second.key = &entry->first;
  return &entry->second;
}

// To be called after each thing that is added to an object: the first makes it ready.
void ObjectQueues::MarkReady(ObjectQueue* object) {
  if (!object->current && object->waiting.size() + object->planned.size() == 1) {
    ready_.push_back(object);
  }
}

bool ObjectQueues::Add(Published* published) {
  ObjectQueue* const object = Obtain(*published->event);
  // A parked object has a current write, so it was not made here.
  if (object->parked && !parked_.HasRoom()) return false;
  (object->parked ? parked_ : admitted_).Add(*published);
  object->waiting.push_back(std::move(*published));
  MarkReady(object);
  return true;
}

void ObjectQueues::AddPlanned(PlannedWrite planned) {
  ObjectQueue* const object = Obtain(*planned.correlation.request.event);
  object->planned.push_back(std::move(planned));
  MarkReady(object);
}

bool ObjectQueues::TakeNext(ObjectQueue* object, EventWrite* write) {
  *write = EventWrite{.object = object};
  if (!object->planned.empty()) {
    PlannedWrite& planned = object->planned.front();
    write->correlation = std::move(planned.correlation);
    write->counted = std::move(planned.counted);
    write->replay = planned.replay;
    object->planned.pop_front();
    return true;
  }
  if (object->waiting.empty()) return false;
  write->published = std::move(object->waiting.front());
  object->waiting.pop_front();
  return true;
}

std::shared_ptr<EventWrite> ObjectQueues::Start() {
  if (ready_.empty()) return nullptr;
  ObjectQueue* const object = ready_.front();
  ready_.pop_front();
  object->current = std::make_shared<EventWrite>();
  TakeNext(object, object->current.get());
  return object->current;
}

bool ObjectQueues::StartNextOf(EventWrite* write) {
  ObjectQueue* const object = write->object;
  if (TakeNext(object, write)) return true;
  End(write);
  return false;
}

void ObjectQueues::End(EventWrite* write) {
  ObjectQueue* const object = write->object;
  object->current.reset();
  if (object->waiting.empty() && object->planned.empty()) {
    objects_.erase(objects_.find(*object->key));
  } else {
    ready_.push_back(object);
  }
}

void ObjectQueues::EndAndRequeue(EventWrite* write) {
  write->object->waiting.push_front(std::move(write->published));
  End(write);
}

void ObjectQueues::Move(const ObjectQueue& object, EventBudget* from, EventBudget* to) {
  const auto move = [&](const Published& published) {
    from->Remove(published);
    to->Add(published);
  };
  if (object.current->published.event) move(object.current->published);
  for (const Published& published : object.waiting) move(published);
}

void ObjectQueues::Park(EventWrite* write) {
  ObjectQueue* const object = write->object;
  // With upstream_exact there is no other object that could use the room.
  if (upstream_exact_ || object->parked || !parked_.HasRoom()) return;
  object->parked = true;
  Move(*object, &admitted_, &parked_);
}

void ObjectQueues::Unpark(EventWrite* write) {
  ObjectQueue* const object = write->object;
  if (!std::exchange(object->parked, false)) return;
  Move(*object, &parked_, &admitted_);
}

std::vector<ObjectQueue> ObjectQueues::TakeAll() {
  std::vector<ObjectQueue> all;
  all.reserve(objects_.size());
  for (auto& [key, object] : objects_) all.push_back(std::move(object));
  objects_.clear();
  ready_.clear();
  return all;
}

}  // namespace herald
