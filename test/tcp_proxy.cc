#include "test/tcp_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <utility>

namespace herald::testing {
namespace {

// Bytes to buffer for a peer that does not read. The proxy then stops reading from the sender.
constexpr std::size_t kBufferBytes = 64 * 1024;

sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// One direction of a connection.
struct Flow {
  // Returns false if the connection failed.
  bool Read(int from) {
    std::array<char, 16 * 1024> piece;
    const ssize_t n = ::recv(from, piece.data(), piece.size(), 0);
    if (n < 0) return errno == EAGAIN;
    if (n == 0) ended = true;
    waiting.append(piece.data(), static_cast<std::size_t>(n));
    return true;
  }
  bool Write(int to) {
    if (!waiting.empty()) {
      const ssize_t n = ::send(to, waiting.data(), waiting.size(), MSG_NOSIGNAL);
      if (n < 0) return errno == EAGAIN;
      waiting.erase(0, static_cast<std::size_t>(n));
    }
    if (ended && waiting.empty() && !std::exchange(end_passed, true)) ::shutdown(to, SHUT_WR);
    return true;
  }
  bool wants_read() const { return !ended && waiting.size() < kBufferBytes; }
  bool wants_write() const { return !waiting.empty() || (ended && !end_passed); }

  std::string waiting{};
  bool ended = false;       // the sender has closed its side
  bool end_passed = false;  // the receiver's side was shut down
};

}  // namespace

struct TcpProxy::Connection {
  Connection(int c, int s) : client(c), server(s) {}
  // Closes with a reset, as if a router had lost the state of the connection.
  ~Connection() {
    const linger at_once{1, 0};
    for (const int socket : {client, server}) {
      ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
      ::close(socket);
    }
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool done() const { return up.end_passed && down.end_passed; }

  const int client;
  const int server;
  Flow up{};    // from the client to the server
  Flow down{};  // and back
};

TcpProxy::TcpProxy(std::uint16_t target_port) : target_port_(target_port) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(listener_, SOMAXCONN), 0);
  EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

TcpProxy::~TcpProxy() {
  Post(Order::kStop, false);
  thread_.join();
  ::close(listener_);
  ::close(wake_);
}

void TcpProxy::Cut() { Post(Order::kCut, false); }

void TcpProxy::Hold(bool held) { Post(Order::kNone, held); }

void TcpProxy::Post(Order order, bool held) {
  const MutexLock lock(mu_);
  if (order != Order::kNone) order_ = order;
  held_ = held;
  const std::uint64_t one = 1;
  EXPECT_EQ(::write(wake_, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

void TcpProxy::Accept() {
  const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (client < 0) return;
  // On loopback this returns at once.
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(target_port_);
  auto connection = std::make_unique<Connection>(client, server);
  if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return;
  ::fcntl(server, F_SETFL, O_NONBLOCK);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  connections_.push_back(std::move(connection));
}

void TcpProxy::Run() {
  std::vector<pollfd> polled;
  for (;;) {
    Order order = Order::kNone;
    bool held = false;
    {
      const MutexLock lock(mu_);
      order = std::exchange(order_, Order::kNone);
      held = held_;
    }
    if (order != Order::kNone) connections_.clear();
    if (order == Order::kStop) return;

    polled.assign({{wake_, POLLIN, 0}, {listener_, POLLIN, 0}});
    if (!held) {
      const auto events = [](const Flow& in, const Flow& out) {
        return static_cast<short>((in.wants_read() ? POLLIN : 0) |
                                  (out.wants_write() ? POLLOUT : 0));
      };
      for (const auto& it : connections_) {
        polled.push_back({it->client, events(it->up, it->down), 0});
        polled.push_back({it->server, events(it->down, it->up), 0});
      }
    }
    if (::poll(polled.data(), polled.size(), -1) < 0) continue;

    if (polled[0].revents != 0) {
      std::uint64_t count = 0;
      (void)!::read(wake_, &count, sizeof(count));
    }
    // The connections that were polled, in the same order. New ones are appended.
    for (std::size_t i = 2; i < polled.size(); i += 2) {
      std::unique_ptr<Connection>& it = connections_[i / 2 - 1];
      const short client = polled[i].revents, server = polled[i + 1].revents;
      const bool whole = ((client | server) & (POLLERR | POLLNVAL)) == 0 &&
                         ((client & (POLLIN | POLLHUP)) == 0 || it->up.Read(it->client)) &&
                         ((server & (POLLIN | POLLHUP)) == 0 || it->down.Read(it->server)) &&
                         it->up.Write(it->server) && it->down.Write(it->client);
      if (!whole || it->done()) it.reset();
    }
    std::erase(connections_, nullptr);
    if (polled[1].revents != 0) Accept();
  }
}

}  // namespace herald::testing
