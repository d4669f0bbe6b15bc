#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "herald/api/event.h"
#include "herald/api/object_meta.h"
#include "herald/api/rare.h"
#include "herald/api/time.h"
#include "herald/base/status.h"

// The names and numbers of our types' fields in the wire formats. The JSON codec, the protobuf
// codec and patches are templates over these tables. To add a field, add it to its struct and add
// one line to each table here.
namespace herald {

// Whether JSON has the field if it is empty. Protobuf does not use it: Kubernetes writes every
// field there that is not optional, repeated or a map.
enum class Presence : std::uint8_t { kOmitEmpty, kAlways };

template <typename Owner, typename Member>
struct Field {
  using MemberType = Member;

  std::string_view json;  // the field's name in JSON
  int number;             // its number in protobuf
  std::string_view go;    // its name in Go, for errors about protobuf
  Member Owner::* member;
  Presence presence = Presence::kOmitEmpty;
  std::string_view go_type = {};  // for errors about JSON; empty if it follows from the C++ type
};

template <typename Owner, typename Member, typename... Rest>
Field(std::string_view, int, std::string_view, Member Owner::*, Rest...) -> Field<Owner, Member>;

// Whether a field of this type is optional.
template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
inline constexpr bool kIsOptional<Rare<T>> = true;

// FieldTable<T, api>::kFields has the fields of T in the order of JSON, kGoName is T's name in Go.
// Most types are the same in both spellings.
template <typename T, EventApi kApi>
struct FieldTable;

// Calls a generic function with the API as a compile-time constant, so that the spelling is
// selected once per document and not once per field.
template <typename Function>
auto WithApi(EventApi api, Function&& function) {
  return api == EventApi::kCoreV1
             ? function(std::integral_constant<EventApi, EventApi::kCoreV1>())
             : function(std::integral_constant<EventApi, EventApi::kEventsV1>());
}

template <typename T, EventApi kApi>
inline constexpr std::size_t kFieldCount =
    std::tuple_size_v<std::remove_cvref_t<decltype(FieldTable<T, kApi>::kFields)>>;

template <EventApi kApi>
struct FieldTable<OwnerReference, kApi> {
  using T = OwnerReference;
  static constexpr std::string_view kGoName = "OwnerReference";
  static constexpr auto kFields =
      std::tuple(Field{"apiVersion", 5, "APIVersion", &T::api_version, Presence::kAlways},
                 Field{"kind", 1, "Kind", &T::kind, Presence::kAlways},
                 Field{"name", 3, "Name", &T::name, Presence::kAlways},
                 Field{"uid", 4, "UID", &T::uid, Presence::kAlways, "types.UID"},
                 Field{"controller", 6, "Controller", &T::controller},
                 Field{"blockOwnerDeletion", 7, "BlockOwnerDeletion", &T::block_owner_deletion});
};

template <EventApi kApi>
struct FieldTable<ManagedFieldsEntry, kApi> {
  using T = ManagedFieldsEntry;
  static constexpr std::string_view kGoName = "ManagedFieldsEntry";
  static constexpr auto kFields = std::tuple(
      Field{"manager", 1, "Manager", &T::manager},
      Field{"operation", 2, "Operation", &T::operation, Presence::kOmitEmpty,
            "v1.ManagedFieldsOperationType"},
      Field{"apiVersion", 3, "APIVersion", &T::api_version}, Field{"time", 4, "Time", &T::time},
      Field{"fieldsType", 6, "FieldsType", &T::fields_type},
      Field{"fieldsV1", 7, "FieldsV1", &T::fields_v1},
      Field{"subresource", 8, "Subresource", &T::subresource});
};

template <EventApi kApi>
struct FieldTable<ObjectMeta, kApi> {
  using T = ObjectMeta;
  static constexpr std::string_view kGoName = "ObjectMeta";
  static constexpr auto kFields =
      std::tuple(Field{"name", 1, "Name", &T::name},
                 Field{"generateName", 2, "GenerateName", &T::generate_name},
                 Field{"namespace", 3, "Namespace", &T::namespace_},
                 Field{"selfLink", 4, "SelfLink", &T::self_link},
                 Field{"uid", 5, "UID", &T::uid, Presence::kOmitEmpty, "types.UID"},
                 Field{"resourceVersion", 6, "ResourceVersion", &T::resource_version},
                 Field{"generation", 7, "Generation", &T::generation},
                 Field{"creationTimestamp", 8, "CreationTimestamp", &T::creation_timestamp},
                 Field{"deletionTimestamp", 9, "DeletionTimestamp", &T::deletion_timestamp},
                 Field{"deletionGracePeriodSeconds", 10, "DeletionGracePeriodSeconds",
                       &T::deletion_grace_period_seconds},
                 Field{"labels", 11, "Labels", &T::labels},
                 Field{"annotations", 12, "Annotations", &T::annotations},
                 Field{"ownerReferences", 13, "OwnerReferences", &T::owner_references},
                 Field{"finalizers", 14, "Finalizers", &T::finalizers},
                 Field{"managedFields", 17, "ManagedFields", &T::managed_fields});
};

template <EventApi kApi>
struct FieldTable<ListMeta, kApi> {
  using T = ListMeta;
  static constexpr std::string_view kGoName = "ListMeta";
  static constexpr auto kFields =
      std::tuple(Field{"selfLink", 1, "SelfLink", &T::self_link},
                 Field{"resourceVersion", 2, "ResourceVersion", &T::resource_version},
                 Field{"continue", 3, "Continue", &T::continue_},
                 Field{"remainingItemCount", 4, "RemainingItemCount", &T::remaining_item_count});
};

template <EventApi kApi>
struct FieldTable<ObjectReference, kApi> {
  using T = ObjectReference;
  static constexpr std::string_view kGoName = "ObjectReference";
  static constexpr auto kFields = std::tuple(
      Field{"kind", 1, "Kind", &T::kind}, Field{"namespace", 2, "Namespace", &T::namespace_},
      Field{"name", 3, "Name", &T::name},
      Field{"uid", 4, "UID", &T::uid, Presence::kOmitEmpty, "types.UID"},
      Field{"apiVersion", 5, "APIVersion", &T::api_version},
      Field{"resourceVersion", 6, "ResourceVersion", &T::resource_version},
      Field{"fieldPath", 7, "FieldPath", &T::field_path});
};

template <EventApi kApi>
struct FieldTable<EventSource, kApi> {
  using T = EventSource;
  static constexpr std::string_view kGoName = "EventSource";
  static constexpr auto kFields = std::tuple(Field{"component", 1, "Component", &T::component},
                                             Field{"host", 2, "Host", &T::host});
};

template <EventApi kApi>
struct FieldTable<EventSeries, kApi> {
  using T = EventSeries;
  static constexpr std::string_view kGoName = "EventSeries";
  static constexpr auto kFields = std::tuple(
      Field{"count", 1, "Count", &T::count,
            kApi == EventApi::kCoreV1 ? Presence::kOmitEmpty : Presence::kAlways},
      Field{"lastObservedTime", 2, "LastObservedTime", &T::last_observed_time, Presence::kAlways});
};

template <>
struct FieldTable<Event, EventApi::kCoreV1> {
  using T = Event;
  static constexpr std::string_view kGoName = "Event";
  static constexpr auto kFields = std::tuple(
      Field{"metadata", 1, "ObjectMeta", &T::metadata, Presence::kAlways},
      Field{"involvedObject", 2, "InvolvedObject", &T::involved_object, Presence::kAlways},
      Field{"reason", 3, "Reason", &T::reason}, Field{"message", 4, "Message", &T::message},
      Field{"source", 5, "Source", &T::source, Presence::kAlways},
      Field{"firstTimestamp", 6, "FirstTimestamp", &T::first_timestamp, Presence::kAlways},
      Field{"lastTimestamp", 7, "LastTimestamp", &T::last_timestamp, Presence::kAlways},
      Field{"count", 8, "Count", &T::count}, Field{"type", 9, "Type", &T::type},
      Field{"eventTime", 10, "EventTime", &T::event_time, Presence::kAlways},
      Field{"series", 11, "Series", &T::series}, Field{"action", 12, "Action", &T::action},
      Field{"related", 13, "Related", &T::related},
      Field{"reportingComponent", 14, "ReportingController", &T::reporting_controller,
            Presence::kAlways},
      Field{"reportingInstance", 15, "ReportingInstance", &T::reporting_instance,
            Presence::kAlways});
};

template <>
struct FieldTable<Event, EventApi::kEventsV1> {
  using T = Event;
  static constexpr std::string_view kGoName = "Event";
  static constexpr auto kFields =
      std::tuple(Field{"metadata", 1, "ObjectMeta", &T::metadata, Presence::kAlways},
                 Field{"eventTime", 2, "EventTime", &T::event_time, Presence::kAlways},
                 Field{"series", 3, "Series", &T::series},
                 Field{"reportingController", 4, "ReportingController", &T::reporting_controller},
                 Field{"reportingInstance", 5, "ReportingInstance", &T::reporting_instance},
                 Field{"action", 6, "Action", &T::action}, Field{"reason", 7, "Reason", &T::reason},
                 Field{"regarding", 8, "Regarding", &T::involved_object, Presence::kAlways},
                 Field{"related", 9, "Related", &T::related},
                 Field{"note", 10, "Note", &T::message}, Field{"type", 11, "Type", &T::type},
                 Field{"deprecatedSource", 12, "DeprecatedSource", &T::source, Presence::kAlways},
                 Field{"deprecatedFirstTimestamp", 13, "DeprecatedFirstTimestamp",
                       &T::first_timestamp, Presence::kAlways},
                 Field{"deprecatedLastTimestamp", 14, "DeprecatedLastTimestamp", &T::last_timestamp,
                       Presence::kAlways},
                 Field{"deprecatedCount", 15, "DeprecatedCount", &T::count});
};

template <EventApi kApi>
struct FieldTable<EventList, kApi> {
  using T = EventList;
  static constexpr std::string_view kGoName = "EventList";
  static constexpr auto kFields =
      std::tuple(Field{"metadata", 1, "ListMeta", &T::metadata, Presence::kAlways},
                 Field{"items", 2, "Items", &T::items, Presence::kAlways});
};

// Kubernetes' metav1.Status as it is encoded. Status is converted from and to it.
struct WireStatusDetails {
  std::string name;
  std::string group;
  std::string kind;
  std::string uid;
  std::vector<StatusCause> causes;
  std::int32_t retry_after_seconds = 0;
};

struct WireStatus {
  ListMeta metadata;
  std::string status;
  std::string message;
  std::string reason;
  std::optional<WireStatusDetails> details;
  std::int32_t code = 0;
};

WireStatus ToWire(const Status& status);
Status FromWire(WireStatus wire);

template <EventApi kApi>
struct FieldTable<StatusCause, kApi> {
  using T = StatusCause;
  static constexpr std::string_view kGoName = "StatusCause";
  static constexpr auto kFields = std::tuple(
      Field{"reason", 1, "Type", &T::reason, Presence::kOmitEmpty, "v1.CauseType"},
      Field{"message", 2, "Message", &T::message}, Field{"field", 3, "Field", &T::field});
};

template <EventApi kApi>
struct FieldTable<WireStatusDetails, kApi> {
  using T = WireStatusDetails;
  static constexpr std::string_view kGoName = "StatusDetails";
  static constexpr auto kFields =
      std::tuple(Field{"name", 1, "Name", &T::name}, Field{"group", 2, "Group", &T::group},
                 Field{"kind", 3, "Kind", &T::kind},
                 Field{"uid", 6, "UID", &T::uid, Presence::kOmitEmpty, "types.UID"},
                 Field{"causes", 4, "Causes", &T::causes},
                 Field{"retryAfterSeconds", 5, "RetryAfterSeconds", &T::retry_after_seconds});
};

template <EventApi kApi>
struct FieldTable<WireStatus, kApi> {
  using T = WireStatus;
  static constexpr std::string_view kGoName = "Status";
  static constexpr auto kFields = std::tuple(
      Field{"metadata", 1, "ListMeta", &T::metadata, Presence::kAlways},
      Field{"status", 2, "Status", &T::status}, Field{"message", 3, "Message", &T::message},
      Field{"reason", 4, "Reason", &T::reason, Presence::kOmitEmpty, "v1.StatusReason"},
      Field{"details", 5, "Details", &T::details}, Field{"code", 6, "Code", &T::code});
};

}  // namespace herald
