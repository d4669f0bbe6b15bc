// A load generator for event servers, over HTTP/2 and TLS. To measure the server and not the
// client, it creates the bodies before the measurement starts, and checks only the status and the
// length of responses. tools/bench-server runs it against kube-apiserver and heraldd.
//
//   load --server URL --ca FILE --token TOKEN --work create --in-flight 32 --seconds 10
//
// Prints one line of JSON.
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "http/client/client.h"

namespace herald {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct Options {
  std::string server;
  std::string ca;
  std::string token;
  std::string work = "create";
  std::string run = "a";  // distinguishes the names of one run from those of another
  std::string reason = "Started";
  std::string namespace_ = "default";
  int in_flight = 32;
  // Several connections, so that a server can use several threads.
  int connections = 4;
  int seconds = 10;
  int events = 10'000;  // number of events to use (fill, get, patch, lists)
  int watchers = 20;
  int limit = 500;  // of list-page
};

std::string Collection(const Options& options) {
  return fmt::format("/api/v1/namespaces/{}/events", options.namespace_);
}

std::string EventName(const Options& options, std::int64_t number) {
  return fmt::format("web-{}.{}{:012x}", number, options.run, number);
}

// The event of doc/benchmarks.md, about pod number `number`.
std::string EventBody(const Options& options, std::int64_t number) {
  return fmt::format(
      R"({{"kind":"Event","apiVersion":"v1","metadata":{{"name":"{}","namespace":"{}"}},)"
      R"("involvedObject":{{"kind":"Pod","namespace":"{}","name":"web-{}","uid":)"
      R"("ce611c62-6c1a-4bd8-9029-{:012x}","apiVersion":"v1","resourceVersion":"429837"}},)"
      R"("reason":"{}","message":"Started container web","source":{{"component":"kubelet",)"
      R"("host":"node-1"}},"firstTimestamp":"2026-11-15T19:00:00Z","lastTimestamp":)"
      R"("2026-11-15T19:00:00Z","count":1,"type":"Normal","eventTime":null,)"
      R"("reportingComponent":"kubelet","reportingInstance":"node-1"}})",
      EventName(options, number), options.namespace_, options.namespace_, number, number,
      options.reason);
}

std::chrono::microseconds OwnCpu() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto micros = [](const timeval& t) { return t.tv_sec * 1'000'000LL + t.tv_usec; };
  return std::chrono::microseconds(micros(usage.ru_utime) + micros(usage.ru_stime));
}

// Returns the n-th request; one with an empty method after the last. Called from the threads of all
// lanes.
struct Work {
  std::function<http::Request(std::int64_t)> make;
  int expected_status = 200;
};

struct Results {
  std::int64_t completed = 0;
  std::int64_t failed = 0;
  std::int64_t bytes = 0;
  std::vector<std::int64_t> latencies;  // ns

  double LatencyMs(double quantile) {
    if (latencies.empty()) return 0;
    const auto at = latencies.begin() + static_cast<std::ptrdiff_t>(
                                            quantile * static_cast<double>(latencies.size() - 1));
    std::nth_element(latencies.begin(), at, latencies.end());
    return static_cast<double>(*at) / 1e6;
  }
};

// Keeps `in_flight` requests in progress on one connection until the time is over or there are no
// more requests. All callbacks run on the client's thread, so only the end needs a lock.
class Lane {
 public:
  // `next` is the number of the next request and is shared by all lanes.
  Lane(std::unique_ptr<http::Client> client, const Options& options, int in_flight,
       std::atomic<std::int64_t>* next)
      : client_(std::move(client)), options_(options), in_flight_(in_flight), next_(*next) {}

  void Start(const Work& work, SteadyClock::time_point ends) {
    work_ = work;
    ends_ = ends;
    client_->Post([this] {
      for (int i = 0; i < in_flight_; ++i) Next();
    });
  }

  void Wait() {
    std::unique_lock lock(mu_);
    done_.wait(lock, [this] { return finished_; });
  }

  // REQUIRES: Wait() has returned
  void AddTo(Results* results) const {
    results->completed += results_.completed;
    results->failed += results_.failed;
    results->bytes += results_.bytes;
    results->latencies.insert(results->latencies.end(), results_.latencies.begin(),
                              results_.latencies.end());
  }

 private:
  struct Call {
    SteadyClock::time_point begun;
    int status = 0;
    std::int64_t bytes = 0;
  };

  void Next() {
    const SteadyClock::time_point now = SteadyClock::now();
    http::Request request = now < ends_ ? work_.make(next_++) : http::Request{.method = ""};
    if (request.method.empty()) {
      if (open_ == 0) Finish();
      return;
    }
    ++open_;
    request.headers.Add("authorization", "Bearer " + options_.token);
    request.headers.Add("accept-encoding", "identity");
    auto call = std::make_shared<Call>(Call{.begun = now});
    client_->Start(std::move(request), {},
                   {.head = [call](const http::ResponseHead& head) { call->status = head.status; },
                    .data =
                        [call](std::string_view data) {
                          call->bytes += static_cast<std::int64_t>(data.size());
                        },
                    .done = [this, call](const Status& status) { Done(*call, status); }});
  }

