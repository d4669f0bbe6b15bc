// A parsed field selector prints a string in core/v1's spelling that parses to the same terms.
// Their order may change once, because terms are sorted by their string; after that it does not
// change.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "herald/api/selector.h"

namespace {

using herald::EventApi;
using herald::FieldSelector;

// An event that matches all equality terms, if that is possible.
herald::Event EventFor(const FieldSelector& selector) {
  using herald::EventField;
  herald::Event event;
  const auto set = [&](EventField field, std::string* member) {
    if (const std::string* value = selector.RequiredValue(field)) *member = *value;
  };
  set(EventField::kMetadataName, &event.metadata.name);
  set(EventField::kInvolvedObjectKind, &event.involved_object.kind);
  set(EventField::kSource, &event.source.component);
  set(EventField::kReportingComponent, &event.reporting_controller);
  set(EventField::kType, &event.type);
  return event;
}

void Check(std::string_view text, EventApi api) {
  const auto selector = FieldSelector::Parse(text, api);
  if (!selector) return;
  const auto again = FieldSelector::Parse(selector->ToString(), EventApi::kCoreV1);
  if (!again || !std::ranges::is_permutation(again->terms(), selector->terms())) std::abort();
  const auto third = FieldSelector::Parse(again->ToString(), EventApi::kCoreV1);
  if (!third || *third != *again) std::abort();

  const herald::Event event = EventFor(*selector);
  if (selector->Matches(event) != again->Matches(event)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Check(text, EventApi::kCoreV1);
  Check(text, EventApi::kEventsV1);
  return 0;
}
