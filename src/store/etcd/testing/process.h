#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes/trimmed.h"
#include "base/check.h"
#include "base/testing/free_port.h"
#include "base/testing/temporary_directory.h"

namespace herald::store {

// The path of the etcd binary: $HERALD_ETCD, or the one that tools/fetch-etcd finds.
inline const std::string& EtcdBinary() {
  static const std::string binary = [] {
    if (const char* given = std::getenv("HERALD_ETCD")) return std::string(given);
    FILE* pipe = ::popen(HERALD_TESTDATA_DIR "/../../tools/fetch-etcd", "re");
    HERALD_CHECK(pipe != nullptr);
    std::string output(4096, '\0');
    output.resize(std::fread(output.data(), 1, output.size(), pipe));
    HERALD_CHECK(::pclose(pipe) == 0, "there is no etcd to test with; set HERALD_ETCD");
    return std::string(Trimmed(output));
  }();
  return binary;
}

struct EtcdOptions {
  int members = 1;
  std::vector<std::string> flags{};  // additional ones, for each member
  // PEM files for TLS between clients and members. With `client_ca_file`, clients need a
  // certificate of that authority.
  std::string cert_file{};
  std::string key_file{};
  std::string client_ca_file{};
};

// A cluster of real etcd processes on free ports of 127.0.0.1, with data in a temporary directory.
// The processes end with this object, or with the thread that started them.
//
// Thread-confined.
class EtcdCluster {
 public:
  // Returns when all members are ready.
  explicit EtcdCluster(EtcdOptions options = {}) : options_(std::move(options)) {
    members_.resize(static_cast<std::size_t>(options_.members));
    for (Member& member : members_) member = {FreePort(), FreePort()};
    for (std::size_t i = 0; i < members_.size(); ++i) Launch(i);
    for (std::size_t i = 0; i < members_.size(); ++i) AwaitReady(i);
  }
  ~EtcdCluster() {
    for (std::size_t i = 0; i < members_.size(); ++i) Kill(i);
  }
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  std::size_t size() const { return members_.size(); }
  std::string endpoint(std::size_t i) const {
    return fmt::format("{}://127.0.0.1:{}", options_.cert_file.empty() ? "http" : "https",
                       members_[i].client_port);
  }
  std::vector<std::string> endpoints() const {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < members_.size(); ++i) all.push_back(endpoint(i));
    return all;
  }

  // SIGKILL, like a power failure. Does nothing if the member is not running.
  void Kill(std::size_t i) {
    Member& member = members_[i];
    if (member.pid == 0) return;
    ::kill(member.pid, SIGKILL);
    HERALD_CHECK(::waitpid(member.pid, nullptr, 0) == member.pid);
    member.pid = 0;
  }
  void Pause(std::size_t i) { Signal(i, SIGSTOP); }
  void Resume(std::size_t i) { Signal(i, SIGCONT); }

  // Starts a member on its old data and ports. It becomes ready if there is a majority. `flags` are
  // added to those of all members.
  void Launch(std::size_t i, std::vector<std::string> flags = {}) {
    Member& member = members_[i];
    HERALD_CHECK(member.pid == 0, "it runs already");
    const std::filesystem::path home = directory_.path() / fmt::format("m{}", i);
    std::filesystem::create_directories(home);
    const std::string notify = (home / "ready").string();
    std::filesystem::remove(notify);
    member.ready = std::make_unique<Socket>(notify);

    std::vector<std::string> arguments = Arguments(i, home);
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::string socket = "NOTIFY_SOCKET=" + notify;
    std::string path = "PATH=/usr/bin:/bin";
    // Without it, Debian's 3.4 refuses to run on ARM.
    std::string arch = "ETCD_UNSUPPORTED_ARCH=arm64";
    char* const environment[] = {socket.data(), path.data(), arch.data(), nullptr};
    const std::string log = (home / "log").string();

    const pid_t parent = ::getpid();
    member.pid = ::fork();
    HERALD_CHECK(member.pid >= 0);
    if (member.pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(fd, 1);
      ::dup2(fd, 2);
      ::execve(argv[0], argv.data(), environment);
      ::_exit(127);
    }
  }

  // Waits until the member has joined the cluster and serves clients. etcd reports that with
  // systemd's notification protocol.
  void AwaitReady(std::size_t i) {
    pollfd ready{members_[i].ready->fd, POLLIN, 0};
    HERALD_CHECK(::poll(&ready, 1, kReadyMs) == 1, "etcd does not become ready: " + Log(i));
    char ignored[64];
    HERALD_CHECK(::recv(ready.fd, ignored, sizeof(ignored), 0) > 0);
  }