  void Done(const Call& call, const Status& status) {
    --open_;
    // Every response of these servers, including errors, is longer.
    if (status.ok() && call.status == work_.expected_status && call.bytes > 50) {
      ++results_.completed;
      results_.bytes += call.bytes;
      results_.latencies.push_back((SteadyClock::now() - call.begun).count());
    } else if (++results_.failed == 1) {
      std::cerr << fmt::format("load: the first failure: HTTP {} {}\n", call.status,
                               status.ToString());
    }
    Next();
  }

  void Finish() {
    const std::lock_guard lock(mu_);
    finished_ = true;
    done_.notify_all();
  }

  const std::unique_ptr<http::Client> client_;
  const Options& options_;
  const int in_flight_;
  std::atomic<std::int64_t>& next_;
  Work work_;
  SteadyClock::time_point ends_;
  std::int64_t open_ = 0;
  Results results_;

  std::mutex mu_;
  std::condition_variable done_;
  bool finished_ = false;
};

http::Request Post(const Options& options, std::string body) {
  return {.method = "POST",
          .target = Collection(options),
          .authority = {},
          .headers = {{"content-type", "application/json"}},
          .body = std::move(body)};
}

// Opens watches and counts their frames by the newlines.
class Watchers {
 public:
  Watchers(http::Client* client, const Options& options, const std::string& resource_version)
      : client_(client), counts_(static_cast<std::size_t>(options.watchers)) {
    for (std::atomic<std::int64_t>& count : counts_) {
      http::Request request{.method = "GET",
                            .target = fmt::format("{}?watch=true&resourceVersion={}",
                                                  Collection(options), resource_version),
                            .authority = {},
                            .headers = {{"authorization", "Bearer " + options.token},
                                        {"accept-encoding", "identity"}},
                            .body = {}};
      calls_.push_back(client_->Start(
          std::move(request), {},
          {.head =
               [this](const http::ResponseHead& head) {
                 if (head.status == 200) opened_.fetch_add(1);
               },
           .data =
               [&count](std::string_view data) {
                 count.fetch_add(std::count(data.begin(), data.end(), '\n'),
                                 std::memory_order_relaxed);
               },
           .done =
               [this](const Status& status) {
                 if (ended_.fetch_add(1) > 0 || stopping_) return;
                 std::cerr << "load: a watch ended: "
                           << (status.ok() ? "the server rejected or closed it" : status.message())
                           << "\n";
               }}));
    }
    Await([this] { return opened_ == all() || ended_ > 0; });
  }
  ~Watchers() {
    stopping_ = true;
    for (const http::Client::CallId call : calls_) client_->Cancel(call);
    Await([this] { return ended_ == all(); });
  }

  // Number of watches that ended or failed. Must be 0.
  int ended() const { return ended_.load(); }

