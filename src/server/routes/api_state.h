#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/thread/fair_queue.h"
#include "herald/base/clock.h"
#include "herald/base/executor.h"
#include "server/api.h"
#include "server/discovery/namespaces.h"
#include "server/events/list_budget.h"
#include "server/events/registry.h"
#include "server/request/exchange.h"
#include "server/watch/namespace_watch.h"
#include "server/watch/stream.h"
#include "store/store.h"

namespace herald::server {

using ExchangePtr = std::shared_ptr<Exchange>;

// What the handlers share. A request that is being answered keeps it alive.
//
// Thread-safe.
class ApiState : public std::enable_shared_from_this<ApiState> {
 public:
  // The store is borrowed and outlives this object.
  ApiState(store::Store* store, ApiOptions options);
  ApiState(const ApiState&) = delete;
  ApiState& operator=(const ApiState&) = delete;

  // Makes sure that the store's revision is not 0, because resource version 0 means "any" to
  // clients and a list of an empty store must not have it. It writes an entry and deletes it.
  void LeaveRevisionZero();

  // Ends all watches cleanly and rejects new ones. Idempotent.
  void Stop();
  void StopThreads();

  // Runs work that takes up to a second (Exchange::is_long_work(), lists in YAML) on a thread of
  // its own, in turns by user. Sends 429 if too much of it waits.
  void PostLongWork(const ExchangePtr& exchange, std::function<void()> work);
  // The same as a function, for the registry.
  std::function<void(std::function<void()>)> LongWorkOf(const ExchangePtr& exchange);

  const ApiOptions& options() const { return options_; }
  const Clock& clock() const { return *clock_; }
  store::Store* store() { return store_; }
  Registry& registry() { return registry_; }
  WatchStreams& streams() { return streams_; }
  Namespaces& namespaces() { return namespaces_; }
  NamespaceWatches& namespace_watches() { return namespace_watches_; }
  ListBudget& list_budget() { return *list_budget_; }
  FairQueue& long_work() { return long_work_; }
  // Never null.
  std::shared_ptr<const Authorizer> authorizer() const;

 private:
  store::Store* const store_;
  const ApiOptions options_;
  const Clock* const clock_;
  Executor executor_;
  Executor long_executor_;
  FairQueue long_work_;
  const std::shared_ptr<ListBudget> list_budget_;
  Registry registry_;
  WatchStreams streams_;
  Namespaces namespaces_;
  NamespaceWatches namespace_watches_;
};

// The key of a request's user in fair queues: users are distinguished by their names, as
// kube-apiserver's flow schemas do by default.
std::uint64_t FlowOf(const Exchange& exchange);

}  // namespace herald::server
