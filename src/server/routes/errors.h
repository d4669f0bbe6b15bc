#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "herald/base/status.h"
#include "server/routes/route.h"

namespace herald::server {

// Errors of the router and of reading a request, with the messages of kube-apiserver.

Status BadRequest(std::string message);

// The router's errors, which do not name a resource.
Status PathNotFound();
Status MethodNotAllowed();
// `watchable`: the resource has media types for watches, too.
Status NotAcceptable(bool watchable);
Status UnsupportedMediaType();

// The Content-Type of a body is not one of `types`.
Status UnknownBody(std::string_view types);

// The handlers of requests that no row serves.
void SendPathNotFound(const std::shared_ptr<ApiState>& api,
                      const std::shared_ptr<Exchange>& exchange);
void SendMethodNotAllowed(const std::shared_ptr<ApiState>& api,
                          const std::shared_ptr<Exchange>& exchange);

}  // namespace herald::server
