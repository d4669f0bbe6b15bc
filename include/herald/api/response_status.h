#pragma once

#include <string_view>

#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// A request that failed, as error messages name it.
struct FailedRequest {
  std::string_view verb;      // the HTTP method, "POST"
  std::string_view group{};   // "events.k8s.io"; empty for core/v1
  std::string_view resource;  // "events"
  std::string_view name{};    // of the object; empty for a list or a create
};

// The server's response to it. The views must outlive the call.
struct FailedResponse {
  int http_code = 0;
  std::string_view content_type{};
  std::string_view retry_after{};  // the Retry-After header; ignored unless a number of seconds
  std::string_view body{};
};

// The reason of a failure, from a response with an HTTP code other than 2xx: the Status in the
// body, or, if a proxy or a load balancer sent something else, the Status that client-go builds
// from the code.
HERALD_EXPORT Status StatusFromResponse(const FailedRequest& request,
                                        const FailedResponse& response);

}  // namespace herald
