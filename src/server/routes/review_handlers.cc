#include "server/routes/review_handlers.h"

#include "server/access/access_review.h"
#include "server/routes/api_state.h"

namespace herald::server {

void CreateReview(const std::shared_ptr<ApiState>& api, const ExchangePtr& exchange) {
  AnswerReview(exchange, api->authorizer(), api->clock().Now());
}

}  // namespace herald::server
