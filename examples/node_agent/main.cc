// A node agent: records events as a kubelet does, about simulated pods.
//
//   node_agent --kubeconfig .herald/kubeconfig --nodes 3 --pods 5 --faults few
//
// Without a kubeconfig, and outside of a cluster, it only logs. Ctrl-C stops it; it then prints the
// outcomes of its events.
#include <fmt/core.h>
#include <getopt.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "herald/base/executor.h"
#include "herald/client/config.h"
#include "herald/client/rest.h"
#include "herald/client/rest_sink.h"
#include "herald/record/broadcaster.h"
#include "node_agent/event_setup.h"
#include "node_agent/node.h"

namespace node_agent {
namespace {

using herald::LogLevel;

constexpr const char* kUsage = R"(usage: node_agent [flags]
  --kubeconfig FILE   the API server to write to; without it: $KUBECONFIG, the pod's service
                      account, ~/.kube/config, or none
  --no-server         only log events
  --node NAME         name of the node (node); with several nodes a number is appended
  --nodes N           number of nodes to simulate (1)
  --pods N            pods per node (5)
  --pod-lifetime S    average lifetime of a pod in seconds (120)
  --faults PROFILE    none, few or many (few)
  --fail-setup PART   record that this part failed to start, and exit
  --seed N            of the random numbers; the same seed results in the same events (1)
  --seconds N         stop after N seconds; 0: run until a signal (0)
  --storm-after N     all containers crash after N seconds; 0: never (0)
  --quiet             do not log events
)";

struct Flags {
  std::string kubeconfig;
  bool no_server = false;
  NodeOptions node{.name = "node", .pods = 5};
  int nodes = 1;
  std::string fail_setup;
  int seconds = 0;
  int storm_after = 0;
  bool quiet = false;
};

void Log(const herald::LogEntry& entry) {
  if (entry.level == LogLevel::kDebug) return;
  constexpr const char* kLevels[] = {"debug", "info", "warn", "error"};
  std::string line = fmt::format("{} {}", kLevels[static_cast<int>(entry.level)], entry.message);
  for (const auto& [key, value] : entry.fields) line += fmt::format(" {}=\"{}\"", key, value);
  fmt::print(stderr, "{}\n", line);
}

bool ParseNumber(const char* string, int least, int* out) {
  char* end = nullptr;
  const long number = std::strtol(string, &end, 10);
  if (*string == '\0' || *end != '\0' || number < least || number > 1'000'000) return false;
  *out = static_cast<int>(number);
  return true;
}

bool ParseFlags(int argc, char** argv, Flags* flags) {
  flags->node.faults = {};
  Faults::Parse("few", &flags->node.faults);
  const option options[] = {{"kubeconfig", required_argument, nullptr, 'k'},
                            {"no-server", no_argument, nullptr, 'x'},
                            {"node", required_argument, nullptr, 'n'},
                            {"nodes", required_argument, nullptr, 'N'},
                            {"pods", required_argument, nullptr, 'p'},
                            {"pod-lifetime", required_argument, nullptr, 'l'},
                            {"faults", required_argument, nullptr, 'f'},
                            {"fail-setup", required_argument, nullptr, 'F'},
                            {"seed", required_argument, nullptr, 's'},
                            {"seconds", required_argument, nullptr, 'S'},
                            {"storm-after", required_argument, nullptr, 'w'},
                            {"quiet", no_argument, nullptr, 'q'},
                            {nullptr, 0, nullptr, 0}};
  for (int flag = 0; (flag = getopt_long(argc, argv, "", options, nullptr)) != -1;) {
    bool good = true;
    int number = 0;
    switch (flag) {
      case 'k':
        flags->kubeconfig = optarg;
        break;
      case 'x':
        flags->no_server = true;
        break;
      case 'n':
        flags->node.name = optarg;
        break;
      case 'N':
        good = ParseNumber(optarg, 1, &flags->nodes);
        break;
      case 'p':
        good = ParseNumber(optarg, 0, &flags->node.pods);
        break;
      case 'l':
        good = ParseNumber(optarg, 1, &number);
        flags->node.pod_lifetime = std::chrono::seconds(number);
        break;
      case 'f':
        good = Faults::Parse(optarg, &flags->node.faults);
        break;
      case 'F':
        flags->fail_setup = optarg;
        break;
      case 's':
        good = ParseNumber(optarg, 0, &number);
        flags->node.seed = static_cast<std::uint64_t>(number);
        break;
      case 'S':
        good = ParseNumber(optarg, 0, &flags->seconds);
        break;
      case 'w':
        good = ParseNumber(optarg, 0, &flags->storm_after);
        break;
      case 'q':
        flags->quiet = true;
        break;
      default:
        good = false;
    }
    if (!good) return false;
  }
  return optind == argc;
}

// Returns null if no server is configured. This is not an error: the agent then only logs.
std::shared_ptr<herald::Sink> OpenSink(const Flags& flags) {
  if (flags.no_server) return nullptr;
  const herald::Result<herald::ClientConfig> config =
      herald::LoadConfig({.path = flags.kubeconfig});
  if (!config) {
    const std::string why = config.error().message();
    Log({.level = LogLevel::kWarn,
         .message = "Cannot use an API server",
         .fields = {{"why", why}}});
    return nullptr;
  }
  auto rest = herald::RestClient::Open(*config, {.user_agent = "node-agent", .log = Log});
  if (!rest) {
    const std::string why = rest.error().message();
    Log({.level = LogLevel::kWarn,
         .message = "Cannot use an API server",
         .fields = {{"why", why}}});
    return nullptr;
  }
  return std::make_shared<herald::RestSink>(*rest, herald::RestSinkOptions{.log = Log});
}

// One simulated node with its own broadcaster. All nodes share one executor and one connection, so
// a node has no thread.
struct Agent {
  std::unique_ptr<herald::Broadcaster> broadcaster;
  std::unique_ptr<Node> node;
};

// Calls Step() on the executor whenever it is due, until the executor stops.
void Drive(herald::Executor* executor, Node* node) {
  const herald::SteadyTime next = node->Step(executor->clock().Steady());
  executor->PostAt(next, [executor, node] { Drive(executor, node); });
}

void WaitForEnd(const Flags& flags, const sigset_t& signals) {
  if (flags.seconds == 0) {
    int number = 0;
    sigwait(&signals, &number);
    return;
  }
  const timespec patience{.tv_sec = flags.seconds, .tv_nsec = 0};
  sigtimedwait(&signals, nullptr, &patience);
}

int Main(int argc, char** argv) {
  Flags flags;
  if (!ParseFlags(argc, argv, &flags)) {
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  const std::shared_ptr<herald::Sink> sink = OpenSink(flags);
  // Declared before the broadcasters, which use it until they are destroyed.
  herald::Executor executor;
  std::vector<Agent> agents;
  for (int i = 0; i < flags.nodes; ++i) {
    NodeOptions options = flags.node;
    if (flags.nodes > 1) options.name = fmt::format("{}-{}", options.name, i + 1);
    options.seed += static_cast<std::uint64_t>(i);
    Dependencies dependencies{.sink = sink, .log = flags.quiet ? herald::LogFunction() : Log};
    Agent agent;
    agent.broadcaster =
        MakeEventRecorder(&dependencies, "kubelet", options.name, {.executor = &executor});
    if (!flags.fail_setup.empty()) {
      // As Kubelet.Run does: record an event, wait until it is written, and exit.
      const herald::ObjectReference self{.kind = "Node", .name = options.name, .uid = options.name};
      dependencies.recorder->Eventf(self, herald::kWarning, "KubeletSetupFailed",
                                    "Failed to start {}: not found on this node", flags.fail_setup);
      agent.broadcaster->Shutdown(std::chrono::seconds(5));
      return 1;
    }
    const herald::Recorder scheduler =
        agent.broadcaster->NewRecorder({.component = "default-scheduler"});
    agent.node = std::make_unique<Node>(options, *dependencies.recorder, scheduler,
                                        executor.clock().Steady());
    agents.push_back(std::move(agent));
  }
  for (const Agent& agent : agents) {
    executor.Post([&executor, node = agent.node.get()] { Drive(&executor, node); });
    if (flags.storm_after > 0)
      executor.PostAt(executor.clock().Steady() + std::chrono::seconds(flags.storm_after),
                      [node = agent.node.get()] { node->Storm(); });
  }
  WaitForEnd(flags, signals);

  herald::SinkStats total;
  for (Agent& agent : agents) {
    agent.broadcaster->Shutdown(std::chrono::seconds(5));
    for (const herald::SinkStats& stats : agent.broadcaster->Stats()) {
      total.recorded += stats.recorded;
      for (std::size_t i = 0; i < total.outcomes.size(); ++i)
        total.outcomes[i] += stats.outcomes[i];
    }
    // The broadcaster needs the executor, and tasks of the executor need the nodes.
    agent.broadcaster.reset();
  }
  executor.Stop();
  if (sink) {
    fmt::print("{} events were recorded", total.recorded);
    for (std::size_t i = 0; i < total.outcomes.size(); ++i)
      if (total.outcomes[i] > 0)
        fmt::print(", {} {}", total.outcomes[i],
                   herald::OutcomeName(static_cast<herald::Outcome>(i)));
    fmt::print("\n");
  }
  return 0;
}

}  // namespace
}  // namespace node_agent

int main(int argc, char** argv) { return node_agent::Main(argc, argv); }
