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
// Ends as files do that no copy of a store takes along.
constexpr std::string_view kBackupName = "backup.tmp";

// Clients that wait to be accepted. Operators are few.
constexpr int kBacklog = 8;

// How long a client waits for its answer. The server writes its memory to disk before it answers,
// and finishes what it does for another client.
constexpr std::chrono::minutes kAnswerPatience{5};

// The longest answer is an error message with a path or two.
constexpr std::size_t kMaxAnswerBytes = 16'384;

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

Status Failed(std::string_view what, const std::filesystem::path& path, int why) {
  return Status(StatusReason::kServiceUnavailable,
                fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(why)));
}

// The address of the socket in a data directory. The path of a unix socket has at most 107 bytes; a
// longer one is written by way of /proc and of the directory, which stays open for as long as
// the address is used.
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

// A line from a socket, without its end. Waits until the deadline at most, or until `stop`, if
// that is a descriptor, can be read.
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
    if (waits[0].revents == 0) return Status(StatusReason::kTimeout, "nothing was sent in time");
    std::array<char, 512> bytes{};
    const ssize_t count = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Status(StatusReason::kServiceUnavailable, std::strerror(errno));
    if (count == 0) return Status(StatusReason::kServiceUnavailable, "the connection was closed");
    line.append(bytes.data(), static_cast<std::size_t>(count));
    const std::size_t end = line.find('\n');
    if (std::min(end, line.size()) > max_bytes) {
      return Status(StatusReason::kRequestEntityTooLarge,
                    fmt::format("a line is longer than {} bytes", max_bytes));
    }
    if (end != std::string::npos) return line.substr(0, end);
  }
}

// What fits the buffer of a socket that has none waiting, so this does not block.
void SendLine(int fd, std::string line) {
  line += '\n';
  (void)::send(fd, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::string FailureLine(const Status& status) {
  std::string line = R"({"status":"Failure","message":)";
  AppendJsonString(status.message(), &line);
  return line + '}';
}

// The string under that name; empty where there is none.
std::string StringMember(const Json& object, std::string_view name) {
  const Json* const member = object.Find(name);
  return member != nullptr && member->type() == Json::Type::kString ? member->AsString() : "";
}

}  // namespace

// Everything that the thread uses. Confined to it, except for `stop_`.
class ControlSocket::Loop {
 public:
  explicit Loop(Options options) : options_(std::move(options)) {}
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Status Open() {
    RemoveBackup();
    stop_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC));
    if (!stop_.open()) return Failed("make an event for", SocketPath(), errno);
    const Result<SocketAddress> address = SocketAddress::In(options_.data_dir);
    if (!address) return address.error();
    FileDescriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener.open()) return Failed("make", SocketPath(), errno);
    // Whoever left it is gone, because the store's lock is ours.
    if (::unlink(SocketPath().c_str()) != 0 && errno != ENOENT) {
      return Failed("remove", SocketPath(), errno);
    }
    // Before bind(), which makes the file with this mode: there is no moment at which others may
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

  // From any thread.
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
      // A client that holds a backup has nothing more to say: it has closed its connection.
      if (backup_.open() && (ready == 0 || waits[2].revents != 0)) EndBackup();
      if (waits[1].revents != 0) {
        FileDescriptor client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (client.open()) Serve(std::move(client));
      }
    }
  }

  void Serve(FileDescriptor client) {
    const Result<std::string> line = ReadLine(client.get(), stop_.get(), kMaxRequestBytes,
                                              SystemClock().Steady() + options_.patience);
    if (!line) return SendLine(client.get(), FailureLine(line.error()));
    const Result<Json> request = ParseJson(*line);
    const std::string operation = request ? StringMember(*request, "operation") : "";
    if (operation == "backup") {
      Backup(std::move(client));
    } else if (operation == "acceptClock") {
      options_.operations.accept_clock();
      SendLine(client.get(), R"({"status":"Success"})");
    } else {
      SendLine(client.get(), FailureLine(Status(StatusReason::kBadRequest,
                                                "the server does not know this operation")));
    }
  }

  void Backup(FileDescriptor client) {
    if (backup_.open()) {
      return SendLine(client.get(),
                      FailureLine(Status(StatusReason::kConflict, "another backup is under way")));
    }
    const Status linked = options_.operations.link_files(BackupPath());
    if (!linked.ok()) {
      RemoveBackup();
      return SendLine(client.get(), FailureLine(linked));
    }
    Say("a backup begins");
    SendLine(client.get(), fmt::format(R"({{"status":"Success","directory":"{}"}})", kBackupName));
    backup_ = std::move(client);
    backup_ends_ = SystemClock().Steady() + kLongestBackup;
  }

  void EndBackup() {
    if (!backup_.open()) return;
    // First the connection: a client who finds it open has read everything while it was there.
    backup_.Reset();
    RemoveBackup();
    Say("a backup has ended");
  }

  void RemoveBackup() const {
    std::error_code ignored;
    std::filesystem::remove_all(BackupPath(), ignored);
    // What a store makes before it has the name, if the process was killed then.
    for (const char* const unfinished : {".tmp", ".partial"}) {
      std::filesystem::remove_all(BackupPath().string() + unfinished, ignored);
    }
  }

  void Say(std::string_view message) const {
    if (options_.log) options_.log({.level = LogLevel::kInfo, .message = message, .fields = {}});
  }

  const Options options_;
  FileDescriptor stop_;
  FileDescriptor listener_;
  FileDescriptor backup_;  // the connection of the client that copies; closed: nobody does
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

