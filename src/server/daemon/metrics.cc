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

// Labels have only values of these tables: what is not served here is one thing to the
// metrics, whatever its name, because anyone can ask for anything.
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

// What a request is counted under, as indexes into the tables.
struct Kind {
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

// The index of a name in a table, or of the last entry, which stands for all others.
template <typename Table, typename Name>
std::uint8_t IndexIn(const Table& table, std::string_view wanted, Name name) {
  const auto found = std::find_if(std::begin(table), std::end(table) - 1,
                                  [&](const auto& entry) { return name(entry) == wanted; });
  return static_cast<std::uint8_t>(found - std::begin(table));
}

Kind KindOf(const RequestInfo& request) {
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

Labels LabelsOf(Kind kind) {
  const std::string resource(kResources[kind.resource]);
  const bool known = resource == "events" || resource == "namespaces";
  return {{"verb", std::string(kVerbs[kind.verb].label)},
          {"group", known ? std::string(kGroups[kind.group]) : ""},
          {"version", known ? "v1" : ""},
          {"resource", resource},
          {"subresource", ""},
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
  void CountRequest(Kind kind, bool dry_run, int code, std::chrono::nanoseconds took,
                    std::size_t response_bytes) {
    Cells& cells = CellsOf(kind, dry_run, code);
    cells.requests->Increment();
    cells.response_bytes->Increment(static_cast<double>(response_bytes));
    if (kVerbs[kind.verb].verb != "watch")
      cells.durations->Observe(std::chrono::duration<double>(took).count());
  }

  void CountLongRunning(Kind kind, int delta) {
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

  Cells& CellsOf(Kind kind, bool dry_run, int code) {
    const MutexLock lock(mu_);
    Cells& cells = cells_[kind.Key(dry_run, code)];
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
  std::unordered_map<std::uint64_t, Cells> cells_ GUARDED_BY(mu_);
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
