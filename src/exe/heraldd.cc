// heraldd: the event server. Reads flags, starts the Daemon, waits for a signal, stops it.
// What it is made of, and in which order that is taken down, stands in server/daemon/daemon.cc.

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

// How long requests may take to finish when we are told to stop. systemd kills after
// 90 s, Kubernetes after 30 s.
constexpr std::chrono::seconds kDrain{10};

// As good as for ever, and can be added to any clock.
constexpr std::chrono::hours kLongest{365 * 24};
// More of them only wait for each other.
constexpr std::int64_t kMaxThreads = 1024;
// What the kernel allows one process to have open (fs.nr_open).
constexpr std::int64_t kMaxOpen = 1'048'576;

struct Flags {
  DaemonOptions daemon;
  std::string config;
  std::string etcd_user_file;
  std::string log_format = "text";
  std::string log_level = "info";
  std::string dev_folder = ".herald";
  std::string port_file;
};

// Names of header fields are tokens (RFC 9110, 5.6.2).
std::string CheckHeaderName(const std::string& name) {
  const bool is_token = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("!#$%&'*+-.^_`|~", c) != nullptr;
  });
  return is_token ? "" : "must be names of headers, such as X-Remote-User";
}

std::string CheckEtcdServer(const std::string& url) {
  return url.starts_with("http://") || url.starts_with("https://")
             ? ""
             : "must be URLs, such as https://a:2379,https://b:2379";
}