// ---- the client ----

namespace {

// A connection to the server of a data directory, with the answer to one request. Thread-confined.
class ControlClient {
 public:
  static Result<ControlClient> Ask(const std::filesystem::path& data_dir,
                                   std::string_view operation) {
    const std::filesystem::path path = data_dir / kSocketName;
    ControlClient client;
    client.socket_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!client.socket_.open()) return Failed("connect to", path, errno);
    const Result<SocketAddress> address = SocketAddress::In(data_dir);
    if (!address) return address.error();
    if (::connect(client.socket_.get(), address->get(), sizeof(sockaddr_un)) != 0) {
      const int why = errno;
      // No socket, or one that nobody listens on any more.
      if (why == ENOENT || why == ECONNREFUSED) {
        return Status(StatusReason::kNotFound,
                      fmt::format("no server runs on the data directory {}", data_dir.string()));
      }
      return Failed("connect to", path, why);
    }
    SendLine(client.socket_.get(), fmt::format(R"({{"operation":"{}"}})", operation));
    Result<std::string> line = ReadLine(client.socket_.get(), -1, kMaxAnswerBytes,
                                        SystemClock().Steady() + kAnswerPatience);
    if (!line) {
      return Status(StatusReason::kServiceUnavailable,
                    fmt::format("the server did not answer: {}", line.error().message()));
    }
    const Result<Json> answer = ParseJson(*line);
    if (!answer || StringMember(*answer, "status") != "Success") {
      const std::string message = answer ? StringMember(*answer, "message") : "";
      return Status(StatusReason::kServiceUnavailable,
                    fmt::format("the server refuses: {}", message.empty() ? *line : message));
    }
    client.directory_ = StringMember(*answer, "directory");
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
  const Result<ControlClient> server = ControlClient::Ask(data_dir, "backup");
  if (!server) return server.error();
  Status copied = store::CopyStore(data_dir / server->directory(), target,
                                   [&server] { return server->connected(); });
  if (copied.ok() || server->connected()) return copied;
  return Status(StatusReason::kServiceUnavailable,
                "the server stopped before the backup was complete; try again");
}

Status AcceptClockOfRunningServer(const std::filesystem::path& data_dir) {
  const Result<ControlClient> server = ControlClient::Ask(data_dir, "acceptClock");
  return server ? Status() : server.error();
}

}  // namespace herald::server
