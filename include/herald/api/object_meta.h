#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "herald/api/rare.h"
#include "herald/api/string_map.h"
#include "herald/api/time.h"

namespace herald {

// The owner of an object. Kubernetes' garbage collector reads it; Herald only stores it.
struct OwnerReference {
  std::string api_version{};         // required
  std::string kind{};                // required; not "Event" of "v1"
  std::string name{};                // required
  std::string uid{};                 // required; a strategic merge patch merges owners by it
  std::optional<bool> controller{};  // true for at most one owner
  std::optional<bool> block_owner_deletion{};

  bool operator==(const OwnerReference&) const = default;
};

// The fields that one client has set. Herald stores entries unchanged and creates none. kubectl
// prints them only with --show-managed-fields.
struct ManagedFieldsEntry {
  std::string manager{};    // at most 128 bytes, printable characters
  std::string operation{};  // "Apply" or "Update"
  std::string api_version{};
  std::optional<Time> time{};
  std::string fields_type{};               // "FieldsV1" or empty
  std::optional<std::string> fields_v1{};  // JSON, stored unchanged
  std::string subresource{};               // at most 256 bytes

  bool operator==(const ManagedFieldsEntry&) const = default;
};

// The metadata of every Kubernetes object. The limits are the API server's (see validation.h);
// kubectl prints fields without a column in its -o yaml and -o json output.
struct ObjectMeta {
  // Unique in its namespace. events.k8s.io/v1: a DNS subdomain of at most 253 bytes; core/v1: any
  // string without '/' and '%' except "." and "..". Column NAME of `kubectl get events -o wide`.
  std::string name{};
  // If name is empty, the server creates one that begins with at most 58 bytes of this prefix.
  std::string generate_name{};
  // A DNS label of at most 63 bytes. Column NAMESPACE of `kubectl get events -A`.
  std::string namespace_{};
  std::string self_link{};         // not set by servers since Kubernetes 1.20
  std::string uid{};               // set by the server
  std::string resource_version{};  // set by the server; an opaque version of this object
  std::int64_t generation = 0;     // 0 for events; must not be negative
  Time creation_timestamp{};       // set by the server
  Rare<Time> deletion_timestamp{};
  Rare<std::int64_t> deletion_grace_period_seconds{};
  // Keys are qualified names: at most 63 bytes after an optional DNS subdomain and a slash. Values
  // have at most 63 bytes. `kubectl get --show-labels` prints them.
  StringMap labels{};
  // Keys as for labels, but a prefix may have upper case letters. All keys and values together have
  // at most 256 KiB.
  StringMap annotations{};
  std::vector<OwnerReference> owner_references{};
  std::vector<std::string> finalizers{};  // qualified names
  std::vector<ManagedFieldsEntry> managed_fields{};

  bool operator==(const ObjectMeta&) const = default;
};

// The metadata of every Kubernetes list.
struct ListMeta {
  std::string self_link{};         // not set by servers since Kubernetes 1.20
  std::string resource_version{};  // the version at which the whole list was read
  std::string continue_{};         // the token for the next page; empty on the last page
  std::optional<std::int64_t> remaining_item_count{};  // items after this page, if known

  bool operator==(const ListMeta&) const = default;
};

}  // namespace herald
