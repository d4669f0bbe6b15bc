#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "api/patch/internal.h"
#include "herald/api/codec.h"
#include "herald/api/patch.h"

namespace herald::fuzz {

// An event with every kind of member that a patch can change, in either spelling.
inline const Event& PatchedEvent() {
  static const Event event = [] {
    Event e;
    e.metadata.name = "web.17";
    e.metadata.namespace_ = "ns";
    e.metadata.labels = {{"a", "1"}, {"b", "<2>"}};
    e.metadata.finalizers = {"a", "b"};
    e.metadata.owner_references.resize(2);
    e.metadata.owner_references[0].uid = "1";
    e.metadata.owner_references[1].uid = "2";
    e.metadata.managed_fields.resize(1);
    // Sorted, because a document sorts its members and the fast path keeps this string unchanged.
    e.metadata.managed_fields[0].fields_v1 = R"({"f:a":{".":{}},"f:b":{}})";
    e.involved_object.kind = "Pod";
    e.reason = "R";
    e.message = "m";
    e.source.component = "c";
    e.last_timestamp = Time(1'700'000'000, 0);
    e.count = 1;
    e.series.emplace().count = 2;
    return e;
  }();
  return event;
}

// Patching in place gives the same result as patching a copy.
inline void CheckPatchInPlace(EventApi api, PatchType type, std::string_view patch,
                              const Result<Event>& expected, bool checked) {
  Event event = PatchedEvent();
  std::vector<std::string> errors;
  const Status status = ApplyPatchInPlace(&event, api, type, patch, checked ? &errors : nullptr);
  if (status.ok() != expected.has_value()) std::abort();
  if (expected ? event != *expected : !(status == expected.error())) std::abort();
}

// For any patch, the fast paths of ApplyPatch() and the general path agree, and field validation
// may reject the patch but does not change its result.
inline void CheckPatch(PatchType type, std::string_view patch) {
  for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
    std::vector<std::string> errors, generic_errors;
    const Result<Event> lenient = ApplyPatch(PatchedEvent(), api, type, patch);
    const Result<Event> checked = ApplyPatch(PatchedEvent(), api, type, patch, &errors);
    const Result<Event> lenient_generic =
        ApplyPatchGenerically(PatchedEvent(), api, type, patch, nullptr);
    const Result<Event> checked_generic =
        ApplyPatchGenerically(PatchedEvent(), api, type, patch, &generic_errors);
    CheckPatchInPlace(api, type, patch, lenient, false);
    CheckPatchInPlace(api, type, patch, checked, true);
    if (lenient.has_value() != lenient_generic.has_value()) std::abort();
    if (checked.has_value() != checked_generic.has_value()) std::abort();
    if (checked && errors != generic_errors) std::abort();
    if (!lenient) {
      if (lenient.error().message().empty() || checked) std::abort();
      if (!(lenient.error() == lenient_generic.error())) std::abort();
      continue;
    }
    if (*lenient != *lenient_generic) std::abort();
    if (checked && (*checked != *lenient || *checked_generic != *lenient)) std::abort();
    std::string json;
    JsonCodec().AppendEvent(*lenient, api, &json);
  }
}

}  // namespace herald::fuzz
