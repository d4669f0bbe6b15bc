// Simulates a cluster in one process: thousands of node agents (examples/node_agent), each with its
// own broadcaster and recorders but without threads; all share one executor and one connection.
// tools/bench-cluster runs it against heraldd.
//
//   cluster --kubeconfig FILE --nodes 5000 --pods 30 --server-pid PID
//
// The phases are: pods that start and stop, a storm in which every container crashes repeatedly,
// and the time after it. Prints one line of JSON for each.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "herald/base/executor.h"
#include "herald/client/config.h"
#include "herald/client/rest.h"
#include "herald/client/rest_sink.h"
#include "herald/record/broadcaster.h"
#include "node_agent/event_setup.h"
#include "node_agent/node.h"

namespace herald {
namespace {

using std::chrono::seconds;
using SteadyClock = std::chrono::steady_clock;

struct Options {
  std::string kubeconfig;
  int nodes = 5000;
  int pods = 30;
  int pod_lifetime = 1800;  // s; 150,000 pods then record about 500 events a second
  int threads = 1;
  int steady = 60;  // s, each phase
  int storm = 30;
  int after = 60;
  int server_pid = 0;  // process whose memory is reported; 0: none
};

// The sink of all nodes; measures response times. Thread-safe.
class TimedSink final : public Sink {
 public:
  explicit TimedSink(std::shared_ptr<Sink> sink) : sink_(std::move(sink)) {}

  void Send(SinkRequest request, Completion done) override {
    const auto begun = SteadyClock::now();
    sink_->Send(std::move(request), [this, begun, done = std::move(done)](Result<Event> answer) {
      const auto took =
          std::chrono::duration_cast<std::chrono::microseconds>(SteadyClock::now() - begun);
      {
        const std::lock_guard lock(mu_);
        took_.push_back(static_cast<std::uint32_t>(took.count()));
      }
      done(std::move(answer));
    });
  }

  // Response times in microseconds of all requests since the last call.
  std::vector<std::uint32_t> Take() {
    const std::lock_guard lock(mu_);
    return std::exchange(took_, {});
  }

