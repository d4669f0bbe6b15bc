#include "server/daemon/daemon.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <future>
#include <limits>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/file_watch.h"
#include "base/thread/mutex.h"
#include "herald/base/executor.h"
#include "http/server/server.h"
#include "server/access/authentication.h"
#include "server/access/certificates.h"
#include "server/access/cors.h"
#include "server/access/event_rate_limit.h"
#include "server/access/rbac.h"
#include "server/api.h"
#include "server/daemon/control_socket.h"
#include "server/events/retention.h"
#include "server/events/stored_event.h"
#include "server/request/front_door.h"
#include "store/etcd/store.h"
#include "store/memory/store.h"
#include "store/rocks/disk_budget.h"
#include "store/rocks/store.h"

namespace herald::server {
namespace {

// More threads than this do not help, because the store's single committer is then the bottleneck.
constexpr unsigned kMaxDefaultThreads = 4;

// The upper limit of durations: long enough, and safe to add to any time point.
constexpr std::chrono::seconds kMaxDuration{365 * 24 * 3600};

// How often the expiry of the certificate is checked. It is renewed 30 days before it expires.
constexpr std::chrono::hours kRenewInterval{12};

int ThreadsFor(int wanted) {
  if (wanted > 0) return wanted;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMaxDefaultThreads));
}

// Normalizes a prefix as kube-apiserver does: it starts with a slash and does not end with one.
std::string CleanPrefix(std::string_view prefix) {
  std::string clean;
  while (!prefix.empty()) {
    const std::size_t slash = std::min(prefix.find('/'), prefix.size());
    if (slash > 0) clean.append("/").append(prefix.substr(0, slash));
    prefix.remove_prefix(std::min(slash + 1, prefix.size()));
  }
  return clean;
}

// Header names are case-insensitive; http::Headers stores them in lower case.
std::vector<std::string> LowerCase(std::vector<std::string> names) {
  for (std::string& name : names) {
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return names;
}

// The retention rules in use. Thread-safe.
class CurrentRetention {
 public:
  explicit CurrentRetention(Retention retention)
      : retention_(std::make_shared<const Retention>(std::move(retention))),
        id_(retention_->id()) {}

  void Set(Retention retention) {
    auto shared = std::make_shared<const Retention>(std::move(retention));
    const MutexLock lock(mu_);
    id_ = 0;
    retention_ = std::move(shared);
    id_ = retention_->id();
  }
  std::chrono::seconds Keep(const Event& event) const {
    std::shared_ptr<const Retention> retention;
    {
      const MutexLock lock(mu_);
      retention = retention_;
    }
    return retention->Keep(event);
  }
  // Retention::id() of the rules in use; 0 while they change. A caller that reads the same id
  // before and after Keep() knows that these rules gave the result.
  std::uint64_t id() const { return id_; }

 private:
  mutable Mutex mu_;
  std::shared_ptr<const Retention> retention_ GUARDED_BY(mu_);
  // Atomic, so that every write can read it twice without the lock.
  std::atomic<std::uint64_t> id_;
};

}  // namespace

// Start() creates the parts from the store outwards. Stop() takes them down in this order:
//   1. the tasks that reload files, and the control socket
//   2. the listener: watches end, requests finish, and no more requests reach the API
//   3. the API
//   4. the store
//   5. the front door, which counts the store's last answers in its metrics
class Daemon::Impl {
 public:
  explicit Impl(DaemonOptions options) : options_(std::move(options)) {}
  ~Impl() { Stop(std::chrono::milliseconds(0)); }

