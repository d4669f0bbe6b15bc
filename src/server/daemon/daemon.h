#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "herald/base/log.h"
#include "herald/base/status.h"

namespace herald::server {

// Everything that heraldd can be told. Members are named as their flags are, where
// kube-apiserver has the same flag with the same meaning under the same name.
struct DaemonOptions {
  // Serving.
  std::string bind_address = "0.0.0.0";
  std::uint16_t secure_port = 6443;  // 0: any free one
  int threads = 0;                   // that serve connections; 0: one per core, at most 4
  std::string cert_dir{};            // where a CA and a certificate are made if none is given
  std::string tls_cert_file{};
  std::string tls_private_key_file{};

  // Who may do what.
  std::string client_ca_file{};
  std::string token_auth_file{};
  std::string requestheader_client_ca_file{};
  std::vector<std::string> requestheader_allowed_names{};
  std::vector<std::string> requestheader_username_headers{"x-remote-user"};
  std::vector<std::string> requestheader_group_headers{"x-remote-group"};
  std::string rbac_dir{};
  // Regular expressions; see Cors.
  std::vector<std::string> cors_allowed_origins{};

  // What is kept.
  std::string data_dir{};  // empty: in memory, for tests
  std::chrono::seconds event_ttl{3600};
  std::string retention_file{};
  std::uint64_t max_disk_bytes = 0;  // 0: no cap
  // How far back a watch or a paged list may begin.
  std::chrono::seconds watch_window{5 * 60};

  // Where events are kept instead of in `data_dir`, if any are given.
  std::vector<std::string> etcd_servers{};  // "https://a:2379"
  std::string etcd_cafile{};
  std::string etcd_certfile{};
  std::string etcd_keyfile{};
  std::string etcd_prefix = "/registry";
  std::string etcd_user{};                                // "name:password"
  std::chrono::seconds etcd_compaction_interval{5 * 60};  // 0: never
  std::uint64_t etcd_index_bytes = 512ull << 20;  // of memory; beyond it every list reads etcd

  // How much is taken.
  std::string event_rate_limit_file{};
  std::size_t max_requests_inflight = 4000;  // 0: no limit
  std::size_t max_connections = 12'000;
  std::size_t max_watches_per_user = 5'000;
  std::chrono::nanoseconds request_timeout = std::chrono::seconds(60);  // watches excluded
  std::chrono::seconds min_request_timeout{1800};                       // of watches

  // How often files are looked at for changes.
  std::chrono::milliseconds reload_interval{2000};

  LogFunction log{};
};

// The running server: store, API, front door and listener, put together. Files that it
// was told about (certificates, tokens, RBAC, retention rules, rate limits) are read again
// when they change; a bad one is logged and the old contents stay in force.
//
// Thread-safe.
class Daemon {
 public:
  // Serves when it returns. A busy port, a locked data directory, a bad file: an error of
  // one sentence that says what to do.
  static Result<std::unique_ptr<Daemon>> Start(DaemonOptions options);

  // Stops.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  std::uint16_t port() const;

  // Stops: says so on /readyz, lets requests finish for at most `drain`, ends watches,
  // then closes the store. Idempotent.
  void Stop(std::chrono::milliseconds drain);

  // Looks at the files now and returns when what changed is in force: for SIGHUP and tests.
  // Not after Stop().
  void Reload();

 private:
  class Impl;
  explicit Daemon(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald::server
