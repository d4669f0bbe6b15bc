#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread/mutex.h"
#include "herald/api/object_meta.h"
#include "herald/api/table.h"
#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "store/store.h"

namespace herald::server {

// Namespaces for clients of events. They are not stored: default and kube-system always exist, and
// every namespace exists that has events.

struct NamespaceInfo {
  std::string name{};
  // The time of creation is unknown, but a namespace is at least as old as its events. So this is
  // the creationTimestamp of the oldest of its first Namespaces::kMaxRead events when this process
  // first saw the namespace. It stays the same while the namespace has events. For default and
  // kube-system without events it is the time at which the server started.
  Time created{};
};

struct NamespaceList {
  std::vector<NamespaceInfo> items{};  // sorted by name
  store::Revision revision = 0;
};

// Whether the namespace exists even without events.
bool IsPermanentNamespace(std::string_view name);

// Reads the namespaces, and remembers since when each exists. Thread-safe.
class Namespaces {
 public:
  // Events that are read of a namespace when it is seen for the first time.
  static constexpr std::size_t kMaxRead = 1000;

  // The store is borrowed and outlives this object. `started` is when the server did.
  Namespaces(store::Store* store, WallTime started);
  Namespaces(const Namespaces&) = delete;
  Namespaces& operator=(const Namespaces&) = delete;

  // Reads one event of each known namespace. `done` is called exactly once, on a thread of the
  // store or before this returns.
  void Read(std::function<void(Result<NamespaceList>)> done);

  // Called by a watch when a namespace gets its first entry, or loses its last one.
  NamespaceInfo Add(const std::string& name, const store::Entry& first);
  void Remove(const std::string& name);

 private:
  class Scan;
  class Table;
  store::Store* const store_;
  const std::shared_ptr<Table> table_;  // shared with running scans
};

// JSON, without a newline.
std::string NamespaceJson(const NamespaceInfo& info, store::Revision revision);
// Documents, which end with a newline.
std::string NamespaceListJson(const NamespaceList& list);
// Ages are relative to `now`.
std::string NamespaceTableJson(const NamespaceList& list, TableObject object, MetaVersion version,
                               bool with_columns, WallTime now);

Status NamespaceNotFound(std::string_view name);

}  // namespace herald::server
