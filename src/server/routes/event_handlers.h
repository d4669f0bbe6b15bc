#pragma once

#include <memory>

#include "server/routes/route.h"

namespace herald::server {

// Events of both API groups. The group of the path decides the spelling.
void ListEvents(const std::shared_ptr<ApiState>& api, const std::shared_ptr<Exchange>& exchange);
// All events of the path, or one by its name.
void WatchEvents(const std::shared_ptr<ApiState>& api, const std::shared_ptr<Exchange>& exchange);
void CreateEvent(const std::shared_ptr<ApiState>& api, const std::shared_ptr<Exchange>& exchange);
// Of a namespace; the response is the list of what was deleted.
void DeleteEvents(const std::shared_ptr<ApiState>& api, const std::shared_ptr<Exchange>& exchange);

void GetEvent(const std::shared_ptr<ApiState>& api, const std::shared_ptr<Exchange>& exchange);
// Creates the event if it does not exist and the user has the permission to create it.
void UpdateEvent(const std::shared_ptr<ApiState>& api, const std::shared_ptr<Exchange>& exchange);
void PatchEvent(const std::shared_ptr<ApiState>& api, const std::shared_ptr<Exchange>& exchange);
void DeleteEvent(const std::shared_ptr<ApiState>& api, const std::shared_ptr<Exchange>& exchange);

}  // namespace herald::server
