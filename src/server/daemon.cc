#include "server/daemon.h"

#include <fmt/core.h>

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/mutex.h"
#include "herald/base/executor.h"
#include "http/server.h"
#include "server/api.h"
#include "server/authentication.h"
#include "server/certificates.h"
#include "server/event_rate_limit.h"
#include "server/file_watch.h"
#include "server/front_door.h"
#include "server/rbac.h"
#include "server/retention.h"
#include "server/stored_event.h"
#include "store/etcd/etcd_store.h"
#include "store/memory_store.h"
#include "store/rocks_store.h"

namespace herald::server {
namespace {

// More threads than this do not help: the store's one committer is busy by then.
constexpr unsigned kMostThreads = 4;

// As good as for ever, and can be added to any clock.
constexpr std::chrono::seconds kMostTime{365 * 24 * 3600};

int ThreadsFor(int wanted) {
  if (wanted > 0) return wanted;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads));
}

// A prefix as kube-apiserver reads it: a path from the root, without a slash at its end.
std::string CleanPrefix(std::string_view prefix) {
  std::string clean;
  while (!prefix.empty()) {
    const std::size_t slash = std::min(prefix.find('/'), prefix.size());
    if (slash > 0) clean.append("/").append(prefix.substr(0, slash));
    prefix.remove_prefix(std::min(slash + 1, prefix.size()));
  }
  return clean;
}

// The rules in force. Thread-safe.
class CurrentRetention {
 public:
  explicit CurrentRetention(Retention retention)
      : retention_(std::make_shared<const Retention>(std::move(retention))) {}

  void Set(Retention retention) {
    auto shared = std::make_shared<const Retention>(std::move(retention));
    const MutexLock lock(mu_);
    retention_ = std::move(shared);
  }
  std::chrono::seconds Keep(const Event& event) const {
    std::shared_ptr<const Retention> retention;
    {
      const MutexLock lock(mu_);
      retention = retention_;
    }
    return retention->Keep(event);
  }

 private:
  mutable Mutex mu_;
  std::shared_ptr<const Retention> retention_ GUARDED_BY(mu_);
};

}  // namespace

// Built from the store outwards and taken down in the opposite order: the listener goes
// first, so that nobody asks the API any more, then the API, then the store. The door comes
// last, because that is where the store's last answers are counted.
class Daemon::Impl {
 public:
  explicit Impl(DaemonOptions options) : options_(std::move(options)) {}
  ~Impl() { Stop(std::chrono::milliseconds(0)); }

  Status Start() {
    if (Status status = Retention::CheckTtl(options_.event_ttl); !status.ok())
      return Status(StatusReason::kBadRequest, fmt::format("--event-ttl: {}", status.message()));
    if (options_.request_timeout.count() <= 0 || options_.request_timeout > kMostTime)
      return Status(StatusReason::kBadRequest, "--request-timeout: must be from 1ms to 365d");
    if (options_.history < std::chrono::seconds(1) || options_.history > kMostTime)
      return Status(StatusReason::kBadRequest, "--history: must be from 1s to 365d");
    Result<Retention> retention = LoadRetention();
    if (!retention) return retention.error();
    retention_ = std::make_shared<CurrentRetention>(*std::move(retention));
    if (Status status = OpenStore(); !status.ok()) return status;

    timers_ = std::make_unique<Executor>(Executor::Options{.threads = 1, .clock = nullptr});
    door_ = std::make_unique<FrontDoor>(
        store_.get(), FrontDoor::Options{.clock = nullptr,
                                         .max_requests_in_flight = options_.max_requests_inflight,
                                         .request_timeout = options_.request_timeout,
                                         .executor = timers_.get()});
    if (Status status = LoadAuthenticators(); !status.ok()) return status;
    if (Status status = LoadRbac(); !status.ok()) return status;
    if (!options_.event_rate_limit_file.empty())
      if (Status status = rate_limit_.Load(options_.event_rate_limit_file); !status.ok())
        return status;

    ApiOptions api;
    api.event_ttl = options_.event_ttl;
    api.authorize = [this](const User& user, const RequestInfo& request) {
      return door_->Allows(user, request);
    };
    api.admit = [this](const User& user, const Event& event) {
      return rate_limit_.Admit(user, event, SystemClock().Steady());
    };
    api.min_request_timeout = options_.min_request_timeout;
    api.max_watches_per_user = options_.max_watches_per_user;
    api.log = options_.log;
    api_ = std::make_unique<Api>(store_.get(), std::move(api));
    door_->SetApi(api_.get());

    if (Status status = Listen(); !status.ok()) return status;
    door_->SetConnectionStats([this] { return server_->Stats(); });
    WatchFiles();
    return {};
  }

