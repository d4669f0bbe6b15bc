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

std::optional<Result<Credentials::Authorization>> Credentials::Get() {
  if (!config_.token_file.empty()) return FromFile();
  if (!slow()) return Result<Authorization>(Authorization{fixed_, 0});
  const MutexLock lock(mu_);
  if (!HasExecLocked()) return std::nullopt;
  return Result<Authorization>(CurrentLocked());
}

Credentials::Authorization Credentials::Current() const {
  const MutexLock lock(mu_);
  return CurrentLocked();
}

bool Credentials::HasExecLocked() const {
  return exec_ && !(exec_->expires && Time(clock_->Now()) > *exec_->expires);
}

Credentials::Authorization Credentials::CurrentLocked() const {
  return {.header = exec_ ? Bearer(exec_->token) : Bearer(token_), .generation = generation_};
}

Result<Credentials::Authorization> Credentials::FromFile() {
  {
    const MutexLock lock(mu_);
    if (read_ && clock_->Steady() - *read_ < kTokenFilePeriod) return CurrentLocked();
  }
  const Result<std::string> file = ReadFile(config_.token_file);
  const std::string_view token = file ? Trimmed(*file) : std::string_view();
  MutexLock lock(mu_);
  read_ = clock_->Steady();
  if (!token.empty()) {
    if (token != token_) {
      token_ = token;
      ++generation_;
    }
    return CurrentLocked();
  }
  std::string why = file ? fmt::format("{} is empty", config_.token_file) : file.error().message();
  if (token_.empty()) token_ = config_.token;
  if (token_.empty()) return Status(StatusReason::kUnauthorized, std::move(why));
  // The old token may still be valid for a while.
  Authorization authorization = CurrentLocked();
  lock.Unlock();
  if (log_) {
    log_({.level = LogLevel::kWarn,
          .message = "Unable to read the token file, the old token is used",
          .fields = {{"error", why}}});
  }
  return authorization;
}

Status Credentials::Refresh(std::uint64_t generation, const std::stop_token& stop) {
  {
    const MutexLock lock(mu_);
    if (generation_ != generation && (!slow() || HasExecLocked())) return {};
    read_.reset();
  }
  if (!slow()) {
    const Result<Authorization> authorization = FromFile();
    return authorization ? Status() : authorization.error();
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
    Result<std::string> pem = ReadFile(file.path);
    if (!pem) return Status(StatusReason::kUnauthorized, pem.error().message());
    *file.into = std::move(*pem);
  }
  const MutexLock lock(mu_);
  if (exec_ && !exec_->certificate.empty() && tls.certificate.empty()) {
    tls.certificate = exec_->certificate;
    tls.key = exec_->key;
  }
  return tls;
}

}  // namespace herald
