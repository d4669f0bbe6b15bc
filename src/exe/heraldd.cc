// heraldd: the event server. Parses flags, starts the Daemon, waits for a signal and stops it.
// server/daemon/daemon.cc documents the parts of the server and the order in which they stop.

#include <fmt/core.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>

#include "base/bytes/trimmed.h"
#include "base/duration.h"
#include "exe/dev.h"
#include "exe/flags.h"
#include "exe/log.h"
#include "http/url.h"
#include "server/access/certificates.h"
#include "server/api.h"
#include "server/daemon/control_socket.h"
#include "server/daemon/daemon.h"
#include "server/events/retention.h"
#include "store/rocks/admin.h"

namespace herald {
namespace {

using server::Daemon;
using server::DaemonOptions;

// How long requests may take to finish after a signal to stop. systemd kills the process after
// 90 s, Kubernetes after 30 s.
constexpr std::chrono::seconds kDrain{10};

// The upper limit of duration flags: long enough, and safe to add to any time point.
constexpr std::chrono::hours kMaxDuration{365 * 24};
// More threads than this only wait for each other.
constexpr std::int64_t kMaxThreads = 1024;
// The kernel's default limit on open files of one process (fs.nr_open).
constexpr std::int64_t kMaxOpenFiles = 1'048'576;

struct Flags {
  DaemonOptions daemon;
  std::string config;
  std::string etcd_user_file;
  std::string log_format = "text";
  std::string log_level = "info";
  std::string dev_dir = ".herald";
  std::string port_file;
};

// Header names are tokens (RFC 9110, 5.6.2).
std::string CheckHeaderName(const std::string& name) {
  const bool is_token = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("!#$%&'*+-.^_`|~", c) != nullptr;
  });
  return is_token ? "" : "must be header names, such as X-Remote-User";
}

std::string CheckEtcdServer(const std::string& url) {
  return url.starts_with("http://") || url.starts_with("https://")
             ? ""
             : "must be URLs, such as https://a:2379,https://b:2379";
}

// Flags of both `serve` and `dev`, and those that only one of them has.
enum class Command { kServe, kDev };

void AddServingFlags(CLI::App& app, Flags& flags, Command command) {
  DaemonOptions& d = flags.daemon;
  const char* const group = "Serving";
  const std::string port_help = "The port on which to serve HTTPS. 0 chooses a free port.";
  if (command == Command::kServe) {
    AddFlag(
        app, "--bind-address",
        [&d](const std::string& value) -> std::string {
          if (!http::IsAddress(value)) return "must be an IP address, such as 0.0.0.0 or ::1";
          d.bind_address = value;
          return {};
        },
        "The IP address on which to listen. 0.0.0.0 or :: listens on all interfaces.", "ADDRESS",
        d.bind_address)
        ->group(group);
    AddNumber(app, "--secure-port", &d.secure_port, 0, 65535, port_help)->group(group);
  } else {
    AddNumber(app, "--port", &d.secure_port, 0, 65535, port_help)->group(group);
    AddPath(app, "--dir", &flags.dev_dir,
            "Directory for the data, certificates, token and kubeconfig. Created if missing.")
        ->group(group);
  }
  AddPath(app, "--port-file", &flags.port_file,
          "File to which to write the port number once the server is ready.")
      ->group(group);
  AddNumber(app, "--threads", &d.threads, 0, kMaxThreads,
            "Number of threads that serve connections. 0 means one per CPU core, at most 4.")
      ->group(group);
}

void AddTlsFlags(CLI::App& app, Flags& flags, Command command) {
  DaemonOptions& d = flags.daemon;
  const char* const group = "TLS";
  if (command == Command::kServe) {
    AddPath(app, "--cert-dir", &d.cert_dir,
            "The directory where the TLS certificates are located. If --tls-cert-file is not set, "
            "a CA (ca.crt) and a certificate are created here. Ignored if --tls-cert-file is set.")
        ->group(group);
  }
  AddPath(app, "--tls-cert-file", &d.tls_cert_file,
          "File containing the x509 certificate for HTTPS (PEM; server certificate first, then "
          "intermediate and CA certificates, if any).")
      ->group(group);
  AddPath(app, "--tls-private-key-file", &d.tls_private_key_file,
          "File containing the x509 private key (PEM) matching --tls-cert-file.")
      ->group(group);
}

