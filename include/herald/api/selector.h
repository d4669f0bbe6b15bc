#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "herald/api/event.h"
#include "herald/api/object_meta.h"
#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// Selects objects by their labels: "app=web,tier!=db,env in (a,b),!legacy", as in `kubectl get -l`.
// An empty selector matches every object. An immutable value.
class HERALD_EXPORT LabelSelector {
 public:
  enum class Operator : std::uint8_t {
    kExists,
    kDoesNotExist,
    kEquals,
    kDoubleEquals,
    kIn,
    kNotEquals,
    kNotIn,
    kGreaterThan,
    kLessThan,
  };
  struct Requirement {
    std::string key;
    Operator op = Operator::kExists;
    std::vector<std::string> values;  // sorted, without duplicates; empty for kExists

    bool operator==(const Requirement&) const = default;
  };

  LabelSelector() = default;
  // An invalid selector is kBadRequest, with Kubernetes' message.
  static Result<LabelSelector> Parse(std::string_view text);

  bool Matches(const StringMap& labels) const;
  bool empty() const { return requirements_.empty(); }
  // Sorted by key, as in Kubernetes.
  const std::vector<Requirement>& requirements() const { return requirements_; }
  // The selector in Kubernetes' canonical form.
  std::string ToString() const;

  bool operator==(const LabelSelector&) const = default;

 private:
  std::vector<Requirement> requirements_;
};

// The fields of an event that a field selector may name.
enum class EventField : std::uint8_t {
  kMetadataName,
  kMetadataNamespace,
  kInvolvedObjectKind,
  kInvolvedObjectNamespace,
  kInvolvedObjectName,
  kInvolvedObjectUid,
  kInvolvedObjectApiVersion,
  kInvolvedObjectResourceVersion,
  kInvolvedObjectFieldPath,
  kReason,
  kReportingComponent,
  kSource,  // source.component or, if that is empty, the reporting controller
  kType,
};

// The field's name in core/v1: "involvedObject.kind".
HERALD_EXPORT std::string_view EventFieldName(EventField field);
// The value that a selector compares. A view into the event.
HERALD_EXPORT std::string_view EventFieldValue(const Event& event, EventField field);

// Selects events by their fields: "involvedObject.kind=Pod,type!=Normal", as in
// `kubectl get events --field-selector`. An empty selector matches every event. An immutable value.
class HERALD_EXPORT FieldSelector {
 public:
  struct Term {
    EventField field = EventField::kMetadataName;
    bool equal = true;  // true for "=" and "==", false for "!="
    std::string value;

    bool operator==(const Term&) const = default;
  };

  FieldSelector() = default;
  // Parses a selector in the spelling of `api`. Fields that this API cannot select by are
  // kBadRequest. The result does not depend on the spelling.
  static Result<FieldSelector> Parse(std::string_view text, EventApi api);

  // Does not allocate, because each watch calls it for every event that is written.
  bool Matches(const Event& event) const;
  bool empty() const { return terms_.empty(); }
  // Sorted by their string in the given spelling, as in Kubernetes.
  const std::vector<Term>& terms() const { return terms_; }
  // The value that the field must have in every matching event; null if more than one value
  // matches. A store uses it to read one object or one index entry instead of all events.
  const std::string* RequiredValue(EventField field) const;
  // The terms in core/v1's spelling. Parse() accepts them, but their order may change because they
  // are sorted by the new spelling.
  std::string ToString() const;

  bool operator==(const FieldSelector&) const = default;

 private:
  std::vector<Term> terms_;
};

// The field selector for the events about an object, in the spelling of `api`. It names all fields
// of the reference that are not empty, except the resource version, which changes with each write
// of the object. It is empty, and matches every event, if the reference is empty.
HERALD_EXPORT std::string SelectorForObject(const ObjectReference& object, EventApi api);

}  // namespace herald