  Status Start() {
    if (Status status = CheckPairs(); !status.ok()) return status;
    if (Status status = Retention::CheckTtl(options_.event_ttl); !status.ok())
      return Invalid("--event-ttl", status);
    if (options_.request_timeout.count() <= 0 || options_.request_timeout > kMaxDuration)
      return Status(StatusReason::kBadRequest, "--request-timeout: must be from 1ms to 365d");
    if (options_.watch_window < std::chrono::seconds(1) || options_.watch_window > kMaxDuration)
      return Status(StatusReason::kBadRequest, "--watch-window: must be from 1s to 365d");
    const Result<Cors> cors = Cors::Make(options_.cors_allowed_origins);
    if (!cors) return Invalid("--cors-allowed-origins", cors.error());
    if (options_.max_disk_bytes > 0 && options_.max_disk_bytes < store::DiskBudget::kSmallestCap &&
        options_.etcd_servers.empty())
      return Status(
          StatusReason::kBadRequest,
          fmt::format("invalid value \"{}\" for --max-disk-bytes: must be 0 (no limit) or at "
                      "least {}Mi",
                      options_.max_disk_bytes, store::DiskBudget::kSmallestCap >> 20));
    Result<Retention> retention = LoadRetention();
    if (!retention) return retention.error();
    retention_ = std::make_shared<CurrentRetention>(*std::move(retention));
    if (Status status = OpenStore(); !status.ok()) return status;

    timers_ = std::make_unique<Executor>(Executor::Options{.threads = 1, .clock = nullptr});
    door_ = std::make_unique<FrontDoor>(
        store_.get(), FrontDoor::Options{.clock = nullptr,
                                         .max_requests_in_flight = MaxRequestsInFlight(),
                                         .request_timeout = options_.request_timeout,
                                         .executor = timers_.get(),
                                         .cors = *cors});
    if (Status status = LoadAuthenticators(); !status.ok()) return status;
    if (Status status = LoadRbac(); !status.ok()) return status;
    if (!options_.event_rate_limit_file.empty())
      if (Status status = LoadRateLimit(); !status.ok()) return status;

    ApiOptions api;
    api.event_ttl = options_.event_ttl;
    api.authorizer = [this] { return door_->authorizer(); };
    api.admit = [this](const User& user, const Event& event) {
      return rate_limit_.Admit(user, event, SystemClock().Steady());
    };
    api.min_request_timeout = options_.min_request_timeout;
    api.max_watches_per_user = options_.max_watches_per_user;
    api.cors = *cors;
    api.log = options_.log;
    api_ = std::make_unique<Api>(store_.get(), std::move(api));
    door_->SetApi(api_.get());

    if (Status status = Listen(); !status.ok()) return status;
    door_->SetConnectionStats([this] { return server_->Stats(); });
    WatchFiles();
    OpenControlSocket();
    return {};
  }

  std::uint16_t port() const { return server_->port(); }

  void Stop(std::chrono::milliseconds drain) {
    const MutexLock lock(stop_mu_);
    if (stopped_) return;
    stopped_ = true;
    if (files_executor_) files_executor_->Stop();
    control_.reset();
    if (door_) door_->SetStopping();
    if (api_) api_->Stop();
    if (server_) {
      server_->Drain(drain);
      server_->Stop();
    }
    if (timers_) timers_->Stop();
    api_.reset();
    server_.reset();
    store_.reset();
    door_.reset();
  }

  void Reload() {
    std::promise<void> done;
    files_executor_->Post([&] {
      files_.Check();
      done.set_value();
    });
    done.get_future().wait();
  }

 private:
  // Rejects flags that have no effect without another flag, instead of ignoring them.
  Status CheckPairs() const {
    struct Pair {
      const char* flag;
      bool given;
      const char* needed;
      bool needed_given;
    };
    const DaemonOptions& o = options_;
    const DaemonOptions defaults;
    const bool has_cert = !o.tls_cert_file.empty();
    const bool has_key = !o.tls_private_key_file.empty();
    const bool has_etcd_cert = !o.etcd_certfile.empty();
    const bool has_etcd_key = !o.etcd_keyfile.empty();
    const bool has_proxy_ca = !o.requestheader_client_ca_file.empty();
    const Pair pairs[] = {
        {"--tls-cert-file", has_cert, "--tls-private-key-file", has_key},
        {"--tls-private-key-file", has_key, "--tls-cert-file", has_cert},
        {"--etcd-certfile", has_etcd_cert, "--etcd-keyfile", has_etcd_key},
        {"--etcd-keyfile", has_etcd_key, "--etcd-certfile", has_etcd_cert},
        {"--requestheader-allowed-names", !o.requestheader_allowed_names.empty(),
         "--requestheader-client-ca-file", has_proxy_ca},
        {"--requestheader-username-headers",
         o.requestheader_username_headers != defaults.requestheader_username_headers,
         "--requestheader-client-ca-file", has_proxy_ca},
        {"--requestheader-group-headers",
         o.requestheader_group_headers != defaults.requestheader_group_headers,
         "--requestheader-client-ca-file", has_proxy_ca},
    };
    for (const Pair& pair : pairs) {
      if (pair.given && !pair.needed_given)
        return Status(StatusReason::kBadRequest,
                      fmt::format("{} requires {}", pair.flag, pair.needed));
    }
    return {};
  }