  // Waits until each watch has received that many frames, one has ended, or no frame has arrived
  // for ten seconds.
  std::int64_t WaitFor(std::int64_t each) {
    std::int64_t before = -1;
    for (int quiet = 0; quiet < 1000; ++quiet) {
      std::int64_t total = 0;
      for (const std::atomic<std::int64_t>& count : counts_) total += count.load();
      if (total >= each * static_cast<std::int64_t>(counts_.size()) || ended() > 0) return total;
      if (total != before) quiet = 0;
      before = total;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return before;
  }

 private:
  int all() const { return static_cast<int>(counts_.size()); }

  template <typename Condition>
  static void Await(Condition condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  http::Client* const client_;
  std::vector<std::atomic<std::int64_t>> counts_;
  std::atomic<int> opened_{0};
  std::atomic<int> ended_{0};
  std::atomic<bool> stopping_{false};
  std::vector<http::Client::CallId> calls_;
};

std::string CurrentVersion(http::Client& client, const Options& options) {
  const Result<http::Response> response =
      client.Fetch({.method = "GET",
                    .target = fmt::format("{}?limit=1", Collection(options)),
                    .authority = {},
                    .headers = {{"authorization", "Bearer " + options.token}},
                    .body = {}});
  if (!response) return "";
  constexpr std::string_view kMember = "\"resourceVersion\":\"";
  const std::size_t at = response->body.find(kMember);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + kMember.size();
  return response->body.substr(begin, response->body.find('"', begin) - begin);
}

int Fail(const Status& status) {
  std::cerr << "load: " << status.message() << "\n";
  return 1;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("A load generator for event servers.", "load");
  app.add_option("--server", options.server, "URL of the server")->required();
  app.add_option("--ca", options.ca, "file with the CA certificate of the server (PEM)")
      ->required();
  app.add_option("--token", options.token, "bearer token")->required();
  app.add_option("--work", options.work,
                 "fill, create, patch, get, list, list-page, list-by-object, watch");
  app.add_option("--run", options.run, "prefix of event names, to distinguish runs");
  app.add_option("--reason", options.reason, "reason of the events");
  app.add_option("--namespace", options.namespace_, "namespace of the events");
  app.add_option("--in-flight", options.in_flight, "number of requests in flight");
  app.add_option("--connections", options.connections, "number of connections");
  app.add_option("--seconds", options.seconds, "duration of the measurement");
  app.add_option("--events", options.events, "number of events to use");
  app.add_option("--watchers", options.watchers, "number of watches");
  app.add_option("--limit", options.limit, "page size of list-page");
  CLI11_PARSE(app, argc, argv);

  std::ifstream file(options.ca);
  std::ostringstream ca;
  ca << file.rdbuf();
  http::ClientOptions client_options;
  client_options.url = options.server;
  client_options.tls = [ca = ca.str()]() -> Result<http::ClientTls> {
    http::ClientTls tls;
    tls.ca = ca;
    return tls;
  };
  std::atomic<std::int64_t> next{0};
  std::vector<std::unique_ptr<Lane>> lanes;
  const int connections = std::clamp(options.connections, 1, options.in_flight);
  for (int i = 0; i < connections; ++i) {
    Result<std::unique_ptr<http::Client>> client = http::Client::Open(client_options);
    if (!client) return Fail(client.error());
    const int share = options.in_flight / connections + (i < options.in_flight % connections);
    lanes.push_back(std::make_unique<Lane>(*std::move(client), options, share, &next));
  }
  // Watches have their own thread, so that they do not slow down the writers.
  Result<std::unique_ptr<http::Client>> watching = http::Client::Open(client_options);
  if (!watching) return Fail(watching.error());

  const bool creates =
      options.work == "create" || options.work == "fill" || options.work == "watch";
  if (options.work == "fill") options.seconds = 3600;
  // Created before the measurement starts. Long runs create more bodies later.
  std::vector<std::string> bodies;
  if (creates)
    for (std::int64_t i = 0; i < std::min(options.events, 200'000); ++i)
      bodies.push_back(EventBody(options, i));

  const auto target = [&](std::int64_t n) {
    if (options.work == "get")
      return fmt::format("{}/{}", Collection(options),
                         EventName(options, n * 7919 % options.events));
    if (options.work == "list-page") {
      return fmt::format("{}?limit={}", Collection(options), options.limit);
    }
    if (options.work == "list-by-object")
      return fmt::format("{}?fieldSelector=involvedObject.name%3Dweb-{}", Collection(options),
                         n * 7919 % options.events);
    return Collection(options);
  };
  Work work;
  if (creates) {
    work.expected_status = 201;
    work.make = [&](std::int64_t n) -> http::Request {
      if (options.work == "fill" && n >= options.events) return {.method = ""};
      if (n < static_cast<std::int64_t>(bodies.size()))
        return Post(options, std::move(bodies[static_cast<std::size_t>(n)]));
      return Post(options, EventBody(options, n));
    };
  } else if (options.work == "patch") {
    work.make = [&](std::int64_t n) -> http::Request {
      return {.method = "PATCH",
              .target =
                  fmt::format("{}/{}", Collection(options), EventName(options, n % options.events)),
              .authority = {},
              .headers = {{"content-type", "application/strategic-merge-patch+json"}},
              .body = fmt::format(R"({{"count":{},"lastTimestamp":"2026-11-15T20:00:00Z"}})",
                                  n / options.events + 2)};
    };
  } else {
    work.make = [&](std::int64_t n) -> http::Request {
      return {.method = "GET", .target = target(n), .authority = {}, .headers = {}, .body = {}};
    };
  }

  std::unique_ptr<Watchers> watchers;
  if (options.work == "watch")
    watchers =
        std::make_unique<Watchers>(watching->get(), options, CurrentVersion(**watching, options));
  const auto cpu_before = OwnCpu();
  const auto begun = SteadyClock::now();
  for (const auto& lane : lanes) lane->Start(work, begun + std::chrono::seconds(options.seconds));
  for (const auto& lane : lanes) lane->Wait();
  const double seconds = std::chrono::duration<double>(SteadyClock::now() - begun).count();
  Results results;
  for (const auto& lane : lanes) lane->AddTo(&results);
  const std::int64_t deliveries = watchers ? watchers->WaitFor(results.completed) : 0;
  if (watchers) results.failed += watchers->ended();
  const double wall = std::chrono::duration<double>(SteadyClock::now() - begun).count();
  const double cpu = std::chrono::duration<double>(OwnCpu() - cpu_before).count();
  watchers.reset();

  std::cout << fmt::format(
      R"({{"work":"{}","in_flight":{},"completed":{},"failed":{},"seconds":{:.3f},"per_second":{:.1f},)"
      R"("p50_ms":{:.3f},"p99_ms":{:.3f},"bytes":{},"deliveries":{},"deliveries_per_second":{:.1f},)"
      R"("cpu_seconds":{:.3f},"cpu_share":{:.3f}}})"
      "\n",
      options.work, options.in_flight, results.completed, results.failed, seconds,
      static_cast<double>(results.completed) / seconds, results.LatencyMs(0.5),
      results.LatencyMs(0.99), results.bytes, deliveries, static_cast<double>(deliveries) / wall,
      cpu, cpu / wall / static_cast<double>(std::thread::hardware_concurrency()));
  return results.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace herald

int main(int argc, char** argv) { return herald::Main(argc, argv); }
