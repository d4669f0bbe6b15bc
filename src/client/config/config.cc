#include "herald/client/config.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "api/yaml/yaml.h"
#include "base/bytes/base64.h"
#include "base/bytes/trimmed.h"
#include "base/file.h"
#include "herald/client/json_value.h"
#include "http/url.h"

namespace herald {
namespace {

constexpr std::string_view kExecV1 = "client.authentication.k8s.io/v1";
constexpr std::string_view kExecV1Beta1 = "client.authentication.k8s.io/v1beta1";
// The name of the cluster extension that is passed to the exec plugin.
constexpr std::string_view kExecExtension = "client.authentication.k8s.io/exec";

std::string Env(const char* name) {
  // Only read when a configuration is loaded, typically once at start.
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value != nullptr ? value : "";
}

std::string Absolute(const std::string& path, const std::string& directory) {
  if (path.empty() || path.front() == '/') return path;
  return (std::filesystem::path(directory) / path).lexically_normal().string();
}

Status Invalid(std::string message) { return {StatusReason::kInvalid, std::move(message)}; }

// Returns the first error, such as "line 3: key "user" already set in map", of YamlToJson()'s
// message about duplicate keys: a heading and an indented line for each.
std::string_view FirstError(std::string_view duplicates) {
  duplicates.remove_prefix(std::min(duplicates.find('\n') + 1, duplicates.size()));
  duplicates = duplicates.substr(0, duplicates.find('\n'));
  return Trimmed(duplicates);
}

// One cluster, user or context of a file.
struct Entry {
  JsonValue value{};
  std::string file{};
  std::string directory{};
};

struct Merged {
  std::map<std::string, Entry, std::less<>> clusters{};
  std::map<std::string, Entry, std::less<>> users{};
  std::map<std::string, Entry, std::less<>> contexts{};
  std::string current_context{};
  std::string files{};  // all of them, for messages
};

// Adds the entries of a file that earlier files do not have. As in kubectl, the first file that
// has a cluster, user, context or current-context wins; entries are not merged.
Status AddFile(std::string_view yaml, const std::string& file, const std::string& directory,
               Merged* merged) {
  std::string duplicates;
  const Result<std::string> json = YamlToJson(yaml, &duplicates);
  if (!json) return Invalid(fmt::format("{}: {}", file, json.error().message()));
  if (!duplicates.empty()) return Invalid(fmt::format("{}: {}", file, FirstError(duplicates)));
  const Result<JsonValue> document = JsonValue::Parse(*json);
  if (!document) return Invalid(fmt::format("{}: {}", file, document.error().message()));
  if (document->is_null()) return {};
  if (!document->is_object()) return Invalid(fmt::format("{}: not a kubeconfig", file));
  const std::string& kind = (*document)["kind"].String();
  const std::string& version = (*document)["apiVersion"].String();
  if ((!kind.empty() && kind != "Config") || (!version.empty() && version != "v1")) {
    return Invalid(fmt::format("{}: kind \"{}\" of \"{}\" is not a kubeconfig (Config v1)", file,
                               kind, version));
  }

  struct Section {
    const char* list;
    const char* member;
    std::map<std::string, Entry, std::less<>>* into;
  };
  for (const Section& section :
       {Section{"clusters", "cluster", &merged->clusters}, Section{"users", "user", &merged->users},
        Section{"contexts", "context", &merged->contexts}}) {
    const JsonValue& list = (*document)[section.list];
    if (!list.is_array() && !list.is_null()) {
      return Invalid(fmt::format("{}: {} must be a list", file, section.list));
    }
    std::set<std::string, std::less<>> names;
    for (const JsonValue& element : list.array()) {
      const JsonValue& name = element["name"];
      if (!name.is_string()) {
        return Invalid(fmt::format("{}: {}: an entry has no name", file, section.list));
      }
      if (!names.insert(name.String()).second) {
        return Invalid(
            fmt::format("{}: {}: duplicate name \"{}\"", file, section.list, name.String()));
      }
      const JsonValue& value = element[section.member];
      if (!value.is_object() && !value.is_null()) {
        return Invalid(fmt::format("{}: {}: \"{}\": {} must be a map", file, section.list,
                                   name.String(), section.member));
      }
      section.into->try_emplace(name.String(), Entry{value, file, directory});
    }
  }
  const JsonValue& current = (*document)["current-context"];
  if (!current.is_string() && !current.is_null()) {
    return Invalid(fmt::format("{}: current-context must be a string", file));
  }
  if (merged->current_context.empty()) merged->current_context = current.String();
  merged->files += (merged->files.empty() ? "" : ":") + file;
  return {};
}

// Reads the members of one entry and keeps the first error. Thread-confined.
class Reader {
 public:
  Reader(const Entry* entry, std::string context, std::string what)
      : entry_(entry), context_(std::move(context)), what_(std::move(what)) {}

