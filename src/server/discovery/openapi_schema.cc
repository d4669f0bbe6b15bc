#include "server/discovery/openapi_schema.h"

#include <algorithm>
#include <array>

namespace herald::server {
namespace {

using Member = OpenApiMember;
using Type = OpenApiMember::Type;

constexpr std::string_view kCoreEvent = "io.k8s.api.core.v1.Event";
constexpr std::string_view kCoreSeries = "io.k8s.api.core.v1.EventSeries";
constexpr std::string_view kSource = "io.k8s.api.core.v1.EventSource";
constexpr std::string_view kReference = "io.k8s.api.core.v1.ObjectReference";
constexpr std::string_view kNamespace = "io.k8s.api.core.v1.Namespace";
constexpr std::string_view kNamespaceSpec = "io.k8s.api.core.v1.NamespaceSpec";
constexpr std::string_view kNamespaceStatus = "io.k8s.api.core.v1.NamespaceStatus";
constexpr std::string_view kEventsEvent = "io.k8s.api.events.v1.Event";
constexpr std::string_view kEventsSeries = "io.k8s.api.events.v1.EventSeries";
constexpr std::string_view kFieldsV1 = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
constexpr std::string_view kListMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
constexpr std::string_view kManagedFields =
    "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry";
constexpr std::string_view kMicroTime = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
constexpr std::string_view kObjectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
constexpr std::string_view kOwner = "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference";
constexpr std::string_view kPreconditions = "io.k8s.apimachinery.pkg.apis.meta.v1.Preconditions";
constexpr std::string_view kCause = "io.k8s.apimachinery.pkg.apis.meta.v1.StatusCause";
constexpr std::string_view kDetails = "io.k8s.apimachinery.pkg.apis.meta.v1.StatusDetails";
constexpr std::string_view kTime = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";

// Every object begins with these.
constexpr Member kApiVersion{
    "apiVersion", Type::kString, {}, "The API group and version of this object."};
constexpr Member kKind{"kind", Type::kString, {}, "The kind of this object."};
constexpr Member kMetadata{"metadata", Type::kRef, kObjectMeta,
                           "Name, namespace, labels and other data that every object has."};
constexpr Member kListMetadata{"metadata", Type::kRef, kListMeta,
                               "The resource version of the list and the token of its next page."};

constexpr auto kCoreEventMembers = std::to_array<Member>({
    {"action", Type::kString, {}, "The action that was taken, or failed, regarding the object."},
    kApiVersion,
    {"count", Type::kInt32, {}, "How many times the event has occurred."},
    {"eventTime", Type::kRef, kMicroTime,
     "When the event was first observed, to the microsecond; only events in the newer style have "
     "it."},
    {"firstTimestamp", Type::kRef, kTime, "When the event was first recorded."},
    {"involvedObject", Type::kRef, kReference, "The object that the event is about.", true},
    kKind,
    {"lastTimestamp", Type::kRef, kTime, "When the event was last recorded."},
    {"message", Type::kString, {}, "A description of what happened, for people."},
    {"metadata", Type::kRef, kObjectMeta,
     "Name, namespace, labels and other data that every object has.", true},
    {"reason",
     Type::kString,
     {},
     "The reason in one word, for programs, such as FailedScheduling."},
    {"related", Type::kRef, kReference, "A second object that the event is related to."},
    {"reportingComponent",
     Type::kString,
     {},
     "The controller that reported the event, such as kubernetes.io/kubelet."},
    {"reportingInstance", Type::kString, {}, "The instance of that controller, such as its pod."},
    {"series", Type::kRef, kCoreSeries, "Later occurrences of an event in the newer style."},
    {"source", Type::kRef, kSource, "The component that reported the event, in the older style."},
    {"type", Type::kString, {}, "Normal or Warning; more types may be added."},
});
constexpr auto kCoreSeriesMembers = std::to_array<Member>({
    {"count", Type::kInt32, {}, "How many times the event has occurred."},
    {"lastObservedTime", Type::kRef, kMicroTime, "When it was last observed."},
});
constexpr auto kSourceMembers = std::to_array<Member>({
    {"component", Type::kString, {}, "The component, such as kubelet."},
    {"host", Type::kString, {}, "The node on which it runs."},
});
constexpr auto kReferenceMembers = std::to_array<Member>({
    {"apiVersion", Type::kString, {}, "The API group and version of the object."},
    {"fieldPath", Type::kString, {}, "The part of the object, such as spec.containers{web}."},
    {"kind", Type::kString, {}, "The kind of the object."},
    {"name", Type::kString, {}, "The name of the object."},
    {"namespace", Type::kString, {}, "The namespace of the object, if it has one."},
    {"resourceVersion", Type::kString, {}, "The resource version of the object."},
    {"uid", Type::kString, {}, "The UID of the object."},
});
constexpr auto kNamespaceMembers = std::to_array<Member>({
    kApiVersion,
    kKind,
    kMetadata,
    {"spec", Type::kRef, kNamespaceSpec, "The desired state of the namespace."},
    {"status", Type::kRef, kNamespaceStatus, "The current state of the namespace."},
});
constexpr auto kNamespaceSpecMembers = std::to_array<Member>({
    {"finalizers",
     Type::kStrings,
     {},
     "Names of controllers that must finish before the namespace is deleted."},
});
constexpr auto kNamespaceStatusMembers = std::to_array<Member>({
    {"phase", Type::kString, {}, "Always Active."},
});
constexpr auto kEventsEventMembers = std::to_array<Member>({
    {"action",
     Type::kString,
     {},
     "The action that was taken, or failed, regarding the object; at most 128 bytes."},
    kApiVersion,
    {"deprecatedCount", Type::kInt32, {}, "The count of events in the older style."},
    {"deprecatedFirstTimestamp", Type::kRef, kTime,
     "The first timestamp of events in the older style."},
    {"deprecatedLastTimestamp", Type::kRef, kTime,
     "The last timestamp of events in the older style."},
    {"deprecatedSource", Type::kRef, kSource, "The source of events in the older style."},
    {"eventTime", Type::kRef, kMicroTime, "When the event was first observed, to the microsecond.",
     true},
    kKind,
    kMetadata,
    {"note", Type::kString, {}, "A description of what happened, for people; at most 1024 bytes."},
    {"reason", Type::kString, {}, "The reason in one word, for programs; at most 128 bytes."},
    {"regarding", Type::kRef, kReference, "The object that the event is about."},
    {"related", Type::kRef, kReference, "A second object that the event is related to."},
    {"reportingController",
     Type::kString,
     {},
     "The controller that reported the event, such as kubernetes.io/kubelet."},
    {"reportingInstance",
     Type::kString,
     {},
     "The instance of that controller, such as its pod; at most 128 bytes."},
    {"series", Type::kRef, kEventsSeries, "Later occurrences of the event."},
    {"type", Type::kString, {}, "Normal or Warning."},
});
constexpr auto kEventsSeriesMembers = std::to_array<Member>({
    {"count", Type::kInt32, {}, "How many times the event has occurred; at least 2.", true},
    {"lastObservedTime", Type::kRef, kMicroTime, "When it was last observed.", true},
});
constexpr auto kDeleteOptionsMembers = std::to_array<Member>({
    kApiVersion,
    {"dryRun", Type::kStrings, {}, "All: validate, but delete nothing."},
    {"gracePeriodSeconds",
     Type::kInt64,
     {},
     "Grace period in seconds. Events are deleted at once."},
    kKind,
    {"orphanDependents", Type::kBool, {}, "Deprecated; use propagationPolicy."},
    {"preconditions", Type::kRef, kPreconditions,
     "Conditions that the object must meet to be deleted."},
    {"propagationPolicy",
     Type::kString,
     {},
     "How dependents are deleted: Orphan, Background or Foreground. Events have none."},
});
constexpr auto kListMetaMembers = std::to_array<Member>({
    {"continue", Type::kString, {}, "The token of the next page; empty on the last page."},
    {"remainingItemCount", Type::kInt64, {}, "The number of objects after this page, if known."},
    {"resourceVersion", Type::kString, {}, "The resource version at which the list was read."},
    {"selfLink", Type::kString, {}, "No longer used."},
});
constexpr auto kManagedFieldsMembers = std::to_array<Member>({
    {"apiVersion", Type::kString, {}, "The API version of the fields."},
    {"fieldsType", Type::kString, {}, "Always FieldsV1."},
    {"fieldsV1", Type::kRef, kFieldsV1, "The fields that were set."},
    {"manager", Type::kString, {}, "The client that set them."},
    {"operation", Type::kString, {}, "Apply or Update."},
    {"subresource", Type::kString, {}, "The subresource through which they were set."},
    {"time", Type::kRef, kTime, "When they were set."},
});
constexpr auto kObjectMetaMembers = std::to_array<Member>({
    {"annotations", Type::kStringMap, {}, "Additional data about the object, by name."},
    {"creationTimestamp", Type::kRef, kTime, "When the object was created. Set by the server."},
    {"deletionGracePeriodSeconds",
     Type::kInt64,
     {},
     "Seconds until the object is deleted. Set by the server."},
    {"deletionTimestamp", Type::kRef, kTime, "When the deletion was requested. Set by the server."},
    {"finalizers",
     Type::kStrings,
     {},
     "Names of controllers that must finish before the object is deleted.",
     false,
     "-"},
    {"generateName", Type::kString, {}, "A prefix for a name that the server generates."},
    {"generation", Type::kInt64, {}, "The generation of the desired state. Not used for events."},
    {"labels", Type::kStringMap, {}, "Keys and values by which the object can be selected."},
    {"managedFields", Type::kList, kManagedFields, "Which client set which fields."},
    {"name", Type::kString, {}, "The name, unique in its namespace."},
    {"namespace", Type::kString, {}, "The namespace in which the name is unique."},
    {"ownerReferences", Type::kList, kOwner, "The objects on which this one depends.", false,
     "uid"},
    {"resourceVersion",
     Type::kString,
     {},
     "The version of the object, for comparison and for updates. Set by the server."},
    {"selfLink", Type::kString, {}, "No longer used."},
    {"uid", Type::kString, {}, "Unique among all objects and over time. Set by the server."},
});
constexpr auto kOwnerMembers = std::to_array<Member>({
    {"apiVersion", Type::kString, {}, "The API group and version of the owner.", true},
    {"blockOwnerDeletion",
     Type::kBool,
     {},
     "Whether the owner cannot be deleted before this object."},
    {"controller", Type::kBool, {}, "Whether the owner is the controller of this object."},
    {"kind", Type::kString, {}, "The kind of the owner.", true},
    {"name", Type::kString, {}, "The name of the owner.", true},
    {"uid", Type::kString, {}, "The UID of the owner.", true},
});
constexpr auto kPreconditionsMembers = std::to_array<Member>({
    {"resourceVersion", Type::kString, {}, "The resource version that the object must have."},
    {"uid", Type::kString, {}, "The UID that the object must have."},
});
constexpr auto kStatusMembers = std::to_array<Member>({
    kApiVersion,
    {"code", Type::kInt32, {}, "The HTTP code of the response."},
    {"details", Type::kRef, kDetails, "Details of the status."},
    kKind,
    {"message", Type::kString, {}, "A description of what happened, for people."},
    kListMetadata,
    {"reason", Type::kString, {}, "The reason of the failure in one word, for programs."},
    {"status", Type::kString, {}, "Success or Failure."},
});
constexpr auto kCauseMembers = std::to_array<Member>({
    {"field", Type::kString, {}, "The field that caused the error."},
    {"message", Type::kString, {}, "A description of the error, for people."},
    {"reason", Type::kString, {}, "The error in one word, for programs."},
});
constexpr auto kDetailsMembers = std::to_array<Member>({
    {"causes", Type::kList, kCause, "All errors."},
    {"group", Type::kString, {}, "The group of the resource."},
    {"kind", Type::kString, {}, "The resource, or the kind."},
    {"name", Type::kString, {}, "The name of the object."},
    {"retryAfterSeconds", Type::kInt32, {}, "Seconds to wait before a retry."},
    {"uid", Type::kString, {}, "The UID of the object."},
});

template <std::string_view const& kItem>
constexpr auto kListMembers = std::to_array<Member>({
    kApiVersion,
    {"items", Type::kList, kItem, "The objects.", true},
    kKind,
    kListMetadata,
});

constexpr auto kTypes = std::to_array<OpenApiType>({
    {.name = kCoreEvent,
     .description = "An Event reports that something happened to an object. Events are kept for "
                    "a limited time, so clients must not rely on their existence.",
     .members = kCoreEventMembers,
     .kind = "Event"},
    {.name = "io.k8s.api.core.v1.EventList",
     .description = "A list of events.",
     .members = kListMembers<kCoreEvent>,
     .kind = "EventList"},
    {.name = kCoreSeries,
     .description = "How many times an event has occurred, and when it last did.",
     .members = kCoreSeriesMembers},
    {.name = kSource,
     .description = "The component that reported an event, in the older style.",
     .members = kSourceMembers},
    {.name = kNamespace,
     .description = "A namespace with events.",
     .members = kNamespaceMembers,
     .kind = "Namespace"},
    {.name = "io.k8s.api.core.v1.NamespaceList",
     .description = "A list of namespaces.",
     .members = kListMembers<kNamespace>,
     .kind = "NamespaceList"},
    {.name = kNamespaceSpec,
     .description = "The desired state of a namespace.",
     .members = kNamespaceSpecMembers},
    {.name = kNamespaceStatus,
     .description = "The current state of a namespace.",
     .members = kNamespaceStatusMembers},
    {.name = kReference,
     .description = "A reference to an object or a part of one.",
     .members = kReferenceMembers},
    {.name = kEventsEvent,
     .description = "An Event reports that something happened to an object. Events are kept for "
                    "a limited time, so clients must not rely on their existence.",
     .members = kEventsEventMembers,
     .kind = "Event",
     .group = "events.k8s.io"},
    {.name = "io.k8s.api.events.v1.EventList",
     .description = "A list of events.",
     .members = kListMembers<kEventsEvent>,
     .kind = "EventList",
     .group = "events.k8s.io"},
    {.name = kEventsSeries,
     .description = "How many times an event has occurred, and when it last did.",
     .members = kEventsSeriesMembers},
    {.name = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
     .description = "Options for the deletion of an object.",
     .members = kDeleteOptionsMembers,
     .kind = "DeleteOptions"},
    {.name = kFieldsV1, .description = "A set of fields as a JSON tree."},
    {.name = kListMeta, .description = "Metadata of a list.", .members = kListMetaMembers},
    {.name = kManagedFields,
     .description = "The fields that a client has set, and when.",
     .members = kManagedFieldsMembers},
    {.name = kMicroTime,
     .description = "A time with six digits of fraction, 2006-01-02T15:04:05.000000Z.",
     .format = "date-time"},
    {.name = kObjectMeta, .description = "Metadata of an object.", .members = kObjectMetaMembers},
    {.name = kOwner,
     .description = "An object on which another one depends.",
     .members = kOwnerMembers},
    {.name = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
     .description = "A patch of an object, in the format of the Content-Type."},
    {.name = kPreconditions,
     .description = "Conditions that an object must meet before an operation.",
     .members = kPreconditionsMembers},
    {.name = "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
     .description = "The result of a request that does not return an object.",
     .members = kStatusMembers,
     .kind = "Status"},
    {.name = kCause, .description = "One of several causes of an error.", .members = kCauseMembers},
    {.name = kDetails, .description = "Details of a Status.", .members = kDetailsMembers},
    {.name = kTime,
     .description = "A time in whole seconds, 2006-01-02T15:04:05Z.",
     .format = "date-time"},
});

constexpr auto kParameters = std::to_array<OpenApiParameter>({
    {"allowWatchBookmarks", "boolean",
     "Send bookmarks: events with only the latest resource version."},
    {"continue", "string", "The continue token of the previous page."},
    {"dryRun", "string", "All: do everything except storing the result."},
    {"fieldManager", "string", "The name of the client that makes the change."},
    {"fieldSelector", "string", "Select objects by their fields."},
    {"fieldValidation", "string",
     "How unknown and duplicate fields are handled: Ignore, Warn or Strict."},
    {"force", "boolean", "Only for server-side apply, which is not served."},
    {"gracePeriodSeconds", "integer", "Grace period in seconds. Events are deleted at once."},
    {"labelSelector", "string", "Select objects by their labels."},
    {"limit", "integer", "The maximum number of objects in a page."},
    {"name", "string", "The name of the event."},
    {"namespace", "string", "The namespace of the event."},
    {"orphanDependents", "boolean", "Deprecated; use propagationPolicy."},
    {"pretty", "string", "true: indent the response."},
    {"propagationPolicy", "string", "How dependents are deleted. Events have none."},
    {"resourceVersion", "string",
     "The resource version at which to list, or after which to watch."},
    {"resourceVersionMatch", "string", "How resourceVersion is applied: Exact or NotOlderThan."},
    {"sendInitialEvents", "boolean", "Begin the watch with the existing objects."},
    {"since", "string",
     "Only events that last occurred at or after this: a time, or a duration before now."},
    {"sortBy", "string", "lastOccurrence: the latest first, instead of by name."},
    {"timeoutSeconds", "integer", "The timeout of the request."},
    {"until", "string", "Only events that last occurred before this, as in since."},
    {"watch", "boolean", "Send every change as it happens."},
});

}  // namespace

std::span<const OpenApiType> OpenApiTypes() { return kTypes; }

const OpenApiParameter* FindOpenApiParameter(std::string_view name) {
  const auto* const found = std::ranges::find(kParameters, name, &OpenApiParameter::name);
  return found == kParameters.end() ? nullptr : found;
}

}  // namespace herald::server