void AddAuthenticationFlags(CLI::App& app, Flags& flags, Command command) {
  DaemonOptions& d = flags.daemon;
  const auto any_value = [](const std::string&) { return std::string(); };
  const char* const group = "Authentication";
  if (command == Command::kServe) {
    AddPath(app, "--token-auth-file", &d.token_auth_file,
            "CSV file with bearer tokens, one per line: token,user,uid,\"group1,group2\". The "
            "groups are optional.")
        ->group(group);
  }
  AddPath(app, "--client-ca-file", &d.client_ca_file,
          "File containing CA certificates (PEM). A client with a certificate signed by one of "
          "them is authenticated as the user in its common name (CN) and the groups in its "
          "organizations (O).")
      ->group(group);
  AddPath(app, "--requestheader-client-ca-file", &d.requestheader_client_ca_file,
          "File containing CA certificates (PEM) used to verify the client certificates of "
          "authenticating proxies before trusting the user names in their headers.")
      ->group(group);
  AddList(app, "--requestheader-allowed-names", &d.requestheader_allowed_names, any_value,
          "Common names of the client certificates of authenticating proxies. If empty, every "
          "certificate signed by a CA in --requestheader-client-ca-file is allowed.")
      ->group(group);
  AddList(app, "--requestheader-username-headers", &d.requestheader_username_headers,
          CheckHeaderName, "List of request headers to inspect for user names.")
      ->group(group);
  AddList(app, "--requestheader-group-headers", &d.requestheader_group_headers, CheckHeaderName,
          "List of request headers to inspect for groups.")
      ->group(group);

  AddPath(app, "--rbac-dir", &d.rbac_dir,
          "Directory with YAML manifests of Roles, ClusterRoles, RoleBindings and "
          "ClusterRoleBindings. Reloaded when it changes. If not set, only the group "
          "system:masters can access events.")
      ->group("Authorization");
  AddList(app, "--cors-allowed-origins", &d.cors_allowed_origins, any_value,
          "List of allowed origins for CORS, as regular expressions. Each must match the whole "
          "host name: anchor its start with '^' or '//', and its end with '$' or ':', such as "
          "'^https://example\\.com(:|$)'. If empty, CORS is disabled.")
      ->group("Authorization");
}

void AddStorageFlags(CLI::App& app, Flags& flags, Command command) {
  using std::chrono::seconds;
  DaemonOptions& d = flags.daemon;
  const char* const group = "Storage";
  if (command == Command::kServe) {
    AddPath(app, "--data-dir", &d.data_dir, "Directory in which events are stored.")->group(group);
  }
  AddFlag(
      app, "--event-ttl",
      [&d](const std::string& value) -> std::string {
        const auto ttl = ParseDuration(value);
        if (!ttl) return "must be a duration, such as 90s, 1h30m or 7d";
        const Status status = server::Retention::CheckTtl(*ttl);
        if (status.ok()) d.event_ttl = std::chrono::duration_cast<seconds>(*ttl);
        return status.message();
      },
      "Amount of time to retain events for which no rule in --retention-file matches.", "DURATION",
      "1h")
      ->group(group);
  AddPath(app, "--retention-file", &d.retention_file,
          "YAML file with rules for how long to retain which events. Reloaded when it changes.")
      ->group(group);
  AddDuration(app, "--watch-window", &d.watch_window,
              {.min = seconds(1), .max = kMaxDuration, .text = "from 1s to 365d"}, "5m",
              "How far back watches and paginated lists may start. An older resource version is "
              "answered with 410 Expired.")
      ->group(group);
  AddSize(app, "--max-disk-bytes", &d.max_disk_bytes,
          "Maximum size of the data directory, including temporary files, such as 10Gi. Must be at "
          "least 64Mi. If less than 35% of it (at most 1Gi) is free, the oldest events are "
          "deleted; if events are written faster than that, writes are answered with 429. 0 means "
          "no limit.")
      ->default_str("0")
      ->group(group);
}

