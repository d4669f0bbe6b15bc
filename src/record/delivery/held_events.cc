#include "record/delivery/held_events.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "record/event/event_style.h"

namespace herald {
namespace {

const ApiChoice* ChoiceOf(const Published& published) {
  return published.handling ? published.handling->api_choice.get() : nullptr;
}

}  // namespace

bool HeldEvents::IsUndecided(const Published& published) {
  const ApiChoice* const choice = ChoiceOf(published);
  return choice != nullptr && !choice->Get();
}

bool HeldEvents::Add(Published published) {
  const ApiChoice* const choice = ChoiceOf(published);
  const bool is_first = std::ranges::none_of(
      events_, [&](const Published& other) { return ChoiceOf(other) == choice; });
  budget_.Add(published);
  events_.push_back(std::move(published));
  return is_first;
}

std::vector<Published> HeldEvents::TakeDecided() {
  std::vector<Published> decided;
  std::deque<Published> all;
  all.swap(events_);
  // A choice that is made while this looks at its events is left for the next call, or later
  // events would overtake earlier ones.
  std::vector<const ApiChoice*> undecided;
  for (Published& published : all) {
    const ApiChoice* const choice = ChoiceOf(published);
    if (std::ranges::find(undecided, choice) == undecided.end()) {
      if (choice->Get()) {
        budget_.Remove(published);
        decided.push_back(std::move(published));
        continue;
      }
      undecided.push_back(choice);
    }
    events_.push_back(std::move(published));
  }
  return decided;
}

std::vector<Published> HeldEvents::TakeAll() {
  std::vector<Published> all;
  for (const Published& published : events_) budget_.Remove(published);
  std::ranges::move(events_, std::back_inserter(all));
  events_.clear();
  return all;
}

std::shared_ptr<const Event> InChosenStyle(const Published& published, bool upstream_exact) {
  const ApiChoice* const choice = ChoiceOf(published);
  if (choice == nullptr) return published.event;
  const EventApi api =
      choice->Get(published.event->metadata.namespace_).value_or(EventApi::kEventsV1);
  return InStyleOf(*published.event, api, upstream_exact);
}

bool ChoseOtherApi(const Published& published, EventApi api) {
  if (!published.event) return false;
  const ApiChoice* const choice = ChoiceOf(published);
  return choice != nullptr && choice->Get(published.event->metadata.namespace_) != api;
}

}  // namespace herald
