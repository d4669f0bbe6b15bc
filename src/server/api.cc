#include "server/api.h"

#include <utility>

#include "server/events/stored_event.h"
#include "server/request/exchange.h"
#include "server/routes/api_state.h"
#include "server/routes/route_table.h"

namespace herald::server {

store::Schema Api::MakeSchema(std::function<std::chrono::seconds(const Event&)> lifetime) {
  return MakeEventSchema(std::move(lifetime));
}

Api::Api(store::Store* store, ApiOptions options)
    : state_(std::make_shared<ApiState>(store, std::move(options))) {
  state_->LeaveRevisionZero();
}

Api::~Api() {
  Stop();
  state_->StopThreads();
}

void Api::Handle(AdmittedRequest admitted, std::shared_ptr<http::Responder> responder) {
  const auto exchange = std::make_shared<Exchange>(std::move(admitted), std::move(responder));
  const Handler handler = Routes().Find(exchange->info()).handler;
  // Health and metrics, which are the FrontDoor's.
  if (handler == nullptr) return Routes().not_found(state_, exchange);
  if (!exchange->is_long_work()) return handler(state_, exchange);
  state_->PostLongWork(exchange, [state = state_, handler, exchange] { handler(state, exchange); });
}

void Api::Stop() { state_->Stop(); }

}  // namespace herald::server
