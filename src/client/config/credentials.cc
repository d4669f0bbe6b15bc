#include "client/config/credentials.h"

#include <fmt/core.h>

#include <utility>

#include "base/bytes/base64.h"
#include "base/bytes/trimmed.h"
#include "base/file.h"

namespace herald {
namespace {

std::string Bearer(const std::string& token) { return token.empty() ? "" : "Bearer " + token; }

std::string Fixed(const ClientConfig& config) {
  if (!config.token.empty()) return Bearer(config.token);
  if (!config.username.empty() || !config.password.empty()) {
    return "Basic " + Base64Encode(config.username + ":" + config.password);
  }
  return "";
}

}  // namespace

Credentials::Credentials(ClientConfig config, const Clock* clock, LogFunction log)
    : config_(std::move(config)), clock_(clock), log_(std::move(log)), fixed_(Fixed(config_)) {}

std::optional<Result<Credentials::Shown>> Credentials::Get() {
  if (!config_.token_file.empty()) return FromFile();
  if (!slow()) return Result<Shown>(Shown{fixed_, 0});
  const MutexLock lock(mu_);
  if (!HasExecLocked()) return std::nullopt;
  return Result<Shown>(ShownLocked());
}

Credentials::Shown Credentials::Current() const {
  const MutexLock lock(mu_);
  return ShownLocked();
}

bool Credentials::HasExecLocked() const {
  return exec_ && !(exec_->expires && Time(clock_->Now()) > *exec_->expires);
}

Credentials::Shown Credentials::ShownLocked() const {
  return {.authorization = exec_ ? Bearer(exec_->token) : Bearer(token_),
          .generation = generation_};
}

Result<Credentials::Shown> Credentials::FromFile() {
  {
    const MutexLock lock(mu_);
    if (read_ && clock_->Steady() - *read_ < kTokenFilePeriod) return ShownLocked();
  }
  const Result<std::string> text = ReadFile(config_.token_file);
  const std::string_view token = text ? Trimmed(*text) : std::string_view();
  MutexLock lock(mu_);
  read_ = clock_->Steady();
  if (!token.empty()) {
    if (token != token_) {
      token_ = token;
      ++generation_;
    }
    return ShownLocked();
  }
  std::string why = text ? fmt::format("{} is empty", config_.token_file) : text.error().message();
  if (token_.empty()) token_ = config_.token;
  if (token_.empty()) return Status(StatusReason::kUnauthorized, std::move(why));
  // The old one may be good for a while.
  Shown shown = ShownLocked();
  lock.Unlock();
  if (log_) {
    log_({.level = LogLevel::kWarn,
          .message = "Unable to read the token anew, the old one is kept",
          .fields = {{"error", why}}});
  }
  return shown;
}

Status Credentials::Refresh(std::uint64_t generation, const std::stop_token& stop) {
  {
    const MutexLock lock(mu_);
    if (generation_ != generation && (!slow() || HasExecLocked())) return {};
    read_.reset();
  }
  if (!slow()) {
    const Result<Shown> shown = FromFile();
    return shown ? Status() : shown.error();
  }
  Result<ExecCredential> credential = RunExecPlugin(config_, stop);
  if (!credential) return credential.error();
  const MutexLock lock(mu_);
  exec_ = std::move(*credential);
  ++generation_;
  return {};
}

Result<http::ClientTls> Credentials::Tls() {
  http::ClientTls tls;
  tls.server_name = config_.tls_server_name;
  tls.insecure_skip_verify = config_.insecure_skip_tls_verify;
  tls.ca = config_.ca_data;
  tls.certificate = config_.certificate_data;
  tls.key = config_.key_data;
  struct File {
    const std::string& path;
    std::string* into;
  };
  for (const File& file :
       {File{config_.ca_file, &tls.ca}, File{config_.certificate_file, &tls.certificate},
        File{config_.key_file, &tls.key}}) {
    if (!file.into->empty() || file.path.empty()) continue;
    Result<std::string> text = ReadFile(file.path);
    if (!text) return Status(StatusReason::kUnauthorized, text.error().message());
    *file.into = std::move(*text);
  }
  const MutexLock lock(mu_);
  if (exec_ && !exec_->certificate.empty() && tls.certificate.empty()) {
    tls.certificate = exec_->certificate;
    tls.key = exec_->key;
  }
  return tls;
}

}  // namespace herald
