#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "http/server/server.h"
#include "server/request/request_info.h"
#include "store/store.h"

namespace herald::server {

// What the server counts, as Prometheus text. Names and labels are kube-apiserver's
// where the meaning is the same (apiserver_request_total, ...), so that dashboards made for it
// work; what is ours begins with herald_. No label holds anything that a client can
// choose freely, so their number is bounded.
//
// Thread-safe.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // A request has been answered. Watches count in the total, with code 200 and when they
  // end, but not in the durations.
  void CountRequest(const RequestInfo& request, bool dry_run, int code,
                    std::chrono::nanoseconds took, std::size_t response_bytes);
  // A watch begins (+1) or ends (-1).
  void CountLongRunning(const RequestInfo& request, int delta);

  // Everything, with the figures of the store and of the connections as they are now.
  std::string Text(const store::StoreStats& store, const http::ServerStats& connections) const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald::server
