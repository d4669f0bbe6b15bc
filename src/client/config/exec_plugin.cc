#include "client/config/exec_plugin.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill() is POSIX
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <utility>
#include <vector>

#include "base/bytes/base64.h"
#include "base/bytes/trimmed.h"
#include "base/file.h"
#include "herald/client/json_value.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX has it in no header

namespace herald {
namespace {

constexpr std::string_view kInfoVariable = "KUBERNETES_EXEC_INFO";
// How much of a plugin's standard error is put into an error message.
constexpr std::size_t kMaxErrorBytes = 2048;
// Interval of checks whether a plugin that has closed its output has ended.
constexpr int kReapMs = 10;

// Owns a file descriptor. Thread-confined.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { Close(); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read;
  Fd write;
};

bool OpenPipe(Pipe* pipe) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  pipe->read = Fd(ends[0]);
  pipe->write = Fd(ends[1]);
  return true;
}

Status Failed(const ExecPlugin& plugin, std::string_view why) {
  return {StatusReason::kUnauthorized, fmt::format("exec plugin {}: {}", plugin.command, why)};
}

std::string ErrorText(int error) { return std::generic_category().message(error); }

// The value of KUBERNETES_EXEC_INFO, the input of the plugin.
std::string ExecInfo(const ClientConfig& config, const ExecPlugin& plugin) {
  JsonValue info;
  info.Member("apiVersion") = plugin.api_version;
  info.Member("kind") = "ExecCredential";
  JsonValue& spec = info.Member("spec");
  spec.Member("interactive") = false;
  if (plugin.provide_cluster_info) {
    JsonValue& cluster = spec.Member("cluster");
    cluster.Member("server") = config.server;
    if (!config.tls_server_name.empty()) cluster.Member("tls-server-name") = config.tls_server_name;
    if (config.insecure_skip_tls_verify) cluster.Member("insecure-skip-tls-verify") = true;
    std::string ca = config.ca_data;
    if (ca.empty() && !config.ca_file.empty()) ca = ReadFile(config.ca_file).value_or("");
    if (!ca.empty()) cluster.Member("certificate-authority-data") = Base64Encode(ca);
    if (!config.proxy_url.empty()) cluster.Member("proxy-url") = config.proxy_url;
    if (config.disable_compression) cluster.Member("disable-compression") = true;
    if (const auto extension = JsonValue::Parse(plugin.cluster_config)) {
      cluster.Member("config") = *extension;
    } else {
      cluster.Member("config") = JsonValue();
    }
  }
  return info.ToString();
}

std::vector<std::string> Environment(const ExecPlugin& plugin, std::string info) {
  std::vector<std::string> out;
  const auto replaced = [&](std::string_view variable) {
    const std::string_view name = variable.substr(0, variable.find('='));
    return name == kInfoVariable ||
           std::any_of(plugin.env.begin(), plugin.env.end(),
                       [name](const auto& pair) { return pair.first == name; });
  };
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!replaced(*variable)) out.emplace_back(*variable);
  }
  for (const auto& [name, value] : plugin.env) out.push_back(fmt::format("{}={}", name, value));
  out.push_back(fmt::format("{}={}", kInfoVariable, info));
  return out;
}

std::vector<char*> Pointers(std::vector<std::string>* strings) {
  std::vector<char*> out;
  for (std::string& string : *strings) out.push_back(string.data());
  out.push_back(nullptr);
  return out;
}

// Starts the plugin in its own process group, so that it can be killed together with its child
// processes. Returns an errno.
int Spawn(const ExecPlugin& plugin, std::string info, const Pipe& output, const Pipe& errors,
          pid_t* pid) {
  std::vector<std::string> arguments = {plugin.command};
  arguments.insert(arguments.end(), plugin.args.begin(), plugin.args.end());
  std::vector<std::string> environment = Environment(plugin, std::move(info));
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, errors.write.get(), STDERR_FILENO);
  // The program may have blocked signals on this thread. The plugin must not inherit that.
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  const int error = ::posix_spawnp(pid, plugin.command.c_str(), &files, &attributes,
                                   Pointers(&arguments).data(), Pointers(&environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

// Reads available bytes, and closes the descriptor at the end of the stream. Returns false if the
// string would exceed `max` bytes.
bool Drain(Fd* from, std::size_t max, std::string* into) {
  std::array<char, 4096> buffer;
  const ssize_t n = ::read(from->get(), buffer.data(), buffer.size());
  if (n > 0) {
    if (into->size() + static_cast<std::size_t>(n) > max) return false;
    into->append(buffer.data(), static_cast<std::size_t>(n));
  } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
    from->Close();
  }
  return true;
}

}  // namespace

