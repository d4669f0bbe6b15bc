#pragma once

#include <string>
#include <string_view>

#include "http/url.h"

namespace herald::server {

// What a request is about, parsed once from its method and its URL. Authorization, dispatch
// (routes/route_table.h), metrics and errors use it and nothing else, so the action that is
// executed is the one that was authorized. As kube-apiserver's RequestInfo
// (apiserver/pkg/endpoints/request/requestinfo.go). An ordinary value.
struct RequestInfo {
  std::string method{};  // "GET"
  std::string path{};    // without the query, decoded
  http::Query query{};

  // "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"; for a path
  // that is not a resource the method in lower case.
  std::string verb{};
  // The path has empty segments, "." or "..". No handler serves such a path. One slash at the end
  // is allowed.
  bool is_malformed = false;
  bool is_resource = false;  // below /api/<version>/ or /apis/<group>/<version>/

  // Only if is_resource:
  std::string cluster{};      // always empty: this server has one cluster so far
  std::string api_group{};    // "" for /api
  std::string api_version{};  // "v1"
  std::string namespace_{};
  std::string resource{};  // "events"
  std::string subresource{};
  bool has_trailing_segments = false;  // the path goes on after the subresource
  std::string name{};
  bool name_in_path = false;   // else the name is from the fieldSelector
  bool watch_in_path = false;  // the old form of a watch, /api/v1/watch/...
};

// Never fails: a path that cannot be parsed is not a resource. A list with a name in its
// fieldSelector (metadata.name=x) has that name, as in upstream.
RequestInfo ParseRequestInfo(std::string_view method, std::string_view target);

}  // namespace herald::server
