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

// The two types of event that Kubernetes knows.
inline constexpr std::string_view kNormal = "Normal";
inline constexpr std::string_view kWarning = "Warning";

// The two APIs that speak of the same events. They differ in how they spell the
// members and in how strictly they validate; what is stored is one thing.
enum class EventApi : std::uint8_t {
  kCoreV1,    // apiVersion "v1": involvedObject, message, count
  kEventsV1,  // apiVersion "events.k8s.io/v1": regarding, note, series
};

// "v1" or "events.k8s.io/v1".
HERALD_EXPORT std::string_view ApiVersionName(EventApi api);
// "" or "events.k8s.io".
HERALD_EXPORT std::string_view ApiGroupName(EventApi api);

// Points at an object, or with field_path at a part of one. (The members of this and
// other structs have initializers, if only {}, so that {.kind = "Pod", .name = "x"}
// draws no warning about those left out.)
struct ObjectReference {
  std::string kind{};
  std::string namespace_{};  // empty for cluster-scoped objects
  std::string name{};
  std::string uid{};
  std::string api_version{};
  std::string resource_version{};
  std::string field_path{};  // "spec.containers{web}"

  bool operator==(const ObjectReference&) const = default;
};

// Who reported a core/v1 event.
struct EventSource {
  std::string component{};  // "kubelet"
  std::string host{};       // "node-1"

  bool operator==(const EventSource&) const = default;
};

// How often an event happened, in the events.k8s.io/v1 way of counting.
struct EventSeries {
  std::int32_t count = 0;  // occurrences so far; the server asks for at least 2
  MicroTime last_observed_time{};

  bool operator==(const EventSeries&) const = default;
};

// An Event says that something happened to an object. This one type is the union
// of core/v1 and events.k8s.io/v1: the APIs are two spellings of it (codec.h), so
// nothing is converted and nothing is lost between them. Members have core/v1's
// names; the comment gives the other spelling where it differs.
//
// An event is either in the old style (count, first and last timestamp) or in the
// new one (event_time, action, series); events.k8s.io/v1 refuses a mixture.
struct Event {
  ObjectMeta metadata{};
  ObjectReference involved_object{};  // regarding: what the event is about
  std::string reason{};               // short and for machines, at most 128 bytes
  std::string message{};              // note: for people, at most 1024 bytes in the new style
  EventSource source{};               // deprecatedSource
  Time first_timestamp{};             // deprecatedFirstTimestamp
  Time last_timestamp{};              // deprecatedLastTimestamp
  std::int32_t count = 0;             // deprecatedCount
  std::string type{};                 // kNormal or kWarning
  MicroTime event_time{};             // zero in the old style
  std::optional<EventSeries> series{};
  std::string action{};  // what was done or failed, at most 128 bytes
  Rare<ObjectReference> related{};
  std::string reporting_controller{};  // reportingComponent in core/v1; "kubernetes.io/kubelet"
  std::string reporting_instance{};    // "kubelet-node-1", at most 128 bytes

  bool operator==(const Event&) const = default;
};

struct EventList {
  ListMeta metadata{};
  std::vector<Event> items{};

  bool operator==(const EventList&) const = default;
};

}  // namespace herald
