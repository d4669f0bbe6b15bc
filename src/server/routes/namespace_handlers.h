#pragma once

#include <memory>

#include "server/routes/route.h"

namespace herald::server {

// Namespaces, which exist while they have events (discovery/namespaces.h).
void ListNamespaces(const std::shared_ptr<ApiState>& api,
                    const std::shared_ptr<Exchange>& exchange);
void GetNamespace(const std::shared_ptr<ApiState>& api, const std::shared_ptr<Exchange>& exchange);
// All of them, or one by its name.
void WatchNamespaces(const std::shared_ptr<ApiState>& api,
                     const std::shared_ptr<Exchange>& exchange);

}  // namespace herald::server