  // 0 means no limit, as for kube-apiserver.
  std::size_t MaxRequestsInFlight() const {
    return options_.max_requests_inflight == 0 ? std::numeric_limits<std::size_t>::max()
                                               : options_.max_requests_inflight;
  }

  Status OpenStore() {
    store::StoreOptions options;
    options.schema = Api::MakeSchema(
        [retention = retention_](const Event& event) { return retention->Keep(event); });
    options.schema.lifetime_rules = [retention = retention_] { return retention->id(); };
    if (!options_.etcd_servers.empty()) return OpenEtcd(std::move(options));
    options.max_bytes = options_.max_disk_bytes;
    options.watch_window = options_.watch_window;
    if (options_.data_dir.empty()) {
      store_ = std::make_unique<store::MemoryStore>(std::move(options));
      return {};
    }
    store::RocksStoreOptions rocks;
    rocks.db.directory = options_.data_dir;
    rocks.log = options_.log;
    auto opened = store::RocksStore::Open(std::move(options), std::move(rocks));
    if (!opened) return opened.error();
    rocks_store_ = opened->get();
    store_ = *std::move(opened);
    return {};
  }

  // A failure is only logged: some file systems do not support sockets.
  void OpenControlSocket() {
    if (rocks_store_ == nullptr) return;
    auto control = ControlSocket::Listen(
        {.data_dir = options_.data_dir,
         .operations = {.link_files =
                            [this](const auto& target) {
                              return rocks_store_->Backup(target, store::BackupMode::kHardLink);
                            },
                        .accept_clock = [this] { store_->AcceptClock(); }},
         .log = options_.log});
    if (control) {
      control_ = *std::move(control);
    } else {
      Log(LogLevel::kWarn,
          "cannot open the control socket; commands such as `heraldd backup` cannot reach this "
          "server",
          {{"error", control.error().message()}});
    }
  }

  Status OpenEtcd(store::StoreOptions options) {
    const auto invalid = [](std::string why) {
      return Status(StatusReason::kBadRequest, std::move(why));
    };
    if (!options_.data_dir.empty())
      return invalid("--data-dir and --etcd-servers cannot be used together");
    if (options_.max_disk_bytes > 0)
      return invalid(
          "--max-disk-bytes and --etcd-servers cannot be used together; set "
          "--quota-backend-bytes of etcd instead");
    store::EtcdStoreOptions etcd;
    etcd.client.endpoints = options_.etcd_servers;
    etcd.client.ca_file = options_.etcd_cafile;
    etcd.client.cert_file = options_.etcd_certfile;
    etcd.client.key_file = options_.etcd_keyfile;
    etcd.client.log = options_.log;
    if (!options_.etcd_keyfile.empty()) {
      const Result<std::string> key = ReadPrivateFile(options_.etcd_keyfile);
      if (!key) return WithFlag("--etcd-keyfile", key.error());
    }
    if (!options_.etcd_user.empty()) {
      const std::size_t colon = options_.etcd_user.find(':');
      if (colon == 0 || colon == std::string::npos)
        return invalid(
            "invalid value in --etcd-user-file or HERALDD_ETCD_USER: must be name:password");
      etcd.client.user = options_.etcd_user.substr(0, colon);
      etcd.client.password = options_.etcd_user.substr(colon + 1);
    }
    etcd.root = kRegistryRoot;
    etcd.etcd_root = CleanPrefix(options_.etcd_prefix);
    etcd.cached_prefix = kEventsPrefix;
    etcd.compaction_interval = options_.etcd_compaction_interval;
    etcd.max_cache_bytes = options_.etcd_index_bytes;
    etcd.log = options_.log;
    auto opened = store::EtcdStore::Open(std::move(options), std::move(etcd));
    if (!opened) return opened.error();
    store_ = *std::move(opened);
    return {};
  }

  Result<Retention> LoadRetention() const {
    if (options_.retention_file.empty()) return Retention(options_.event_ttl);
    Result<Retention> retention = Retention::Load(options_.retention_file, options_.event_ttl);
    if (!retention) return WithFlag("--retention-file", retention.error());
    return retention;
  }

