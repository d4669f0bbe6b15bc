// A controller for ReplicaSets, as in kube-controller-manager, written with Herald's client and
// recorder.
//
//   replicaset_controller --kubeconfig ~/.kube/config
//
// If several copies run, one works and the others wait for its Lease. Ctrl-C stops it.
//
// Read this file first, then controller.h and controller.cc, then the parts: pod_control.h (which
// records the events), expectations.h, claim.h, batches.h, ranking.h, status.h.
#include <fmt/core.h>
#include <getopt.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "herald/client/config.h"
#include "herald/client/leader_election.h"
#include "herald/client/rest.h"
#include "herald/client/rest_sink.h"
#include "herald/record/broadcaster.h"
#include "replicaset_controller/controller.h"

namespace replicaset_controller {
namespace {

using herald::LogLevel;
using herald::Result;
using herald::Status;

constexpr const char* kComponent = "replicaset-controller";
// How long to wait at the end for events that are not written yet.
constexpr std::chrono::seconds kDrain{5};

constexpr const char* kUsage = R"(usage: replicaset_controller [flags]
  --kubeconfig FILE   the API server; without it: $KUBECONFIG, the pod's service account,
                      ~/.kube/config
  --namespace NAME    work in this namespace only (all)
  --concurrent-replicaset-syncs N   ReplicaSets that are synced at the same time (5)
  --kube-api-qps N    requests per second; 0: no limit (20)
  --kube-api-burst N  requests at once (30)
  --no-leader-elect   do not wait for the Lease; use it only if no other copy runs
  --leader-elect-resource-namespace NAME   of the Lease (kube-system)
  --leader-elect-resource-name NAME        of the Lease (herald-replicaset-controller)
  --leader-elect-lease-duration S          seconds until others take over (15)
  --leader-elect-renew-deadline S          seconds until a leader gives up (10)
  --leader-elect-retry-period S            seconds between attempts (2)
  --log-events        log events in addition to writing them
)";

struct Flags {
  std::string kubeconfig;
  ControllerOptions controller;
  int qps = 20;
  int burst = 30;
  bool leader_elect = true;
  herald::LeaderElectionOptions election{.namespace_ = "kube-system",
                                         .name = "herald-replicaset-controller"};
  bool log_events = false;
};

void Log(const herald::LogEntry& entry) {
  if (entry.level == LogLevel::kDebug) return;
  constexpr const char* kLevels[] = {"debug", "info", "warn", "error"};
  std::string line = fmt::format("{} {}", kLevels[static_cast<int>(entry.level)], entry.message);
  for (const auto& [key, value] : entry.fields) line += fmt::format(" {}=\"{}\"", key, value);
  fmt::print(stderr, "{}\n", line);
}

int Fail(const std::string& why) {
  fmt::print(stderr, "replicaset_controller: {}\n", why);
  return 1;
}

bool ParseNumber(const char* string, int least, int* out) {
  char* end = nullptr;
  const long number = std::strtol(string, &end, 10);
  if (*string == '\0' || *end != '\0' || number < least || number > 1'000'000) return false;
  *out = static_cast<int>(number);
  return true;
}

bool ParseFlags(int argc, char** argv, Flags* flags) {
  const option options[] = {{"kubeconfig", required_argument, nullptr, 'k'},
                            {"namespace", required_argument, nullptr, 'n'},
                            {"concurrent-replicaset-syncs", required_argument, nullptr, 'w'},
                            {"kube-api-qps", required_argument, nullptr, 'q'},
                            {"kube-api-burst", required_argument, nullptr, 'b'},
                            {"no-leader-elect", no_argument, nullptr, 'L'},
                            {"leader-elect-resource-namespace", required_argument, nullptr, 'N'},
                            {"leader-elect-resource-name", required_argument, nullptr, 'R'},
                            {"leader-elect-lease-duration", required_argument, nullptr, 'd'},
                            {"leader-elect-renew-deadline", required_argument, nullptr, 'r'},
                            {"leader-elect-retry-period", required_argument, nullptr, 'p'},
                            {"log-events", no_argument, nullptr, 'e'},
                            {nullptr, 0, nullptr, 0}};
  for (int flag = 0; (flag = getopt_long(argc, argv, "", options, nullptr)) != -1;) {
    bool good = true;
    int number = 0;
    switch (flag) {
      case 'k':
        flags->kubeconfig = optarg;
        break;
      case 'n':
        flags->controller.namespace_ = optarg;
        break;
      case 'w':
        good = ParseNumber(optarg, 1, &flags->controller.workers);
        break;
      case 'q':
        good = ParseNumber(optarg, 0, &flags->qps);
        break;
      case 'b':
        good = ParseNumber(optarg, 1, &flags->burst);
        break;
      case 'L':
        flags->leader_elect = false;
        break;
      case 'N':
        flags->election.namespace_ = optarg;
        break;
      case 'R':
        flags->election.name = optarg;
        break;
      case 'd':
        good = ParseNumber(optarg, 1, &number);
        flags->election.lease_duration = std::chrono::seconds(number);
        break;
      case 'r':
        good = ParseNumber(optarg, 1, &number);
        flags->election.renew_deadline = std::chrono::seconds(number);
        break;
      case 'p':
        good = ParseNumber(optarg, 1, &number);
        flags->election.retry_period = std::chrono::seconds(number);
        break;
      case 'e':
        flags->log_events = true;
        break;
      default:
        good = false;
    }
    if (!good) return false;
  }
  return optind == argc;
}

// Requests a stop when a signal arrives. The signals are blocked in all threads, so only the
// thread in sigwait() gets them.
class StopOnSignal {
 public:
  explicit StopOnSignal(std::stop_source* stop) {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    thread_ = std::thread([this, stop] {
      int number = 0;
      sigwait(&signals_, &number);
      stop->request_stop();
    });
  }
  ~StopOnSignal() {
    // If the thread has already ended, this has no effect.
    pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  sigset_t signals_;
  std::thread thread_;
};

// Unique among the copies. Programs with client-go use the host name and a random part.
std::string Identity() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}_{}_{:x}", host.data(), getpid(), now);
}

