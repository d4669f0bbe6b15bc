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
    "apiVersion", Type::kString, {}, "The API and its version in which this document is written."};
constexpr Member kKind{"kind", Type::kString, {}, "What kind of document this is."};
constexpr Member kMetadata{"metadata", Type::kRef, kObjectMeta,
                           "Name, namespace, labels and what else every object has."};
constexpr Member kListMetadata{"metadata", Type::kRef, kListMeta,
                               "The version of the list and where its next page begins."};

constexpr auto kCoreEventMembers = std::to_array<Member>({
    {"action", Type::kString, {}, "What was done, or failed, about the object."},
    kApiVersion,
    {"count", Type::kInt32, {}, "How often the event has happened so far."},
    {"eventTime", Type::kRef, kMicroTime,
     "When the event was first observed, to the microsecond; only events in the newer style have "
     "it."},
    {"firstTimestamp", Type::kRef, kTime, "When the event was first recorded."},
    {"involvedObject", Type::kRef, kReference, "The object that the event is about.", true},
    kKind,
    {"lastTimestamp", Type::kRef, kTime, "When the event was last recorded."},
    {"message", Type::kString, {}, "What happened, for people to read."},
    {"metadata", Type::kRef, kObjectMeta, "Name, namespace, labels and what else every object has.",
     true},
    {"reason",
     Type::kString,
     {},
     "Why it happened, in one word for machines, such as FailedScheduling."},
    {"related", Type::kRef, kReference, "A second object that has to do with it."},
    {"reportingComponent",
     Type::kString,
     {},
     "The controller that reported the event, such as kubernetes.io/kubelet."},
    {"reportingInstance", Type::kString, {}, "Which instance of that controller it was."},
    {"series", Type::kRef, kCoreSeries,
     "How the event goes on, if it has happened more than once in the newer style."},
    {"source", Type::kRef, kSource, "The component that reported the event, in the older style."},
    {"type", Type::kString, {}, "Normal or Warning; others may come."},
});
constexpr auto kCoreSeriesMembers = std::to_array<Member>({
    {"count", Type::kInt32, {}, "How often it has happened so far."},
    {"lastObservedTime", Type::kRef, kMicroTime, "When it was last observed."},
});
constexpr auto kSourceMembers = std::to_array<Member>({
    {"component", Type::kString, {}, "The component, such as kubelet."},
    {"host", Type::kString, {}, "The node on which it ran."},
});
constexpr auto kReferenceMembers = std::to_array<Member>({
    {"apiVersion", Type::kString, {}, "The API and version of the object."},
    {"fieldPath",
     Type::kString,
     {},
     "The part of the object that is meant, such as spec.containers{web}."},
    {"kind", Type::kString, {}, "The kind of the object."},
    {"name", Type::kString, {}, "The name of the object."},
    {"namespace", Type::kString, {}, "The namespace of the object, if it has one."},
    {"resourceVersion", Type::kString, {}, "The version of the object that is meant."},
    {"uid", Type::kString, {}, "The identity of the object."},
});
constexpr auto kNamespaceMembers = std::to_array<Member>({
    kApiVersion,
    kKind,
    kMetadata,
    {"spec", Type::kRef, kNamespaceSpec, "How the namespace should be."},
    {"status", Type::kRef, kNamespaceStatus, "How the namespace is."},
});
constexpr auto kNamespaceSpecMembers = std::to_array<Member>({
    {"finalizers", Type::kTexts, {}, "What must be done before the namespace can go."},
});
constexpr auto kNamespaceStatusMembers = std::to_array<Member>({
    {"phase", Type::kString, {}, "Active, always."},
});
constexpr auto kEventsEventMembers = std::to_array<Member>({
    {"action", Type::kString, {}, "What was done, or failed, about the object; 128 bytes at most."},
    kApiVersion,
    {"deprecatedCount", Type::kInt32, {}, "The count of events in the older style."},
    {"deprecatedFirstTimestamp", Type::kRef, kTime,
     "The first time stamp of events in the older style."},
    {"deprecatedLastTimestamp", Type::kRef, kTime,
     "The last time stamp of events in the older style."},
    {"deprecatedSource", Type::kRef, kSource, "The source of events in the older style."},
    {"eventTime", Type::kRef, kMicroTime, "When the event was first observed, to the microsecond.",
     true},
    kKind,
    kMetadata,
    {"note", Type::kString, {}, "What happened, for people to read; 1024 bytes at most."},
    {"reason", Type::kString, {}, "Why it happened, in one word for machines; 128 bytes at most."},
    {"regarding", Type::kRef, kReference, "The object that the event is about."},
    {"related", Type::kRef, kReference, "A second object that has to do with it."},
    {"reportingController",
     Type::kString,
     {},
     "The controller that reported the event, such as kubernetes.io/kubelet."},
    {"reportingInstance",
     Type::kString,
     {},
     "Which instance of that controller it was; 128 bytes at most."},
    {"series", Type::kRef, kEventsSeries, "How the event goes on, if it has happened again."},
    {"type", Type::kString, {}, "Normal or Warning."},
});
constexpr auto kEventsSeriesMembers = std::to_array<Member>({
    {"count", Type::kInt32, {}, "How often it has happened so far, two at least.", true},
    {"lastObservedTime", Type::kRef, kMicroTime, "When it was last observed.", true},
});
constexpr auto kDeleteOptionsMembers = std::to_array<Member>({
    kApiVersion,
    {"dryRun", Type::kTexts, {}, "All: only check, and delete nothing."},
    {"gracePeriodSeconds", Type::kInt64, {}, "How long to wait; events go at once."},
    kKind,
    {"orphanDependents", Type::kBool, {}, "An older way to say propagationPolicy."},
    {"preconditions", Type::kRef, kPreconditions, "What must be true of the object to delete."},
    {"propagationPolicy",
     Type::kString,
     {},
     "What becomes of dependents: Orphan, Background or Foreground. Events have none."},
});
constexpr auto kListMetaMembers = std::to_array<Member>({
    {"continue", Type::kString, {}, "A token for the next page; nothing on the last one."},
    {"remainingItemCount", Type::kInt64, {}, "How many objects follow this page, where known."},
    {"resourceVersion", Type::kString, {}, "The version at which the list was read."},
    {"selfLink", Type::kString, {}, "No longer used."},
});
constexpr auto kManagedFieldsMembers = std::to_array<Member>({
    {"apiVersion", Type::kString, {}, "The version in which the fields are named."},
    {"fieldsType", Type::kString, {}, "FieldsV1, the only one there is."},
    {"fieldsV1", Type::kRef, kFieldsV1, "The fields that were set."},
    {"manager", Type::kString, {}, "Who set them."},
    {"operation", Type::kString, {}, "Apply or Update."},
    {"subresource", Type::kString, {}, "The subresource through which they were set."},
    {"time", Type::kRef, kTime, "When that was."},
});
constexpr auto kObjectMetaMembers = std::to_array<Member>({
    {"annotations", Type::kStringMap, {}, "Any further data about the object, by name."},
    {"creationTimestamp", Type::kRef, kTime, "When the object was created. Set by the server."},
    {"deletionGracePeriodSeconds",
     Type::kInt64,
     {},
     "How long the object may take to go. Set by the server."},
    {"deletionTimestamp", Type::kRef, kTime, "When the object was asked to go. Set by the server."},
    {"finalizers", Type::kTexts, {}, "Who must agree before the object goes.", false, "-"},
    {"generateName", Type::kString, {}, "A prefix from which the server makes up a name."},
    {"generation", Type::kInt64, {}, "Which state is wanted. Not used for events."},
    {"labels", Type::kStringMap, {}, "What the object can be selected by."},
    {"managedFields", Type::kList, kManagedFields, "Which client set which fields."},
    {"name", Type::kString, {}, "The name, unique in its namespace."},
    {"namespace", Type::kString, {}, "The namespace in which the name is unique."},
    {"ownerReferences", Type::kList, kOwner, "The objects on which this one depends.", false,
     "uid"},
    {"resourceVersion",
     Type::kString,
     {},
     "The version of the object, to be compared and handed back. Set by the server."},
    {"selfLink", Type::kString, {}, "No longer used."},
    {"uid", Type::kString, {}, "What tells it from all other objects. Set by the server."},
});
constexpr auto kOwnerMembers = std::to_array<Member>({
    {"apiVersion", Type::kString, {}, "The API and version of the owner.", true},
    {"blockOwnerDeletion", Type::kBool, {}, "Whether the owner has to wait for this object."},
    {"controller", Type::kBool, {}, "Whether the owner is the controller of this object."},
    {"kind", Type::kString, {}, "The kind of the owner.", true},
    {"name", Type::kString, {}, "The name of the owner.", true},
    {"uid", Type::kString, {}, "The identity of the owner.", true},
});
constexpr auto kPreconditionsMembers = std::to_array<Member>({
    {"resourceVersion", Type::kString, {}, "The version that the object must have."},
    {"uid", Type::kString, {}, "The identity that the object must have."},
});
constexpr auto kStatusMembers = std::to_array<Member>({
    kApiVersion,
    {"code", Type::kInt32, {}, "The HTTP code of the answer."},
    {"details", Type::kRef, kDetails, "What the status is about."},
    kKind,
    {"message", Type::kString, {}, "What happened, for people to read."},
    kListMetadata,
    {"reason", Type::kString, {}, "Why it failed, in one word for machines."},
    {"status", Type::kString, {}, "Success or Failure."},
});
constexpr auto kCauseMembers = std::to_array<Member>({
    {"field", Type::kString, {}, "The field that is at fault."},
    {"message", Type::kString, {}, "What is wrong with it."},
    {"reason", Type::kString, {}, "The same in one word for machines."},
});
constexpr auto kDetailsMembers = std::to_array<Member>({
    {"causes", Type::kList, kCause, "All that was wrong."},
    {"group", Type::kString, {}, "The group of the resource."},
    {"kind", Type::kString, {}, "The resource, or the kind."},
    {"name", Type::kString, {}, "The name of the object."},
    {"retryAfterSeconds", Type::kInt32, {}, "How long to wait before another try."},
    {"uid", Type::kString, {}, "The identity of the object."},
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
     .description = "An Event says that something happened to an object. Events are kept for a "
                    "while only, and nobody should rely on one being there.",
     .members = kCoreEventMembers,
     .kind = "Event"},
    {.name = "io.k8s.api.core.v1.EventList",
     .description = "A list of events.",
     .members = kListMembers<kCoreEvent>,
     .kind = "EventList"},
    {.name = kCoreSeries,
     .description = "How often an event has happened, and when last.",
     .members = kCoreSeriesMembers},
    {.name = kSource,
     .description = "Who reported an event in the older style.",
     .members = kSourceMembers},
    {.name = kNamespace,
     .description = "A namespace in which there are events.",
     .members = kNamespaceMembers,
     .kind = "Namespace"},
    {.name = "io.k8s.api.core.v1.NamespaceList",
     .description = "A list of namespaces.",
     .members = kListMembers<kNamespace>,
     .kind = "NamespaceList"},
    {.name = kNamespaceSpec,
     .description = "How a namespace should be.",
     .members = kNamespaceSpecMembers},
    {.name = kNamespaceStatus,
     .description = "How a namespace is.",
     .members = kNamespaceStatusMembers},
    {.name = kReference,
     .description = "Points at an object, or at a part of one.",
     .members = kReferenceMembers},
    {.name = kEventsEvent,
     .description = "An Event says that something happened to an object. Events are kept for a "
                    "while only, and nobody should rely on one being there.",
     .members = kEventsEventMembers,
     .kind = "Event",
     .group = "events.k8s.io"},
    {.name = "io.k8s.api.events.v1.EventList",
     .description = "A list of events.",
     .members = kListMembers<kEventsEvent>,
     .kind = "EventList",
     .group = "events.k8s.io"},
    {.name = kEventsSeries,
     .description = "How often an event has happened, and when last.",
     .members = kEventsSeriesMembers},
    {.name = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
     .description = "How an object is to be deleted.",
     .members = kDeleteOptionsMembers,
     .kind = "DeleteOptions"},
    {.name = kFieldsV1, .description = "A set of fields, written as a tree in JSON."},
    {.name = kListMeta, .description = "What every list has.", .members = kListMetaMembers},
    {.name = kManagedFields,
     .description = "Which client set which fields of an object, and when.",
     .members = kManagedFieldsMembers},
    {.name = kMicroTime,
     .description = "A time with six digits of fraction, 2006-01-02T15:04:05.000000Z.",
     .format = "date-time"},
    {.name = kObjectMeta, .description = "What every object has.", .members = kObjectMetaMembers},
    {.name = kOwner,
     .description = "An object on which another one depends.",
     .members = kOwnerMembers},
    {.name = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
     .description = "A change to an object, in the form that the Content-Type names."},
    {.name = kPreconditions,
     .description = "What must be true of an object before something is done to it.",
     .members = kPreconditionsMembers},
    {.name = "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
     .description = "How a request went, where the answer is no object.",
     .members = kStatusMembers,
     .kind = "Status"},
    {.name = kCause, .description = "One reason among several.", .members = kCauseMembers},
    {.name = kDetails, .description = "What a Status is about.", .members = kDetailsMembers},
    {.name = kTime,
     .description = "A time in whole seconds, 2006-01-02T15:04:05Z.",
     .format = "date-time"},
});

