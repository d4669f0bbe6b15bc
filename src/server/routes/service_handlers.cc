#include "server/routes/service_handlers.h"

#include <fmt/core.h>

#include "server/routes/api_state.h"
#include "server/routes/handler_steps.h"

namespace herald::server {

void ListServices(const std::shared_ptr<ApiState>& api, const ExchangePtr& exchange) {
  if (Status bad = exchange->Accept(kDocumentOffer); !bad.ok()) return exchange->SendStatus(bad);
  exchange->SendJson(
      200, fmt::format(R"({{"kind":"ServiceList","apiVersion":"v1","metadata":{{"resourceVersion":)"
                       R"("{}"}},"items":[]}})"
                       "\n",
                       api->store()->Stats().revision));
}

}  // namespace herald::server