void AddEtcdFlags(CLI::App& app, Flags& flags) {
  using std::chrono::seconds;
  DaemonOptions& d = flags.daemon;
  const char* const group = "Storage in etcd";
  AddList(app, "--etcd-servers", &d.etcd_servers, CheckEtcdServer,
          "List of etcd servers to connect to (scheme://ip:port), such as "
          "https://a:2379,https://b:2379. Events are then stored in etcd instead of --data-dir, "
          "and several heraldd and kube-apiserver processes can share them.")
      ->group(group);
  AddPath(app, "--etcd-cafile", &d.etcd_cafile,
          "File containing CA certificates (PEM) used to verify etcd. If not set, the CAs of the "
          "system are used.")
      ->group(group);
  AddPath(app, "--etcd-certfile", &d.etcd_certfile,
          "File containing the client certificate (PEM) for etcd.")
      ->group(group);
  AddPath(app, "--etcd-keyfile", &d.etcd_keyfile,
          "File containing the private key (PEM) matching --etcd-certfile.")
      ->group(group);
  AddPath(app, "--etcd-prefix", &d.etcd_prefix,
          "The prefix to prepend to all resource paths in etcd.")
      ->group(group);
  AddPath(app, "--etcd-user-file", &flags.etcd_user_file,
          "File containing the etcd user as name:password. If not set, the environment variable "
          "HERALDD_ETCD_USER is used.")
      ->group(group);
  AddDuration(app, "--etcd-compaction-interval", &d.etcd_compaction_interval,
              {.min = seconds(1),
               .max = kMaxDuration,
               .text = "from 1s to 365d, or 0",
               .zero_is_allowed = true},
              "5m", "The interval of compaction requests to etcd. 0 disables them.")
      ->group(group);
  AddSize(app, "--etcd-index-bytes", &d.etcd_index_bytes,
          "Maximum memory for the index of the events in etcd. If the index does not fit, or with "
          "0, a list with a selector reads all events from etcd.")
      ->default_str("512Mi")
      ->group(group);
}

void AddLimitFlags(CLI::App& app, Flags& flags) {
  using std::chrono::seconds;
  DaemonOptions& d = flags.daemon;
  const char* const group = "Limits";
  AddPath(app, "--event-rate-limit-config", &d.event_rate_limit_file,
          "File with the configuration of the EventRateLimit admission plugin. Reloaded when it "
          "changes.")
      ->group(group);
  AddNumber(app, "--max-requests-inflight", &d.max_requests_inflight, 0, kMaxOpenFiles,
            "The maximum number of requests in flight at a given time, excluding watches. Requests "
            "above it are rejected with 429. 0 means no limit.")
      ->group(group);
  AddNumber(app, "--max-connections", &d.max_connections, 1, kMaxOpenFiles,
            "The maximum number of open connections. Connections above it are closed.")
      ->group(group);
  AddNumber(app, "--max-watches-per-user", &d.max_watches_per_user, 1, kMaxOpenFiles,
            "The maximum number of open watches of one user.")
      ->group(group);
  AddDuration(
      app, "--request-timeout", &d.request_timeout,
      {.min = std::chrono::milliseconds(1), .max = kMaxDuration, .text = "from 1ms to 365d"}, "1m",
      "The duration after which a request, except a watch, times out and is answered with "
      "504.")
      ->group(group);
  AddFlag(
      app, "--min-request-timeout",
      [&d](const std::string& value) -> std::string {
        const auto number = ParseNumber(value);
        const std::int64_t most = seconds(kMaxDuration).count();
        if (!number || *number < 1 || *number > most)
          return fmt::format("must be a number of seconds from 1 to {}", most);
        d.min_request_timeout = seconds(*number);
        return {};
      },
      "The minimum number of seconds that a watch is kept open if the client does not request a "
      "timeout.",
      "SECONDS", "1800")
      ->group(group);
}

