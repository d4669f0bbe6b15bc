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

// Namespaces as far as clients of events ask for them. There are no objects behind them:
// default and kube-system always exist, and so does every namespace that has events.

struct NamespaceInfo {
  std::string name{};
  // Nobody knows when a namespace was created, but it is at least as old as its events: this is
  // the creationTimestamp of the oldest of its first Namespaces::kMaxRead events, as of the first
  // time this process saw the namespace. It stays the same until the namespace has no events any
  // more. For default and kube-system without events it is the time at which the server started.
  Time created{};
};

struct NamespaceList {
  std::vector<NamespaceInfo> items{};  // sorted by name
  store::Revision revision = 0;
};

// Whether the namespace exists without events, too.
bool IsPermanentNamespace(std::string_view name);

// Reads which namespaces there are, and remembers since when. Thread-safe.
class Namespaces {
 public:
  // Events of a namespace that are read when it is seen for the first time.
  static constexpr std::size_t kMaxRead = 1000;

  // The store is borrowed and outlives this object. `started` is when the server did.
  Namespaces(store::Store* store, WallTime started);
  Namespaces(const Namespaces&) = delete;
  Namespaces& operator=(const Namespaces&) = delete;

  // The cost is a read of one event for each namespace that is known already. `done` is called
  // exactly once, on a thread of the store or before this returns.
  void Read(std::function<void(Result<NamespaceList>)> done);

  // A namespace that a watch has seen appear with this entry, or disappear.
  NamespaceInfo Add(const std::string& name, const store::Entry& first);
  void Remove(const std::string& name);

 private:
  class Scan;
  class Table;
  store::Store* const store_;
  const std::shared_ptr<Table> table_;  // shared with scans under way
};

// JSON, without a newline.
std::string NamespaceJson(const NamespaceInfo& info, store::Revision revision);
// Documents, which end with a newline.
std::string NamespaceListJson(const NamespaceList& list);
// `now` is for the ages.
std::string NamespaceTableJson(const NamespaceList& list, TableObject object, MetaVersion version,
                               bool with_columns, WallTime now);

Status NamespaceNotFound(std::string_view name);

}  // namespace herald::server
