#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "herald/base/export.h"
#include "herald/base/status.h"

namespace herald {

// A program that returns credentials (client.authentication.k8s.io, v1 or v1beta1). It is run
// without a shell and with standard input closed. Its answer is kept until it expires.
struct ExecPlugin {
  std::string api_version{};  // "client.authentication.k8s.io/v1"
  std::string command{};      // searched in PATH unless it has a slash
  std::vector<std::string> args{};
  std::vector<std::pair<std::string, std::string>> env{};  // added to this process' environment
  std::string install_hint{};                              // shown if the command does not exist
  bool provide_cluster_info = false;                       // pass the cluster to the plugin
  std::string cluster_config{};  // with it: JSON of the cluster's exec extension
  // A plugin that hangs must not block the program. A slow single sign-on may need more.
  std::chrono::milliseconds timeout{60'000};

  bool operator==(const ExecPlugin&) const = default;
};

// The user to impersonate. The account must be allowed to.
struct Impersonation {
  std::string user{};
  std::string uid{};
  std::vector<std::string> groups{};
  std::map<std::string, std::vector<std::string>> extra{};

  bool operator==(const Impersonation&) const = default;
};

// The address of a cluster and the credentials of a client. Fill it yourself, or use one of the
// functions below. If both a file and data are set, the data is used. Files are read again while
// the client runs: certificates for each new connection, the token once a minute and when the
// server has rejected it.
struct ClientConfig {
  std::string server{};                // "https://10.0.0.1:6443", with or without a path
  std::string namespace_ = "default";  // the default namespace for the program's requests

  std::string ca_file{};
  std::string ca_data{};  // PEM; without any CA the system's CAs are used
  std::string tls_server_name{};
  bool insecure_skip_tls_verify = false;
  std::string certificate_file{};
  std::string certificate_data{};  // PEM
  std::string key_file{};
  std::string key_data{};  // PEM

  // The first of these that is set is used.
  std::string token_file{};
  std::string token{};  // with token_file: used until the file can be read
  std::string username{};
  std::string password{};
  std::optional<ExecPlugin> exec{};
  Impersonation impersonate{};

  // "http://host:port", https:// (the proxy's certificate is then verified with the same CA) or
  // socks5://. Empty: from HTTPS_PROXY and NO_PROXY when a client is opened.
  std::string proxy_url{};
  bool disable_compression = false;

  // Where the configuration came from, for messages: a file and a context in it.
  std::string source{};
  std::string context{};

  bool operator==(const ClientConfig&) const = default;
};

// Which parts of kubeconfig files to use.
struct KubeconfigOptions {
  // The file to read; it must exist. Empty: the files in KUBECONFIG, separated by colons and
  // merged as kubectl merges them (missing files are ignored), or ~/.kube/config if KUBECONFIG is
  // not set.
  std::string path{};
  // Override current-context, and the cluster, user and namespace of the context.
  std::string context{};
  std::string cluster{};
  std::string user{};
  std::string namespace_{};
};

// Errors name the file, the context and the key.
HERALD_EXPORT Result<ClientConfig> LoadKubeconfig(const KubeconfigOptions& options = {});

// Parses a kubeconfig from a string. Relative paths are relative to `directory`. Messages call it
// `source`. options.path is not used.
HERALD_EXPORT Result<ClientConfig> ParseKubeconfig(std::string_view yaml,
                                                   const KubeconfigOptions& options = {},
                                                   std::string_view directory = ".",
                                                   std::string_view source = "kubeconfig");

// For a program in a pod: the service account that Kubernetes mounted there. kNotFound outside
// of a pod.
HERALD_EXPORT Result<ClientConfig> InClusterConfig(
    std::string_view service_account = "/var/run/secrets/kubernetes.io/serviceaccount");

// Returns the first of these that exists: the configuration that `options` name, the files in
// KUBECONFIG, the pod's service account, ~/.kube/config. Programs should use this by default.
HERALD_EXPORT Result<ClientConfig> LoadConfig(const KubeconfigOptions& options = {});

}  // namespace herald
