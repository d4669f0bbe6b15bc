#include "server/daemon/control_socket.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "api/json/document.h"
#include "api/json/writer.h"
#include "base/thread/thread_name.h"
#include "herald/base/clock.h"
#include "store/rocks/admin.h"

namespace herald::server {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kSocketName = "control.sock";
// Copies of a store skip files with this suffix.
constexpr std::string_view kBackupName = "backup.tmp";

// Number of clients that may wait to be accepted. Few operators connect at the same time.
constexpr int kBacklog = 8;

// How long a client waits for the response. Before it responds, the server finishes the request of
// another client and flushes its memtables to disk.
constexpr std::chrono::minutes kResponseTimeout{5};

// The longest response is an error message with one or two paths.
constexpr std::size_t kMaxResponseBytes = 16'384;

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { Reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void Reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

Status Failed(std::string_view action, const std::filesystem::path& path, int error) {
  return Status(StatusReason::kServiceUnavailable,
                fmt::format("cannot {} {}: {}", action, path.string(), std::strerror(error)));
}

// The address of the socket in a data directory. The path of a unix socket has at most 107 bytes.
// For a longer path the address is /proc/self/fd/<directory>/control.sock, and the directory stays
// open as long as the address is used.
struct SocketAddress {
  FileDescriptor directory;
  sockaddr_un address{};

  static Result<SocketAddress> In(const std::filesystem::path& data_dir) {
    SocketAddress socket;
    socket.address.sun_family = AF_UNIX;
    std::string path = (data_dir / kSocketName).string();
    if (path.size() >= sizeof(socket.address.sun_path)) {
      socket.directory = FileDescriptor(::open(data_dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (!socket.directory.open()) return Failed("open", data_dir, errno);
      path = fmt::format("/proc/self/fd/{}/{}", socket.directory.get(), kSocketName);
    }
    std::memcpy(socket.address.sun_path, path.c_str(), path.size() + 1);
    return socket;
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// Reads a line from a socket and returns it without the newline. Fails at the deadline, and when
// `stop` becomes readable; -1 is ignored.
Result<std::string> ReadLine(int fd, int stop, std::size_t max_bytes, SteadyTime deadline) {
  std::string line;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - SystemClock().Steady());
    std::array<pollfd, 2> waits{pollfd{fd, POLLIN, 0}, pollfd{stop, POLLIN, 0}};
    const int ready = ::poll(waits.data(), waits.size(),
                             static_cast<int>(std::max(left, milliseconds(0)).count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return Status(StatusReason::kServiceUnavailable, std::strerror(errno));
    if (waits[1].revents != 0) return Status(StatusReason::kCancelled, "the server is stopping");
    if (waits[0].revents == 0)
      return Status(StatusReason::kTimeout, "timed out waiting for a line");
    std::array<char, 512> bytes{};
    const ssize_t count = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Status(StatusReason::kServiceUnavailable, std::strerror(errno));
    if (count == 0) return Status(StatusReason::kServiceUnavailable, "the connection was closed");
    line.append(bytes.data(), static_cast<std::size_t>(count));
    const std::size_t end = line.find('\n');
    if (std::min(end, line.size()) > max_bytes) {
      return Status(StatusReason::kRequestEntityTooLarge,
                    fmt::format("the line is longer than {} bytes", max_bytes));
    }
    if (end != std::string::npos) return line.substr(0, end);
  }
}

// Does not block: the line fits into the empty send buffer of the socket.
void SendLine(int fd, std::string line) {
  line += '\n';
  (void)::send(fd, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::string FailureLine(const Status& status) {
  std::string line = R"({"status":"Failure","message":)";
  AppendJsonString(status.message(), &line);
  return line + '}';
}

// The string member of that name; empty if there is none.
std::string StringMember(const Json& object, std::string_view name) {
  const Json* const member = object.Find(name);
  return member != nullptr && member->type() == Json::Type::kString ? member->AsString() : "";
}

}  // namespace

// The state of the thread. Confined to it, except for Stop().
class ControlSocket::Loop {
 public:
  explicit Loop(Options options) : options_(std::move(options)) {}
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Status Open() {
    RemoveBackup();
    stop_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC));
    if (!stop_.open()) return Failed("create an eventfd for", SocketPath(), errno);
    const Result<SocketAddress> address = SocketAddress::In(options_.data_dir);
    if (!address) return address.error();
    FileDescriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener.open()) return Failed("create", SocketPath(), errno);
    // A socket that exists is stale: this process holds the lock of the store.
    if (::unlink(SocketPath().c_str()) != 0 && errno != ENOENT) {
      return Failed("remove", SocketPath(), errno);
    }
    // Set before bind(), which creates the file with this mode, so that other users can never
    // connect.
    if (::fchmod(listener.get(), S_IRUSR | S_IWUSR) != 0 ||
        ::bind(listener.get(), address->get(), sizeof(sockaddr_un)) != 0 ||
        ::listen(listener.get(), kBacklog) != 0) {
      return Failed("listen on", SocketPath(), errno);
    }
    listener_ = std::move(listener);
    return {};
  }

  void Run() {
    ServeUntilStopped();
    EndBackup();
    ::unlink(SocketPath().c_str());
    listener_.Reset();
  }

  // Thread-safe.
  void Stop() {
    const std::uint64_t one = 1;
    (void)::write(stop_.get(), &one, sizeof(one));
  }

 private:
  std::filesystem::path SocketPath() const { return options_.data_dir / kSocketName; }
  std::filesystem::path BackupPath() const { return options_.data_dir / kBackupName; }

  void ServeUntilStopped() {
    for (;;) {
      std::array<pollfd, 3> waits{pollfd{stop_.get(), POLLIN, 0},
                                  pollfd{listener_.get(), POLLIN, 0},
                                  pollfd{backup_.get(), POLLIN, 0}};
      int timeout = -1;
      if (backup_.open()) {
        const auto left = std::chrono::ceil<milliseconds>(backup_ends_ - SystemClock().Steady());
        timeout = static_cast<int>(std::max(left, milliseconds(0)).count());
      }
      const int ready = ::poll(waits.data(), waits.size(), timeout);
      if (ready < 0 && errno == EINTR) continue;
      if (ready < 0 || waits[0].revents != 0) return;
      // A client with a backup sends nothing more, so a readable connection has been closed.
      if (backup_.open() && (ready == 0 || waits[2].revents != 0)) EndBackup();
      if (waits[1].revents != 0) {
        FileDescriptor client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (client.open()) Serve(std::move(client));
      }
    }
  }

  void Serve(FileDescriptor client) {
    const Result<std::string> line = ReadLine(client.get(), stop_.get(), kMaxRequestBytes,
                                              SystemClock().Steady() + options_.request_timeout);
    if (!line) return SendLine(client.get(), FailureLine(line.error()));
    const Result<Json> request = ParseJson(*line);
    const std::string operation = request ? StringMember(*request, "operation") : "";
    if (operation == "backup") {
      Backup(std::move(client));
    } else if (operation == "acceptClock") {
      options_.operations.accept_clock();
      SendLine(client.get(), R"({"status":"Success"})");
    } else {
      SendLine(client.get(), FailureLine(Status(StatusReason::kBadRequest, "unknown operation")));
    }
  }

  void Backup(FileDescriptor client) {
    if (backup_.open()) {
      return SendLine(client.get(), FailureLine(Status(StatusReason::kConflict,
                                                       "another backup is in progress")));
    }
    const Status linked = options_.operations.link_files(BackupPath());
    if (!linked.ok()) {
      RemoveBackup();
      return SendLine(client.get(), FailureLine(linked));
    }
    LogInfo("backup started");
    SendLine(client.get(), fmt::format(R"({{"status":"Success","directory":"{}"}})", kBackupName));
    backup_ = std::move(client);
    backup_ends_ = SystemClock().Steady() + kMaxBackupTime;
  }

  void EndBackup() {
    if (!backup_.open()) return;
    // The connection is closed first: a client whose connection is still open after it has read
    // all files knows that none was removed before.
    backup_.Reset();
    RemoveBackup();
    LogInfo("backup finished");
  }

  void RemoveBackup() const {
    std::error_code ignored;
    std::filesystem::remove_all(BackupPath(), ignored);
    // Temporary names that the store uses until the backup is complete.
    for (const char* const unfinished : {".tmp", ".partial"}) {
      std::filesystem::remove_all(BackupPath().string() + unfinished, ignored);
    }
  }

  void LogInfo(std::string_view message) const {
    if (options_.log) options_.log({.level = LogLevel::kInfo, .message = message, .fields = {}});
  }

  const Options options_;
  FileDescriptor stop_;
  FileDescriptor listener_;
  FileDescriptor backup_;  // the connection of the client that copies a backup, if there is one
  SteadyTime backup_ends_{};
};

Result<std::unique_ptr<ControlSocket>> ControlSocket::Listen(Options options) {
  auto loop = std::make_unique<Loop>(std::move(options));
  if (Status status = loop->Open(); !status.ok()) return status;
  return std::unique_ptr<ControlSocket>(new ControlSocket(std::move(loop)));
}

ControlSocket::ControlSocket(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {
  thread_ = std::thread([this] {
    NameThisThread("herald-control");
    loop_->Run();
  });
}

ControlSocket::~ControlSocket() { Stop(); }

void ControlSocket::Stop() {
  if (!thread_.joinable()) return;
  loop_->Stop();
  thread_.join();
}

// ---- client ----

namespace {

// A connection to the server of a data directory, and the response to one request.
// Thread-confined.
class ControlClient {
 public:
  static Result<ControlClient> Send(const std::filesystem::path& data_dir,
                                    std::string_view operation) {
    const std::filesystem::path path = data_dir / kSocketName;
    ControlClient client;
    client.socket_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!client.socket_.open()) return Failed("connect to", path, errno);
    const Result<SocketAddress> address = SocketAddress::In(data_dir);
    if (!address) return address.error();
    if (::connect(client.socket_.get(), address->get(), sizeof(sockaddr_un)) != 0) {
      const int error = errno;
      // There is no socket, or the process that created it has exited.
      if (error == ENOENT || error == ECONNREFUSED) {
        return Status(
            StatusReason::kNotFound,
            fmt::format("no server is running on the data directory {}", data_dir.string()));
      }
      return Failed("connect to", path, error);
    }
    SendLine(client.socket_.get(), fmt::format(R"({{"operation":"{}"}})", operation));
    Result<std::string> line = ReadLine(client.socket_.get(), -1, kMaxResponseBytes,
                                        SystemClock().Steady() + kResponseTimeout);
    if (!line) {
      return Status(StatusReason::kServiceUnavailable,
                    fmt::format("no response from the server: {}", line.error().message()));
    }
    const Result<Json> response = ParseJson(*line);
    if (!response || StringMember(*response, "status") != "Success") {
      const std::string message = response ? StringMember(*response, "message") : "";
      return Status(
          StatusReason::kServiceUnavailable,
          fmt::format("the server reported an error: {}", message.empty() ? *line : message));
    }
    client.directory_ = StringMember(*response, "directory");
    return client;
  }

  const std::string& directory() const { return directory_; }

  // Whether the server still keeps the connection open.
  bool connected() const {
    char byte = 0;
    return ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
  }

 private:
  FileDescriptor socket_;
  std::string directory_;
};

}  // namespace

Status BackUpRunningServer(const std::filesystem::path& data_dir,
                           const std::filesystem::path& target) {
  const Result<ControlClient> server = ControlClient::Send(data_dir, "backup");
  if (!server) return server.error();
  Status copied = store::CopyStore(data_dir / server->directory(), target,
                                   [&server] { return server->connected(); });
  if (copied.ok() || server->connected()) return copied;
  return Status(StatusReason::kServiceUnavailable,
                "the server stopped before the backup was complete; try again");
}

Status AcceptClockOfRunningServer(const std::filesystem::path& data_dir) {
  const Result<ControlClient> server = ControlClient::Send(data_dir, "acceptClock");
  return server ? Status() : server.error();
}

}  // namespace herald::server
