#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "herald/api/event.h"
#include "herald/base/clock.h"
#include "herald/base/log.h"
#include "herald/base/status.h"
#include "http/message.h"
#include "http/server/server.h"
#include "server/access/cors.h"
#include "server/access/identity.h"
#include "server/events/list_budget.h"
#include "server/request/request_info.h"
#include "store/store.h"

namespace herald::server {

class ApiState;

// A request that has passed authentication and authorization.
struct AdmittedRequest {
  http::Request request{};
  Status body_error{};  // not ok: the body could not be read
  RequestInfo info{};
  User user{};
  std::string client_address{};
};

struct ApiOptions {
  const Clock* clock = nullptr;  // borrowed; null: SystemClock()
  // How long events are kept, for what the API reports about retention. The store decides by its
  // Schema.
  std::chrono::seconds event_ttl{3600};

  // Returns the authorizer for second permissions (a PUT may create) and for reviews of what users
  // may do. Never returns null. If the function itself is null, everything is allowed.
  std::function<std::shared_ptr<const Authorizer>()> authorizer{};
  // The last check before `event` is written (create, update or patch, not dry runs); an error
  // rejects the write. Null: every write is admitted.
  std::function<Status(const User&, const Event& event)> admit{};

  // A watch whose client sets no timeout lasts between this and twice this.
  std::chrono::seconds min_request_timeout{1800};
  // Limits on the watches of this server.
  std::size_t max_watches = 20'000;
  std::size_t max_watches_per_user = 5'000;
  // Limit on the memory of lists that are being read, encoded and sent.
  std::size_t max_list_bytes = ListBudget::kMaxBytes;

  // The origins whose pages may open WebSockets, besides this server's own.
  Cors cors{};

  LogFunction log{};
};

// The API: events of both groups, namespaces, reviews, discovery, OpenAPI and /version. It answers
// requests that the FrontDoor has authorized. What it serves is in the route table
// (routes/route_table.h); what the handlers share is in ApiState.
//
// Thread-safe.
class Api {
 public:
  // The Schema with which the store must have been opened. `lifetime` is called for each event that
  // is written.
  static store::Schema MakeSchema(std::function<std::chrono::seconds(const Event&)> lifetime);

  // The store is borrowed and outlives the Api.
  Api(store::Store* store, ApiOptions options);
  // Stops.
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  // Sends the response, within the call or later. Unknown paths get 404, and so do health and
  // metrics, which the FrontDoor serves.
  void Handle(AdmittedRequest admitted, std::shared_ptr<http::Responder> responder);

  // Ends all watches cleanly and rejects new ones. Idempotent.
  void Stop();

 private:
  const std::shared_ptr<ApiState> state_;  // shared with the requests that are being answered
};

// Sends an error as Kubernetes writes it, in the representation that the request accepts. Also for
// requests that are rejected before they reach the Api. `headers` are sent besides the usual ones.
void SendStatus(const http::Request& request, const http::Query& query, const Status& status,
                http::Responder& responder, http::Headers headers = {});

}  // namespace herald::server