void AddLogFlags(CLI::App& app, Flags& flags) {
  const char* const group = "Logging";
  AddChoice(app, "--log-format", &flags.log_format, {"text", "json"},
            "The log format: text or json.")
      ->group(group);
  AddChoice(app, "--log-level", &flags.log_level, {"debug", "info", "warn", "error"},
            "The lowest level to log: debug, info, warn or error.")
      ->group(group);
}

// The help lists the groups in the order in which their first flags are added.
void AddServerFlags(CLI::App& app, Flags& flags, Command command) {
  AddPath(app, "--config", &flags.config,
          "YAML file with values for these flags, written without the dashes. Flags on the command "
          "line take precedence.");
  AddServingFlags(app, flags, command);
  AddTlsFlags(app, flags, command);
  AddAuthenticationFlags(app, flags, command);
  AddStorageFlags(app, flags, command);
  AddEtcdFlags(app, flags);
  AddLimitFlags(app, flags);
  AddLogFlags(app, flags);
}

// The error, with the flag whose value caused it.
Status Prefixed(std::string_view flag, const Status& status) {
  return Status(status.reason(), fmt::format("{}: {}", flag, status.message()));
}

// Reports the state of the server to systemd, if it runs under a unit with Type=notify.
void NotifySystemd(std::string_view state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (path == nullptr || std::strlen(path) >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path);
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';  // an abstract socket
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  (void)sendto(fd, state.data(), state.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), length);
  close(fd);
}

int Fail(const Status& status) {
  std::cerr << "heraldd: " << status.message() << std::endl;
  return kExitFailed;
}

// Like Fail(), with the exit code for usage errors if a flag or a file that it names is invalid.
int FailToStart(const Status& status) {
  Fail(status);
  return status.Is(StatusReason::kBadRequest) || status.Is(StatusReason::kNotFound) ? kExitUsage
                                                                                    : kExitFailed;
}

// Raises the limit on open files as far as allowed: each connection needs a file descriptor, and
// the default of most shells is 1,024. A failure is ignored here; the server logs an error later if
// it runs out of file descriptors.
void RaiseOpenFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

// Checks that the flags of the store go together, and fills in those that depend on others.
Status SetStoreOptions(CLI::App& app, Flags& flags, bool dev) {
  DaemonOptions& d = flags.daemon;
  if (d.etcd_servers.empty()) {
    for (const char* const flag :
         {"--etcd-cafile", "--etcd-certfile", "--etcd-keyfile", "--etcd-prefix", "--etcd-user-file",
          "--etcd-compaction-interval", "--etcd-index-bytes"}) {
      if (app.get_option(flag)->count() > 0)
        return Status(StatusReason::kBadRequest, fmt::format("{} requires --etcd-servers", flag));
    }
    return {};
  }
  // Only a --data-dir that was given conflicts with etcd; the default is ignored.
  if (dev || app.get_option("--data-dir")->count() == 0) d.data_dir.clear();
  if (!flags.etcd_user_file.empty()) {
    Result<std::string> user = server::ReadPrivateFile(flags.etcd_user_file);
    if (!user) return Prefixed("--etcd-user-file", user.error());
    d.etcd_user = Trimmed(*user);
  } else if (const char* const user = std::getenv("HERALDD_ETCD_USER"); user != nullptr) {
    d.etcd_user = user;
  }
  return {};
}

