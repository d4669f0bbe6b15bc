#include "server/daemon/control_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing/temporary_directory.h"
#include "store/rocks/admin.h"
#include "store/rocks/store.h"

namespace herald::server {
namespace {

using namespace std::chrono_literals;

class ControlSocketTest : public testing::Test {
 protected:
  ControlSocketTest() {
    std::filesystem::create_directory(data_dir_);
    options_.data_dir = data_dir_;
    options_.operations.link_files = [](const std::filesystem::path& target) {
      std::filesystem::create_directory(target);
      std::ofstream(target / "CURRENT") << "x";
      return Status();
    };
    options_.operations.accept_clock = [this] { ++accepted_; };
  }

  void Listen() {
    control_.reset();
    auto control = ControlSocket::Listen(options_);
    ASSERT_TRUE(control) << control.error().ToString();
    control_ = *std::move(control);
  }
  // Sends `bytes` and returns what the server sends until it closes the connection.
  std::string Send(std::string_view bytes) const {
    const int fd = Connect();
    (void)::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    std::string answer;
    char buffer[512];
    for (ssize_t count = 0; (count = ::recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
      answer.append(buffer, static_cast<std::size_t>(count));
    }
    ::close(fd);
    return answer;
  }
  int Connect() const {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = (data_dir_ / "control.sock").string();
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0)
        << std::strerror(errno);
    return fd;
  }