constexpr auto kParameters = std::to_array<OpenApiParameter>({
    {"allowWatchBookmarks", "boolean",
     "Ask for frames that tell how far the watch has come, though nothing has changed."},
    {"continue", "string", "Where the page begins: the token that the page before ended with."},
    {"dryRun", "string", "All: do everything but store the result."},
    {"fieldManager", "string", "Who makes the change."},
    {"fieldSelector", "string", "Only objects with these values of their fields."},
    {"fieldValidation", "string",
     "What becomes of fields that nobody knows: Ignore, Warn or Strict."},
    {"force", "boolean", "Only for server-side apply, which is not served."},
    {"gracePeriodSeconds", "integer", "How long to wait; events go at once."},
    {"labelSelector", "string", "Only objects with these labels."},
    {"limit", "integer", "How many objects a page has at most."},
    {"name", "string", "The name of the event."},
    {"namespace", "string", "The namespace of the event."},
    {"orphanDependents", "boolean", "An older way to say propagationPolicy."},
    {"pretty", "string", "true: indent the answer for people to read."},
    {"propagationPolicy", "string", "What becomes of dependents. Events have none."},
    {"resourceVersion", "string", "At, or from, which version to read."},
    {"resourceVersionMatch", "string", "How that version is meant: Exact or NotOlderThan."},
    {"sendInitialEvents", "boolean", "Begin the watch with all that is there."},
    {"since", "string",
     "Only events that last occurred at or after this: a time, or a duration to count back."},
    {"sortBy", "string", "lastOccurrence: the latest first, instead of the order of the names."},
    {"timeoutSeconds", "integer", "How long the request may take."},
    {"until", "string", "Only events that last occurred before this, as in since."},
    {"watch", "boolean", "Stay and tell of every change."},
});

}  // namespace

std::span<const OpenApiType> OpenApiTypes() { return kTypes; }

const OpenApiParameter* FindOpenApiParameter(std::string_view name) {
  const auto* const found = std::ranges::find(kParameters, name, &OpenApiParameter::name);
  return found == kParameters.end() ? nullptr : found;
}

}  // namespace herald::server
