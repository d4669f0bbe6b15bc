#include "http/server/connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <utility>

namespace herald::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// An HTTP/1.1 connection over a pair of sockets with small buffers, a client that reads when the
// test calls it, and a fake clock.
class ServerConnectionTest : public testing::Test {
 protected:
  ServerConnectionTest()
      : handler_(
            [this](Request /*request*/, const Peer& /*peer*/,
                   std::shared_ptr<Responder> responder) { responder_ = std::move(responder); }),
        counters_(std::make_shared<ServerCounters>()),
        ready_(std::make_shared<ReadyList>([] {})),
        context_(options_, handler_, counters_, ready_) {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets_.data()), 0);
    constexpr int kLeast = 1;  // the kernel makes it a few KiB
    EXPECT_EQ(::setsockopt(sockets_[0], SOL_SOCKET, SO_SNDBUF, &kLeast, sizeof(kLeast)), 0);
    connection_ =
        std::make_unique<Connection>(context_, sockets_[0], Peer{.connection = 1}, nullptr, now_);
  }
  ~ServerConnectionTest() override {
    responder_.reset();
    connection_.reset();
    ready_->Close();
    for (const int socket : sockets_) ::close(socket);
  }

  // Sends the request and keeps its responder.
  void Ask() {
    constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    ASSERT_EQ(::send(sockets_[1], kGet.data(), kGet.size(), 0), static_cast<ssize_t>(kGet.size()));
    connection_->OnReadable(now_);
    ASSERT_NE(responder_, nullptr);
  }
  // Passes responses to the connection and sends as much as the socket takes.
  void Flush() {
    std::vector<std::shared_ptr<PendingResponse>> responses;
    ready_->Take(responses);
    for (const std::shared_ptr<PendingResponse>& response : responses)
      connection_->OnResponse(*response, now_);
    connection_->Flush(now_);
  }
  // The client reads up to this many bytes, and the server sends more.
  std::size_t Read(std::size_t bytes) {
    std::string buffer(bytes, '\0');
    const ssize_t n = ::recv(sockets_[1], buffer.data(), buffer.size(), MSG_DONTWAIT);
    Flush();
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  void Wait(std::chrono::nanoseconds time) {
    now_ += time;
    connection_->Tick(now_);
  }

  const ServerOptions options_;
  const Handler handler_;
  const std::shared_ptr<ServerCounters> counters_;
  const std::shared_ptr<ReadyList> ready_;
  ConnectionContext context_;
  SteadyTime now_{};
  std::array<int, 2> sockets_{-1, -1};
  std::unique_ptr<Connection> connection_;
  std::shared_ptr<Responder> responder_;
};

TEST_F(ServerConnectionTest, DiscardsLittleInputAfterAFault) {
  const std::string bad = "PRI * HTTP/2.0\r\n\r\nnot HTTP/2" + std::string(100, 'x');
  ASSERT_EQ(::send(sockets_[1], bad.data(), bad.size(), 0), static_cast<ssize_t>(bad.size()));
  connection_->OnReadable(now_);
  Flush();
  const std::string more(16 * 1024, 'x');
  std::size_t thrown_away = 0;
  while (!connection_->closed() && thrown_away < 2 * Connection::kLingerBytesAfterFault) {
    const ssize_t sent = ::send(sockets_[1], more.data(), more.size(), MSG_DONTWAIT);
    ASSERT_GT(sent, 0);
    connection_->OnReadable(now_);
    thrown_away += static_cast<std::size_t>(sent);
  }
  EXPECT_TRUE(connection_->closed());
  EXPECT_GT(thrown_away, Connection::kLingerBytesAfterFault);
}

constexpr std::size_t kListBytes = 300'000;

TEST_F(ServerConnectionTest, ClosesAClientThatReadsAResponseByteByByte) {
  Ask();
  responder_->Send({.body = std::string(kListBytes, 'x')});
  Flush();
  for (int waited = 10; waited < 30; waited += 10) {
    Wait(seconds(10));
    EXPECT_GT(Read(4'096), 0U);
    EXPECT_FALSE(connection_->closed());
  }
  Wait(milliseconds(9'999));
  Read(4'096);
  EXPECT_FALSE(connection_->closed());
  Wait(milliseconds(1));
  EXPECT_TRUE(connection_->closed());
  EXPECT_EQ(counters_->connections_cut, 1U);
}

TEST_F(ServerConnectionTest, ClosesAClientThatReadsTheEndOfAResponseByteByByte) {
  Ask();
  // All of it waits for the socket, and nothing is left in the response.
  responder_->Send({.body = std::string(50'000, 'x')});
  Flush();
  EXPECT_EQ(responder_->queued(), 0U);
  for (int waited = 10; waited <= 30; waited += 10) {
    EXPECT_FALSE(connection_->closed());
    Read(1'000);
    Wait(seconds(10));
  }
  EXPECT_TRUE(connection_->closed());
}

TEST_F(ServerConnectionTest, ServesAClientThatReadsAtTheMinimumRate) {
  Ask();
  responder_->Send({.body = std::string(kListBytes, 'x')});
  Flush();
  std::size_t read = 0;
  while (read < kListBytes) {
    // In large steps, because the socket does not take less.
    std::size_t lump = 0;
    while (lump < std::size_t{10} * 1024) {
      const std::size_t n = Read(4'096);
      if (n == 0) break;
      lump += n;
    }
    read += lump;
    ASSERT_FALSE(connection_->closed()) << "after " << read << " bytes";
    ASSERT_GT(lump, 0U);
    Wait(seconds(10));
  }
  EXPECT_FALSE(connection_->closed());
}

TEST_F(ServerConnectionTest, TimeWithoutUnsentBytesDoesNotCount) {
  Ask();
  Wait(seconds(100));
  responder_->Send({.body = std::string(kListBytes, 'x')});
  Flush();
  Wait(milliseconds(29'999));
  EXPECT_FALSE(connection_->closed());
}

TEST_F(ServerConnectionTest, AClientMayReadAStreamSlowly) {
  Ask();
  responder_->Start({});
  responder_->Write(std::make_shared<const std::string>(kListBytes, 'x'));
  Flush();
  for (int waited = 0; waited < 600; waited += 10) {
    ASSERT_FALSE(connection_->closed()) << "after " << waited << " s";
    Read(4'096);
    Wait(seconds(10));
  }
}

}  // namespace
}  // namespace herald::http
