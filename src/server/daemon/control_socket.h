#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "herald/base/log.h"
#include "herald/base/status.h"

namespace herald::server {

// The operations that a ControlSocket offers. Called on its thread, one at a time. They may block.
struct ControlOperations {
  // Creates the directory `target` with hard links to the files of the store. The links are a
  // consistent snapshot and do not change.
  std::function<Status(const std::filesystem::path& target)> link_files{};
  std::function<void()> accept_clock{};
};

// A ControlSocket is a unix socket in the data directory of a running server. `heraldd backup` and
// `heraldd clock accept` connect to it. File permissions are the only authentication: only the
// owner of the socket and root may connect.
//
// A client sends one line and receives one line:
//
//   {"operation":"backup"}        {"status":"Success","directory":"backup.tmp"}
//   {"operation":"acceptClock"}   {"status":"Success"}
//   anything else                 {"status":"Failure","message":"..."}
//
// The directory of a backup is inside the data directory and exists until the client closes the
// connection. The client copies it, because under systemd the server may not write anywhere else.
// There is at most one such directory. Other operations are served meanwhile.
//
// Limits: a request has at most kMaxRequestBytes and must arrive within Options::request_timeout; a
// backup must be copied within kMaxBackupTime.
//
// Thread-safe. Has one thread.
class ControlSocket {
 public:
  // Far more than the longest valid request.
  static constexpr std::size_t kMaxRequestBytes = 1'024;
  // A client that hangs must not keep old files of the store on the disk for ever.
  static constexpr std::chrono::hours kMaxBackupTime{6};

  struct Options {
    // REQUIRES: this process holds the lock of the store in this directory
    std::filesystem::path data_dir{};
    ControlOperations operations{};
    // How long a client may take to send its request. Other clients wait meanwhile.
    std::chrono::milliseconds request_timeout{5'000};
    LogFunction log{};
  };

  // Replaces the socket and removes the backup directory of a process that was killed.
  static Result<std::unique_ptr<ControlSocket>> Listen(Options options);
  // Calls Stop().
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  // Closes all connections and removes the socket. Waits for an operation in progress. Idempotent,
  // but must not be called by two threads at the same time.
  void Stop();

 private:
  class Loop;
  explicit ControlSocket(std::unique_ptr<Loop> loop);

  const std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

// Copies the store of the server that runs on a data directory to `target`, which must be empty or
// not exist. The copy contains every write that the server acknowledged before the call. Fails with
// kNotFound if no server runs on the directory.
Status BackUpRunningServer(const std::filesystem::path& data_dir,
                           const std::filesystem::path& target);

// Confirms that the wall clock of the server that runs on a data directory is right; see
// store::ClockGuard. Fails with kNotFound if no server runs on the directory.
Status AcceptClockOfRunningServer(const std::filesystem::path& data_dir);

}  // namespace herald::server