Result<ExecCredential> ParseExecCredential(std::string_view output, std::string_view api_version) {
  const auto failed = [](std::string message) {
    return Status(StatusReason::kUnauthorized, std::move(message));
  };
  const Result<JsonValue> answer = JsonValue::Parse(output);
  if (!answer)
    return failed(fmt::format("its output is not valid JSON: {}", answer.error().message()));
  if ((*answer)["kind"].String() != "ExecCredential") {
    return failed("its output is not an ExecCredential");
  }
  if ((*answer)["apiVersion"].String() != api_version) {
    return failed(fmt::format("it is configured for {}, but its output has apiVersion \"{}\"",
                              api_version, (*answer)["apiVersion"].String()));
  }
  const JsonValue& status = (*answer)["status"];
  if (!status.is_object()) return failed("its output has no status");
  ExecCredential credential;
  credential.token = status["token"].String();
  credential.certificate = status["clientCertificateData"].String();
  credential.key = status["clientKeyData"].String();
  if (credential.certificate.empty() != credential.key.empty()) {
    return failed("it returned only a certificate or a key, not both");
  }
  if (credential.token.empty() && credential.certificate.empty()) {
    return failed("it returned neither a token nor a certificate");
  }
  if (const JsonValue& expires = status["expirationTimestamp"]; !expires.is_null()) {
    const Result<Time> time = Time::Parse(expires.String());
    if (!time)
      return failed("its output has an invalid expirationTimestamp: " + time.error().message());
    credential.expires = *time;
  }
  return credential;
}

Result<ExecCredential> RunExecPlugin(const ClientConfig& config, const std::stop_token& stop) {
  const ExecPlugin& plugin = *config.exec;  // NOLINT(bugprone-unchecked-optional-access): REQUIRED
  const auto deadline = std::chrono::steady_clock::now() + plugin.timeout;
  const auto left_ms = [deadline] {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
  };
  Pipe output, errors;
  const Fd cancelled(::eventfd(0, EFD_CLOEXEC));
  if (!OpenPipe(&output) || !OpenPipe(&errors) || cancelled.get() < 0) {
    return Failed(plugin, ErrorText(errno));
  }
  pid_t pid = 0;
  if (const int error = Spawn(plugin, ExecInfo(config, plugin), output, errors, &pid); error != 0) {
    std::string why = ErrorText(error);
    if (error == ENOENT && !plugin.install_hint.empty()) why += "\n" + plugin.install_hint;
    return Failed(plugin, why);
  }
  output.write.Close();
  errors.write.Close();

  std::string text, complaints;
  std::string_view failure;
  {
    const std::stop_callback on_stop(stop, [&cancelled] {
      const std::uint64_t one = 1;
      (void)!::write(cancelled.get(), &one, sizeof(one));
    });
    while (output.read.get() >= 0 && failure.empty()) {
      std::array<pollfd, 3> fds = {{{output.read.get(), POLLIN, 0},
                                    {errors.read.get(), POLLIN, 0},
                                    {cancelled.get(), POLLIN, 0}}};
      const int ready = ::poll(fds.data(), fds.size(), left_ms());
      if (ready == 0) failure = "timed out";
      if (ready <= 0) continue;
      if (fds[2].revents != 0) {
        failure = "was cancelled";
      } else {
        if (fds[0].revents != 0 && !Drain(&output.read, kMaxExecOutputBytes, &text)) {
          failure = "printed more than 1 MiB";
        }
        // Standard error is read to its end, but only the beginning is kept.
        if (fds[1].revents != 0 && !Drain(&errors.read, kMaxErrorBytes, &complaints)) {
          complaints.resize(std::min(complaints.size(), kMaxErrorBytes / 2));
        }
      }
    }
  }
  int exit_status = 0;
  pid_t ended = 0;
  while (failure.empty() && (ended = ::waitpid(pid, &exit_status, WNOHANG)) == 0) {
    if (stop.stop_requested()) failure = "was cancelled";
    if (left_ms() == 0) failure = "timed out";
    // It has closed its output but still runs. Standard error is read, so that the plugin does not
    // block on a full pipe.
    pollfd fd = {errors.read.get(), POLLIN, 0};
    if (::poll(&fd, 1, kReapMs) > 0) Drain(&errors.read, kMaxErrorBytes, &complaints);
  }
  if (!failure.empty()) {
    ::kill(-pid, SIGKILL);
    while (::waitpid(pid, &exit_status, 0) < 0 && errno == EINTR) {
    }
    return Failed(plugin, failure);
  }
  while (errors.read.get() >= 0) {
    pollfd fd = {errors.read.get(), POLLIN, 0};
    // A child process of the plugin may keep the pipe open, so this does not wait.
    if (::poll(&fd, 1, 0) <= 0 || !Drain(&errors.read, kMaxErrorBytes, &complaints)) break;
  }
  // If the program ignores SIGCHLD, the exit status is unknown.
  const bool known = ended == pid;
  if (known && (!WIFEXITED(exit_status) || WEXITSTATUS(exit_status) != 0)) {
    const std::string how = WIFEXITED(exit_status)
                                ? fmt::format("failed with exit code {}", WEXITSTATUS(exit_status))
                                : fmt::format("was killed by signal {}", WTERMSIG(exit_status));
    const std::string_view said = Trimmed(complaints);
    return Failed(plugin, said.empty() ? how : fmt::format("{}: {}", how, said));
  }
  Result<ExecCredential> credential = ParseExecCredential(text, plugin.api_version);
  if (!credential) return Failed(plugin, credential.error().message());
  return credential;
}

}  // namespace herald
