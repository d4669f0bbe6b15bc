#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "herald/api/rare.h"
#include "herald/api/string_map.h"
#include "herald/api/time.h"

namespace herald {

// Who owns an object. The garbage collector reads it; Herald only keeps it.
struct OwnerReference {
  std::string api_version{};
  std::string kind{};
  std::string name{};
  std::string uid{};
  std::optional<bool> controller{};
  std::optional<bool> block_owner_deletion{};

  bool operator==(const OwnerReference&) const = default;
};

// Which client set which fields. Herald keeps entries as they came and makes none.
struct ManagedFieldsEntry {
  std::string manager{};
  std::string operation{};  // "Apply" or "Update"
  std::string api_version{};
  std::optional<Time> time{};
  std::string fields_type{};               // "FieldsV1"
  std::optional<std::string> fields_v1{};  // the JSON text, untouched
  std::string subresource{};

  bool operator==(const ManagedFieldsEntry&) const = default;
};

// What every Kubernetes object carries. Limits are the API server's; core/v1
// events are held to few of them (see validation.h).
struct ObjectMeta {
  std::string name{};           // unique in its namespace
  std::string generate_name{};  // prefix for a name that the server makes up
  std::string namespace_{};     // DNS label, at most 63 bytes
  std::string self_link{};      // no server since 1.20 sets it
  std::string uid{};
  std::string resource_version{};  // the server's opaque version of this object
  std::int64_t generation = 0;     // stays 0 on events
  Time creation_timestamp{};
  Rare<Time> deletion_timestamp{};
  Rare<std::int64_t> deletion_grace_period_seconds{};
  StringMap labels{};
  StringMap annotations{};  // at most 256 KiB in all
  std::vector<OwnerReference> owner_references{};
  std::vector<std::string> finalizers{};
  std::vector<ManagedFieldsEntry> managed_fields{};

  bool operator==(const ObjectMeta&) const = default;
};

// What every Kubernetes list carries.
struct ListMeta {
  std::string self_link{};
  std::string resource_version{};  // the version the whole list was read at
  std::string continue_{};         // token of the next page; empty on the last
  std::optional<std::int64_t> remaining_item_count{};

  bool operator==(const ListMeta&) const = default;
};

}  // namespace herald
