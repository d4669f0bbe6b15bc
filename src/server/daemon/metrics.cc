#include "server/daemon/metrics.h"

#include <fmt/core.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "server/routes/route_table.h"

namespace herald::server {
namespace {

using prometheus::Labels;

// Labels have only values from this table and from the route table, because a client can send any
// verb and any path. Everything else is counted as "other".
struct VerbName {
  std::string_view verb;
  std::string_view label;  // as kube-apiserver writes it
};
constexpr VerbName kVerbs[] = {
    {"get", "GET"},       {"list", "LIST"},   {"watch", "WATCH"},
    {"create", "POST"},   {"update", "PUT"},  {"patch", "PATCH"},
    {"delete", "DELETE"}, {"post", "POST"},   {"deletecollection", "DELETECOLLECTION"},
    {"put", "PUT"},       {"other", "other"},
};
constexpr std::string_view kScopes[] = {"", "resource", "cluster", "namespace"};

// The labels of a request.
struct RequestLabels {
  std::uint8_t verb = 0;   // index in kVerbs
  std::uint8_t scope = 0;  // index in kScopes; 0: the path is not a resource
  // The row of the route table; null if there is none, or if its row has no labels.
  const ApiGroup* group = nullptr;
  const ResourceRoute* resource = nullptr;
};

RequestLabels LabelsOf(const RequestInfo& request) {
  RequestLabels labels;
  const auto* const verb = std::find_if(std::begin(kVerbs), std::end(kVerbs) - 1,
                                        [&](const VerbName& v) { return v.verb == request.verb; });
  labels.verb = static_cast<std::uint8_t>(verb - std::begin(kVerbs));
  if (!request.is_resource) return labels;
  labels.scope = !request.name.empty() ? 1 : request.namespace_.empty() ? 2 : 3;
  const RouteTable::ResourceMatch match = Routes().FindResource(request);
  if (match.resource == nullptr || !match.resource->has_metric_labels) return labels;
  labels.group = match.group;
  labels.resource = match.resource;
  return labels;
}

Labels PrometheusLabels(const RequestLabels& labels) {
  const bool known = labels.resource != nullptr;
  const std::string_view unknown = labels.scope == 0 ? "" : "other";
  return {{"verb", std::string(kVerbs[labels.verb].label)},
          {"group", known ? std::string(labels.group->name) : ""},
          {"version", known ? std::string(labels.group->version) : ""},
          {"resource", std::string(known ? labels.resource->name : unknown)},
          {"subresource", known ? std::string(labels.resource->subresource) : ""},
          {"scope", std::string(kScopes[labels.scope])},
          {"component", "apiserver"}};
}

// Seconds. kube-apiserver's buckets start at 5 ms, but most requests to heraldd are faster.
const prometheus::Histogram::BucketBoundaries kSeconds = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30,    60};

void AppendMetric(std::string_view name, std::string_view type, std::string_view help, double value,
                  std::string* out) {
  *out += fmt::format("# HELP {} {}\n# TYPE {} {}\n{} {}\n", name, help, name, type, name, value);
}

}  // namespace

class Metrics::Impl {
 public:
  void CountRequest(const RequestLabels& labels, bool dry_run, int code,
                    std::chrono::nanoseconds took, std::size_t response_bytes) {
    RequestMetrics& metrics = MetricsOf(labels, dry_run, code);
    metrics.requests->Increment();
    metrics.response_bytes->Increment(static_cast<double>(response_bytes));
    if (kVerbs[labels.verb].verb != "watch")
      metrics.durations->Observe(std::chrono::duration<double>(took).count());
  }

  void CountLongRunning(const RequestLabels& labels, int delta) {
    long_running_.Add(PrometheusLabels(labels)).Increment(delta);
  }

  std::vector<prometheus::MetricFamily> Collect() const { return registry_.Collect(); }

 private:
  // The metrics of requests with the same labels. They are cached, because finding them by their
  // labels takes longer than serving a small request.
  struct RequestMetrics {
    prometheus::Counter* requests = nullptr;
    prometheus::Counter* response_bytes = nullptr;
    prometheus::Histogram* durations = nullptr;
  };

