#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "herald/base/clock.h"
#include "herald/base/executor.h"
#include "http/server.h"
#include "server/api.h"
#include "server/identity.h"
#include "server/metrics.h"
#include "server/rbac.h"
#include "store/store.h"

namespace herald::server {

// The FrontDoor stands between the connections and the Api: it finds out who is asking,
// whether they may, and whether there is room; it counts what was answered; and it
// answers what belongs to the running of the server itself: health and metrics.
//
//   connection -> [ health | who? -> may they? -> metrics | -> room? ] -> Api
//
// It also keeps the time: a request that is no watch and has no answer by its deadline gets 504
// Timeout. What it asked for goes on and may still be done, as with kube-apiserver.
//
// /healthz, /livez and /readyz are open to everyone, for probes have no credentials;
// they tell nothing but "ok", unless asked verbosely, which needs credentials.
//
// Thread-safe.
class FrontDoor {
 public:
  struct Options {
    const Clock* clock = nullptr;  // borrowed; null: SystemClock()
    // Requests being answered at once, watches excluded; above it 429.
    std::size_t max_requests_in_flight = 4000;
    // How long a request other than a watch may take; clients may ask for less (`timeout`).
    std::chrono::nanoseconds request_timeout = std::chrono::seconds(60);
    // Where deadlines are kept. Borrowed; stopped before the FrontDoor goes. Null: there
    // are none.
    Executor* executor = nullptr;
  };

  // The store is borrowed and outlives the FrontDoor. Nobody is known and nobody may do
  // anything until the two setters below have been called.
  FrontDoor(store::Store* store, Options options);
  ~FrontDoor();
  FrontDoor(const FrontDoor&) = delete;
  FrontDoor& operator=(const FrontDoor&) = delete;

  // Both may be set again at any time; requests that came before are not affected.
  void SetAuthenticators(std::vector<std::unique_ptr<Authenticator>> ways);
  void SetRbac(Rbac rbac);

  // For ApiOptions.
  bool Allows(const User& user, const RequestInfo& request) const;

  // What authenticated and permitted requests are handed to; set once, before the first
  // request. Borrowed.
  void SetApi(Api* api);
  // Asked for what /metrics shows of connections. There may be requests already.
  void SetConnectionStats(std::function<http::ServerStats()> connections);

  // From now on /readyz fails, so that load balancers look elsewhere.
  void SetStopping();

  // The http::Handler.
  void Handle(http::Request request, const http::Peer& peer,
              std::shared_ptr<http::Responder> responder);

 private:
  using Ways = std::vector<std::unique_ptr<Authenticator>>;
  class CountedResponder;
  class Deadlines;

  Result<User> WhoIs(const http::Request& request, const http::Peer& peer) const;
  http::Response Health(const http::Request& request, const http::Peer& peer,
                        const RequestInfo& info) const;

  store::Store* const store_;
  const Options options_;
  const Clock& clock_;
  Metrics metrics_;
  const std::shared_ptr<Deadlines> deadlines_;
  Api* api_ = nullptr;
  std::atomic<bool> stopping_{false};
  std::atomic<std::size_t> in_flight_{0};

  // Held only to copy or to replace what it guards.
  mutable Mutex mu_;
  std::function<http::ServerStats()> connections_ GUARDED_BY(mu_);
  std::shared_ptr<const Ways> ways_ GUARDED_BY(mu_);
  std::shared_ptr<const Rbac> rbac_ GUARDED_BY(mu_);
};

}  // namespace herald::server
