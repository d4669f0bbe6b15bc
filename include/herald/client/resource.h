#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "herald/base/export.h"

namespace herald {

// A resource of the API: "apps", "v1", "replicasets". The core group is "".
struct HERALD_EXPORT Resource {
  std::string group{};
  std::string version = "v1";
  std::string resource{};  // the plural in lower case, as in URLs

  // "/apis/apps/v1/namespaces/default/replicasets/web/status". Without a namespace: the path of
  // cluster-scoped objects, or of the objects in all namespaces.
  std::string Path(std::string_view namespace_ = {}, std::string_view name = {},
                   std::string_view subresource = {}) const;
  // "apps/v1", or "v1" in the core group.
  std::string api_version() const;

  bool operator==(const Resource&) const = default;
};

struct ListOptions {
  std::string namespace_{};  // empty: all namespaces, or cluster-scoped objects
  std::string label_selector{};
  std::string field_selector{};          // see SelectorForObject()
  std::string resource_version{};        // empty: the latest state
  std::string resource_version_match{};  // "Exact" or "NotOlderThan"
  std::int64_t limit = 0;                // objects per page; 0: one page with all objects
  std::string continue_{};               // ListMeta::continue_ of the previous page
};

struct WatchOptions {
  std::string namespace_{};  // empty: all namespaces, or cluster-scoped objects
  std::string label_selector{};
  std::string field_selector{};
  // The watch starts after this version. Empty: all objects first, then changes.
  std::string resource_version{};
  bool allow_bookmarks = true;
  // true: all objects first, then a bookmark that marks their end, then changes.
  std::optional<bool> send_initial_events{};
  // The server ends the watch after this time. 0: the server decides, typically 30 to 60 minutes.
  std::chrono::seconds timeout{0};
};

struct WriteOptions {
  std::string field_manager{};     // empty: the server derives it from the user agent
  std::string field_validation{};  // "Ignore", "Warn" or "Strict"; empty: the server's default
  bool dry_run = false;
};

struct DeleteOptions {
  std::optional<std::int64_t> grace_period_seconds{};
  std::string propagation_policy{};  // "Foreground", "Background" or "Orphan"
  // Delete only if the object has this uid and this resource version.
  std::string precondition_uid{};
  std::string precondition_resource_version{};
  bool dry_run = false;
};

}  // namespace herald
