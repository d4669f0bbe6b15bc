#include "server/events/stored_event.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "api/indexed_fields.h"
#include "api/protobuf/magic.h"
#include "herald/api/codec.h"

namespace herald::server {
namespace {

// The lifetime of an entry that cannot be decoded as an event: upstream's default.
constexpr std::chrono::seconds kUnreadableLifetime{3600};

bool IsProtobuf(std::string_view value) { return value.starts_with(kProtobufMagic); }

// The prefix of values that kube-apiserver encrypts (--encryption-provider-config). The provider
// and its key follow.
constexpr std::string_view kEncrypted = "k8s:enc:";

std::string_view Indexed(std::string_view value) { return value.substr(0, kMaxIndexedBytes); }

// All values with the prefix `value`. REQUIRES: its last byte is not 0xff
IndexRange Beginning(EventIndex index, std::string value) {
  IndexRange range{.index = index, .from = value, .to = std::move(value)};
  ++range.to.back();
  return range;
}

// Only this value.
IndexRange Exactly(EventIndex index, std::string value) {
  IndexRange range{.index = index, .from = value, .to = std::move(value)};
  range.to.append(1, '\0');
  return range;
}

std::string ObjectValue(std::string_view name, std::string_view kind, std::string_view namespace_) {
  std::string value;
  value.append(Indexed(name)).append(1, '\0');
  value.append(Indexed(kind)).append(1, '\0').append(Indexed(namespace_));
  return value;
}

// The slash makes namespaces sort as in the keys.
std::string InNamespace(std::string_view text, std::string_view namespace_) {
  std::string value;
  value.append(Indexed(text)).append(1, '\0').append(namespace_).append(1, '/');
  return value;
}

IndexRange InNamespaces(EventIndex index, std::string_view text, std::string_view namespace_) {
  if (!namespace_.empty()) return Exactly(index, InNamespace(text, namespace_));
  std::string all(Indexed(text));
  all.append(1, '\0');
  return Beginning(index, std::move(all));
}

std::vector<store::IndexEntry> IndexEntries(std::string_view key, const IndexedFields& keys) {
  const std::string_view namespace_ = NamespaceOfKey(key);
  std::vector<store::IndexEntry> entries;
  entries.reserve(5);
  const auto add = [&entries](EventIndex index, std::string value) {
    entries.push_back({static_cast<std::uint8_t>(index), std::move(value)});
  };
  if (!keys.uid.empty()) add(EventIndex::kUid, std::string(Indexed(keys.uid)));
  if (!keys.name.empty()) {
    add(EventIndex::kObject, ObjectValue(keys.name, keys.kind, keys.namespace_));
  }
  if (!keys.reason.empty()) add(EventIndex::kReason, InNamespace(keys.reason, namespace_));
  if (!keys.type.empty() && keys.type != kNormal) {
    add(EventIndex::kType, InNamespace(keys.type, namespace_));
  }
  add(EventIndex::kTime, TimeValue(keys.last_occurrence));
  return entries;
}

Result<Event> Decode(std::string_view value) {
  const Codec& codec = IsProtobuf(value) ? ProtobufCodec() : JsonCodec();
  return codec.DecodeEvent(value, EventApi::kCoreV1);
}

}  // namespace

std::string EventKeyPrefix(std::string_view namespace_) {
  std::string prefix(kEventsPrefix);
  if (!namespace_.empty()) prefix.append(namespace_).append(1, '/');
  return prefix;
}

std::string EventStoreKey(std::string_view namespace_, std::string_view name) {
  std::string key;
  key.reserve(kEventsPrefix.size() + namespace_.size() + 1 + name.size());
  return key.append(kEventsPrefix).append(namespace_).append(1, '/').append(name);
}

std::string PrefixEnd(std::string_view prefix) {
  std::string end(prefix);
  ++end.back();
  return end;
}

std::string_view NamespaceOfKey(std::string_view key) {
  if (!key.starts_with(kEventsPrefix)) return {};
  key.remove_prefix(kEventsPrefix.size());
  return key.substr(0, key.find('/'));
}

std::string ToResourceVersion(store::Revision revision) { return std::to_string(revision); }

std::string EncodeStored(const Event& event) {
  std::string value;
  if (event.metadata.resource_version.empty() && event.metadata.self_link.empty()) {
    ProtobufCodec().AppendEvent(event, EventApi::kCoreV1, &value);
    return value;
  }
  Event plain = event;
  plain.metadata.resource_version.clear();
  plain.metadata.self_link.clear();
  ProtobufCodec().AppendEvent(plain, EventApi::kCoreV1, &value);
  return value;
}

Result<Event> DecodeStored(const store::Entry& entry) {
  if (entry.value->starts_with(kEncrypted)) {
    const std::string_view rest = std::string_view(*entry.value).substr(kEncrypted.size());
    return Status(StatusReason::kInternalError,
                  fmt::format("Internal error occurred: the stored value of {} is encrypted ({}) "
                              "by a kube-apiserver; heraldd cannot decrypt events, so exclude "
                              "events from its encryption configuration",
                              entry.key, rest.substr(0, rest.find(':'))));
  }
  Result<Event> event = Decode(*entry.value);
  if (event) {
    event->metadata.resource_version = ToResourceVersion(entry.revision);
  } else {
    event = Status(
        StatusReason::kInternalError,
        fmt::format(
            "Internal error occurred: the stored value of {} cannot be decoded as an event: {}",
            entry.key, event.error().message()));
  }
  return event;
}

IndexRange UidRange(std::string_view uid) {
  return Exactly(EventIndex::kUid, std::string(Indexed(uid)));
}

IndexRange ObjectRange(std::string_view name, std::string_view kind, std::string_view namespace_,
                       bool any_namespace) {
  if (!kind.empty() && !any_namespace) {
    return Exactly(EventIndex::kObject, ObjectValue(name, kind, namespace_));
  }
  std::string value(Indexed(name));
  value.append(1, '\0');
  if (!kind.empty()) value.append(Indexed(kind)).append(1, '\0');
  return Beginning(EventIndex::kObject, std::move(value));
}

IndexRange ReasonRange(std::string_view reason, std::string_view namespace_) {
  return InNamespaces(EventIndex::kReason, reason, namespace_);
}

IndexRange TypeRange(std::string_view type, std::string_view namespace_) {
  return InNamespaces(EventIndex::kType, type, namespace_);
}

std::string ReasonValue(std::string_view reason, std::string_view namespace_) {
  return InNamespace(reason, namespace_);
}

std::string TimeValue(Timestamp time) {
  // Big-endian with the sign bit inverted, so that times before 1970 come first.
  const std::uint64_t seconds =
      static_cast<std::uint64_t>(time.seconds()) ^ (std::uint64_t{1} << 63);
  const auto nanos = static_cast<std::uint32_t>(time.nanos());
  std::string value;
  for (int shift = 56; shift >= 0; shift -= 8) value.push_back(static_cast<char>(seconds >> shift));
  for (int shift = 24; shift >= 0; shift -= 8) value.push_back(static_cast<char>(nanos >> shift));
  return value;
}

store::Schema MakeEventSchema(std::function<std::chrono::seconds(const Event&)> lifetime) {
  store::Schema schema;
  schema.index = [](std::string_view key, std::string_view value) {
    IndexedFields keys;
    if (ReadIndexedFields(value, &keys)) return IndexEntries(key, keys);
    // JSON, which kube-apiserver stores with --storage-media-type=application/json.
    const Result<Event> event = Decode(value);
    return event ? IndexEntries(key, IndexedFieldsOf(*event)) : std::vector<store::IndexEntry>();
  };
  schema.lifetime = [lifetime = std::move(lifetime)](std::string_view key, std::string_view value) {
    IndexedFields keys;
    if (!ReadIndexedFields(value, &keys)) {
      const Result<Event> event = Decode(value);
      return event ? lifetime(*event) : kUnreadableLifetime;
    }
    Event event;
    event.metadata.namespace_ = NamespaceOfKey(key);
    event.type = keys.type;
    event.reason = keys.reason;
    event.involved_object.kind = keys.kind;
    return lifetime(event);
  };
  schema.written = [](std::string_view, std::string_view value) -> std::optional<WallTime> {
    IndexedFields keys;
    if (!ReadIndexedFields(value, &keys)) {
      const Result<Event> event = Decode(value);
      if (!event) return std::nullopt;
      keys = IndexedFieldsOf(*event);
    }
    // The server sets the first and the recorder the second; an update changes only the second.
    const Timestamp written = std::max(keys.creation, keys.last_occurrence);
    return written.is_zero() ? WallTime::max() : written.ToWallTime();
  };
  return schema;
}

}  // namespace herald::server
