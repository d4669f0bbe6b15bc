#pragma once

#include <string>
#include <string_view>

namespace herald::server {

// What a request is about, read off its method and its URL: the terms in which access
// is granted, requests are counted and refusals are worded. As kube-apiserver's
// RequestInfo (apiserver/pkg/endpoints/request/requestinfo.go). An ordinary value.
struct RequestInfo {
  std::string path{};  // without the query, decoded
  // "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"; for
  // what is no resource the method in lower case.
  std::string verb{};
  bool is_resource = false;  // below /api/<version>/ or /apis/<group>/<version>/

  // Only where is_resource:
  std::string api_group{};    // "" for /api
  std::string api_version{};  // "v1"
  std::string namespace_{};
  std::string resource{};  // "events"
  std::string subresource{};
  std::string name{};
};

// Never fails: what cannot be understood is no resource. A list with a name in its
// fieldSelector (metadata.name=x) is about that name, as upstream has it.
RequestInfo ParseRequestInfo(std::string_view method, std::string_view target);

}  // namespace herald::server
