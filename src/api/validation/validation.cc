#include "herald/api/validation.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "api/json/writer.h"
#include "api/validation/object_meta.h"

namespace herald {
namespace {

// The server shows the next two as values of its internal types, which have no JSON names, so that
// they have Go's names.
using herald::Shown;

std::string Shown(const ObjectReference& reference) {
  const struct {
    std::string_view key;
    const std::string& value;
  } members[] = {
      {R"({"Kind":)", reference.kind},
      {R"(,"Namespace":)", reference.namespace_},
      {R"(,"Name":)", reference.name},
      {R"(,"UID":)", reference.uid},
      {R"(,"APIVersion":)", reference.api_version},
      {R"(,"ResourceVersion":)", reference.resource_version},
      {R"(,"FieldPath":)", reference.field_path},
  };
  std::string json;
  for (const auto& member : members) {
    json.append(member.key);
    AppendJsonString(member.value, &json);
  }
  return json.append("}");
}

std::string Shown(const EventSource& source) {
  return R"({"Component":)" + ShownAsJson(source.component) + R"(,"Host":)" +
         ShownAsJson(source.host) + "}";
}

// The namespaces for events about objects without one: the first; in the new style also the second.
constexpr std::string_view kDefaultNamespace = "default";
constexpr std::string_view kSystemNamespace = "kube-system";

bool IsNewStyle(const Event& event) { return !event.event_time.is_zero(); }

bool NamespacesAgree(const Event& event) {
  const std::string& own = event.metadata.namespace_;
  const std::string& about = event.involved_object.namespace_;
  if (IsNewStyle(event)) {
    return !about.empty() || own == kDefaultNamespace || own == kSystemNamespace;
  }
  return own == about || (about.empty() && own == kDefaultNamespace);
}

// The rules for strings of an event in the new style.
struct TextRule {
  std::string_view field;
  std::string Event::* text;
  bool required;
  std::size_t max_bytes;
};
constexpr TextRule kTextRules[] = {
    {"reportingInstance", &Event::reporting_instance, true, 128},
    {"action", &Event::action, true, 128},
    {"reason", &Event::reason, true, 128},
    {"message", &Event::message, false, 1024},
};

// The rules of both APIs. Kubernetes' errors have core/v1's names for the fields, except for
// reportingController.
void CheckEvent(const Event& event, EventApi api, FieldErrors* errors) {
  if (!NamespacesAgree(event)) {
    errors->Invalid("involvedObject.namespace", Shown(event.involved_object.namespace_),
                    "does not match event.namespace");
  }
  if (IsNewStyle(event)) {
    const std::string_view controller =
        api == EventApi::kCoreV1 ? "reportingComponent" : "reportingController";
    if (event.reporting_controller.empty()) errors->Required(controller);
    errors->InvalidName(controller, event.reporting_controller,
                        IsQualifiedName(event.reporting_controller));
    for (const TextRule& rule : kTextRules) {
      const std::string& text = event.*rule.text;
      if (rule.required && text.empty()) errors->Required(rule.field);
      if (text.size() > rule.max_bytes) {
        errors->Invalid(rule.field, Shown(""),
                        "can have at most " + std::to_string(rule.max_bytes) + " characters");
      }
    }
  }
  errors->InvalidName("namespace", event.metadata.namespace_,
                      IsDns1123Subdomain(event.metadata.namespace_));
}

void CheckSeries(const std::optional<EventSeries>& series, FieldErrors* errors) {
  if (!series) return;
  if (series->count < 2) errors->Invalid("series.count", Shown(""), "should be at least 2");
  if (series->last_observed_time.is_zero()) errors->Required("series.lastObservedTime");
}

// The additional rules of events.k8s.io/v1 for a new event: only the new style is valid.
void CheckStrictly(const Event& event, FieldErrors* errors) {
  CheckObjectMeta(event.metadata, NameRule::kDnsSubdomain, errors);
  CheckFinalizersAreStandard(event.metadata, errors);
  CheckSeries(event.series, errors);
  if (!IsNewStyle(event)) errors->Required("eventTime");
  if (event.type != kNormal && event.type != kWarning) {
    errors->Invalid("type", Shown(""), "has invalid value: " + event.type);
  }
  const struct {
    std::string_view field;
    bool set;
  } deprecated[] = {
      {"firstTimestamp", !event.first_timestamp.is_zero()},
      {"lastTimestamp", !event.last_timestamp.is_zero()},
      {"count", event.count != 0},
      {"source", event.source != EventSource()},
  };
  for (const auto& [field, set] : deprecated) {
    if (set) errors->Invalid(field, Shown(""), "needs to be unset");
  }
}

// Some clients send nanoseconds, which no format keeps. They are ignored.
bool SameMicrosecond(const MicroTime& a, const MicroTime& b) {
  return a.seconds() == b.seconds() && a.nanos() / 1000 == b.nanos() / 1000;
}

// The additional rules of events.k8s.io/v1 for a changed event: most fields are immutable.
void CheckStrictlyUnchanged(const Event& event, const Event& old, FieldErrors* errors) {
  CheckObjectMetaUpdate(event.metadata, old.metadata, errors);
  CheckFinalizersAreStandard(event.metadata, errors);
  if (event.series != old.series) CheckSeries(event.series, errors);

  const auto unchanged = [&](std::string_view field, auto Event::* member) {
    if (event.*member != old.*member) {
      errors->Invalid(field, Shown(event.*member), FieldErrors::kImmutable);
    }
  };
  unchanged("involvedObject", &Event::involved_object);
  unchanged("reason", &Event::reason);
  unchanged("message", &Event::message);
  unchanged("source", &Event::source);
  unchanged("firstTimestamp", &Event::first_timestamp);
  unchanged("lastTimestamp", &Event::last_timestamp);
  unchanged("count", &Event::count);
  unchanged("reason", &Event::reason);  // twice upstream, so the causes have it twice
  unchanged("type", &Event::type);
  if (!SameMicrosecond(event.event_time, old.event_time)) {
    unchanged("eventTime", &Event::event_time);
  }
  unchanged("action", &Event::action);
  if (event.related != old.related) {
    errors->Invalid("related", event.related ? Shown(*event.related) : "null",
                    FieldErrors::kImmutable);
  }
  unchanged("reportingController", &Event::reporting_controller);
  unchanged("reportingInstance", &Event::reporting_instance);
}

}  // namespace

Status ValidateEventCreate(const Event& event, EventApi api) {
  FieldErrors errors;
  CheckEvent(event, api, &errors);
  if (api == EventApi::kEventsV1) CheckStrictly(event, &errors);
  // The general rules are checked only if the event has no other error, whose message is usually
  // more helpful.
  if (errors.empty()) CheckObjectMeta(event.metadata, NameRule::kPathSegment, &errors);
  return std::move(errors).ToStatus(event.metadata.name);
}

Status ValidateEventUpdate(const Event& event, const Event& old, EventApi api) {
  FieldErrors errors;
  CheckObjectMeta(event.metadata, NameRule::kPathSegment, &errors);
  CheckObjectMetaUpdate(event.metadata, old.metadata, &errors);
  CheckEvent(event, api, &errors);
  if (api == EventApi::kEventsV1) CheckStrictlyUnchanged(event, old, &errors);
  return std::move(errors).ToStatus(event.metadata.name);
}

}  // namespace herald
