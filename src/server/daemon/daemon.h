#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "herald/base/log.h"
#include "herald/base/status.h"

namespace herald::server {

// The settings of heraldd. Members are named like their flags. A flag that kube-apiserver also has
// has the same name and meaning.
struct DaemonOptions {
  // Serving.
  std::string bind_address = "0.0.0.0";
  std::uint16_t secure_port = 6443;  // 0: any free port
  int threads = 0;                   // threads that serve connections; 0: one per core, at most 4

  // TLS.
  std::string cert_dir{};  // a CA and a certificate are created here if tls_cert_file is empty
  std::string tls_cert_file{};
  std::string tls_private_key_file{};

  // Authentication and authorization.
  std::string client_ca_file{};
  std::string token_auth_file{};
  std::string requestheader_client_ca_file{};
  std::vector<std::string> requestheader_allowed_names{};
  std::vector<std::string> requestheader_username_headers{"x-remote-user"};
  std::vector<std::string> requestheader_group_headers{"x-remote-group"};
  std::string rbac_dir{};
  // Regular expressions; see server/access/cors.h.
  std::vector<std::string> cors_allowed_origins{};

  // Storage.
  std::string data_dir{};  // empty: in memory, for tests
  std::chrono::seconds event_ttl{3600};
  std::string retention_file{};
  std::uint64_t max_disk_bytes = 0;  // 0: no limit
  // How far back a watch or a paginated list may begin.
  std::chrono::seconds watch_window{5 * 60};

  // Storage in etcd, used instead of `data_dir` if `etcd_servers` is not empty.
  std::vector<std::string> etcd_servers{};  // "https://a:2379"
  std::string etcd_cafile{};
  std::string etcd_certfile{};
  std::string etcd_keyfile{};
  std::string etcd_prefix = "/registry";
  std::string etcd_user{};                                // "name:password"
  std::chrono::seconds etcd_compaction_interval{5 * 60};  // 0: never
  // Memory for the index; if the events do not fit, every list reads etcd.
  std::uint64_t etcd_index_bytes = 512ull << 20;

  // Limits.
  std::string event_rate_limit_file{};
  std::size_t max_requests_inflight = 4000;  // 0: no limit
  std::size_t max_connections = 12'000;
  std::size_t max_watches_per_user = 5'000;
  std::chrono::nanoseconds request_timeout = std::chrono::seconds(60);  // except watches
  std::chrono::seconds min_request_timeout{1800};                       // watches only

  // How often the files named above are checked for changes.
  std::chrono::milliseconds reload_interval{2000};

  LogFunction log{};
};

// The running server: store, API, front door and listener. Files that the options name
// (certificates, tokens, RBAC, retention rules, rate limits) are reloaded when they change. If a
// changed file is invalid, the server logs an error and continues to use the old contents.
//
// Thread-safe.
class Daemon {
 public:
  // The server accepts requests when this returns. If it cannot start, for example because the
  // port is in use or a file is invalid, the error is one sentence that says what to do.
  static Result<std::unique_ptr<Daemon>> Start(DaemonOptions options);

  // Calls Stop() without waiting for requests.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  std::uint16_t port() const;

  // Stops the server: /readyz fails, watches end, requests may finish for at most `drain`, and
  // then the store is closed. Idempotent.
  void Stop(std::chrono::milliseconds drain);

  // Checks the files for changes now, and returns when changed files are in use. For SIGHUP and
  // tests. REQUIRES: Stop() was not called
  void Reload();

 private:
  class Impl;
  explicit Daemon(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald::server
