#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "herald/api/time.h"
#include "herald/base/status.h"
#include "herald/client/config.h"

namespace herald {

// What an exec plugin hands out: a token, a certificate with its key, or both.
struct ExecCredential {
  std::string token{};
  std::string certificate{};  // PEM
  std::string key{};          // PEM
  std::optional<Time> expires{};
};

// What a plugin prints is bounded: a credential is a few kilobytes.
inline constexpr std::size_t kMaxExecOutputBytes = 1 << 20;

// Runs config.exec and reads its answer. Blocks until the plugin has ended, its time is
// over or `stop` is requested; in the last two cases the plugin, and whatever it started,
// is killed. Thread-safe. REQUIRES: config.exec
Result<ExecCredential> RunExecPlugin(const ClientConfig& config, const std::stop_token& stop);

// The answer of a plugin that was asked in `api_version`.
Result<ExecCredential> ParseExecCredential(std::string_view output, std::string_view api_version);

}  // namespace herald
