#pragma once

#include <memory>

#include "server/routes/route.h"

namespace herald::server {

// Sends an empty list. There are no services here, but `kubectl cluster-info` asks for them.
void ListServices(const std::shared_ptr<ApiState>& api, const std::shared_ptr<Exchange>& exchange);

}  // namespace herald::server
