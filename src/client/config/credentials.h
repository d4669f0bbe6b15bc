#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/thread/mutex.h"
#include "client/config/exec_plugin.h"
#include "herald/base/clock.h"
#include "herald/base/log.h"
#include "herald/base/status.h"
#include "herald/client/config.h"
#include "http/client/client.h"

namespace herald {

// How often a token file is read again, as in client-go. Kubernetes writes a new token into pods
// long before the old one expires.
inline constexpr std::chrono::seconds kTokenFilePeriod{60};

// Credentials holds what a client authenticates with: a token, a password or a certificate. They
// may change while the client runs: files are rewritten, answers of plugins expire, and a server
// may reject a token that it accepted before.
//
// Thread-safe. No lock is held while a file is read or a plugin runs.
class Credentials {
 public:
  // What to send with a request.
  struct Authorization {
    std::string header{};          // the value of the Authorization header; empty: none
    std::uint64_t generation = 0;  // increases with each change, for Refresh()
  };

  // `clock` is borrowed and must outlive this object.
  Credentials(ClientConfig config, const Clock* clock, LogFunction log);

  // Returns nothing if a plugin has to run first: then call Refresh() on a thread that may block,
  // and then Current(). Reads a small file, at most once a minute.
  std::optional<Result<Authorization>> Get();

  // The result of the last Refresh(), even if it has expired meanwhile: otherwise a plugin that
  // returns expired credentials would run forever, and only the server's clock decides.
  Authorization Current() const;

  // Whether a Refresh() may help after a 401.
  bool can_refresh() const { return slow() || !config_.token_file.empty(); }
  // Whether Refresh() runs a plugin, which may take long. As in client-go, the plugin is used only
  // if there is no token and no password.
  bool slow() const {
    return config_.exec.has_value() && config_.token_file.empty() && fixed_.empty();
  }

  // Gets new credentials, unless there are already valid ones that are newer than `generation`.
  Status Refresh(std::uint64_t generation, const std::stop_token& stop);

  // For a new connection. Reads the files each time.
  Result<http::ClientTls> Tls();

 private:
  Result<Authorization> FromFile();
  Authorization CurrentLocked() const REQUIRES(mu_);
  // Whether there are credentials of a plugin that have not expired.
  bool HasExecLocked() const REQUIRES(mu_);

  const ClientConfig config_;
  const Clock* const clock_;
  const LogFunction log_;
  const std::string fixed_;  // the header for a token or password of the configuration

  mutable Mutex mu_;
  std::uint64_t generation_ GUARDED_BY(mu_) = 0;
  std::string token_ GUARDED_BY(mu_);               // of the file
  std::optional<SteadyTime> read_ GUARDED_BY(mu_);  // when the file was last read
  std::optional<ExecCredential> exec_ GUARDED_BY(mu_);
};

}  // namespace herald
