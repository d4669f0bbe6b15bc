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
#include <vector>

#include "base/thread/mutex.h"

namespace herald::server {
namespace {

using prometheus::Labels;

// Label values are taken from these tables only. All other verbs, resources and groups are counted
// as "other", because a client may request any name.
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
constexpr std::string_view kResources[] = {"events", "namespaces", "", "other"};
constexpr std::string_view kGroups[] = {"", "events.k8s.io", "other"};
constexpr std::string_view kScopes[] = {"", "resource", "cluster", "namespace"};

// The labels of a request, as indexes into the tables.
struct RequestLabels {
  std::uint8_t verb = 0;
  std::uint8_t resource = 0;
  std::uint8_t group = 0;
  std::uint8_t scope = 0;

  std::uint64_t Key(bool dry_run, int code) const {
    return static_cast<std::uint64_t>(code) << 40 | static_cast<std::uint64_t>(dry_run) << 32 |
           static_cast<std::uint64_t>(verb) << 24 | static_cast<std::uint64_t>(resource) << 16 |
           static_cast<std::uint64_t>(group) << 8 | scope;
  }
};

// The index of a name in a table; that of the last entry if the table does not have the name.
template <typename Table, typename Name>
std::uint8_t IndexIn(const Table& table, std::string_view wanted, Name name) {
  const auto found = std::find_if(std::begin(table), std::end(table) - 1,
                                  [&](const auto& entry) { return name(entry) == wanted; });
  return static_cast<std::uint8_t>(found - std::begin(table));
}

RequestLabels LabelsOf(const RequestInfo& request) {
  const auto itself = [](std::string_view name) { return name; };
  const std::string_view resource =
      request.is_resource ? std::string_view(request.resource) : std::string_view();
  std::string_view scope;
  if (request.is_resource)
    scope = !request.name.empty()        ? "resource"
            : request.namespace_.empty() ? "cluster"
                                         : "namespace";
  return {.verb = IndexIn(kVerbs, request.verb, [](const VerbName& v) { return v.verb; }),
          .resource = IndexIn(kResources, resource, itself),
          .group = IndexIn(kGroups, request.api_group, itself),
          .scope = IndexIn(kScopes, scope, itself)};
}

Labels PrometheusLabels(RequestLabels labels) {
  const std::string resource(kResources[labels.resource]);
  const bool known = resource == "events" || resource == "namespaces";
  return {{"verb", std::string(kVerbs[labels.verb].label)},
          {"group", known ? std::string(kGroups[labels.group]) : ""},
          {"version", known ? "v1" : ""},
          {"resource", resource},
          {"subresource", ""},
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
  void CountRequest(RequestLabels labels, bool dry_run, int code, std::chrono::nanoseconds took,
                    std::size_t response_bytes) {
    RequestMetrics& metrics = MetricsOf(labels, dry_run, code);
    metrics.requests->Increment();
    metrics.response_bytes->Increment(static_cast<double>(response_bytes));
    if (kVerbs[labels.verb].verb != "watch")
      metrics.durations->Observe(std::chrono::duration<double>(took).count());
  }

  void CountLongRunning(RequestLabels labels, int delta) {
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

  RequestMetrics& MetricsOf(RequestLabels labels, bool dry_run, int code) {
    const MutexLock lock(mu_);
    RequestMetrics& metrics = metrics_[labels.Key(dry_run, code)];
    if (metrics.requests == nullptr) {
      Labels prometheus_labels = PrometheusLabels(labels);
      metrics.response_bytes = &response_bytes_.Add(
          {{"verb", prometheus_labels["verb"]}, {"resource", prometheus_labels["resource"]}});
      prometheus_labels["dry_run"] = dry_run ? "All" : "";
      metrics.durations = &durations_.Add(prometheus_labels, kSeconds);
      prometheus_labels["code"] = fmt::format("{}", code);
      metrics.requests = &requests_.Add(prometheus_labels);
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
  // By RequestLabels::Key(). Bounded by the tables above and the HTTP codes that heraldd uses.
  std::unordered_map<std::uint64_t, RequestMetrics> metrics_ GUARDED_BY(mu_);
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