  const TemporaryDirectory directory_;
  std::filesystem::path data_dir_ = directory_.path() / "data";
  const std::filesystem::path target_ = directory_.path() / "backup";
  ControlSocket::Options options_;
  std::atomic<int> accepted_ = 0;
  std::unique_ptr<ControlSocket> control_;
};

TEST_F(ControlSocketTest, AcceptsTheClock) {
  Listen();
  EXPECT_TRUE(AcceptClockOfRunningServer(data_dir_).ok());
  EXPECT_EQ(accepted_, 1);
}

TEST_F(ControlSocketTest, OnlyTheOwnerMayConnect) {
  Listen();
  struct stat info{};
  ASSERT_EQ(::stat((data_dir_ / "control.sock").c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(ControlSocketTest, RemovesItsFilesAtStopAndThoseOfAKilledServerAtStart) {
  EXPECT_TRUE(AcceptClockOfRunningServer(data_dir_).Is(StatusReason::kNotFound));
  Listen();
  control_.reset();
  EXPECT_TRUE(std::filesystem::is_empty(data_dir_));
  EXPECT_TRUE(AcceptClockOfRunningServer(data_dir_).Is(StatusReason::kNotFound));

  // The socket and the backup directory of a server that was killed.
  {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, (data_dir_ / "control.sock").c_str(),
                 sizeof(address.sun_path) - 1);
    ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ::close(fd);
    std::filesystem::create_directory(data_dir_ / "backup.tmp");
  }
  EXPECT_TRUE(AcceptClockOfRunningServer(data_dir_).Is(StatusReason::kNotFound));
  Listen();
  EXPECT_TRUE(AcceptClockOfRunningServer(data_dir_).ok());
  EXPECT_FALSE(std::filesystem::exists(data_dir_ / "backup.tmp"));
}

TEST_F(ControlSocketTest, SupportsPathsLongerThanASocketAddress) {
  data_dir_ = directory_.path() / std::string(100, 'd') / std::string(200, 'e');
  std::filesystem::create_directories(data_dir_);
  options_.data_dir = data_dir_;
  Listen();
  EXPECT_TRUE(AcceptClockOfRunningServer(data_dir_).ok());
  EXPECT_TRUE(BackUpRunningServer(data_dir_, target_).ok());
  EXPECT_EQ(accepted_, 1);
  control_.reset();
  EXPECT_TRUE(std::filesystem::is_empty(data_dir_));
}

TEST_F(ControlSocketTest, RejectsUnknownAndInvalidRequests) {
  Listen();
  const std::string unknown = "{\"status\":\"Failure\",\"message\":\"unknown operation\"}\n";
  EXPECT_EQ(Send("{\"operation\":\"shutdown\"}\n"), unknown);
  EXPECT_EQ(Send("{\"operation\":7}\n"), unknown);
  EXPECT_EQ(Send("[]\n"), unknown);
  EXPECT_EQ(Send("hello\n"), unknown);
  EXPECT_EQ(Send("\n"), unknown);
  EXPECT_NE(Send(std::string(5'000, ' ')).find("longer than 1024 bytes"), std::string::npos);
  EXPECT_TRUE(AcceptClockOfRunningServer(data_dir_).ok()) << "the next request is served";
}

TEST_F(ControlSocketTest, ClosesConnectionsOfClientsThatSendNothing) {
  options_.request_timeout = 1ms;
  Listen();
  EXPECT_NE(Send("{\"operation\":").find("timed out waiting for a line"), std::string::npos);
  EXPECT_NE(Send("").find("timed out waiting for a line"), std::string::npos);
}

TEST_F(ControlSocketTest, StopsWhileClientsAreConnected) {
  options_.request_timeout = 1h;
  Listen();
  const int silent = Connect();
  const int waiting = Connect();
  control_.reset();
  ::close(silent);
  ::close(waiting);
}

TEST_F(ControlSocketTest, KeepsOneBackupAtATimeUntilItsClientDisconnects) {
  Listen();
  const int client = Connect();
  const std::string request = "{\"operation\":\"backup\"}\n";
  ASSERT_EQ(::send(client, request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  char answer[100] = {};
  ASSERT_GT(::recv(client, answer, sizeof(answer), 0), 0);
  EXPECT_STREQ(answer, "{\"status\":\"Success\",\"directory\":\"backup.tmp\"}\n");
  EXPECT_TRUE(std::filesystem::exists(data_dir_ / "backup.tmp" / "CURRENT"));

  const Status second = BackUpRunningServer(data_dir_, target_);
  EXPECT_NE(second.message().find("another backup is in progress"), std::string::npos)
      << second.ToString();
  EXPECT_TRUE(std::filesystem::exists(data_dir_ / "backup.tmp" / "CURRENT"));
  EXPECT_TRUE(AcceptClockOfRunningServer(data_dir_).ok()) << "other operations are served";

  ::close(client);
  // The server handles a closed connection before it accepts a new one.
  EXPECT_TRUE(AcceptClockOfRunningServer(data_dir_).ok());
  EXPECT_TRUE(BackUpRunningServer(data_dir_, target_).ok());
  EXPECT_TRUE(std::filesystem::exists(target_ / "CURRENT"));
}

TEST_F(ControlSocketTest, ReportsWhyABackupFails) {
  options_.operations.link_files = [](const std::filesystem::path&) {
    return Status(StatusReason::kServiceUnavailable, "the disk is \"full\"");
  };
  Listen();
  const Status status = BackUpRunningServer(data_dir_, target_);
  EXPECT_EQ(status.message(), "the server reported an error: the disk is \"full\"");
  EXPECT_FALSE(std::filesystem::exists(target_));
}

// ---- backups during writes ----

TEST_F(ControlSocketTest, ABackupContainsEveryWriteAcknowledgedBeforeIt) {
  store::RocksStoreOptions rocks;
  rocks.db.directory = data_dir_;
  auto opened = store::RocksStore::Open({}, rocks);
  ASSERT_TRUE(opened) << opened.error().ToString();
  store::RocksStore& store = **opened;
  options_.operations.link_files = [&store](const auto& target) {
    return store.Backup(target, store::BackupMode::kHardLink);
  };
  Listen();

  std::atomic<int> acknowledged = 0;
  std::atomic<bool> enough = false;
  const auto put = [&store](int i) {
    std::promise<bool> done;
    store.Commit({"/" + std::to_string(i), std::make_shared<const std::string>(200, 'v')},
                 [&done](const Result<store::Written>& written) {
                   done.set_value(written.has_value() && written->committed);
                 });
    return done.get_future().get();
  };
  std::thread writer([&] {
    for (int i = 0; !enough; ++i) {
      ASSERT_TRUE(put(i));
      acknowledged = i + 1;
      acknowledged.notify_all();
    }
  });
  for (int round = 0; round < 3; ++round) {
    const int seen = acknowledged;
    acknowledged.wait(seen);
    const int before = acknowledged;
    const std::filesystem::path copy = target_ / std::to_string(round);
    const Status status = BackUpRunningServer(data_dir_, copy);
    ASSERT_TRUE(status.ok()) << status.ToString();

    const auto report = store::CheckStore(copy, {});
    ASSERT_TRUE(report) << report.error().ToString();
    EXPECT_TRUE(report->ok()) << report->faults.front();
    const std::filesystem::path restored = directory_.path() / ("restored" + std::to_string(round));
    ASSERT_TRUE(store::RestoreStore(copy, restored).ok());
    rocks.db.directory = restored;
    auto again = store::RocksStore::Open({}, rocks);
    ASSERT_TRUE(again) << again.error().ToString();
    std::promise<std::set<std::string>> done;
    (*again)->Read({}, [&done](const Result<store::Page>& page) {
      std::set<std::string> keys;
      for (const store::Entry& entry : page->entries) keys.insert(entry.key);
      done.set_value(std::move(keys));
    });
    const std::set<std::string> keys = done.get_future().get();
    for (int i = 0; i < before; ++i) ASSERT_TRUE(keys.contains("/" + std::to_string(i))) << i;
  }
  enough = true;
  writer.join();
  control_.reset();
  EXPECT_FALSE(std::filesystem::exists(data_dir_ / "backup.tmp"));
}

}  // namespace
}  // namespace herald::server
