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

// How events lie in the store: keys and values are kube-apiserver's own, so that both can
// share one etcd. The value is the protobuf of core/v1 with resourceVersion and
// selfLink left out; the resourceVersion is the revision.

// What kube-apiserver's --etcd-prefix stands in the place of.
inline constexpr std::string_view kRegistryRoot = "/registry";
inline constexpr std::string_view kEventsPrefix = "/registry/events/";

// "/registry/events/<namespace>/<name>"
std::string EventStoreKey(std::string_view namespace_, std::string_view name);
// What all keys of a namespace begin with; of all events where it is empty.
std::string EventKeyPrefix(std::string_view namespace_);
// The first key that no longer begins with `prefix`. REQUIRES: prefix ends with a slash
std::string PrefixEnd(std::string_view prefix);
// Empty where the key is none of an event.
std::string_view NamespaceOfKey(std::string_view key);

// The decimal text of a revision.
std::string ToResourceVersion(store::Revision revision);

std::string EncodeStored(const Event& event);
// With the resourceVersion of the entry. kInternalError, naming the key, where the value is no
// event, or one that a kube-apiserver has encrypted. REQUIRES: entry.value
Result<Event> DecodeStored(const store::Entry& entry);

// What events can be found by besides their keys. Values may be cut off at
// kMaxIndexedBytes, and different values may fall together: an index gives candidates.
// The numbers are stored.
enum class EventIndex : std::uint8_t {
  kUid = 1,     // of the involved object
  kObject = 2,  // its name, kind and namespace
  kReason = 3,  // and the namespace of the event
  kType = 4,    // the same; not for Normal, which is nearly all there is
  kTime = 5,    // of the last occurrence
};

// A reason can be megabytes long, an index entry should not.
inline constexpr std::size_t kMaxIndexedBytes = 256;

// A range of index values, [from, to).
struct IndexRange {
  EventIndex index = EventIndex::kUid;
  std::string from{};
  std::string to{};
};
IndexRange UidRange(std::string_view uid);
// Empty views stand for "any"; namespace_ counts only with a kind.
IndexRange ObjectRange(std::string_view name, std::string_view kind, std::string_view namespace_,
                       bool any_namespace);
// In one namespace or, where that is empty, in all. The order is that of the keys.
IndexRange ReasonRange(std::string_view reason, std::string_view namespace_);
IndexRange TypeRange(std::string_view type, std::string_view namespace_);
// The value under which a key stands in one of these two, for going on behind it.
std::string ReasonValue(std::string_view reason, std::string_view namespace_);
// Sorts as the times do.
std::string TimeValue(Timestamp time);

// The index entries of a value, how long it lives and when it was written. Each write asks for the
// lifetime, so the event that is asked about has only what rules can ask for: the namespace,
// the type, the reason and the kind of the involved object.
store::Schema MakeEventSchema(std::function<std::chrono::seconds(const Event&)> lifetime);

}  // namespace herald::server
