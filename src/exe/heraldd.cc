// heraldd: the event server. Reads flags, starts the Daemon, waits for a signal, stops it.
// What it is made of, and in which order that is taken down, stands in server/daemon.cc.

#include <fmt/core.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include "base/file.h"
#include "base/trimmed.h"
#include "exe/dev.h"
#include "exe/log.h"
#include "server/api.h"
#include "server/certificates.h"
#include "server/config_file.h"
#include "server/daemon.h"
#include "server/duration.h"
#include "store/admin.h"

namespace herald {
namespace {

using server::ConfigNode;
using server::Daemon;
using server::DaemonOptions;

// How long requests may take to finish when we are told to stop. systemd kills after
// 90 s, Kubernetes after 30 s.
constexpr std::chrono::seconds kDrain{10};

struct Flags {
  DaemonOptions daemon;
  std::string config;
  std::string event_ttl = "1h";
  std::string history = "5m";
  std::string request_timeout = "1m";
  std::int64_t min_request_timeout = 1800;
  std::string etcd_user_file;
  std::string etcd_compaction_interval = "5m";
  std::string log_format = "text";
  std::string log_level = "info";
  std::string dev_folder = ".herald";
  std::string port_file;
};

void AddServingFlags(CLI::App& app, Flags& flags) {
  DaemonOptions& d = flags.daemon;
  app.add_option("--tls-cert-file", d.tls_cert_file, "certificate (PEM), leaf first")
      ->group("Serving");
  app.add_option("--tls-private-key-file", d.tls_private_key_file, "its key (PEM)")
      ->group("Serving");
  app.add_option("--threads", d.threads, "threads that serve connections; 0: one per core, up to 4")
      ->group("Serving");

  const char* const access = "Who may do what";
  app.add_option("--client-ca-file", d.client_ca_file,
                 "CAs (PEM) whose client certificates name users (CN) and groups (O)")
      ->group(access);
  app.add_option("--requestheader-client-ca-file", d.requestheader_client_ca_file,
                 "CAs (PEM) of front proxies that name users in headers")
      ->group(access);
  app.add_option("--requestheader-allowed-names", d.requestheader_allowed_names,
                 "common names of such proxies; none: any")
      ->delimiter(',')
      ->group(access);
  app.add_option("--requestheader-username-headers", d.requestheader_username_headers,
                 "headers with the user, in lower case")
      ->delimiter(',')
      ->group(access);
  app.add_option("--requestheader-group-headers", d.requestheader_group_headers,
                 "headers with groups, in lower case")
      ->delimiter(',')
      ->group(access);
  app.add_option("--rbac-dir", d.rbac_dir,
                 "folder of Role, ClusterRole and binding manifests; read again when it changes")
      ->group(access);

  app.add_option("--event-ttl", flags.event_ttl, "how long events are kept where no rule fits")
      ->capture_default_str()
      ->group("What is kept");
  app.add_option("--history", flags.history,
                 "how far back watches and paged lists may begin; older versions answer 410")
      ->capture_default_str()
      ->group("What is kept");
  app.add_option("--retention-file", d.retention_file,
                 "rules (YAML) for how long which events are kept; read again when it changes")
      ->group("What is kept");
  app.add_option("--max-disk-bytes", d.max_disk_bytes,
                 "cap on the size of the data, such as 10Gi; oldest events go first; 0: none")
      ->transform(CLI::AsSizeValue(false))
      ->group("What is kept");

  const char* const etcd =
      "Keep events in etcd, which several heraldd and kube-apiserver may share";
  app.add_option("--etcd-servers", d.etcd_servers,
                 "its members, such as https://a:2379,https://b:2379; instead of --data-dir")
      ->delimiter(',')
      ->group(etcd);
  app.add_option("--etcd-cafile", d.etcd_cafile,
                 "CAs (PEM) of its certificates; none: the system's")
      ->group(etcd);
  app.add_option("--etcd-certfile", d.etcd_certfile, "our certificate (PEM) for it")->group(etcd);
  app.add_option("--etcd-keyfile", d.etcd_keyfile, "its key (PEM)")->group(etcd);
  app.add_option("--etcd-prefix", d.etcd_prefix, "what all keys begin with")
      ->capture_default_str()
      ->group(etcd);
  app.add_option("--etcd-user-file", flags.etcd_user_file,
                 "file with name:password; none: $HERALDD_ETCD_USER, if that is set")
      ->group(etcd);
  app.add_option("--etcd-compaction-interval", flags.etcd_compaction_interval,
                 "how often its history is compacted; 0: never")
      ->capture_default_str()
      ->group(etcd);
  app.add_option("--etcd-index-bytes", d.etcd_index_bytes,
                 "memory for our index of its events, such as 1Gi; 0 or too little: lists with "
                 "selectors read all of etcd's events")
      ->transform(CLI::AsSizeValue(false))
      ->group(etcd);

  const char* const limits = "How much is taken";
  app.add_option("--event-rate-limit-config", d.event_rate_limit_file,
                 "limits, in the form of the EventRateLimit admission plugin")
      ->group(limits);
  app.add_option("--max-requests-inflight", d.max_requests_inflight,
                 "requests answered at once, watches excluded; above it 429")
      ->capture_default_str()
      ->group(limits);
  app.add_option("--request-timeout", flags.request_timeout,
                 "how long a request may take, watches excluded; after it 504")
      ->capture_default_str()
      ->group(limits);
  app.add_option("--min-request-timeout", flags.min_request_timeout,
                 "seconds that a watch runs at least where its client names no time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(limits);
  app.add_option("--max-connections", d.max_connections, "open connections")
      ->capture_default_str()
      ->group(limits);
  app.add_option("--max-watches-per-user", d.max_watches_per_user, "open watches of one user")
      ->capture_default_str()
      ->group(limits);

  app.add_option("--log-format", flags.log_format, "text or json")
      ->capture_default_str()
      ->group("Log");
  app.add_option("--log-level", flags.log_level, "debug, info, warn or error")
      ->capture_default_str()
      ->group("Log");
  app.add_option("--config", flags.config,
                 "YAML file with any of these flags, without the dashes; the command line wins");
}

// A YAML mapping from flag names to values. Flags given on the command line win.
Status ApplyConfigFile(const std::string& file, CLI::App& app) {
  Result<std::vector<ConfigNode>> documents = ConfigNode::Load(file);
  if (!documents) return documents.error();
  for (ConfigNode& document : *documents) {
    for (const std::string& name : document.Members()) {
      CLI::Option* const option = app.get_option_no_throw("--" + name);
      if (option == nullptr || name == "config" || name == "help") {
        document.Refuse(name, "there is no such flag");
        continue;
      }
      const std::vector<std::string> values = document.StringOrStrings(name);
      if (option->count() > 0) continue;
      try {
        for (const std::string& value : values) option->add_result(value);
        option->run_callback();
      } catch (const CLI::Error& error) {
        document.Refuse(name, error.what());
      }
    }
    if (Status status = document.Finish(); !status.ok()) return status;
  }
  return {};
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
  return 1;
}

Result<std::chrono::nanoseconds> ReadDuration(std::string_view flag, const std::string& text) {
  if (const auto duration = server::ParseDuration(text)) return *duration;
  return Status(StatusReason::kBadRequest,
                fmt::format("{}: \"{}\" is no duration, such as 90s, 1h30m or 7d", flag, text));
}

// Puts the flags that are read as text into the options.
Status ReadTexts(Flags& flags) {
  using std::chrono::duration_cast;
  using std::chrono::seconds;
  const Result<std::chrono::nanoseconds> ttl = ReadDuration("--event-ttl", flags.event_ttl);
  if (!ttl) return ttl.error();
  flags.daemon.event_ttl = duration_cast<seconds>(*ttl);
  const Result<std::chrono::nanoseconds> history = ReadDuration("--history", flags.history);
  if (!history) return history.error();
  flags.daemon.history = duration_cast<seconds>(*history);
  const Result<std::chrono::nanoseconds> timeout =
      ReadDuration("--request-timeout", flags.request_timeout);
  if (!timeout) return timeout.error();
  flags.daemon.request_timeout = *timeout;
  flags.daemon.min_request_timeout = seconds(flags.min_request_timeout);
  return {};
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
  // Its default is no wish.
  if (dev || app.get_option("--data-dir")->count() == 0) d.data_dir.clear();
  const Result<std::chrono::nanoseconds> interval =
      ReadDuration("--etcd-compaction-interval", flags.etcd_compaction_interval);
  if (!interval) return interval.error();
  d.etcd_compaction_interval = std::chrono::duration_cast<std::chrono::seconds>(*interval);
  if (!flags.etcd_user_file.empty()) {
    Result<std::string> user = ReadFile(flags.etcd_user_file);
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
    if (Status status = ApplyConfigFile(flags.config, app); !status.ok()) return Fail(status);
  if (Status status = ReadTexts(flags); !status.ok()) return Fail(status);
  Result<LogFunction> log = MakeLog(flags.log_format, flags.log_level);
  if (!log) return Fail(log.error());
  flags.daemon.log = *log;
  if (dev) {
    if (Status status = PrepareDevFolder(flags.dev_folder, &flags.daemon); !status.ok())
      return Fail(status);
  }
  if (Status status = ChooseStore(app, flags, dev); !status.ok()) return Fail(status);

  // Before any thread starts, so that all inherit it and only sigwait() below sees them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  AllowManyFiles();

  Result<std::unique_ptr<Daemon>> daemon = Daemon::Start(flags.daemon);
  if (!daemon) return Fail(daemon.error());
  const std::string port = fmt::format("{}", (*daemon)->port());
  (*log)({.level = LogLevel::kInfo,
          .message = "serving",
          .fields = {{"address", flags.daemon.bind_address}, {"port", port}}});
  if (!flags.port_file.empty())
    if (Status status = server::WritePrivateFile(flags.port_file, port); !status.ok())
      return Fail(status);
  if (dev) {
    if (Status status = WriteDevKubeconfig(flags.dev_folder, (*daemon)->port()); !status.ok())
      return Fail(status);
    std::cout << fmt::format(
                     "\nheraldd serves https://127.0.0.1:{}, data in {}. Try:\n\n"
                     "  kubectl --kubeconfig {}/kubeconfig get events -A -w\n"
                     "  kubectl --kubeconfig {}/kubeconfig events -A  # kubectl 1.26 and newer\n"
                     "  curl --cacert {}/certs/heraldd.crt -H \"Authorization: Bearer $(sed -n "
                     "'s/,admin.*//p' {}/tokens.csv)\" https://127.0.0.1:{}/api/v1/events\n\n"
                     "Ctrl-C stops it.\n",
                     port, flags.daemon.etcd_servers.empty() ? flags.dev_folder : "etcd",
                     flags.dev_folder, flags.dev_folder, flags.dev_folder, flags.dev_folder, port)
              << std::endl;
  }
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

int Backup(const std::string& data_dir, const std::string& target) {
  if (Status status = store::BackupStore(data_dir, target); !status.ok()) return Fail(status);
  std::cout << fmt::format("{} is a copy of {}\n", target, data_dir);
  return 0;
}

int Restore(const std::string& backup, const std::string& data_dir) {
  if (Status status = store::RestoreStore(backup, data_dir); !status.ok()) return Fail(status);
  std::cout << fmt::format("{} is as {} was\n", data_dir, backup);
  return 0;
}

int Check(const std::string& data_dir) {
  // Lifetimes are not part of what is checked.
  const store::Schema schema =
      server::Api::MakeSchema([](const Event&) { return std::chrono::seconds(1); });
  const Result<store::CheckReport> report = store::CheckStore(data_dir, schema);
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
  serve->add_option("--bind-address", flags.daemon.bind_address, "address to listen on")
      ->capture_default_str()
      ->group("Serving");
  serve->add_option("--secure-port", flags.daemon.secure_port, "port; 0: any free one")
      ->capture_default_str()
      ->group("Serving");
  serve->add_option("--port-file", flags.port_file, "where to write the port, once it serves")
      ->group("Serving");
  serve
      ->add_option("--cert-dir", flags.daemon.cert_dir,
                   "where a certificate is made if --tls-cert-file is not given")
      ->default_val("/var/lib/heraldd/certs")
      ->group("Serving");
  serve->add_option("--data-dir", flags.daemon.data_dir, "where the events are")
      ->default_val("/var/lib/heraldd/data")
      ->group("What is kept");
  serve
      ->add_option("--token-auth-file", flags.daemon.token_auth_file,
                   "CSV file: token,user,uid,\"group1,group2\"")
      ->group("Who may do what");
  AddServingFlags(*serve, flags);

  CLI::App* const dev =
      app.add_subcommand("dev", "serve on 127.0.0.1 with everything prepared in one folder");
  dev->add_option("--dir", flags.dev_folder, "the folder")->capture_default_str();
  dev->add_option("--port", flags.daemon.secure_port, "port; 0: any free one")
      ->capture_default_str();
  AddServingFlags(*dev, flags);

  std::string data_dir;
  std::string backup_dir;
  CLI::App* const backup =
      app.add_subcommand("backup", "copy the data of a server that is stopped");
  CLI::App* const restore = app.add_subcommand("restore", "put a copy back");
  CLI::App* const check = app.add_subcommand("check", "read all data and say what is damaged");
  for (CLI::App* const command : {backup, restore, check})
    command->add_option("--data-dir", data_dir, "where the events are")->required();
  backup->add_option("--to", backup_dir, "a folder that does not exist yet")->required();
  restore->add_option("--from", backup_dir, "a folder that `backup` made")->required();

  CLI11_PARSE(app, argc, argv);
  if (backup->parsed()) return Backup(data_dir, backup_dir);
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
    return 1;
  }
}
