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

// What a request is counted under.
struct Kind {
  std::uint8_t verb = 0;   // in kVerbs
  std::uint8_t scope = 0;  // in kScopes; 0: the path is not a resource
  // The row of the route table; null if it has none, or none with labels.
  const ApiGroup* group = nullptr;
  const ResourceRoute* resource = nullptr;
};

Kind KindOf(const RequestInfo& request) {
  Kind kind;
  const auto* const verb = std::find_if(std::begin(kVerbs), std::end(kVerbs) - 1,
                                        [&](const VerbName& v) { return v.verb == request.verb; });
  kind.verb = static_cast<std::uint8_t>(verb - std::begin(kVerbs));
  if (!request.is_resource) return kind;
  kind.scope = !request.name.empty() ? 1 : request.namespace_.empty() ? 2 : 3;
  const RouteTable::ResourceMatch match = Routes().FindResource(request);
  if (match.resource == nullptr || !match.resource->has_metric_labels) return kind;
  kind.group = match.group;
  kind.resource = match.resource;
  return kind;
}

Labels LabelsOf(const Kind& kind) {
  const bool known = kind.resource != nullptr;
  const std::string_view unknown = kind.scope == 0 ? "" : "other";
  return {{"verb", std::string(kVerbs[kind.verb].label)},
          {"group", known ? std::string(kind.group->name) : ""},
          {"version", known ? std::string(kind.group->version) : ""},
          {"resource", std::string(known ? kind.resource->name : unknown)},
          {"subresource", known ? std::string(kind.resource->subresource) : ""},
          {"scope", std::string(kScopes[kind.scope])},
          {"component", "apiserver"}};
}

// Seconds; kube-apiserver's buckets reach from 5 ms, ours start where we do.
const prometheus::Histogram::BucketBoundaries kSeconds = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30,    60};

void AppendFigure(std::string_view name, std::string_view type, std::string_view help, double value,
                  std::string* out) {
  *out += fmt::format("# HELP {} {}\n# TYPE {} {}\n{} {}\n", name, help, name, type, name, value);
}

}  // namespace

class Metrics::Impl {
 public:
  void CountRequest(const Kind& kind, bool dry_run, int code, std::chrono::nanoseconds took,
                    std::size_t response_bytes) {
    Cells& cells = CellsOf(kind, dry_run, code);
    cells.requests->Increment();
    cells.response_bytes->Increment(static_cast<double>(response_bytes));
    if (kVerbs[kind.verb].verb != "watch")
      cells.durations->Observe(std::chrono::duration<double>(took).count());
  }

  void CountLongRunning(const Kind& kind, int delta) {
    long_running_.Add(LabelsOf(kind)).Increment(delta);
  }

  std::vector<prometheus::MetricFamily> Collect() const { return registry_.Collect(); }

 private:
  // Where one kind of request is counted. Finding it by its labels costs more than
  // answering a small request does, so it is remembered.
  struct Cells {
    prometheus::Counter* requests = nullptr;
    prometheus::Counter* response_bytes = nullptr;
    prometheus::Histogram* durations = nullptr;
  };

  // What the cells are found by: the row of the resource, and the rest in bits.
  using Key = std::pair<const ResourceRoute*, std::uint64_t>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // spreads the bits
      return (reinterpret_cast<std::uintptr_t>(key.first) ^ key.second) * kOdd;
    }
  };

  Cells& CellsOf(const Kind& kind, bool dry_run, int code) {
    const std::uint64_t bits = static_cast<std::uint64_t>(code) << 24 |
                               static_cast<std::uint64_t>(dry_run) << 16 |
                               static_cast<std::uint64_t>(kind.verb) << 8 | kind.scope;
    const MutexLock lock(mu_);
    Cells& cells = cells_[{kind.resource, bits}];
    if (cells.requests == nullptr) {
      Labels labels = LabelsOf(kind);
      cells.response_bytes =
          &response_bytes_.Add({{"verb", labels["verb"]}, {"resource", labels["resource"]}});
      labels["dry_run"] = dry_run ? "All" : "";
      cells.durations = &durations_.Add(labels, kSeconds);
      labels["code"] = fmt::format("{}", code);
      cells.requests = &requests_.Add(labels);
    }
    return cells;
  }

  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& requests_ =
      prometheus::BuildCounter()
          .Name("apiserver_request_total")
          .Help("Requests answered, by verb, resource and HTTP code.")
          .Register(registry_);
  prometheus::Family<prometheus::Histogram>& durations_ =
      prometheus::BuildHistogram()
          .Name("apiserver_request_duration_seconds")
          .Help("How long requests took, watches excluded.")
          .Register(registry_);
  prometheus::Family<prometheus::Counter>& response_bytes_ =
      prometheus::BuildCounter()
          .Name("herald_response_bytes_total")
          .Help("Bytes of bodies handed to connections.")
          .Register(registry_);
  prometheus::Family<prometheus::Gauge>& long_running_ = prometheus::BuildGauge()
                                                             .Name("apiserver_longrunning_requests")
                                                             .Help("Watches that are open.")
                                                             .Register(registry_);

  Mutex mu_;
  // Bounded by the tables above and by the HTTP codes that we answer with.
  std::unordered_map<Key, Cells, KeyHash> cells_ GUARDED_BY(mu_);
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::CountRequest(const RequestInfo& request, bool dry_run, int code,
                           std::chrono::nanoseconds took, std::size_t response_bytes) {
  impl_->CountRequest(KindOf(request), dry_run, code, took, response_bytes);
}

void Metrics::CountLongRunning(const RequestInfo& request, int delta) {
  impl_->CountLongRunning(KindOf(request), delta);
}

std::string Metrics::Text(const store::StoreStats& store,
                          const http::ServerStats& connections) const {
  std::string out = prometheus::TextSerializer().Serialize(impl_->Collect());
  const auto figure = [&out](std::string_view name, std::string_view type, std::string_view help,
                             auto value) {
    AppendFigure(name, type, help, static_cast<double>(value), &out);
  };
  figure("herald_store_objects", "gauge", "Events that are stored.", store.entries);
  figure("herald_store_size_bytes", "gauge", "Bytes that they take on disk.", store.bytes_on_disk);
  figure("herald_store_revision", "counter", "The latest revision.", store.revision);
  figure("herald_store_compacted_revision", "counter",
         "Changes up to this revision can no longer be watched.", store.compacted);
  figure("herald_store_expired_total", "counter", "Events whose time was over.", store.expired);
  figure("herald_store_evicted_total", "counter",
         "Events that had to go before their time to keep within the cap on disk size.",
         store.evicted);
  figure("herald_clock_jumps_total", "counter",
         "Jumps of the wall clock, after each of which nothing expires for ten minutes.",
         store.clock_jumps);
  figure("herald_store_expiry_held", "gauge",
         "1 while nothing expires because the wall clock jumped or the machine was rebooted.",
         store.expiry_held ? 1 : 0);
  figure("herald_store_watches", "gauge", "Readers of changes.", store.watches);
  figure("herald_http_connections", "gauge", "Connections that are open.", connections.connections);
  figure("herald_http_streams", "gauge", "Requests that are being answered.", connections.streams);
  figure("herald_http_connections_total", "counter", "Connections that were accepted.",
         connections.connections_accepted);
  figure("herald_http_connections_refused_total", "counter",
         "Connections that were closed at once because there were too many.",
         connections.connections_refused);
  figure("herald_http_connections_cut_total", "counter",
         "Connections that were cut off for breaking a bound or a rule.",
         connections.connections_cut);
  return out;
}

}  // namespace herald::server
