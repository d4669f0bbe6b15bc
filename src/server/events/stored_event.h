#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "herald/api/event.h"
#include "herald/base/status.h"
#include "store/store.h"

namespace herald::server {

// The stored form of events. Keys and values are kube-apiserver's, so that both servers can share
// one etcd. The value is the protobuf of core/v1 without resourceVersion and selfLink; the
// resourceVersion is the revision.

// The prefix that kube-apiserver's --etcd-prefix replaces.
inline constexpr std::string_view kRegistryRoot = "/registry";
inline constexpr std::string_view kEventsPrefix = "/registry/events/";

// "/registry/events/<namespace>/<name>"
std::string EventStoreKey(std::string_view namespace_, std::string_view name);
// The prefix of all keys of a namespace, or of all events if it is empty.
std::string EventKeyPrefix(std::string_view namespace_);
// The first key after all keys with this prefix. REQUIRES: prefix ends with a slash
std::string PrefixEnd(std::string_view prefix);
// Empty if the key is not that of an event.
std::string_view NamespaceOfKey(std::string_view key);

// The revision as a decimal string.
std::string ToResourceVersion(store::Revision revision);

std::string EncodeStored(const Event& event);
// With the resourceVersion of the entry. kInternalError with the key if the value cannot be
// decoded, for example because a kube-apiserver has encrypted it. REQUIRES: entry.value
Result<Event> DecodeStored(const store::Entry& entry);

// The indexes of events. Values may be cut at kMaxIndexedBytes, so different values may become
// equal: an index returns candidates. The numbers are stored.
enum class EventIndex : std::uint8_t {
  kUid = 1,     // of the involved object
  kObject = 2,  // its name, kind and namespace
  kReason = 3,  // and the namespace of the event
  kType = 4,    // and the namespace; not for Normal, which nearly all events have
  kTime = 5,    // of the last occurrence
};

// A reason can be megabytes long, but an index entry should be short.
inline constexpr std::size_t kMaxIndexedBytes = 256;

// A range of index values, [from, to).
struct IndexRange {
  EventIndex index = EventIndex::kUid;
  std::string from{};
  std::string to{};
};
IndexRange UidRange(std::string_view uid);
// Empty views mean "any"; namespace_ is used only with a kind.
IndexRange ObjectRange(std::string_view name, std::string_view kind, std::string_view namespace_,
                       bool any_namespace);
// In one namespace or, if that is empty, in all. The order is that of the keys.
IndexRange ReasonRange(std::string_view reason, std::string_view namespace_);
IndexRange TypeRange(std::string_view type, std::string_view namespace_);
// The index value of a key in one of these two, to continue after it.
std::string ReasonValue(std::string_view reason, std::string_view namespace_);
// Sorts by time.
std::string TimeValue(Timestamp time);

// The index entries of a value, its lifetime and its time of writing. `lifetime` is called for each
// write, so for speed its event has only what retention rules can match: the namespace, the type,
// the reason and the kind of the involved object.
store::Schema MakeEventSchema(std::function<std::chrono::seconds(const Event&)> lifetime);

}  // namespace herald::server
