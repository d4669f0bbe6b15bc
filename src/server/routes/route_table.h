#pragma once

#include <span>
#include <string_view>

#include "server/request/request_info.h"
#include "server/routes/route.h"

namespace herald::server {

// All that a server serves. To add a resource, write a file with its handlers and add one row to
// the group in route_table.cc. Immutable, hence thread-safe.
struct RouteTable {
  std::span<const ApiGroup> groups{};  // the core group is the first; else in discovery's order
  std::span<const PathRoute> paths{};
  Handler not_found = nullptr;
  Handler method_not_allowed = nullptr;

  // The route of a request. It depends only on what was authorized: for a resource on the group,
  // version, resource, subresource, namespace, name and verb, for other paths on the path. Does not
  // allocate.
  Route Find(const RequestInfo& info) const;

  // The row of the resource that a request is about, whether or not it is served at that level.
  // `resource` is null if there is none.
  struct ResourceMatch {
    const ApiGroup* group = nullptr;
    const ResourceRoute* resource = nullptr;
  };
  ResourceMatch FindResource(const RequestInfo& info) const;

  // The group of a path below /api/ or /apis/<group>/ (any version), or null. Paths that are not
  // found there get a Status, other paths plain text.
  const ApiGroup* FindGroupOfPath(std::string_view path) const;
};

// The table of this server.
const RouteTable& Routes();

}  // namespace herald::server
