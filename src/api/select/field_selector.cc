#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/select/field_terms.h"
#include "fmt/format.h"
#include "herald/api/selector.h"

namespace herald {
namespace {

// The names of a field in both spellings, and the member of Event. `events_v1` is empty if
// events.k8s.io/v1 cannot select by the field.
struct FieldRule {
  EventField field;
  std::string_view core_v1;
  std::string_view events_v1;
  std::string_view (*value)(const Event&);
};

std::string_view SourceOf(const Event& event) {
  return event.source.component.empty() ? event.reporting_controller : event.source.component;
}

// Indexed by EventField.
constexpr auto kFields = std::to_array<FieldRule>({
    {EventField::kMetadataName, "metadata.name", "metadata.name",
     [](const Event& e) -> std::string_view { return e.metadata.name; }},
    {EventField::kMetadataNamespace, "metadata.namespace", "metadata.namespace",
     [](const Event& e) -> std::string_view { return e.metadata.namespace_; }},
    {EventField::kInvolvedObjectKind, "involvedObject.kind", "regarding.kind",
     [](const Event& e) -> std::string_view { return e.involved_object.kind; }},
    {EventField::kInvolvedObjectNamespace, "involvedObject.namespace", "regarding.namespace",
     [](const Event& e) -> std::string_view { return e.involved_object.namespace_; }},
    {EventField::kInvolvedObjectName, "involvedObject.name", "regarding.name",
     [](const Event& e) -> std::string_view { return e.involved_object.name; }},
    {EventField::kInvolvedObjectUid, "involvedObject.uid", "regarding.uid",
     [](const Event& e) -> std::string_view { return e.involved_object.uid; }},
    {EventField::kInvolvedObjectApiVersion, "involvedObject.apiVersion", "regarding.apiVersion",
     [](const Event& e) -> std::string_view { return e.involved_object.api_version; }},
    {EventField::kInvolvedObjectResourceVersion, "involvedObject.resourceVersion",
     "regarding.resourceVersion",
     [](const Event& e) -> std::string_view { return e.involved_object.resource_version; }},
    {EventField::kInvolvedObjectFieldPath, "involvedObject.fieldPath", "regarding.fieldPath",
     [](const Event& e) -> std::string_view { return e.involved_object.field_path; }},
    {EventField::kReason, "reason", "reason",
     [](const Event& e) -> std::string_view { return e.reason; }},
    {EventField::kReportingComponent, "reportingComponent", "reportingController",
     [](const Event& e) -> std::string_view { return e.reporting_controller; }},
    {EventField::kSource, "source", "", SourceOf},
    {EventField::kType, "type", "type", [](const Event& e) -> std::string_view { return e.type; }},
});

constexpr bool IsInOrderOfTheEnum() {
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    if (static_cast<std::size_t>(kFields[i].field) != i) return false;
  }
  return true;
}
static_assert(IsInOrderOfTheEnum());

const FieldRule& RuleOf(EventField field) { return kFields[static_cast<std::size_t>(field)]; }

std::string_view NameOf(const FieldRule& rule, EventApi api) {
  return api == EventApi::kCoreV1 ? rule.core_v1 : rule.events_v1;
}

std::optional<EventField> FindField(std::string_view name, EventApi api) {
  if (name.empty()) return std::nullopt;
  const auto* rule = std::ranges::find_if(
      kFields, [&](const FieldRule& candidate) { return NameOf(candidate, api) == name; });
  if (rule == kFields.end()) return std::nullopt;
  return rule->field;
}

}  // namespace

std::string_view EventFieldName(EventField field) { return RuleOf(field).core_v1; }

std::string_view EventFieldValue(const Event& event, EventField field) {
  return RuleOf(field).value(event);
}

Result<FieldSelector> FieldSelector::Parse(std::string_view text, EventApi api) {
  // All terms are parsed before any field is checked, because Kubernetes reports syntax errors
  // first.
  Result<std::vector<FieldTerm>> terms = ParseFieldTerms(text);
  if (!terms) return terms.error();
  FieldSelector selector;
  selector.terms_.reserve(terms->size());
  for (FieldTerm& term : *terms) {
    const std::optional<EventField> field = FindField(term.field, api);
    if (!field) {
      return Status(StatusReason::kBadRequest,
                    fmt::format("field label not supported: {}", term.field));
    }
    selector.terms_.push_back({*field, term.equal, std::move(term.value)});
  }
  return selector;
}

bool FieldSelector::Matches(const Event& event) const {
  return std::ranges::all_of(terms_, [&](const Term& term) {
    return (EventFieldValue(event, term.field) == term.value) == term.equal;
  });
}

const std::string* FieldSelector::RequiredValue(EventField field) const {
  const auto term = std::ranges::find_if(
      terms_, [&](const Term& candidate) { return candidate.field == field && candidate.equal; });
  return term == terms_.end() ? nullptr : &term->value;
}

std::string FieldSelector::ToString() const {
  std::string text;
  for (const Term& term : terms_) {
    AppendFieldTerm(EventFieldName(term.field), term.equal, term.value, &text);
  }
  return text;
}

std::string SelectorForObject(const ObjectReference& object, EventApi api) {
  const std::pair<EventField, std::string_view> wanted[] = {
      {EventField::kInvolvedObjectKind, object.kind},
      {EventField::kInvolvedObjectNamespace, object.namespace_},
      {EventField::kInvolvedObjectName, object.name},
      {EventField::kInvolvedObjectUid, object.uid},
      {EventField::kInvolvedObjectApiVersion, object.api_version},
      {EventField::kInvolvedObjectFieldPath, object.field_path},
  };
  std::string text;
  for (const auto& [field, value] : wanted) {
    if (!value.empty()) AppendFieldTerm(NameOf(RuleOf(field), api), true, value, &text);
  }
  return text;
}

}  // namespace herald