  std::string String(const char* key) {
    const JsonValue& value = entry_->value[key];
    if (!value.is_string() && !value.is_null()) Reject(key, "must be a string");
    return value.String();
  }
  bool Bool(const char* key) {
    const JsonValue& value = entry_->value[key];
    if (!value.is_bool() && !value.is_null()) Reject(key, "must be true or false");
    return value.Bool();
  }
  // A path. The file must be readable now, so that a typing error is reported at once.
  std::string File(const char* key) {
    const std::string path = Absolute(String(key), entry_->directory);
    if (!path.empty() && ::access(path.c_str(), R_OK) != 0) {
      Reject(key, fmt::format("cannot read {}: {}", path,
                              std::strerror(errno)));  // NOLINT(concurrency-mt-unsafe)
    }
    return path;
  }
  std::string Data(const char* key) {
    const std::optional<std::string> bytes = Base64Decode(String(key));
    if (!bytes) Reject(key, "must be base64");
    return bytes.value_or("");
  }
  std::vector<std::string> Strings(const JsonValue& list, const std::string& key) {
    std::vector<std::string> out;
    if (!list.is_array() && !list.is_null()) Reject(key, "must be a list of strings");
    for (const JsonValue& element : list.array()) {
      if (!element.is_string()) Reject(key, "must be a list of strings");
      out.push_back(element.String());
    }
    return out;
  }

  const JsonValue& value() const { return entry_->value; }
  const std::string& directory() const { return entry_->directory; }

  void Reject(std::string_view key, std::string_view why) {
    if (!error_.ok()) return;
    error_ = Invalid(
        fmt::format("{}: context \"{}\": {}: {}: {}", entry_->file, context_, what_, key, why));
  }
  const Status& error() const { return error_; }

