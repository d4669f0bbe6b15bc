#pragma once

#include <memory>

#include "server/routes/route.h"

namespace herald::server {

// All reviews that users make of themselves (access/access_review.h).
void CreateReview(const std::shared_ptr<ApiState>& api, const std::shared_ptr<Exchange>& exchange);

}  // namespace herald::server
