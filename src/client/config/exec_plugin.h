#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "herald/api/time.h"
#include "herald/base/status.h"
#include "herald/client/config.h"

namespace herald {

// What an exec plugin returns: a token, a certificate with its key, or both.
struct ExecCredential {
  std::string token{};
  std::string certificate{};  // PEM
  std::string key{};          // PEM
  std::optional<Time> expires{};
};

// Limit of a plugin's output. A credential has a few kilobytes.
inline constexpr std::size_t kMaxExecOutputBytes = 1 << 20;

// Runs config.exec and parses its output. Blocks until the plugin ends, its timeout passes or
// `stop` is requested; in the last two cases the plugin and its child processes are killed.
// Thread-safe. REQUIRES: config.exec
Result<ExecCredential> RunExecPlugin(const ClientConfig& config, const std::stop_token& stop);

// Parses the output of a plugin that is configured for `api_version`.
Result<ExecCredential> ParseExecCredential(std::string_view output, std::string_view api_version);

}  // namespace herald