  Status LoadAuthenticators() {
    std::vector<std::unique_ptr<Authenticator>> authenticators;
    if (!options_.requestheader_client_ca_file.empty()) {
      constexpr const char* kFlag = "--requestheader-client-ca-file";
      Result<std::string> ca = ReadFile(options_.requestheader_client_ca_file);
      if (!ca) return WithFlag(kFlag, ca.error());
      auto authenticator = MakeRequestHeaderAuthenticator(
          {.ca = *std::move(ca),
           .allowed_names = options_.requestheader_allowed_names,
           .username_headers = LowerCase(options_.requestheader_username_headers),
           .group_headers = LowerCase(options_.requestheader_group_headers)});
      if (!authenticator)
        return WithFlag(kFlag,
                        Invalid(options_.requestheader_client_ca_file, authenticator.error()));
      authenticators.push_back(*std::move(authenticator));
    }
    if (!options_.client_ca_file.empty()) {
      constexpr const char* kFlag = "--client-ca-file";
      Result<std::string> ca = ReadFile(options_.client_ca_file);
      if (!ca) return WithFlag(kFlag, ca.error());
      auto authenticator = MakeCertificateAuthenticator(*ca);
      if (!authenticator)
        return WithFlag(kFlag, Invalid(options_.client_ca_file, authenticator.error()));
      authenticators.push_back(*std::move(authenticator));
    }
    if (!options_.token_auth_file.empty()) {
      Result<std::string> tokens = ReadPrivateFile(options_.token_auth_file);
      if (!tokens) return WithFlag("--token-auth-file", tokens.error());
      auto authenticator = MakeTokenAuthenticator(*tokens, options_.token_auth_file);
      if (!authenticator) return WithFlag("--token-auth-file", authenticator.error());
      authenticators.push_back(*std::move(authenticator));
    }
    if (authenticators.empty())
      return Status(StatusReason::kBadRequest,
                    "no authentication is configured: set --token-auth-file, --client-ca-file or "
                    "--requestheader-client-ca-file");
    door_->SetAuthenticators(std::move(authenticators));
    return {};
  }

  Status LoadRateLimit() {
    const Status status = rate_limit_.Load(options_.event_rate_limit_file);
    return status.ok() ? status : WithFlag("--event-rate-limit-config", status);
  }

  Status LoadRbac() {
    if (options_.rbac_dir.empty()) {
      door_->SetAuthorizer(std::make_shared<const Rbac>());
      return {};
    }
    Result<Rbac> rbac = Rbac::Load(options_.rbac_dir);
    if (!rbac) return WithFlag("--rbac-dir", rbac.error());
    door_->SetAuthorizer(std::make_shared<const Rbac>(*std::move(rbac)));
    return {};
  }

  Result<http::ServerTls> LoadTls() const {
    const bool has_cert_flag = !options_.tls_cert_file.empty();
    Result<KeyPair> pair = has_cert_flag
                               ? ReadKeyPair(options_.tls_cert_file, options_.tls_private_key_file)
                               : ReadOrMakeKeyPair(options_.cert_dir, SystemClock().Now());
    if (!pair)
      return WithFlag(has_cert_flag ? "--tls-cert-file, --tls-private-key-file" : "--cert-dir",
                      pair.error());
    http::ServerTls tls{.certificate = pair->certificate, .key = pair->key, .client_ca = {}};
    for (const std::string& file :
         {options_.client_ca_file, options_.requestheader_client_ca_file}) {
      if (file.empty()) continue;
      Result<std::string> ca = ReadFile(file);
      if (!ca) return ca.error();
      tls.client_ca += *ca;
      tls.client_ca += '\n';
    }
    return tls;
  }

  Status Listen() {
    Result<http::ServerTls> tls = LoadTls();
    if (!tls) return tls.error();
    http::ServerOptions options;
    options.address = options_.bind_address;
    options.port = options_.secure_port;
    options.threads = ThreadsFor(options_.threads);
    options.tls = *std::move(tls);
    options.max_connections = options_.max_connections;
    options.log = options_.log;
    auto server = http::Server::Start(
        std::move(options), [this](http::Request request, const http::Peer& peer,
                                   std::shared_ptr<http::Responder> responder) {
          door_->Handle(std::move(request), peer, std::move(responder));
        });
    if (!server) return server.error();
    server_ = *std::move(server);
    return {};
  }

  // A changed file that is invalid must not stop a running server: the error is logged only.
  template <typename Load>
  std::function<void()> Reloads(std::string what, Load load) {
    return [this, what = std::move(what), load = std::move(load)] {
      const Status status = load();
      Log(status.ok() ? LogLevel::kInfo : LogLevel::kError,
          status.ok() ? "reloaded after a change"
                      : "cannot load the changed file; the old contents stay in use",
          {{"what", what}, {"error", status.message()}});
    };
  }

