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

// How long a token that was read from a file is good without looking again: Kubernetes
// writes a new one into pods long before the old one expires (client-go reads as often).
inline constexpr std::chrono::seconds kTokenFilePeriod{60};

// Credentials are what a client shows to its server: a token, a password, a
// certificate. They change under way: files are written anew, plugins' answers expire, and a
// server may refuse what was good a moment ago.
//
// Thread-safe. No lock is held while a file is read or a plugin runs.
class Credentials {
 public:
  // What to send with a request.
  struct Shown {
    std::string authorization{};   // the header's value; empty: none
    std::uint64_t generation = 0;  // counts how often it changed, for Refresh()
  };

  // `clock` is borrowed and outlives this.
  Credentials(ClientConfig config, const Clock* clock, LogFunction log);

  // Nothing if a plugin has to be run first: call Refresh(), from a thread that may
  // wait, and then Current(). Reads a small file once a minute at most.
  std::optional<Result<Shown>> Get();

  // What the last Refresh() has brought. Also where it has expired by then: a plugin that
  // hands out such things would be run for ever, and only the server's clock counts.
  Shown Current() const;

  // Whether a refusal (401) is worth a Refresh().
  bool can_refresh() const { return slow() || !config_.token_file.empty(); }
  // Whether Refresh() runs a plugin, and so takes long. As in client-go, whatever else is
  // configured comes before the plugin.
  bool slow() const {
    return config_.exec.has_value() && config_.token_file.empty() && fixed_.empty();
  }

  // Gets new ones, unless there are others by now than those of `generation`, and good ones.
  Status Refresh(std::uint64_t generation, const std::stop_token& stop);

  // For a new connection. Files are read each time.
  Result<http::ClientTls> Tls();

 private:
  Result<Shown> FromFile();
  Shown ShownLocked() const REQUIRES(mu_);
  // Whether there is what a plugin said, and it is still good.
  bool HasExecLocked() const REQUIRES(mu_);

  const ClientConfig config_;
  const Clock* const clock_;
  const LogFunction log_;
  const std::string fixed_;  // what is shown where nothing changes

  mutable Mutex mu_;
  std::uint64_t generation_ GUARDED_BY(mu_) = 0;
  std::string token_ GUARDED_BY(mu_);  // of the file
  std::optional<SteadyTime> read_ GUARDED_BY(mu_);
  std::optional<ExecCredential> exec_ GUARDED_BY(mu_);
};

}  // namespace herald
