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

// What the operator of a running server can ask it to do. Called on the thread of the
// ControlSocket, one at a time; they may block.
struct ControlOperations {
  // Makes a directory with files of the store, as they are at this moment, that do not change.
  std::function<Status(const std::filesystem::path& target)> link_files{};
  std::function<void()> accept_clock{};
};

// A ControlSocket is how `heraldd backup` and `heraldd clock accept` reach a server that runs: a
// unix socket in its data directory. Who may write to that file is the operator; only its owner
// and root may, and there is no other authentication.
//
// A client sends one line and gets one line:
//
//   {"operation":"backup"}        {"status":"Success","directory":"backup.tmp"}
//   {"operation":"acceptClock"}   {"status":"Success"}
//   anything else                 {"status":"Failure","message":"..."}
//
// The directory of a backup is within the data directory. It is there until the client closes the
// connection: the client copies it, to where it may write, which under systemd the server may not.
// There is one such directory at a time; everything else goes on meanwhile.
//
// Bounds: a request has at most kMaxRequestBytes and must arrive within Options::patience; a
// backup must be copied within kLongestBackup.
//
// Thread-safe. Has one thread.
class ControlSocket {
 public:
  // The longest request is far shorter.
  static constexpr std::size_t kMaxRequestBytes = 1'024;
  // A client that stops half way must not keep files of the store for ever.
  static constexpr std::chrono::hours kLongestBackup{6};

  struct Options {
    // REQUIRES: this process holds the lock of the store in it
    std::filesystem::path data_dir{};
    ControlOperations operations{};
    // How long a client may take to send its request, and others wait meanwhile.
    std::chrono::milliseconds patience{5'000};
    LogFunction log{};
  };

  // Replaces what an earlier process left behind.
  static Result<std::unique_ptr<ControlSocket>> Listen(Options options);
  // Stops.
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  // Ends all connections and removes the socket; waits for an operation that is under way.
  // Idempotent, but not to be called by two threads at a time.
  void Stop();

 private:
  class Loop;
  explicit ControlSocket(std::unique_ptr<Loop> loop);

  const std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

// Copies the store of the server that runs on a data directory to `target`, which must be empty or
// missing. Every write that the server acknowledged before the call is in the copy. kNotFound where
// no server runs there.
Status BackUpRunningServer(const std::filesystem::path& data_dir,
                           const std::filesystem::path& target);

// Lets the server that runs on a data directory believe its clock; see store::ClockGuard. kNotFound
// where no server runs there.
Status AcceptClockOfRunningServer(const std::filesystem::path& data_dir);

}  // namespace herald::server