 private:
  const Entry* const entry_;
  const std::string context_;
  const std::string what_;
  Status error_;
};

Status ReadCluster(const Entry& entry, const std::string& name, const std::string& context,
                   ClientConfig* config) {
  Reader reader(&entry, context, fmt::format("cluster \"{}\"", name));
  config->server = reader.String("server");
  config->ca_data = reader.Data("certificate-authority-data");
  if (config->ca_data.empty()) {
    config->ca_file = reader.File("certificate-authority");
  } else if (!reader.String("certificate-authority").empty()) {
    reader.Reject("certificate-authority",
                  "must not be set together with certificate-authority-data");
  }
  config->tls_server_name = reader.String("tls-server-name");
  config->insecure_skip_tls_verify = reader.Bool("insecure-skip-tls-verify");
  config->proxy_url = reader.String("proxy-url");
  config->disable_compression = reader.Bool("disable-compression");
  if (config->insecure_skip_tls_verify && (!config->ca_data.empty() || !config->ca_file.empty())) {
    reader.Reject("insecure-skip-tls-verify",
                  "must not be set together with a certificate authority");
  }
  if (config->server.empty()) {
    reader.Reject("server", "is missing");
  } else if (config->server.find("://") == std::string::npos) {
    // As in client-go: https if any TLS option is set.
    const bool tls =
        !config->ca_data.empty() || !config->ca_file.empty() || config->insecure_skip_tls_verify;
    config->server.insert(0, tls ? "https://" : "http://");
  }
  if (const auto url = http::ParseUrl(config->server); !url && !config->server.empty()) {
    reader.Reject("server", url.error().message());
  }
  if (!config->proxy_url.empty()) {
    if (const auto url = http::ParseProxyUrl(config->proxy_url); !url) {
      reader.Reject("proxy-url", url.error().message());
    }
  }
  return reader.error();
}

std::string ExecConfigOf(const Entry& cluster) {
  for (const JsonValue& extension : cluster.value["extensions"].array()) {
    if (extension["name"].String() == kExecExtension) return extension["extension"].ToString();
  }
  return "";
}

void ReadExec(Reader* reader, const Entry& cluster, ClientConfig* config) {
  const JsonValue& exec = reader->value()["exec"];
  if (exec.is_null()) return;
  if (!exec.is_object()) return reader->Reject("exec", "must be a map");
  ExecPlugin plugin;
  plugin.api_version = exec["apiVersion"].String();
  plugin.command = exec["command"].String();
  if (plugin.command.empty()) return reader->Reject("exec.command", "is missing");
  // A command without a slash is searched in PATH.
  if (plugin.command.find('/') != std::string::npos) {
    plugin.command = Absolute(plugin.command, reader->directory());
  }
  plugin.args = reader->Strings(exec["args"], "exec.args");
  for (const JsonValue& variable : exec["env"].array()) {
    if (variable["name"].String().empty()) {
      return reader->Reject("exec.env", "an entry has no name");
    }
    plugin.env.emplace_back(variable["name"].String(), variable["value"].String());
  }
  if (plugin.api_version != kExecV1 && plugin.api_version != kExecV1Beta1) {
    return reader->Reject(
        "exec.apiVersion",
        fmt::format("invalid \"{}\": must be {} or {}", plugin.api_version, kExecV1, kExecV1Beta1));
  }
  const std::string& mode = exec["interactiveMode"].String();
  if (mode == "Always") {
    return reader->Reject("exec.interactiveMode",
                          "Always is not supported: the plugin gets no terminal");
  }
  if (mode.empty() && plugin.api_version == kExecV1) {
    return reader->Reject("exec.interactiveMode", "is missing: must be Never or IfAvailable");
  }
  if (!mode.empty() && mode != "Never" && mode != "IfAvailable") {
    return reader->Reject("exec.interactiveMode",
                          fmt::format("invalid \"{}\": must be Never or IfAvailable", mode));
  }
  plugin.install_hint = exec["installHint"].String();
  plugin.provide_cluster_info = exec["provideClusterInfo"].Bool();
  if (plugin.provide_cluster_info) plugin.cluster_config = ExecConfigOf(cluster);
  config->exec = std::move(plugin);
}

Status ReadUser(const Entry& entry, const std::string& name, const std::string& context,
                const Entry& cluster, ClientConfig* config) {
  Reader reader(&entry, context, fmt::format("user \"{}\"", name));
  config->certificate_data = reader.Data("client-certificate-data");
  config->key_data = reader.Data("client-key-data");
  if (config->certificate_data.empty())
    config->certificate_file = reader.File("client-certificate");
  if (config->key_data.empty()) config->key_file = reader.File("client-key");
  const bool certificate = !config->certificate_data.empty() || !config->certificate_file.empty();
  const bool key = !config->key_data.empty() || !config->key_file.empty();
  if (certificate && !key) reader.Reject("client-key", "is missing: client-certificate is set");
  if (key && !certificate) reader.Reject("client-certificate", "is missing: client-key is set");
  config->token = reader.String("token");
  if (config->token.empty()) config->token_file = reader.File("tokenFile");
  config->username = reader.String("username");
  config->password = reader.String("password");
  if (!config->username.empty() && !config->token.empty()) {
    reader.Reject("username", "must not be set together with token");
  }
  if (!reader.value()["auth-provider"].is_null()) {
    reader.Reject("auth-provider",
                  fmt::format("\"{}\" is not supported, as in Kubernetes since 1.26; use exec",
                              reader.value()["auth-provider"]["name"].String()));
  }
  ReadExec(&reader, cluster, config);
  config->impersonate.user = reader.String("as");
  config->impersonate.uid = reader.String("as-uid");
  config->impersonate.groups = reader.Strings(reader.value()["as-groups"], "as-groups");
  for (const auto& [extra, values] : reader.value()["as-user-extra"].object()) {
    config->impersonate.extra[extra] = reader.Strings(values, "as-user-extra." + extra);
  }
  if (config->impersonate.user.empty() &&
      (!config->impersonate.uid.empty() || !config->impersonate.groups.empty() ||
       !config->impersonate.extra.empty())) {
    reader.Reject("as", "is missing: as-uid, as-groups or as-user-extra is set");
  }
  return reader.error();
}

Result<ClientConfig> Choose(const Merged& merged, const KubeconfigOptions& options) {
  const std::string name = options.context.empty() ? merged.current_context : options.context;
  if (name.empty() && (options.cluster.empty() || options.user.empty())) {
    return Invalid(
        fmt::format("{}: current-context is missing, and no context was selected", merged.files));
  }
  ClientConfig config;
  config.source = merged.files;
  config.context = name;
  std::string cluster_name = options.cluster, user_name = options.user;
  if (const auto it = merged.contexts.find(name); it != merged.contexts.end()) {
    Reader reader(&it->second, name, "the context");
    if (cluster_name.empty()) cluster_name = reader.String("cluster");
    if (user_name.empty()) user_name = reader.String("user");
    if (const std::string ns = reader.String("namespace"); !ns.empty()) config.namespace_ = ns;
    if (cluster_name.empty()) reader.Reject("cluster", "is missing");
    if (!reader.error().ok()) return reader.error();
    config.source = it->second.file;
  } else if (!name.empty()) {
    return Invalid(fmt::format("{}: context \"{}\" does not exist", merged.files, name));
  }
  if (!options.namespace_.empty()) config.namespace_ = options.namespace_;

  const auto cluster = merged.clusters.find(cluster_name);
  if (cluster == merged.clusters.end()) {
    return Invalid(fmt::format("{}: context \"{}\": cluster \"{}\" does not exist", merged.files,
                               name, cluster_name));
  }
  if (const Status status = ReadCluster(cluster->second, cluster_name, name, &config);
      !status.ok()) {
    return status;
  }
  // Credentials are not sent over a connection that is not encrypted.
  if (config.server.starts_with("http://")) return config;

  const auto user = merged.users.find(user_name);
  if (user == merged.users.end()) {
    return Invalid(fmt::format("{}: context \"{}\": user \"{}\" does not exist", merged.files, name,
                               user_name));
  }
  if (const Status status = ReadUser(user->second, user_name, name, cluster->second, &config);
      !status.ok()) {
    return status;
  }
  return config;
}

std::string DirectoryOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

Result<ClientConfig> LoadFiles(const std::vector<std::string>& paths, bool must_exist,
                               const KubeconfigOptions& options) {
  Merged merged;
  std::string missing;
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    const Result<std::string> yaml = ReadFile(path);
    if (!yaml) {
      if (!yaml.error().Is(StatusReason::kNotFound) || must_exist) {
        return Invalid(yaml.error().message());
      }
      missing += (missing.empty() ? "" : ", ") + path;
      continue;
    }
    if (const Status status = AddFile(*yaml, path, DirectoryOf(path), &merged); !status.ok()) {
      return status;
    }
  }
  if (merged.files.empty()) {
    return Status(StatusReason::kNotFound,
                  fmt::format("no kubeconfig: {}",
                              missing.empty() ? "no file was given" : missing + " does not exist"));
  }
  return Choose(merged, options);
}

std::vector<std::string> SplitPaths(const std::string& list) {
  std::vector<std::string> paths;
  for (std::size_t start = 0; start <= list.size();) {
    const std::size_t end = std::min(list.find(':', start), list.size());
    if (end > start) paths.push_back(list.substr(start, end - start));
    start = end + 1;
  }
  return paths;
}

std::string HomeConfig() {
  const std::string home = Env("HOME");
  return home.empty() ? "" : home + "/.kube/config";
}

}  // namespace

