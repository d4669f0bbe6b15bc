#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "herald/api/object_meta.h"
#include "herald/api/rare.h"
#include "herald/api/time.h"

namespace herald {

// The two event types of Kubernetes.
inline constexpr std::string_view kNormal = "Normal";
inline constexpr std::string_view kWarning = "Warning";

// The two APIs for the same stored events. They differ in the names of the fields (the spelling)
// and in their validation.
enum class EventApi : std::uint8_t {
  kCoreV1,    // apiVersion "v1": involvedObject, message, count
  kEventsV1,  // apiVersion "events.k8s.io/v1": regarding, note, series
};

// "v1" or "events.k8s.io/v1".
HERALD_EXPORT std::string_view ApiVersionName(EventApi api);
// "" or "events.k8s.io".
HERALD_EXPORT std::string_view ApiGroupName(EventApi api);

// A reference to an object or, with field_path, to a part of it. The server does not limit the
// length of these fields.
//
// All fields of the structs here have initializers, so that {.kind = "Pod", .name = "x"} compiles
// without a warning about missing ones.
struct ObjectReference {
  std::string kind{};        // "Pod"; kubectl prints the column OBJECT as "pod/web-0"
  std::string namespace_{};  // empty for cluster-scoped objects
  std::string name{};        // the second part of OBJECT
  std::string uid{};         // `kubectl describe` selects an object's events by it
  std::string api_version{};
  std::string resource_version{};
  std::string field_path{};  // "spec.containers{web}"; SUBOBJECT in `kubectl get -o wide`

  bool operator==(const ObjectReference&) const = default;
};

// The reporter of a core/v1 event. kubectl prints both as "component, host" in the column SOURCE
// (-o wide), and `kubectl describe` the component in the column From.
struct EventSource {
  std::string component{};  // "kubelet"
  std::string host{};       // "node-1"

  bool operator==(const EventSource&) const = default;
};

// How often an event occurred, as events.k8s.io/v1 counts.
struct EventSeries {
  std::int32_t count = 0;          // occurrences, at least 2; the column COUNT (-o wide)
  MicroTime last_observed_time{};  // required in a series; the column LAST SEEN

  bool operator==(const EventSeries&) const = default;
};

// An Event reports that something happened to an object. This type is the union of core/v1's and
// events.k8s.io/v1's Event. The two APIs are spellings of it (see codec.h), so no field is lost
// between them. Fields have core/v1's names; a comment gives events.k8s.io/v1's name if it differs.
//
// An event is either in the old style, with count, first_timestamp and last_timestamp, or in the
// new style, with event_time, action and series. events.k8s.io/v1 accepts only the new style.
//
// Limits marked "new style" apply if event_time is set. "Column" means a column of
// `kubectl get events`; those marked "wide" are printed only with -o wide.
struct Event {
  ObjectMeta metadata{};

  // The object that the event is about. Old style: its namespace must be the event's. If it has
  // none, the event must be in the namespace "default" or, in the new style, also "kube-system".
  // events.k8s.io/v1: regarding. Column OBJECT.
  ObjectReference involved_object{};

  // Why the event happened, for programs: "BackOff". New style: required, at most 128 bytes.
  // Column REASON.
  std::string reason{};

  // A description for people. New style: at most 1024 bytes. events.k8s.io/v1: note.
  // Column MESSAGE.
  std::string message{};

  // Old style only. events.k8s.io/v1: deprecatedSource. Column SOURCE (wide).
  EventSource source{};

  // When the event occurred first and last. Old style only. events.k8s.io/v1:
  // deprecatedFirstTimestamp and deprecatedLastTimestamp. Columns FIRST SEEN (wide) and LAST SEEN.
  Time first_timestamp{};
  Time last_timestamp{};

  // How often the event occurred. Old style only. events.k8s.io/v1: deprecatedCount.
  // Column COUNT (wide).
  std::int32_t count = 0;

  // kNormal or kWarning; core/v1 accepts every string. Column TYPE.
  std::string type{};

  // When the event occurred first. New style: required; zero in the old style. kubectl prints it
  // as FIRST SEEN and LAST SEEN if no other time is set.
  MicroTime event_time{};

  // Set from the second occurrence on. New style only. Columns COUNT (wide) and LAST SEEN.
  std::optional<EventSeries> series{};

  // What the controller did or tried to do: "Pulling". New style: required, at most 128 bytes.
  // Only `kubectl get -o yaml` or -o json prints it.
  std::string action{};

  // A second object, for example one that the action created. Only -o yaml or -o json prints it.
  Rare<ObjectReference> related{};

  // The controller that reports the event: "kubernetes.io/kubelet". New style: required, a
  // qualified name: at most 63 bytes after an optional DNS subdomain and a slash. core/v1:
  // reportingComponent. Column SOURCE (wide) if source.component is empty.
  std::string reporting_controller{};

  // The instance of the controller: "kubelet-node-1". New style: required, at most 128 bytes.
  // Column SOURCE (wide) if source.host is empty.
  std::string reporting_instance{};

  bool operator==(const Event&) const = default;
};

struct EventList {
  ListMeta metadata{};
  std::vector<Event> items{};

  bool operator==(const EventList&) const = default;
};

}  // namespace herald
