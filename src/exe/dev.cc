#include "exe/dev.h"

#include <fmt/core.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/base64.h"
#include "base/file.h"
#include "server/certificates.h"

namespace herald {
namespace {

// 256 bits that nobody can guess, as hex.
Result<std::string> NewToken() {
  std::array<unsigned char, 32> bytes;
  if (RAND_bytes(bytes.data(), bytes.size()) != 1)
    return Status(StatusReason::kInternalError, "there are no random numbers to make a token of");
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

std::string TokensFile(const std::string& folder) { return folder + "/tokens.csv"; }
std::string CertificatesFolder(const std::string& folder) { return folder + "/certs"; }

}  // namespace

Status PrepareDevFolder(const std::string& folder, server::DaemonOptions* options) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return Status(StatusReason::kBadRequest,
                  fmt::format("cannot create the folder {}: {}", folder, error.message()));
  options->data_dir = folder + "/data";
  options->cert_dir = CertificatesFolder(folder);
  options->token_auth_file = TokensFile(folder);
  if (std::filesystem::exists(options->token_auth_file, error)) return {};
  const Result<std::string> token = NewToken();
  if (!token) return token.error();
  return server::WritePrivateFile(
      options->token_auth_file,
      fmt::format("# token,user,uid,\"groups\"\n{},admin,admin,\"system:masters\"\n", *token));
}

Status WriteDevKubeconfig(const std::string& folder, std::uint16_t port) {
  const Result<std::string> certificate = ReadFile(CertificatesFolder(folder) + "/heraldd.crt");
  if (!certificate) return certificate.error();
  const Result<std::string> tokens = ReadFile(TokensFile(folder));
  if (!tokens) return tokens.error();
  // The first token of the file, which may have got others since.
  std::string_view token = *tokens;
  while (token.starts_with('#'))
    token.remove_prefix(std::min(token.find('\n'), token.size() - 1) + 1);
  token = token.substr(0, token.find(','));
  return server::WritePrivateFile(folder + "/kubeconfig",
                                  fmt::format(R"(apiVersion: v1
kind: Config
clusters:
- name: herald
  cluster:
    server: https://127.0.0.1:{}
    certificate-authority-data: {}
users:
- name: admin
  user:
    token: {}
contexts:
- name: herald
  context:
    cluster: herald
    user: admin
    namespace: default
current-context: herald
)",
                                              port, Base64Encode(*certificate), token));
}

}  // namespace herald