Result<ClientConfig> ParseKubeconfig(std::string_view yaml, const KubeconfigOptions& options,
                                     std::string_view directory, std::string_view source) {
  Merged merged;
  if (const Status status = AddFile(yaml, std::string(source), std::string(directory), &merged);
      !status.ok()) {
    return status;
  }
  if (merged.files.empty()) return Invalid(fmt::format("{} is empty", source));
  return Choose(merged, options);
}

Result<ClientConfig> LoadKubeconfig(const KubeconfigOptions& options) {
  if (!options.path.empty()) return LoadFiles({options.path}, true, options);
  if (const std::string list = Env("KUBECONFIG"); !list.empty()) {
    return LoadFiles(SplitPaths(list), false, options);
  }
  return LoadFiles({HomeConfig()}, false, options);
}

Result<ClientConfig> InClusterConfig(std::string_view service_account) {
  const std::string host = Env("KUBERNETES_SERVICE_HOST"), port = Env("KUBERNETES_SERVICE_PORT");
  const std::string folder(service_account);
  if (host.empty() || port.empty()) {
    return Status(StatusReason::kNotFound,
                  "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
  }
  ClientConfig config;
  config.source = folder;
  config.server = host.find(':') == std::string::npos ? fmt::format("https://{}:{}", host, port)
                                                      : fmt::format("https://[{}]:{}", host, port);
  config.token_file = folder + "/token";
  const Result<std::string> token = ReadFile(config.token_file);
  if (!token) return Status(StatusReason::kNotFound, token.error().message());
  config.ca_file = folder + "/ca.crt";
  if (::access(config.ca_file.c_str(), R_OK) != 0) config.ca_file.clear();
  if (const std::string ns = Env("POD_NAMESPACE"); !ns.empty()) {
    config.namespace_ = ns;
  } else if (const Result<std::string> file = ReadFile(folder + "/namespace")) {
    const std::string name(Trimmed(*file));
    if (!name.empty()) config.namespace_ = name;
  }
  return config;
}

Result<ClientConfig> LoadConfig(const KubeconfigOptions& options) {
  if (!options.path.empty() || !Env("KUBECONFIG").empty()) return LoadKubeconfig(options);
  Result<ClientConfig> pod = InClusterConfig();
  if (pod || !pod.error().Is(StatusReason::kNotFound)) return pod;
  Result<ClientConfig> home = LoadKubeconfig(options);
  if (home || !home.error().Is(StatusReason::kNotFound)) return home;
  return Status(StatusReason::kNotFound,
                fmt::format("{}; {}", home.error().message(), pod.error().message()));
}

}  // namespace herald
