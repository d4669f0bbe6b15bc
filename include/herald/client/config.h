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

// A program that hands out credentials (client.authentication.k8s.io, v1 or v1beta1). It is run
// without a shell, with standard input closed, and its answer is kept until it expires.
struct ExecPlugin {
  std::string api_version{};  // "client.authentication.k8s.io/v1"
  std::string command{};      // searched in PATH unless it has a slash
  std::vector<std::string> args{};
  std::vector<std::pair<std::string, std::string>> env{};  // besides what this process has
  std::string install_hint{};                              // shown where the command does not exist
  bool provide_cluster_info = false;                       // tell it which cluster it is asked for
  std::string cluster_config{};  // with it: JSON of the cluster's exec extension
  // A plugin that hangs must not hang its host. People with slow single sign-on need more.
  std::chrono::milliseconds timeout{60'000};

  bool operator==(const ExecPlugin&) const = default;
};

// Who to act as, for accounts that may.
struct Impersonation {
  std::string user{};
  std::string uid{};
  std::vector<std::string> groups{};
  std::map<std::string, std::vector<std::string>> extra{};

  bool operator==(const Impersonation&) const = default;
};

// All that a client has to know about a cluster and about itself. Fill it by hand, or
// take it from one of the functions below. Where both a file and data are given the
// data wins. Files are read when they are needed, again and again: certificates are read for each
// new connection, the token when a minute is over or the server refused it.
struct ClientConfig {
  std::string server{};                // "https://10.0.0.1:6443", with or without a path
  std::string namespace_ = "default";  // where to work unless told otherwise

  std::string ca_file{};
  std::string ca_data{};  // PEM; with no CA at all: the system's
  std::string tls_server_name{};
  bool insecure_skip_tls_verify = false;
  std::string certificate_file{};
  std::string certificate_data{};  // PEM
  std::string key_file{};
  std::string key_data{};  // PEM

  // The first of these that is set is used.
  std::string token_file{};
  std::string token{};  // with token_file: until that can be read
  std::string username{};
  std::string password{};
  std::optional<ExecPlugin> exec{};
  Impersonation impersonate{};

  // "http://host:port", https:// (the proxy is then held to the same CA) or socks5://; empty:
  // what HTTPS_PROXY and NO_PROXY say when a client is opened.
  std::string proxy_url{};
  bool disable_compression = false;

  // Where it came from, for messages: a file and a context in it.
  std::string source{};
  std::string context{};

  bool operator==(const ClientConfig&) const = default;
};

// What to take from kubeconfig files.
struct KubeconfigOptions {
  // The one file to read; it must exist. Empty: those of KUBECONFIG, separated by
  // colons, merged as kubectl merges them (missing ones are passed over); without
  // that ~/.kube/config.
  std::string path{};
  // Instead of current-context, and instead of what that context names.
  std::string context{};
  std::string cluster{};
  std::string user{};
  std::string namespace_{};
};

// Refusals name the file, the context and the key that are at fault.
HERALD_EXPORT Result<ClientConfig> LoadKubeconfig(const KubeconfigOptions& options = {});

// The same from a text. Relative paths in it are taken from `directory`, and `source`
// is what messages call it. options.path is not used.
HERALD_EXPORT Result<ClientConfig> ParseKubeconfig(std::string_view text,
                                                   const KubeconfigOptions& options = {},
                                                   std::string_view directory = ".",
                                                   std::string_view source = "kubeconfig");

// For a program in a pod: the service account that Kubernetes mounted there.
// kNotFound where this is no pod.
HERALD_EXPORT Result<ClientConfig> InClusterConfig(
    std::string_view service_account = "/var/run/secrets/kubernetes.io/serviceaccount");

// The first of these that exists: what `options` name, the files of KUBECONFIG, the
// pod's service account, ~/.kube/config. What programs should use by default.
HERALD_EXPORT Result<ClientConfig> LoadConfig(const KubeconfigOptions& options = {});

}  // namespace herald