  std::uint16_t port() const { return server_->port(); }

  void Stop(std::chrono::milliseconds drain) {
    const MutexLock lock(stop_mu_);
    if (stopped_) return;
    stopped_ = true;
    if (files_executor_) files_executor_->Stop();
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
  Status OpenStore() {
    store::StoreOptions options;
    options.schema = Api::MakeSchema(
        [retention = retention_](const Event& event) { return retention->Keep(event); });
    if (!options_.etcd_servers.empty()) return OpenEtcd(std::move(options));
    options.max_bytes = options_.max_disk_bytes;
    options.history = options_.history;
    if (options_.data_dir.empty()) {
      store_ = std::make_unique<store::MemoryStore>(std::move(options));
      return {};
    }
    store::RocksStoreOptions rocks;
    rocks.db.directory = options_.data_dir;
    rocks.log = options_.log;
    auto opened = store::RocksStore::Open(std::move(options), std::move(rocks));
    if (!opened) return opened.error();
    store_ = *std::move(opened);
    return {};
  }

  Status OpenEtcd(store::StoreOptions options) {
    const auto refuse = [](std::string why) {
      return Status(StatusReason::kBadRequest, std::move(why));
    };
    if (!options_.data_dir.empty())
      return refuse("--data-dir and --etcd-servers: events are kept either in a folder or in etcd");
    if (options_.max_disk_bytes > 0)
      return refuse(
          "--max-disk-bytes does not hold for etcd, which has --quota-backend-bytes of its own");
    store::EtcdStoreOptions etcd;
    etcd.client.endpoints = options_.etcd_servers;
    etcd.client.ca_file = options_.etcd_cafile;
    etcd.client.cert_file = options_.etcd_certfile;
    etcd.client.key_file = options_.etcd_keyfile;
    etcd.client.log = options_.log;
    if (!options_.etcd_user.empty()) {
      const std::size_t colon = options_.etcd_user.find(':');
      if (colon == 0 || colon == std::string::npos)
        return refuse("the user of etcd must be given as name:password");
      etcd.client.user = options_.etcd_user.substr(0, colon);
      etcd.client.password = options_.etcd_user.substr(colon + 1);
    }
    etcd.root = kRegistryRoot;
    etcd.etcd_root = CleanPrefix(options_.etcd_prefix);
    etcd.mirrored = kEventsPrefix;
    etcd.compaction_interval = options_.etcd_compaction_interval;
    etcd.max_mirror_bytes = options_.etcd_index_bytes;
    etcd.log = options_.log;
    auto opened = store::EtcdStore::Open(std::move(options), std::move(etcd));
    if (!opened) return opened.error();
    store_ = *std::move(opened);
    return {};
  }

  Result<Retention> LoadRetention() const {
    if (options_.retention_file.empty()) return Retention(options_.event_ttl);
    return Retention::Load(options_.retention_file, options_.event_ttl);
  }

  Status LoadAuthenticators() {
    std::vector<std::unique_ptr<Authenticator>> ways;
    if (!options_.requestheader_client_ca_file.empty()) {
      Result<std::string> ca = ReadFile(options_.requestheader_client_ca_file);
      if (!ca) return ca.error();
      auto way = MakeRequestHeaderAuthenticator(
          {.ca = *std::move(ca),
           .allowed_names = options_.requestheader_allowed_names,
           .username_headers = options_.requestheader_username_headers,
           .group_headers = options_.requestheader_group_headers});
      if (!way) return About(options_.requestheader_client_ca_file, way.error());
      ways.push_back(*std::move(way));
    }
    if (!options_.client_ca_file.empty()) {
      Result<std::string> ca = ReadFile(options_.client_ca_file);
      if (!ca) return ca.error();
      auto way = MakeCertificateAuthenticator(*ca);
      if (!way) return About(options_.client_ca_file, way.error());
      ways.push_back(*std::move(way));
    }
    if (!options_.token_auth_file.empty()) {
      Result<std::string> tokens = ReadFile(options_.token_auth_file);
      if (!tokens) return tokens.error();
      auto way = MakeTokenAuthenticator(*tokens, options_.token_auth_file);
      if (!way) return way.error();
      ways.push_back(*std::move(way));
    }
    if (ways.empty())
      return Status(StatusReason::kBadRequest,
                    "nobody could use this server: give --token-auth-file or --client-ca-file");
    door_->SetAuthenticators(std::move(ways));
    return {};
  }

  Status LoadRbac() {
    if (options_.rbac_dir.empty()) {
      door_->SetRbac(Rbac());
      return {};
    }
    Result<Rbac> rbac = Rbac::Load(options_.rbac_dir);
    if (!rbac) return rbac.error();
    door_->SetRbac(*std::move(rbac));
    return {};
  }

  Result<http::ServerTls> LoadTls() const {
    Result<KeyPair> pair = options_.tls_cert_file.empty()
                               ? ReadOrMakeKeyPair(options_.cert_dir, SystemClock().Now())
                               : ReadKeyPair(options_.tls_cert_file, options_.tls_private_key_file);
    if (!pair) return pair.error();
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

  // A file that has become bad must not stop a server that runs: say so, go on.
  template <typename Load>
  std::function<void()> Reloads(std::string what, Load load) {
    return [this, what = std::move(what), load = std::move(load)] {
      const Status status = load();
      Log(status.ok() ? LogLevel::kInfo : LogLevel::kError,
          status.ok() ? "read again after a change"
                      : "cannot use the changed file; the old one stays in force",
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
               Reloads("certificates", [this]() -> Status {
                 Result<http::ServerTls> tls = LoadTls();
                 return tls ? server_->SetTls(*std::move(tls)) : tls.error();
               }));
    files_.Add({options_.rbac_dir}, Reloads("rbac", [this] { return LoadRbac(); }));
    files_.Add({options_.event_rate_limit_file}, Reloads("event rate limits", [this] {
                 return rate_limit_.Load(options_.event_rate_limit_file);
               }));
    files_.Add({options_.retention_file}, Reloads("retention", [this]() -> Status {
                 Result<Retention> retention = LoadRetention();
                 if (!retention) return retention.error();
                 retention_->Set(*std::move(retention));
                 store_->RefreshLifetimes();
                 return {};
               }));
    files_executor_ = std::make_unique<Executor>(Executor::Options{.threads = 1, .clock = nullptr});
    LookLater();
  }

  void LookLater() {
    files_executor_->PostAt(SystemClock().Steady() + options_.reload_interval, [this] {
      files_.Check();
      LookLater();
    });
  }

  static Status About(const std::string& file, const Status& status) {
    return Status(StatusReason::kBadRequest, fmt::format("{}: {}", file, status.message()));
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
  std::unique_ptr<Executor> timers_;  // of requests
  std::unique_ptr<FrontDoor> door_;
  std::unique_ptr<Api> api_;
  std::unique_ptr<http::Server> server_;

  FileWatch files_;  // once it is set up, only for tasks of the executor
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
