#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "http/server/server.h"
#include "server/request/request_info.h"
#include "store/store.h"

namespace herald::server {

// The metrics of the server, in Prometheus text format. A metric that kube-apiserver also has has
// the same name and labels (apiserver_request_total, ...), so that existing dashboards work. The
// names of all others begin with herald_. Clients cannot create label values, so the number of time
// series is bounded.
//
// Thread-safe.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Counts a completed request. A watch is counted when it ends, with code 200, and not in the
  // durations.
  void CountRequest(const RequestInfo& request, bool dry_run, int code,
                    std::chrono::nanoseconds took, std::size_t response_bytes);
  // A watch started (delta 1) or ended (delta -1).
  void CountLongRunning(const RequestInfo& request, int delta);

  // Returns all metrics, including the given ones of the store and of the connections.
  std::string Text(const store::StoreStats& store, const http::ServerStats& connections) const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald::server
