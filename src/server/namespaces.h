#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "herald/api/object_meta.h"
#include "herald/api/table.h"
#include "herald/base/status.h"
#include "store/store.h"

namespace herald::server {

// Namespaces as far as clients of events ask for them. There are no objects behind them:
// default and kube-system are always there, and so is every namespace that has events.

struct NamespaceList {
  std::vector<std::string> names{};  // sorted
  store::Revision revision = 0;
};

// Looks which there are. The cost follows the number of namespaces, not of events. `done`
// is called exactly once, on a thread of the store or before this returns.
void ReadNamespaces(store::Store* store, std::function<void(Result<NamespaceList>)> done);

// JSON, without a newline.
std::string NamespaceJson(std::string_view name, store::Revision revision);
// Documents, which end with a newline.
std::string NamespaceListJson(const NamespaceList& list);
std::string NamespaceTableJson(const NamespaceList& list, TableObject object, MetaVersion version,
                               bool with_columns);

Status NamespaceNotFound(std::string_view name);

}  // namespace herald::server
