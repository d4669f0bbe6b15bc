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

// A request that has come past authentication and authorization.
struct Call {
  http::Request request{};
  Status body_error{};  // why the body is not there
  RequestInfo info{};
  User user{};
  std::string client_address{};
};

struct ApiOptions {
  const Clock* clock = nullptr;  // borrowed; null: SystemClock()
  // How long events live, for what the API tells about retention. The store decides by
  // its Schema.
  std::chrono::seconds event_ttl{3600};

  // Whether the user may do that; called if a request needs a second permission (a PUT may
  // create). Null: always.
  std::function<void(const User&, const RequestInfo&, Authorizer::Done)> authorize{};
  // The last word before a write of `event` (create, update or patch, not dry runs); an error
  // refuses it. Null: none.
  std::function<Status(const User&, const Event& event)> admit{};

  // How long a watch runs at least where its client names no time; twice that at most.
  std::chrono::seconds min_request_timeout{1800};
  // Bounds of the watches of this server.
  std::size_t max_watches = 20'000;
  std::size_t max_watches_per_user = 5'000;
  // Of the memory of lists that are being read, encoded and sent.
  std::size_t max_list_bytes = ListBudget::kMaxBytes;

  // Whose pages may open WebSockets, besides those of this server.
  Cors cors{};

  LogFunction log{};
};

// The API itself: /api, /apis, events of both groups, namespaces, discovery, OpenAPI and /version.
// It knows what a request means and words the answer; who may ask is decided before,
// and what is kept is the store's business.
//
// Thread-safe.
class Api {
 public:
  // What the store that is handed to the constructor must have been opened with. `lifetime` is told
  // each event that is written.
  static store::Schema MakeSchema(std::function<std::chrono::seconds(const Event&)> lifetime);

  // The store is borrowed and outlives the Api.
  Api(store::Store* store, ApiOptions options);
  // Stops.
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  // Answers, now or later. Everything but health, metrics and what else belongs to the running of
  // the server comes here; unknown paths get their 404.
  void Handle(Call call, std::shared_ptr<http::Responder> responder);

  // Ends all watches cleanly and refuses new ones. Idempotent.
  void Stop();

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;  // shared with the requests that are being answered
};

// Answers with a failure as Kubernetes words it, in the representation that the
// request accepts. Also for those who refuse requests before they come to the Api. `headers` are
// sent besides the usual ones.
void SendStatus(const http::Request& request, const http::Query& query, const Status& status,
                http::Responder& responder, http::Headers headers = {});

}  // namespace herald::server
