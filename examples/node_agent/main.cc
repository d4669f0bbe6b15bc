// A node agent: what a kubelet does with events, told by pods that do not exist.
//
//   node_agent --kubeconfig .herald/kubeconfig --nodes 3 --pods 5 --faults few
//
// Without a kubeconfig, and outside of a cluster, it only logs. Ctrl-C stops it; it then
// says where its events went.
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
  --no-server         only log
  --node NAME         name of the node (node); numbered where there are several
  --nodes N           how many nodes to play (1)
  --pods N            pods on each (5)
  --pod-lifetime S    seconds that a pod lives, on average (120)
  --faults PROFILE    none, few or many (few)
  --fail-setup PART   fail at the start, as when that part cannot be started
  --seed N            the same seed tells the same story (1)
  --seconds N         stop after so long; 0: when told to (0)
  --storm-after N     all containers crash after so many seconds; 0: never (0)
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

bool ParseNumber(const char* text, int least, int* out) {
  char* end = nullptr;
  const long number = std::strtol(text, &end, 10);
  if (*text == '\0' || *end != '\0' || number < least || number > 1'000'000) return false;
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

// Null where there is no server to be found, which is no error: the agent then logs.
std::shared_ptr<herald::Sink> OpenSink(const Flags& flags) {
  if (flags.no_server) return nullptr;
  const herald::Result<herald::ClientConfig> config =
      herald::LoadConfig({.path = flags.kubeconfig});
  if (!config) {
    const std::string why = config.error().message();
    Log({.level = LogLevel::kWarn, .message = "no API server", .fields = {{"why", why}}});
    return nullptr;
  }
  auto rest = herald::RestClient::Open(*config, {.user_agent = "node-agent", .log = Log});
  if (!rest) {
    const std::string why = rest.error().message();
    Log({.level = LogLevel::kWarn, .message = "no API server", .fields = {{"why", why}}});
    return nullptr;
  }
  return std::make_shared<herald::RestSink>(*rest, herald::RestSinkOptions{.log = Log});
}

// One simulated node with its own broadcaster; all of them share one executor and one
// connection, and own no thread.
struct Agent {
  std::unique_ptr<herald::Broadcaster> broadcaster;
  std::unique_ptr<Node> node;
};

// Calls Step() when it is due, on the executor, for as long as that runs.
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
  // Declared before the broadcasters, which use it until they are gone.
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
      // As Kubelet.Run does: say it in an event, give that a chance to be written, and end.
      const herald::ObjectReference self{.kind = "Node", .name = options.name, .uid = options.name};
      dependencies.recorder->Eventf(self, herald::kWarning, "KubeletSetupFailed",
                                    "Failed to start {}: no such thing on this node",
                                    flags.fail_setup);
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
    // It needs the executor to the end, and the executor's tasks need the nodes.
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
