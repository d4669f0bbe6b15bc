#pragma once

#include <memory>

#include "server/routes/route.h"

namespace herald::server {

// The documents that describe the server. They are not resources.

// "/": the paths that can be requested without knowing more.
void SendRootPaths(const std::shared_ptr<ApiState>& api, const std::shared_ptr<Exchange>& exchange);
// "/api", "/apis" and the paths of groups and their versions.
void SendDiscovery(const std::shared_ptr<ApiState>& api, const std::shared_ptr<Exchange>& exchange);
// Everything below "/openapi/".
void SendOpenApi(const std::shared_ptr<ApiState>& api, const std::shared_ptr<Exchange>& exchange);
void SendVersion(const std::shared_ptr<ApiState>& api, const std::shared_ptr<Exchange>& exchange);
// "/herald/retention": how long events are kept and since when none is missing.
void SendRetention(const std::shared_ptr<ApiState>& api, const std::shared_ptr<Exchange>& exchange);

}  // namespace herald::server