  void Restart(std::size_t i) {
    Launch(i);
    AwaitReady(i);
  }

  // The end of the member's log.
  std::string Log(std::size_t i) const {
    const std::string path = (directory_.path() / fmt::format("m{}", i) / "log").string();
    FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) return {};
    std::fseek(file, -kLogBytes, SEEK_END);
    std::string log(kLogBytes, '\0');
    log.resize(std::fread(log.data(), 1, log.size(), file));
    std::fclose(file);
    return log;
  }

  // Sends a request to etcd's JSON gateway, for calls that our client lacks; returns the body. Only
  // without TLS.
  std::string Post(std::size_t i, std::string_view path, std::string_view json,
                   std::string_view token = {}) const {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(members_[i].client_port);
    HERALD_CHECK(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    const std::string request = fmt::format(
        "POST {} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {}\r\n{}\r\n{}",
        path, json.size(), token.empty() ? "" : fmt::format("Authorization: {}\r\n", token), json);
    HERALD_CHECK(::send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
                 static_cast<ssize_t>(request.size()));
    std::string answer;
    char part[4096];
    for (ssize_t n = 0; (n = ::recv(fd, part, sizeof(part), 0)) > 0;) {
      answer.append(part, static_cast<std::size_t>(n));
    }
    ::close(fd);
    HERALD_CHECK(answer.starts_with("HTTP/1.1 200"), answer);
    const std::size_t body = answer.find("\r\n\r\n");
    return answer.substr(body + 4);
  }

  // Creates the user root with this password, and enables authentication.
  void EnableAuthentication(const std::string& password) {
    Post(0, "/v3/auth/user/add", fmt::format(R"({{"name":"root","password":"{}"}})", password));
    Post(0, "/v3/auth/role/add", R"({"name":"root"})");
    Post(0, "/v3/auth/user/grant", R"({"user":"root","role":"root"})");
    Post(0, "/v3/auth/enable", "{}");
  }

 private:
  static constexpr int kReadyMs = 60'000;  // long, because the machine may be busy
  static constexpr long kLogBytes = 2'000;

  // The socket for systemd's notification protocol.
  struct Socket {
    explicit Socket(const std::string& path) : fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      HERALD_CHECK(path.size() < sizeof(address.sun_path));
      std::memcpy(address.sun_path, path.data(), path.size());
      HERALD_CHECK(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    }
    ~Socket() { ::close(fd); }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    const int fd;
  };

  struct Member {
    std::uint16_t client_port = 0;
    std::uint16_t peer_port = 0;
    pid_t pid = 0;  // 0: not running
    std::unique_ptr<Socket> ready{};
  };

  std::vector<std::string> Arguments(std::size_t i, const std::filesystem::path& home) const {
    std::string cluster;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      cluster +=
          fmt::format("{}m{}=http://127.0.0.1:{}", m > 0 ? "," : "", m, members_[m].peer_port);
    }
    const std::string peer = fmt::format("http://127.0.0.1:{}", members_[i].peer_port);
    std::vector<std::string> arguments{EtcdBinary(), "--name", fmt::format("m{}", i), "--data-dir",
                                       (home / "data").string(), "--listen-client-urls",
                                       endpoint(i), "--advertise-client-urls", endpoint(i),
                                       "--listen-peer-urls", peer, "--initial-advertise-peer-urls",
                                       peer, "--initial-cluster", cluster, "--logger=zap",
                                       // Power failures are not tested, and the disks of test
                                       // machines are slow.
                                       "--unsafe-no-fsync"};
    if (!options_.cert_file.empty()) {
      arguments.push_back("--cert-file=" + options_.cert_file);
      arguments.push_back("--key-file=" + options_.key_file);
    }
    if (!options_.client_ca_file.empty()) {
      arguments.push_back("--client-cert-auth");
      arguments.push_back("--trusted-ca-file=" + options_.client_ca_file);
    }
    arguments.insert(arguments.end(), options_.flags.begin(), options_.flags.end());
    return arguments;
  }

  void Signal(std::size_t i, int signal) {
    HERALD_CHECK(members_[i].pid != 0);
    HERALD_CHECK(::kill(members_[i].pid, signal) == 0);
  }

  const EtcdOptions options_;
  const TemporaryDirectory directory_;
  std::vector<Member> members_;
};

}  // namespace herald::store
