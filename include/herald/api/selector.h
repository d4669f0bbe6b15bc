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

// Picks objects by their labels: "app=web,tier!=db,env in (a,b),!legacy". An
// immutable value; an empty one picks everything.
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
    std::vector<std::string> values;  // sorted, without repeats

    bool operator==(const Requirement&) const = default;
  };

  LabelSelector() = default;
  // A refusal is kBadRequest in Kubernetes' words.
  static Result<LabelSelector> Parse(std::string_view text);

  bool Matches(const StringMap& labels) const;
  bool empty() const { return requirements_.empty(); }
  // By key, as Kubernetes orders them.
  const std::vector<Requirement>& requirements() const { return requirements_; }
  // Kubernetes' canonical text.
  std::string ToString() const;

  bool operator==(const LabelSelector&) const = default;

 private:
  std::vector<Requirement> requirements_;
};

// What an event can be picked by.
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
  kSource,  // source.component, or where that is empty the reporting controller
  kType,
};

// The name that core/v1 gives the field: "involvedObject.kind".
HERALD_EXPORT std::string_view EventFieldName(EventField field);
// What a selector compares. Points into the event.
HERALD_EXPORT std::string_view EventFieldValue(const Event& event, EventField field);

// Picks events by their fields: "involvedObject.kind=Pod,type!=Normal". An
// immutable value; an empty one picks everything.
class HERALD_EXPORT FieldSelector {
 public:
  struct Term {
    EventField field = EventField::kMetadataName;
    bool equal = true;  // "=" and "==", against "!="
    std::string value;

    bool operator==(const Term&) const = default;
  };

  FieldSelector() = default;
  // Reads the text in the spelling of `api` and refuses (kBadRequest) fields that
  // events cannot be picked by there. What comes out no longer depends on the
  // spelling, so that one selector serves whichever API asked.
  static Result<FieldSelector> Parse(std::string_view text, EventApi api);

  // Allocates nothing: a watch asks this of every event that anyone writes.
  bool Matches(const Event& event) const;
  bool empty() const { return terms_.empty(); }
  // In the order of their text as it was given, which is Kubernetes' order.
  const std::vector<Term>& terms() const { return terms_; }
  // The value that a field must have for any event to match; null if it is not
  // pinned down. A store uses it to read one object or one index entry instead
  // of everything.
  const std::string* RequiredValue(EventField field) const;
  // The terms in core/v1's spelling, which Parse() takes back. Their order may then
  // change, because a term can sort differently by its new text.
  std::string ToString() const;

  bool operator==(const FieldSelector&) const = default;

 private:
  std::vector<Term> terms_;
};

// The text that picks the events about an object, in the spelling of `api`: whatever the
// reference says must be as it says, but for the resource version, of which an object has
// many. What is empty does not matter; an empty reference picks everything.
HERALD_EXPORT std::string SelectorForObject(const ObjectReference& object, EventApi api);

}  // namespace herald