// Waits until this process is the leader. Thread-safe.
class Election {
 public:
  Status Start(const std::shared_ptr<herald::RestClient>& rest,
               herald::LeaderElectionOptions options, std::stop_source* lost) {
    options.identity = Identity();
    options.on_started_leading = [this] {
      const std::lock_guard lock(mu_);
      leading_ = true;
      changed_.notify_all();
    };
    options.on_stopped_leading = [lost] { lost->request_stop(); };
    options.on_new_leader = [](const std::string& identity) {
      Log({.message = "New leader", .fields = {{"leader", identity}}});
    };
    auto elector = herald::LeaderElector::Open(rest, std::move(options));
    if (!elector) return elector.error();
    elector_ = std::move(*elector);
    elector_->Start();
    return {};
  }

  bool Wait(const std::stop_token& stop) {
    std::unique_lock lock(mu_);
    return changed_.wait(lock, stop, [this] { return leading_; });
  }

  bool IsLeader() const { return elector_->IsLeader(); }

  // Releases the Lease. Call it after the controller has stopped.
  void End() {
    if (!elector_) return;
    if (const Status status = elector_->Resign(); !status.ok()) {
      Log({.level = LogLevel::kWarn,
           .message = "Failed to release the lease",
           .fields = {{"why", status.message()}}});
    }
  }

 private:
  std::mutex mu_;
  std::condition_variable_any changed_;
  bool leading_ = false;                            // guarded by mu_
  std::unique_ptr<herald::LeaderElector> elector_;  // last, because its callbacks use the others
};

int Main(int argc, char** argv) {
  Flags flags;
  if (!ParseFlags(argc, argv, &flags)) {
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  std::stop_source stop;  // by a signal: running syncs are finished
  std::stop_source lost;  // the lease is lost: requests are cancelled
  const StopOnSignal on_signal(&stop);

  const Result<herald::ClientConfig> config = herald::LoadConfig({.path = flags.kubeconfig});
  if (!config) return Fail(config.error().message());
  const auto rest = herald::RestClient::Open(*config, {.user_agent = kComponent,
                                                       .qps = static_cast<double>(flags.qps),
                                                       .burst = flags.burst,
                                                       .log = Log});
  if (!rest) return Fail(rest.error().message());
  // Events and the Lease use a second client, so that they do not wait behind requests for 500
  // pods: a busy leader could not renew its Lease in time and would lose it.
  const auto side_rest = herald::RestClient::Open(*config, {.user_agent = kComponent, .log = Log});
  if (!side_rest) return Fail(side_rest.error().message());

  if (const Status status = ReplicaSetController::CheckServer(*rest, stop.get_token());
      !status.ok()) {
    return Fail(status.message());
  }

  herald::Broadcaster broadcaster({.log = Log});
  Status started = broadcaster.StartRecordingToSink(std::make_shared<herald::RestSink>(*side_rest));
  if (started.ok() && flags.log_events) started = broadcaster.StartStructuredLogging(Log);
  if (!started.ok()) return Fail(started.message());
  const herald::Recorder recorder = broadcaster.NewRecorder({.component = kComponent});

  Election election;
  if (flags.leader_elect) {
    flags.election.recorder = recorder;
    flags.election.log = Log;
    started = election.Start(*side_rest, flags.election, &lost);
    if (!started.ok()) return Fail(started.message());
    if (!election.Wait(stop.get_token())) return 0;
    flags.controller.may_work = [&election] { return election.IsLeader(); };
  }
  flags.controller.log = Log;
  flags.controller.abort = lost.get_token();
  ReplicaSetController controller(*rest, recorder, flags.controller);
  controller.Run(stop.get_token());

  election.End();
  broadcaster.Shutdown(kDrain);
  return lost.stop_requested() ? Fail("the lease was lost; restart the program") : 0;
}

}  // namespace
}  // namespace replicaset_controller

int main(int argc, char** argv) { return replicaset_controller::Main(argc, argv); }