void AddServingFlags(CLI::App& app, Flags& flags) {
  using std::chrono::seconds;
  DaemonOptions& d = flags.daemon;
  AddPath(app, "--tls-cert-file", &d.tls_cert_file, "certificate (PEM), leaf first")
      ->group("Serving");
  AddPath(app, "--tls-private-key-file", &d.tls_private_key_file, "its key (PEM)")
      ->group("Serving");
  AddNumber(app, "--threads", &d.threads, 0, kMaxThreads,
            "threads that serve connections; 0: one per core, up to 4")
      ->group("Serving");
  AddPath(app, "--port-file", &flags.port_file, "where to write the port, once it serves")
      ->group("Serving");

  const char* const access = "Who may do what";
  AddPath(app, "--client-ca-file", &d.client_ca_file,
          "CAs (PEM) whose client certificates name users (CN) and groups (O)")
      ->group(access);
  AddPath(app, "--requestheader-client-ca-file", &d.requestheader_client_ca_file,
          "CAs (PEM) of front proxies that name users in headers")
      ->group(access);
  AddList(
      app, "--requestheader-allowed-names", &d.requestheader_allowed_names,
      [](const std::string&) { return std::string(); }, "common names of such proxies; none: any")
      ->group(access);
  AddList(app, "--requestheader-username-headers", &d.requestheader_username_headers,
          CheckHeaderName, "headers with the user")
      ->group(access);
  AddList(app, "--requestheader-group-headers", &d.requestheader_group_headers, CheckHeaderName,
          "headers with groups")
      ->group(access);
  AddPath(app, "--rbac-dir", &d.rbac_dir,
          "folder of Role, ClusterRole and binding manifests; read again when it changes")
      ->group(access);
  AddList(
      app, "--cors-allowed-origins", &d.cors_allowed_origins,
      [](const std::string&) { return std::string(); },
      "regular expressions of the origins whose web pages may use this server, anchored "
      "at both ends of the host, such as '^https://example\\.com(:|$)'; none: no CORS")
      ->group(access);

  AddFlag(
      app, "--event-ttl",
      [&d](const std::string& value) -> std::string {
        const auto ttl = ParseDuration(value);
        if (!ttl) return "must be a duration, such as 90s, 1h30m or 7d";
        const Status status = server::Retention::CheckTtl(*ttl);
        if (status.ok()) d.event_ttl = std::chrono::duration_cast<seconds>(*ttl);
        return status.message();
      },
      "how long events are kept where no rule fits", "DURATION", "1h")
      ->group("What is kept");
  AddDuration(app, "--history", &d.history,
              {.min = seconds(1), .max = kLongest, .text = "from 1s to 365d"}, "5m",
              "how far back watches and paged lists may begin; older versions answer 410")
      ->group("What is kept");
  AddPath(app, "--retention-file", &d.retention_file,
          "rules (YAML) for how long which events are kept; read again when it changes")
      ->group("What is kept");
  AddSize(app, "--max-disk-bytes", &d.max_disk_bytes,
          "limit on the size of the data directory, temporary files included, such as 10Gi; when "
          "less than 35% of it (at most 1Gi) is free, the oldest events are deleted, and writes "
          "that are faster than that get 429; at least 64Mi; 0: no limit")
      ->group("What is kept");

  const char* const etcd =
      "Keep events in etcd, which several heraldd and kube-apiserver may share";
  AddList(app, "--etcd-servers", &d.etcd_servers, CheckEtcdServer,
          "its members, such as https://a:2379,https://b:2379; instead of --data-dir")
      ->group(etcd);
  AddPath(app, "--etcd-cafile", &d.etcd_cafile, "CAs (PEM) of its certificates; none: the system's")
      ->group(etcd);
  AddPath(app, "--etcd-certfile", &d.etcd_certfile, "our certificate (PEM) for it")->group(etcd);
  AddPath(app, "--etcd-keyfile", &d.etcd_keyfile, "its key (PEM)")->group(etcd);
  AddPath(app, "--etcd-prefix", &d.etcd_prefix, "what all keys begin with")->group(etcd);
  AddPath(app, "--etcd-user-file", &flags.etcd_user_file,
          "file with name:password; none: $HERALDD_ETCD_USER, if that is set")
      ->group(etcd);
  AddDuration(app, "--etcd-compaction-interval", &d.etcd_compaction_interval,
              {.min = seconds(1),
               .max = kLongest,
               .text = "from 1s to 365d, or 0",
               .zero_is_allowed = true},
              "5m", "how often its history is compacted; 0: never")
      ->group(etcd);
  AddSize(app, "--etcd-index-bytes", &d.etcd_index_bytes,
          "memory for our index of its events, such as 1Gi; 0 or too little: lists with "
          "selectors read all of etcd's events")
      ->default_str("512Mi")
      ->group(etcd);

  const char* const limits = "How much is taken";
  AddPath(app, "--event-rate-limit-config", &d.event_rate_limit_file,
          "limits, in the form of the EventRateLimit admission plugin")
      ->group(limits);
  AddNumber(app, "--max-requests-inflight", &d.max_requests_inflight, 0, kMaxOpen,
            "requests answered at once, watches excluded; above it 429; 0: no limit")
      ->group(limits);
  AddDuration(app, "--request-timeout", &d.request_timeout,
              {.min = std::chrono::milliseconds(1), .max = kLongest, .text = "from 1ms to 365d"},
              "1m", "how long a request may take, watches excluded; after it 504")
      ->group(limits);
  AddFlag(
      app, "--min-request-timeout",
      [&d](const std::string& value) -> std::string {
        const auto number = ParseNumber(value);
        const std::int64_t most = seconds(kLongest).count();
        if (!number || *number < 1 || *number > most)
          return fmt::format("must be a number of seconds from 1 to {}", most);
        d.min_request_timeout = seconds(*number);
        return {};
      },
      "seconds that a watch runs at least where its client names no time", "SECONDS", "1800")
      ->group(limits);
  AddNumber(app, "--max-connections", &d.max_connections, 1, kMaxOpen, "open connections")
      ->group(limits);
  AddNumber(app, "--max-watches-per-user", &d.max_watches_per_user, 1, kMaxOpen,
            "open watches of one user")
      ->group(limits);

  AddChoice(app, "--log-format", &flags.log_format, {"text", "json"}, "text or json")->group("Log");
  AddChoice(app, "--log-level", &flags.log_level, {"debug", "info", "warn", "error"},
            "debug, info, warn or error")
      ->group("Log");
  AddPath(app, "--config", &flags.config,
          "YAML file with any of these flags, without the dashes; the command line wins");
}