// Serves until SIGINT or SIGTERM. With `dev`, also prints how to use the server.
int Serve(CLI::App& app, Flags& flags, bool dev) {
  if (!flags.config.empty())
    if (Status status = ApplyConfigFile(flags.config, app); !status.ok())
      return FailToStart(Prefixed("--config", status));
  Result<LogFunction> log = MakeLog(flags.log_format, flags.log_level);
  if (!log) return FailToStart(log.error());
  flags.daemon.log = *log;
  if (dev) {
    if (Status status = PrepareDevDirectory(flags.dev_dir, &flags.daemon); !status.ok())
      return FailToStart(status);
  }
  if (Status status = SetStoreOptions(app, flags, dev); !status.ok()) return FailToStart(status);

  // Blocked before any thread starts: all threads inherit the mask, so only sigwait() below
  // receives these signals.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  RaiseOpenFileLimit();

  Result<std::unique_ptr<Daemon>> daemon = Daemon::Start(flags.daemon);
  if (!daemon) return FailToStart(daemon.error());
  const std::string port = fmt::format("{}", (*daemon)->port());
  (*log)({.level = LogLevel::kInfo,
          .message = "serving",
          .fields = {{"address", flags.daemon.bind_address}, {"port", port}}});
  if (dev) {
    const Result<DevAccess> access = FindDevAccess(flags.dev_dir, flags.daemon, (*daemon)->port());
    if (!access) return Fail(access.error());
    const Result<bool> written = WriteDevKubeconfig(flags.dev_dir, *access);
    if (!written) return Fail(written.error());
    if (!*written)
      std::cout << fmt::format(
          "\n{0}/kubeconfig has been edited, so it was not overwritten. It may contain another "
          "port or CA.\nDelete it and restart to get a new one.\n",
          flags.dev_dir);
    std::cout << DevInstructions(flags.dev_dir, *access, !flags.daemon.etcd_servers.empty())
              << std::endl;
  }
  // Written last, because scripts wait for this file.
  if (!flags.port_file.empty())
    if (Status status = server::WritePrivateFile(flags.port_file, port); !status.ok())
      return Fail(status);
  NotifySystemd("READY=1");

  for (;;) {
    int number = 0;
    sigwait(&signals, &number);
    if (number != SIGHUP) break;
    (*daemon)->Reload();
  }
  NotifySystemd("STOPPING=1");
  (*log)({.level = LogLevel::kInfo, .message = "stopping", .fields = {}});
  (*daemon)->Stop(kDrain);
  return 0;
}

int Backup(const std::string& data_dir, const std::string& target, store::BackupMode mode) {
  // If a server is running on the directory, it provides the files to copy. Otherwise, and with
  // hard links, this process opens the directory itself, so no server may be running.
  Status status(StatusReason::kNotFound, "");
  if (mode == store::BackupMode::kCopy) status = server::BackUpRunningServer(data_dir, target);
  if (status.Is(StatusReason::kNotFound)) status = store::BackupStore(data_dir, target, mode);
  if (!status.ok()) return Fail(status);
  std::cout << fmt::format("Backed up {} to {}\n", data_dir, target);
  return 0;
}

int AcceptClock(const std::string& data_dir) {
  if (Status status = server::AcceptClockOfRunningServer(data_dir); !status.ok())
    return Fail(status);
  std::cout << "The server accepted its clock. Events expire again.\n";
  return 0;
}

int Restore(const std::string& backup, const std::string& data_dir) {
  if (Status status = store::RestoreStore(backup, data_dir); !status.ok()) return Fail(status);
  std::cout << fmt::format("Restored {} from {}\n", data_dir, backup);
  return 0;
}

// For commands that need the indexes of events but not their lifetimes.
store::Schema IndexSchema() {
  return server::Api::MakeSchema([](const Event&) { return std::chrono::seconds(1); });
}

int AcceptLoss(const std::string& data_dir) {
  const Result<store::AcceptedLoss> loss = store::AcceptLoss(data_dir, IndexSchema());
  if (!loss) return Fail(loss.error());
  std::cout << fmt::format(
      "Recovered {}: all changes up to revision {} are present, later changes are lost. The store "
      "continues at revision {}.\n",
      data_dir, loss->recovered, loss->continues_at);
  return 0;
}