  // The row of the resource, and the other labels as bits.
  using Key = std::pair<const ResourceRoute*, std::uint64_t>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // spreads the bits
      return (reinterpret_cast<std::uintptr_t>(key.first) ^ key.second) * kOdd;
    }
  };

  RequestMetrics& MetricsOf(const RequestLabels& request, bool dry_run, int code) {
    const std::uint64_t bits = static_cast<std::uint64_t>(code) << 24 |
                               static_cast<std::uint64_t>(dry_run) << 16 |
                               static_cast<std::uint64_t>(request.verb) << 8 | request.scope;
    const MutexLock lock(mu_);
    RequestMetrics& metrics = metrics_[{request.resource, bits}];
    if (metrics.requests == nullptr) {
      Labels labels = PrometheusLabels(request);
      metrics.response_bytes =
          &response_bytes_.Add({{"verb", labels["verb"]}, {"resource", labels["resource"]}});
      labels["dry_run"] = dry_run ? "All" : "";
      metrics.durations = &durations_.Add(labels, kSeconds);
      labels["code"] = fmt::format("{}", code);
      metrics.requests = &requests_.Add(labels);
    }
    return metrics;
  }

  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& requests_ = prometheus::BuildCounter()
                                                           .Name("apiserver_request_total")
                                                           .Help("Number of completed requests.")
                                                           .Register(registry_);
  prometheus::Family<prometheus::Histogram>& durations_ =
      prometheus::BuildHistogram()
          .Name("apiserver_request_duration_seconds")
          .Help("Response latency in seconds, excluding watches.")
          .Register(registry_);
  prometheus::Family<prometheus::Counter>& response_bytes_ =
      prometheus::BuildCounter()
          .Name("herald_response_bytes_total")
          .Help("Bytes of response bodies written to connections.")
          .Register(registry_);
  prometheus::Family<prometheus::Gauge>& long_running_ = prometheus::BuildGauge()
                                                             .Name("apiserver_longrunning_requests")
                                                             .Help("Number of open watches.")
                                                             .Register(registry_);

  Mutex mu_;
  // Bounded by the tables and by the HTTP codes of responses.
  std::unordered_map<Key, RequestMetrics, KeyHash> metrics_ GUARDED_BY(mu_);
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::CountRequest(const RequestInfo& request, bool dry_run, int code,
                           std::chrono::nanoseconds took, std::size_t response_bytes) {
  impl_->CountRequest(LabelsOf(request), dry_run, code, took, response_bytes);
}

void Metrics::CountLongRunning(const RequestInfo& request, int delta) {
  impl_->CountLongRunning(LabelsOf(request), delta);
}

std::string Metrics::Text(const store::StoreStats& store,
                          const http::ServerStats& connections) const {
  std::string out = prometheus::TextSerializer().Serialize(impl_->Collect());
  const auto append = [&out](std::string_view name, std::string_view type, std::string_view help,
                             auto value) {
    AppendMetric(name, type, help, static_cast<double>(value), &out);
  };
  append("herald_store_objects", "gauge", "Number of stored events.", store.entries);
  append("herald_store_size_bytes", "gauge", "Size of the stored events on disk, in bytes.",
         store.bytes_on_disk);
  append("herald_store_revision", "counter", "Latest revision of the store.", store.revision);
  append("herald_store_compacted_revision", "counter",
         "Latest compacted revision. Watches must start after it.", store.compacted);
  append("herald_store_expired_total", "counter",
         "Number of events deleted because their TTL expired.", store.expired);
  append("herald_store_evicted_total", "counter",
         "Number of events deleted before their TTL expired to stay within --max-disk-bytes.",
         store.evicted);
  append("herald_clock_jumps_total", "counter",
         "Number of jumps of the wall clock. After each, no event expires for ten minutes.",
         store.clock_jumps);
  append("herald_store_expiry_held", "gauge",
         "1 while expiry is paused after a jump of the wall clock or a reboot, otherwise 0.",
         store.expiry_held ? 1 : 0);
  append("herald_store_watches", "gauge", "Number of open watches on the store.", store.watches);
  append("herald_http_connections", "gauge", "Number of open connections.",
         connections.connections);
  append("herald_http_streams", "gauge", "Number of requests in progress.", connections.streams);
  append("herald_http_connections_total", "counter", "Number of accepted connections.",
         connections.connections_accepted);
  append("herald_http_connections_refused_total", "counter",
         "Number of connections rejected because of --max-connections.",
         connections.connections_refused);
  append(
      "herald_http_connections_cut_total", "counter",
      "Number of connections closed because the client exceeded a limit or violated the protocol.",
      connections.connections_cut);
  return out;
}

}  // namespace herald::server
