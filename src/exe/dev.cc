#include "exe/dev.h"

#include <fmt/core.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/bytes/base64.h"
#include "base/file.h"
#include "server/access/certificates.h"

namespace herald {
namespace {

// 256 random bits in hexadecimal.
Result<std::string> NewToken() {
  std::array<unsigned char, 32> bytes;
  if (RAND_bytes(bytes.data(), bytes.size()) != 1)
    return Status(StatusReason::kInternalError,
                  "cannot create a token: OpenSSL failed to generate random bytes");
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

std::string TokensFile(const std::string& dir) { return dir + "/tokens.csv"; }
std::string CertificateDirectory(const std::string& dir) { return dir + "/certs"; }

// The variable parts of a kubeconfig.
struct KubeconfigValues {
  std::string server{};
  std::string anchors{};  // base64; may be empty
  std::string server_name{};
  std::string token{};
};

std::string MakeKubeconfig(const KubeconfigValues& values) {
  const auto line = [](std::string_view name, const std::string& value) {
    return value.empty() ? std::string() : fmt::format("    {}: {}\n", name, value);
  };
  return fmt::format(R"(apiVersion: v1
kind: Config
clusters:
- name: herald
  cluster:
    server: {}
{}{}users:
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
                     values.server, line("certificate-authority-data", values.anchors),
                     line("tls-server-name", values.server_name), values.token);
}

// The value in the line "name: value"; empty if there is no such line.
std::string ValueOf(std::string_view name, std::string_view text) {
  const std::string start = fmt::format("    {}: ", name);
  const std::size_t at = text.find(start);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + start.size());
  return std::string(text.substr(0, text.find('\n')));
}

// Whether MakeKubeconfig() of this or an older version wrote the file, and it has not been edited.
// An edited file, for example one with another cluster, must not be overwritten.
bool IsOurKubeconfig(std::string_view text) {
  return text == MakeKubeconfig({.server = ValueOf("server", text),
                                 .anchors = ValueOf("certificate-authority-data", text),
                                 .server_name = ValueOf("tls-server-name", text),
                                 .token = ValueOf("token", text)});
}

}  // namespace

Status PrepareDevDirectory(const std::string& dir, server::DaemonOptions* options) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error)
    return Status(StatusReason::kBadRequest,
                  fmt::format("--dir: cannot create directory {}: {}", dir, error.message()));
  options->data_dir = dir + "/data";
  options->cert_dir = CertificateDirectory(dir);
  options->token_auth_file = TokensFile(dir);
  if (std::filesystem::exists(options->token_auth_file, error)) return {};
  const Result<std::string> token = NewToken();
  if (!token) return token.error();
  return server::WritePrivateFile(
      options->token_auth_file,
      fmt::format("# token,user,uid,\"groups\"\n{},admin,admin,\"system:masters\"\n", *token));
}

Result<DevAccess> FindDevAccess(const std::string& dir, const server::DaemonOptions& options,
                                std::uint16_t port) {
  DevAccess access{.port = port};
  const bool has_cert_flag = !options.tls_cert_file.empty();
  const std::string file =
      has_cert_flag ? options.tls_cert_file : options.cert_dir + "/heraldd.crt";
  const Result<std::string> chain = ReadFile(file);
  if (!chain) return chain.error();
  access.anchors = server::TrustAnchors(*chain);
  std::error_code error;
  const std::string ca_file = options.cert_dir + "/ca.crt";
  access.ca_file = !has_cert_flag && std::filesystem::exists(ca_file, error) ? ca_file : file;
  if (!server::IsCertificateFor(*chain, "127.0.0.1"))
    access.server_name = server::FirstDnsName(*chain);

  const Result<std::string> tokens = ReadFile(TokensFile(dir));
  if (!tokens) return tokens.error();
  // The first token. The user may have added others to the file.
  std::string_view token = *tokens;
  while (token.starts_with('#'))
    token.remove_prefix(std::min(token.find('\n'), token.size() - 1) + 1);
  access.token = token.substr(0, token.find(','));
  return access;
}

Result<bool> WriteDevKubeconfig(const std::string& dir, const DevAccess& access) {
  const std::string file = dir + "/kubeconfig";
  const Result<std::string> old = ReadFile(file);
  if (old && !old->empty() && !IsOurKubeconfig(*old)) return false;
  const Status status = server::WritePrivateFile(
      file, MakeKubeconfig({.server = fmt::format("https://127.0.0.1:{}", access.port),
                            .anchors = Base64Encode(access.anchors),
                            .server_name = access.server_name,
                            .token = access.token}));
  if (!status.ok()) return status;
  return true;
}

std::string DevInstructions(const std::string& dir, const DevAccess& access, bool on_etcd) {
  const std::string host = access.server_name.empty() ? "127.0.0.1" : access.server_name;
  const std::string ca = access.anchors.empty() ? "" : fmt::format("--cacert {} ", access.ca_file);
  const std::string resolve =
      access.server_name.empty()
          ? ""
          : fmt::format("--resolve {}:{}:127.0.0.1 ", access.server_name, access.port);
  std::string text = fmt::format(
      "\nheraldd is serving on https://127.0.0.1:{0} and stores its data in {1}. Try:\n\n"
      "  kubectl --kubeconfig {2}/kubeconfig get events -A -w\n"
      "  kubectl --kubeconfig {2}/kubeconfig events -A  # kubectl 1.26 and newer\n"
      "  curl {3}{4}-H \"Authorization: Bearer $(sed -n "
      "'s/,admin.*//p' {2}/tokens.csv)\" https://{5}:{0}/api/v1/events\n\n",
      access.port, on_etcd ? "etcd" : dir, dir, ca, resolve, host);
  if (access.anchors.empty())
    text += fmt::format(
        "{} does not include the certificate of its CA. If this system does not trust that CA,\n"
        "add --certificate-authority FILE to the kubectl commands and --cacert FILE to curl.\n\n",
        access.ca_file);
  return text += "Press Ctrl-C to stop it.\n";
}

}  // namespace herald