int Check(const std::string& data_dir) {
  const Result<store::CheckReport> report = store::CheckStore(data_dir, IndexSchema());
  if (!report) return Fail(report.error());
  for (const std::string& fault : report->faults) std::cout << fault << "\n";
  if (!report->ok()) {
    std::cout << fmt::format("{}: {} problems found\n", data_dir, report->fault_count);
    return 1;
  }
  std::cout << fmt::format("{}: no problems found ({} events, {} versions, {} files)\n", data_dir,
                           report->entries, report->versions, report->files);
  return 0;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("heraldd serves the Kubernetes API for events and stores them.", "heraldd");
  UseHelpFormatter(app);
  app.set_help_flag("-h,--help", "Print this help and exit.");
  app.set_version_flag("--version", HERALD_VERSION, "Print the version and exit.");
  app.require_subcommand(1);

  CLI::App* const serve =
      app.add_subcommand("serve", "Serve the API until the process receives SIGINT or SIGTERM.");
  flags.daemon.cert_dir = "/var/lib/heraldd/certs";
  flags.daemon.data_dir = "/var/lib/heraldd/data";
  AddServerFlags(*serve, flags, Command::kServe);

  CLI::App* const dev = app.add_subcommand(
      "dev",
      "Serve on 127.0.0.1 for development: creates a certificate, a token and a kubeconfig in one "
      "directory and prints how to use them.");
  AddServerFlags(*dev, flags, Command::kDev);

  std::string data_dir;
  std::string backup_dir;
  CLI::App* const backup = app.add_subcommand(
      "backup", "Copy the data directory of a running or stopped server to a new directory.");
  CLI::App* const restore = app.add_subcommand("restore", "Create a data directory from a backup.");
  CLI::App* const check = app.add_subcommand(
      "check", "Read all data of a stopped server and report damage. Changes nothing.");
  CLI::App* const accept_loss = app.add_subcommand(
      "accept-loss",
      "Repair a store that does not start because acknowledged changes are missing. They stay "
      "lost, and clients must list again. Copy the data directory first.");
  CLI::App* const clock =
      app.add_subcommand("clock", "Control a running server after its wall clock has jumped.");
  clock->require_subcommand(1);
  CLI::App* const accept = clock->add_subcommand(
      "accept", "Confirm that the wall clock is right: the server expires events again at once.");
  for (CLI::App* const command : {backup, check, accept_loss, accept})
    AddPath(*command, "--data-dir", &data_dir, "The data directory of the server.")->required();
  AddPath(*restore, "--data-dir", &data_dir,
          "Directory to which to restore the data. Must be empty if it exists.")
      ->required();
  AddPath(*backup, "--to", &backup_dir, "Directory to which to write the backup. Must not exist.")
      ->required();
  bool hard_links = false;
  backup->add_flag("--hard-links", hard_links,
                   "Create hard links to the table files instead of copying them. Requires a "
                   "stopped server and both directories on the same file system. Takes seconds and "
                   "no disk space, but a disk block that is damaged later is damaged in the data "
                   "and in the backup.");
  AddPath(*restore, "--from", &backup_dir, "Directory written by `heraldd backup`.")->required();

  for (CLI::App* const command : {serve, dev, backup, restore, check, accept_loss, clock, accept})
    command->group("Commands");
  app.footer("Run `heraldd COMMAND --help` for the flags of a command.");
  if (const std::optional<int> exit_code = ParseCommandLine(app, argc, argv)) return *exit_code;
  if (backup->parsed()) {
    return Backup(data_dir, backup_dir,
                  hard_links ? store::BackupMode::kHardLink : store::BackupMode::kCopy);
  }
  if (accept_loss->parsed()) return AcceptLoss(data_dir);
  if (accept->parsed()) return AcceptClock(data_dir);
  if (restore->parsed()) return Restore(backup_dir, data_dir);
  if (check->parsed()) return Check(data_dir);
  if (dev->parsed()) {
    flags.daemon.bind_address = "127.0.0.1";
    return Serve(*dev, flags, true);
  }
  return Serve(*serve, flags, false);
}

}  // namespace
}  // namespace herald

int main(int argc, char** argv) {
  try {
    return herald::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "heraldd: " << error.what() << std::endl;
    return herald::kExitFailed;
  }
}