  void WatchFiles() {
    const auto reload_authenticators = [this] { return LoadAuthenticators(); };
    files_.Add(
        {options_.token_auth_file, options_.client_ca_file, options_.requestheader_client_ca_file},
        Reloads("credentials", reload_authenticators));
    std::string certificate = options_.tls_cert_file;
    std::string key = options_.tls_private_key_file;
    if (certificate.empty()) {
      certificate = options_.cert_dir + "/heraldd.crt";
      key = options_.cert_dir + "/heraldd.key";
    }
    files_.Add({certificate, key, options_.client_ca_file, options_.requestheader_client_ca_file},
               Reloads("TLS certificates", [this]() -> Status {
                 Result<http::ServerTls> tls = LoadTls();
                 return tls ? server_->SetTls(*std::move(tls)) : tls.error();
               }));
    files_.Add({options_.rbac_dir}, Reloads("RBAC manifests", [this] { return LoadRbac(); }));
    files_.Add({options_.event_rate_limit_file},
               Reloads("event rate limits", [this] { return LoadRateLimit(); }));
    files_.Add({options_.retention_file}, Reloads("retention rules", [this]() -> Status {
                 Result<Retention> retention = LoadRetention();
                 if (!retention) return retention.error();
                 retention_->Set(*std::move(retention));
                 store_->RefreshLifetimes();
                 return {};
               }));
    files_executor_ = std::make_unique<Executor>(Executor::Options{.threads = 1, .clock = nullptr});
    ScheduleFileCheck();
  }

  void ScheduleFileCheck() {
    files_executor_->PostAt(SystemClock().Steady() + options_.reload_interval, [this] {
      RenewCertificate();
      files_.Check();
      ScheduleFileCheck();
    });
  }

  // Renews the certificate in --cert-dir before it expires. files_ then notices that its files
  // changed and reloads them.
  void RenewCertificate() {
    const SteadyTime now = SystemClock().Steady();
    if (!options_.tls_cert_file.empty() || now < renew_at_) return;
    renew_at_ = now + kRenewInterval;
    const Result<KeyPair> pair = ReadOrMakeKeyPair(options_.cert_dir, SystemClock().Now());
    if (!pair)
      Log(LogLevel::kError, "cannot renew the certificate", {{"error", pair.error().message()}});
  }

  // kBadRequest: the flag or file is invalid.
  static Status Invalid(std::string_view flag_or_file, const Status& status) {
    return Status(StatusReason::kBadRequest, fmt::format("{}: {}", flag_or_file, status.message()));
  }
  // The same error, with the flag that caused it.
  static Status WithFlag(std::string_view flag, const Status& status) {
    return Status(status.reason(), fmt::format("{}: {}", flag, status.message()));
  }

  void Log(LogLevel level, std::string_view message,
           std::vector<std::pair<std::string_view, std::string_view>> fields) const {
    if (options_.log)
      options_.log({.level = level, .message = message, .fields = std::move(fields)});
  }

  const DaemonOptions options_;
  std::shared_ptr<CurrentRetention> retention_;
  EventRateLimit rate_limit_;
  std::unique_ptr<store::Store> store_;
  store::RocksStore* rocks_store_ = nullptr;  // store_, if it is a RocksStore
  std::unique_ptr<ControlSocket> control_;
  std::unique_ptr<Executor> timers_;  // request timeouts
  std::unique_ptr<FrontDoor> door_;
  std::unique_ptr<Api> api_;
  std::unique_ptr<http::Server> server_;

  // Used only by tasks of files_executor_ once Start() has returned.
  FileWatch files_;
  SteadyTime renew_at_ = SystemClock().Steady() + kRenewInterval;
  std::unique_ptr<Executor> files_executor_;

  Mutex stop_mu_;
  bool stopped_ GUARDED_BY(stop_mu_) = false;
};

Daemon::Daemon(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Daemon::~Daemon() = default;

Result<std::unique_ptr<Daemon>> Daemon::Start(DaemonOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  if (Status status = impl->Start(); !status.ok()) return status;
  return std::unique_ptr<Daemon>(new Daemon(std::move(impl)));
}

std::uint16_t Daemon::port() const { return impl_->port(); }
void Daemon::Stop(std::chrono::milliseconds drain) { impl_->Stop(drain); }
void Daemon::Reload() { impl_->Reload(); }

}  // namespace herald::server