// Tells systemd how we are, where it asked to be told (Type=notify).
void Notify(std::string_view state) {
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

// For what the server says of its flags and of the files that they name.
int FailToStart(const Status& status) {
  Fail(status);
  return status.Is(StatusReason::kBadRequest) || status.Is(StatusReason::kNotFound) ? kExitUsage
                                                                                    : kExitFailed;
}

// Each connection is a descriptor, and a shell allows a thousand of them unless asked for
// more. What cannot be had is said when it is missed.
void AllowManyFiles() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

// Which of the flags that choose and describe the store go together.
Status ChooseStore(CLI::App& app, Flags& flags, bool dev) {
  DaemonOptions& d = flags.daemon;
  if (d.etcd_servers.empty()) {
    for (const char* const flag :
         {"--etcd-cafile", "--etcd-certfile", "--etcd-keyfile", "--etcd-prefix", "--etcd-user-file",
          "--etcd-compaction-interval", "--etcd-index-bytes"}) {
      if (app.get_option(flag)->count() > 0)
        return Status(StatusReason::kBadRequest, fmt::format("{} needs --etcd-servers", flag));
    }
    return {};
  }
  // The default of --data-dir does not count.
  if (dev || app.get_option("--data-dir")->count() == 0) d.data_dir.clear();
  if (!flags.etcd_user_file.empty()) {
    Result<std::string> user = server::ReadPrivateFile(flags.etcd_user_file);
    if (!user) return user.error();
    d.etcd_user = Trimmed(*user);
  } else if (const char* const user = std::getenv("HERALDD_ETCD_USER"); user != nullptr) {
    d.etcd_user = user;
  }
  return {};
}

// Serves until a signal comes. `dev` prints how to use the server.
int Serve(CLI::App& app, Flags& flags, bool dev) {
  if (!flags.config.empty())
    if (Status status = ApplyConfigFile(flags.config, app); !status.ok())
      return FailToStart(status);
  Result<LogFunction> log = MakeLog(flags.log_format, flags.log_level);
  if (!log) return FailToStart(log.error());
  flags.daemon.log = *log;
  if (dev) {
    if (Status status = PrepareDevFolder(flags.dev_folder, &flags.daemon); !status.ok())
      return FailToStart(status);
  }
  if (Status status = ChooseStore(app, flags, dev); !status.ok()) return FailToStart(status);

  // Before any thread starts, so that all inherit it and only sigwait() below sees them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  AllowManyFiles();

  Result<std::unique_ptr<Daemon>> daemon = Daemon::Start(flags.daemon);
  if (!daemon) return FailToStart(daemon.error());
  const std::string port = fmt::format("{}", (*daemon)->port());
  (*log)({.level = LogLevel::kInfo,
          .message = "serving",
          .fields = {{"address", flags.daemon.bind_address}, {"port", port}}});
  if (dev) {
    const Result<DevAccess> access =
        FindDevAccess(flags.dev_folder, flags.daemon, (*daemon)->port());
    if (!access) return Fail(access.error());
    const Result<bool> written = WriteDevKubeconfig(flags.dev_folder, *access);
    if (!written) return Fail(written.error());
    if (!*written)
      std::cout << fmt::format(
          "\n{0}/kubeconfig has been edited, so it is left as it is: it may name another port or "
          "CA.\nRemove it to get a new one.\n",
          flags.dev_folder);
    std::cout << DevInstructions(flags.dev_folder, *access, !flags.daemon.etcd_servers.empty())
              << std::endl;
  }
  // Last, because scripts wait for it.
  if (!flags.port_file.empty())
    if (Status status = server::WritePrivateFile(flags.port_file, port); !status.ok())
      return Fail(status);
  Notify("READY=1");

  for (;;) {
    int number = 0;
    sigwait(&signals, &number);
    if (number != SIGHUP) break;
    (*daemon)->Reload();
  }
  Notify("STOPPING=1");
  (*log)({.level = LogLevel::kInfo, .message = "stopping", .fields = {}});
  (*daemon)->Stop(kDrain);
  return 0;
}

int Backup(const std::string& data_dir, const std::string& target, store::BackupMode mode) {
  // A server that runs is asked for its files, which are then copied. Otherwise, and for links, the
  // directory must be free.
  Status status(StatusReason::kNotFound, "");
  if (mode == store::BackupMode::kCopy) status = server::BackUpRunningServer(data_dir, target);
  if (status.Is(StatusReason::kNotFound)) status = store::BackupStore(data_dir, target, mode);
  if (!status.ok()) return Fail(status);
  std::cout << fmt::format("{} is a copy of {}\n", target, data_dir);
  return 0;
}

int AcceptClock(const std::string& data_dir) {
  if (Status status = server::AcceptClockOfRunningServer(data_dir); !status.ok())
    return Fail(status);
  std::cout << "the server accepts its clock; expiry goes on\n";
  return 0;
}

int Restore(const std::string& backup, const std::string& data_dir) {
  if (Status status = store::RestoreStore(backup, data_dir); !status.ok()) return Fail(status);
  std::cout << fmt::format("{} is as {} was\n", data_dir, backup);
  return 0;
}

// For commands that need the indexes of events, but no lifetimes.
store::Schema SchemaOfIndexes() {
  return server::Api::MakeSchema([](const Event&) { return std::chrono::seconds(1); });
}

int AcceptLoss(const std::string& data_dir) {
  const Result<store::AcceptedLoss> loss = store::AcceptLoss(data_dir, SchemaOfIndexes());
  if (!loss) return Fail(loss.error());
  std::cout << fmt::format(
      "{} continues at revision {}; all events up to revision {} are there, later ones are lost\n",
      data_dir, loss->continues_at, loss->recovered);
  return 0;
}

int Check(const std::string& data_dir) {
  const Result<store::CheckReport> report = store::CheckStore(data_dir, SchemaOfIndexes());
  if (!report) return Fail(report.error());
  for (const std::string& fault : report->faults) std::cout << fault << "\n";
  if (!report->ok()) {
    std::cout << fmt::format("{} faults in {}\n", report->fault_count, data_dir);
    return 1;
  }
  std::cout << fmt::format("{} is whole: {} events, {} versions of them, {} files\n", data_dir,
                           report->entries, report->versions, report->files);
  return 0;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("heraldd serves the Kubernetes API for events and stores them.", "heraldd");
  app.set_version_flag("--version", HERALD_VERSION);
  app.require_subcommand(1);

  CLI::App* const serve = app.add_subcommand("serve", "serve until stopped");
  AddFlag(
      *serve, "--bind-address",
      [&flags](const std::string& value) -> std::string {
        if (!http::IsAddress(value)) return "must be an IP address, such as 0.0.0.0 or ::1";
        flags.daemon.bind_address = value;
        return {};
      },
      "address to listen on", "ADDRESS", flags.daemon.bind_address)
      ->group("Serving");
  AddNumber(*serve, "--secure-port", &flags.daemon.secure_port, 0, 65535, "port; 0: any free one")
      ->group("Serving");
  flags.daemon.cert_dir = "/var/lib/heraldd/certs";
  flags.daemon.data_dir = "/var/lib/heraldd/data";
  AddPath(*serve, "--cert-dir", &flags.daemon.cert_dir,
          "where a CA and a certificate are made if --tls-cert-file is not given")
      ->group("Serving");
  AddPath(*serve, "--data-dir", &flags.daemon.data_dir, "where the events are")
      ->group("What is kept");
  AddPath(*serve, "--token-auth-file", &flags.daemon.token_auth_file,
          "CSV file: token,user,uid,\"group1,group2\"")
      ->group("Who may do what");
  AddServingFlags(*serve, flags);

  CLI::App* const dev =
      app.add_subcommand("dev", "serve on 127.0.0.1 with everything prepared in one folder");
  AddPath(*dev, "--dir", &flags.dev_folder, "the folder");
  AddNumber(*dev, "--port", &flags.daemon.secure_port, 0, 65535, "port; 0: any free one");
  AddServingFlags(*dev, flags);

  std::string data_dir;
  std::string backup_dir;
  CLI::App* const backup =
      app.add_subcommand("backup", "copy the data of a server, whether it runs or not");
  CLI::App* const restore = app.add_subcommand("restore", "put a copy back");
  CLI::App* const check = app.add_subcommand("check", "read all data and say what is damaged");
  CLI::App* const accept_loss = app.add_subcommand(
      "accept-loss",
      "continue with a store that does not start because acknowledged events are missing; they "
      "stay lost, and clients list again. Keep a copy of the data directory first");
  CLI::App* const clock = app.add_subcommand("clock", "what to do after a jump of the clock");
  clock->require_subcommand(1);
  CLI::App* const accept = clock->add_subcommand(
      "accept", "let a running server go on expiring events at once: the clock is right");
  for (CLI::App* const command : {backup, restore, check, accept_loss, accept})
    AddPath(*command, "--data-dir", &data_dir, "where the events are")->required();
  AddPath(*backup, "--to", &backup_dir, "a folder that does not exist yet")->required();
  bool hard_links = false;
  backup->add_flag("--hard-links", hard_links,
                   "link table files instead of copying them, where both folders are on one file "
                   "system and the server is stopped: takes seconds and no space, but a disk block "
                   "that goes bad is then bad "
                   "in the data and in the backup");
  AddPath(*restore, "--from", &backup_dir, "a folder that `backup` made")->required();

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
