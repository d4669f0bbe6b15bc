#include "record/channel/published.h"

namespace herald {
namespace {

std::size_t StringBytes(const ObjectReference& reference) {
  return reference.kind.size() + reference.namespace_.size() + reference.name.size() +
         reference.uid.size() + reference.api_version.size() + reference.resource_version.size() +
         reference.field_path.size();
}

std::size_t StringBytes(const StringMap& map) {
  // A node of the map, besides the strings themselves.
  constexpr std::size_t kNodeBytes = 32 + 2 * sizeof(std::string);
  std::size_t bytes = map.empty() ? 0 : sizeof(StringMap::Map);
  for (const auto& [key, value] : map) bytes += kNodeBytes + key.size() + value.size();
  return bytes;
}

void CallFunction(const OutcomeFunction& function, Outcome outcome, const Status& status) noexcept {
  if (!function) return;
  try {
    function(outcome, status);
  } catch (...) {  // NOLINT(bugprone-empty-catch): see NotifyOutcome()
  }
}

}  // namespace

std::size_t ApproximateBytes(const Event& event) {
  return sizeof(Event) + event.metadata.name.size() + event.metadata.namespace_.size() +
         StringBytes(event.metadata.labels) + StringBytes(event.metadata.annotations) +
         StringBytes(event.involved_object) + event.reason.size() + event.message.size() +
         event.source.component.size() + event.source.host.size() + event.action.size() +
         (event.related ? sizeof(ObjectReference) + StringBytes(*event.related) : 0) +
         event.reporting_controller.size() + event.reporting_instance.size();
}

void NotifyOutcome(const EventHandling* handling, Outcome outcome, const Status& status) noexcept {
  if (handling == nullptr) return;
  CallFunction(handling->on_outcome, outcome, status);
  CallFunction(handling->on_outcome_of_occurrence, outcome, status);
}

}  // namespace herald
