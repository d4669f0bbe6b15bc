#pragma once

#include <string_view>

#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// What a request request for, as far as messages about its failure tell.
struct FailedRequest {
  std::string_view verb;  // "POST"
  std::string_view group{};
  std::string_view resource;  // "events"
  std::string_view name{};
};

// What came back. Views into the response.
struct FailedResponse {
  int http_code = 0;
  std::string_view content_type{};
  std::string_view retry_after{};  // the header; only a number of seconds counts
  std::string_view body{};
};

// Why a request failed, from an response with an HTTP code beyond 2xx: the Status that
// the body holds, or what client-go makes up where a proxy or a load balancer
// answered in the server's place with something else.
HERALD_EXPORT Status StatusFromResponse(const FailedRequest& request, const FailedResponse& response);

}  // namespace herald
