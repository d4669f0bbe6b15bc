#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "herald/base/export.h"

namespace herald {

// Which objects: "apps", "v1", "replicasets". The core group is "".
struct HERALD_EXPORT Resource {
  std::string group{};
  std::string version = "v1";
  std::string resource{};  // the plural in lower case, as in URLs

  // "/apis/apps/v1/namespaces/default/replicasets/web/status". Without a namespace: of
  // cluster-scoped objects, or of all namespaces.
  std::string Path(std::string_view namespace_ = {}, std::string_view name = {},
                   std::string_view subresource = {}) const;
  // "apps/v1", or "v1" in the core group.
  std::string api_version() const;

  bool operator==(const Resource&) const = default;
};

struct ListOptions {
  std::string namespace_{};  // empty: all, or cluster-scoped
  std::string label_selector{};
  std::string field_selector{};          // see SelectorForObject()
  std::string resource_version{};        // empty: the newest state
  std::string resource_version_match{};  // "Exact" or "NotOlderThan"
  std::int64_t limit = 0;                // objects per page; 0: all at once
  std::string continue_{};               // ListMeta::continue_ of the page before
};

struct WatchOptions {
  std::string namespace_{};  // empty: all, or cluster-scoped
  std::string label_selector{};
  std::string field_selector{};
  std::string resource_version{};  // changes after it; empty: all objects first, then changes
  bool allow_bookmarks = true;
  // true: all objects first, then a bookmark that says so, then changes.
  std::optional<bool> send_initial_events{};
  // When the server ends the watch, cleanly; 0: when it likes, after 30 to 60 minutes.
  std::chrono::seconds timeout{0};
};

struct WriteOptions {
  std::string field_manager{};     // empty: from the user agent
  std::string field_validation{};  // "Ignore", "Warn" or "Strict"; empty: the server's default
  bool dry_run = false;
};

struct DeleteOptions {
  std::optional<std::int64_t> grace_period_seconds{};
  std::string propagation_policy{};  // "Foreground", "Background" or "Orphan"
  // Only if the object is still this one.
  std::string precondition_uid{};
  std::string precondition_resource_version{};
  bool dry_run = false;
};

}  // namespace herald
