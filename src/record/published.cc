#include "record/published.h"

namespace herald {
namespace {

std::size_t TextBytes(const ObjectReference& reference) {
  return reference.kind.size() + reference.namespace_.size() + reference.name.size() +
         reference.uid.size() + reference.api_version.size() + reference.resource_version.size() +
         reference.field_path.size();
}

std::size_t TextBytes(const StringMap& map) {
  // A node of the map, besides the texts themselves.
  constexpr std::size_t kNodeBytes = 32 + 2 * sizeof(std::string);
  std::size_t bytes = map.empty() ? 0 : sizeof(StringMap::Map);
  for (const auto& [key, value] : map) bytes += kNodeBytes + key.size() + value.size();
  return bytes;
}

void Call(const OutcomeFunction& function, Outcome outcome, const Status& status) noexcept {
  if (!function) return;
  try {
    function(outcome, status);
  } catch (...) {  // NOLINT(bugprone-empty-catch): see Tell()
  }
}

}  // namespace

std::size_t ApproximateBytes(const Event& event) {
  return sizeof(Event) + event.metadata.name.size() + event.metadata.namespace_.size() +
         TextBytes(event.metadata.labels) + TextBytes(event.metadata.annotations) +
         TextBytes(event.involved_object) + event.reason.size() + event.message.size() +
         event.source.component.size() + event.source.host.size() + event.action.size() +
         (event.related ? sizeof(ObjectReference) + TextBytes(*event.related) : 0) +
         event.reporting_controller.size() + event.reporting_instance.size();
}

void Tell(const Interested* interested, Outcome outcome, const Status& status) noexcept {
  if (interested == nullptr) return;
  Call(interested->recorder, outcome, status);
  Call(interested->occurrence, outcome, status);
}

}  // namespace herald
