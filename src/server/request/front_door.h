#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/limit/shared_budget.h"
#include "base/thread/mutex.h"
#include "herald/base/clock.h"
#include "herald/base/executor.h"
#include "http/server/server.h"
#include "server/access/authentication.h"
#include "server/access/cors.h"
#include "server/access/identity.h"
#include "server/api.h"
#include "server/daemon/metrics.h"
#include "server/request/request_info.h"
#include "store/store.h"

namespace herald::server {

// The FrontDoor is between the connections and the Api. By the head of a request it authenticates
// the user, limits requests, and authorizes. Only then it reads the body and calls the Api. It
// counts responses, and it serves health and metrics itself.
//
//   head -> health, or
//           authenticate -> limit -> impersonate -> authorize -> metrics, or
//                                                                body -> Api
//
// So a client without credentials or permission cannot make the server buffer anything. Requests in
// flight and bytes of bodies are shared among users (SharedBudget): a user that takes as much as
// possible leaves as much for the others.
//
// A request that is not a watch and has no response by its deadline gets 504 Timeout. The work goes
// on and may still be done, as with kube-apiserver.
//
// /healthz, /livez and /readyz are open to everyone, because probes have no credentials. The
// response is only "ok", unless the client asks for `verbose`, which needs credentials.
//
// Thread-safe.
class FrontDoor {
 public:
  struct Options {
    const Clock* clock = nullptr;  // borrowed; null: SystemClock()
    // Limit on requests that are being read or answered, without watches; beyond it 429. One user
    // gets at most half of them.
    std::size_t max_requests_in_flight = 4000;
    // Limit on the bytes of their bodies; beyond it 429. One user gets at most half of them.
    std::size_t max_body_bytes_in_flight = std::size_t{256} * 1024 * 1024;
    // How long a request other than a watch may take; clients may ask for less (`timeout`).
    std::chrono::nanoseconds request_timeout = std::chrono::seconds(60);
    // Runs the timers of deadlines. Borrowed; stopped before the FrontDoor is destroyed. Null:
    // there are no deadlines.
    Executor* executor = nullptr;
    // The origins whose pages may read responses.
    Cors cors{};
  };

  // The store is borrowed and outlives the FrontDoor. Every request is rejected until the two
  // setters below have been called.
  FrontDoor(store::Store* store, Options options);
  ~FrontDoor();
  FrontDoor(const FrontDoor&) = delete;
  FrontDoor& operator=(const FrontDoor&) = delete;

  // Both may be set again at any time. Earlier requests are not affected.
  void SetAuthenticators(Authenticators authenticators);
  void SetAuthorizer(std::shared_ptr<const Authorizer> authorizer);

  // The current authorizer. For ApiOptions.
  std::shared_ptr<const Authorizer> authorizer() const;

  // Serves the authorized requests. Set once, before the first request. Borrowed.
  void SetApi(Api* api);
  // Called for the metrics of connections. May be set while requests are served.
  void SetConnectionStats(std::function<http::ServerStats()> connections);

  // From now on /readyz fails, so that load balancers use other servers.
  void SetStopping();

  // The http::Handler.
  void Handle(http::Request request, const http::Peer& peer,
              std::shared_ptr<http::Responder> responder);

 private:
  class Admission;
  class CountedResponder;
  class Deadlines;

  void AnswerHealth(http::Request request, const http::Peer& peer, RequestInfo info,
                    std::shared_ptr<http::Responder> responder) const;
  http::Response Health(const http::Request& request, const RequestInfo& info, bool verbose) const;
  http::Response MetricsPage(const http::Request& request) const;
  void Authorize(const User& user, const RequestInfo& request, Authorizer::Done done) const;
  std::shared_ptr<const Authenticators> authenticators() const;

  store::Store* const store_;
  const Options options_;
  const Clock& clock_;
  Metrics metrics_;
  const std::shared_ptr<Deadlines> deadlines_;
  SharedBudget in_flight_;
  SharedBudget body_bytes_;
  Api* api_ = nullptr;
  std::atomic<bool> stopping_{false};

  // Held only to copy or replace the members below.
  mutable Mutex mu_;
  std::function<http::ServerStats()> connections_ GUARDED_BY(mu_);
  std::shared_ptr<const Authenticators> authenticators_ GUARDED_BY(mu_);
  std::shared_ptr<const Authorizer> authorizer_ GUARDED_BY(mu_);
};

}  // namespace herald::server