 private:
  const std::shared_ptr<Sink> sink_;
  std::mutex mu_;
  std::vector<std::uint32_t> took_;
};

double QuantileMs(std::vector<std::uint32_t>* took, double quantile) {
  if (took->empty()) return 0;
  const auto at =
      took->begin() + static_cast<std::ptrdiff_t>(quantile * static_cast<double>(took->size() - 1));
  std::nth_element(took->begin(), at, took->end());
  return *at / 1e3;
}

// A value of /proc/<pid>/status; 0 if there is no such process.
double StatusOf(const std::string& pid, std::string_view field) {
  std::ifstream status("/proc/" + pid + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::atof(line.c_str() + field.size());
  }
  return 0;
}

double ResidentMb(const std::string& pid) { return StatusOf(pid, "VmRSS:") / 1024; }

struct Agent {
  std::unique_ptr<Broadcaster> broadcaster;
  std::unique_ptr<node_agent::Node> node;
};

SinkStats Total(const std::vector<Agent>& agents) {
  SinkStats total;
  for (const Agent& agent : agents) {
    for (const SinkStats& stats : agent.broadcaster->Stats()) {
      total.recorded += stats.recorded;
      total.in_flight += stats.in_flight;
      total.requests += stats.requests;
      total.retries += stats.retries;
      for (std::size_t i = 0; i < kOutcomes; ++i) total.outcomes[i] += stats.outcomes[i];
    }
  }
  return total;
}

class Cluster {
 public:
  Cluster(const Options& options, std::shared_ptr<TimedSink> sink)
      : options_(options), sink_(std::move(sink)), executor_({.threads = options.threads}) {
    for (int i = 0; i < options_.nodes; ++i) agents_.push_back(MakeAgent(i));
  }
  ~Cluster() {
    for (Agent& agent : agents_) agent.broadcaster.reset();
    executor_.Stop();
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  void Start() {
    for (const Agent& agent : agents_) {
      executor_.Post([this, node = agent.node.get()] { Drive(node); });
    }
  }

  // Calls a function for all nodes on the executor's thread, to which they are confined.
  void TellAll(void (node_agent::Node::*what)()) {
    for (const Agent& agent : agents_) {
      executor_.Post([node = agent.node.get(), what] { (node->*what)(); });
    }
  }

  void Phase(const std::string& name, int length) {
    const SinkStats before = Total(agents_);
    const auto begun = SteadyClock::now();
    std::this_thread::sleep_for(seconds(length));
    Report(name, before, begun);
  }

  // Waits until all events have an outcome.
  void End() {
    over_ = true;
    const SinkStats before = Total(agents_);
    const auto begun = SteadyClock::now();
    const auto deadline = begun + seconds(60);
    for (Agent& agent : agents_) {
      const auto left = deadline - SteadyClock::now();
      agent.broadcaster->Shutdown(std::max<SteadyClock::duration>(left, seconds(0)));
    }
    Report("shutdown", before, begun);
  }

 private:
  void Drive(node_agent::Node* node) {
    if (over_) return;
    const SteadyTime next = node->Step(executor_.clock().Steady());
    executor_.PostAt(next, [this, node] { Drive(node); });
  }

  Agent MakeAgent(int number) {
    node_agent::NodeOptions options;
    options.name = fmt::format("node-{}", number + 1);
    options.pods = options_.pods;
    options.pod_lifetime = seconds(options_.pod_lifetime);
    options.pods_run_already = true;
    options.seed = static_cast<std::uint64_t>(number) + 1;
    node_agent::Dependencies dependencies{.sink = sink_};
    Agent agent;
    agent.broadcaster = node_agent::MakeEventRecorder(&dependencies, "kubelet", options.name,
                                                      {.executor = &executor_});
    const Recorder scheduler = agent.broadcaster->NewRecorder({.component = "default-scheduler"});
    agent.node = std::make_unique<node_agent::Node>(options, *dependencies.recorder, scheduler,
                                                    executor_.clock().Steady());
    return agent;
  }

  void Report(const std::string& name, const SinkStats& before, SteadyClock::time_point begun) {
    const SinkStats now = Total(agents_);
    const double took = std::chrono::duration<double>(SteadyClock::now() - begun).count();
    const auto per_second = [&](std::uint64_t a, std::uint64_t b) {
      return static_cast<double>(b - a) / took;
    };
    std::vector<std::uint32_t> answers = sink_->Take();
    std::string line = fmt::format(
        R"({{"phase":"{}","seconds":{:.1f},"recorded_per_second":{:.0f},"requests_per_second":{:.0f})",
        name, took, per_second(before.recorded, now.recorded),
        per_second(before.requests, now.requests));
    line +=
        fmt::format(R"(,"retries":{},"in_flight":{},"answer_p50_ms":{:.2f},"answer_p99_ms":{:.2f})",
                    now.retries - before.retries, now.in_flight, QuantileMs(&answers, 0.5),
                    QuantileMs(&answers, 0.99));
    for (std::size_t i = 0; i < kOutcomes; ++i) {
      line += fmt::format(R"(,"{}":{})", OutcomeName(static_cast<Outcome>(i)),
                          now.outcomes[i] - before.outcomes[i]);
    }
    line +=
        fmt::format(R"(,"agents_mb":{:.1f},"server_mb":{:.1f},"threads":{}}})", ResidentMb("self"),
                    options_.server_pid > 0 ? ResidentMb(std::to_string(options_.server_pid)) : 0,
                    static_cast<int>(StatusOf("self", "Threads:")));
    std::cout << line << std::endl;
  }

  const Options& options_;
  const std::shared_ptr<TimedSink> sink_;
  Executor executor_;  // declared before the broadcasters, which use it
  std::vector<Agent> agents_;
  std::atomic<bool> over_{false};
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Simulates thousands of node agents in one process.", "cluster");
  app.add_option("--kubeconfig", options.kubeconfig, "path of the kubeconfig")->required();
  app.add_option("--nodes", options.nodes, "number of nodes");
  app.add_option("--pods", options.pods, "number of pods per node");
  app.add_option("--pod-lifetime", options.pod_lifetime, "average lifetime of a pod in seconds");
  app.add_option("--threads", options.threads, "threads of the executor");
  app.add_option("--steady", options.steady, "seconds in which pods start and stop");
  app.add_option("--storm", options.storm, "seconds in which every container crashes");
  app.add_option("--after", options.after, "seconds after the storm");
  app.add_option("--server-pid", options.server_pid, "process whose memory is reported");
  CLI11_PARSE(app, argc, argv);

  const Result<ClientConfig> config = LoadConfig({.path = options.kubeconfig});
  if (!config) {
    std::cerr << "cluster: " << config.error().message() << "\n";
    return 1;
  }
  const auto rest = RestClient::Open(*config, {.user_agent = "cluster"});
  if (!rest) {
    std::cerr << "cluster: " << rest.error().message() << "\n";
    return 1;
  }
  Cluster cluster(options, std::make_shared<TimedSink>(std::make_shared<RestSink>(*rest)));
  cluster.Start();
  // The first events of the nodes.
  cluster.Phase("start", 10);
  cluster.Phase("steady", options.steady);
  cluster.TellAll(&node_agent::Node::Storm);
  cluster.Phase("storm", options.storm);
  cluster.TellAll(&node_agent::Node::Calm);
  cluster.Phase("after", options.after);
  cluster.End();
  return 0;
}

}  // namespace
}  // namespace herald

int main(int argc, char** argv) { return herald::Main(argc, argv); }
