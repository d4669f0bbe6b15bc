#include "http/server/server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing/temporary_directory.h"
#include "base/thread/mutex.h"
#include "http/testing/certificate.h"
#include "http/tls/openssl.h"

namespace herald::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Nothing here waits for time to pass; this only ends a test that hangs.
constexpr int kPatienceMs = 20'000;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

Chunk MakeChunk(std::string bytes) { return std::make_shared<const std::string>(std::move(bytes)); }

// ---- A client of bare sockets, blocking.

class Wire {
 public:
  explicit Wire(std::uint16_t port, int receive_buffer = 0) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer > 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ =
        ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Wire() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    ::close(socket_);
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  struct Tls {
    std::string ca{};
    std::string alpn{};  // in ALPN's own format
    std::optional<TestCertificate> client{};
    int max_version = 0;
  };
  bool Handshake(const Tls& tls) {
    context_ = SSL_CTX_new(TLS_client_method());
    for (const X509Ptr& ca : ReadCertificates(tls.ca))
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context_), ca.get());
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
    if (tls.max_version != 0) {
      SSL_CTX_set_security_level(context_, 0);  // otherwise OpenSSL rejects it on the client side
      SSL_CTX_set_min_proto_version(context_, TLS1_VERSION);
      SSL_CTX_set_max_proto_version(context_, tls.max_version);
    }
    if (tls.client) {
      SSL_CTX_use_certificate(context_, ReadCertificates(tls.client->certificate).at(0).get());
      SSL_CTX_use_PrivateKey(context_, ReadPrivateKey(tls.client->key).get());
    }
    if (!tls.alpn.empty()) {
      SSL_CTX_set_alpn_protos(context_, reinterpret_cast<const unsigned char*>(tls.alpn.data()),
                              static_cast<unsigned int>(tls.alpn.size()));
    }
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, socket_);
    const bool done = SSL_connect(ssl_) == 1;
    ERR_clear_error();
    return done;
  }
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned int size = 0;
    SSL_get0_alpn_selected(ssl_, &name, &size);
    return {reinterpret_cast<const char*>(name), size};
  }
  std::string server_subject() const {
    std::array<char, 200> text{};
    X509_NAME_oneline(X509_get_subject_name(SSL_get0_peer_certificate(ssl_)), text.data(),
                      text.size());
    return text.data();
  }

  bool connected() const { return connected_; }
  // False if the server has closed the connection.
  bool Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ssl_ != nullptr
                               ? SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                               : ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void CloseWrite() { ::shutdown(socket_, SHUT_WR); }
  // The available bytes, at least one; empty at the end.
  std::string ReadSome() {
    std::string bytes(std::size_t{64} * 1024, '\0');
    pollfd waited{socket_, POLLIN, 0};
    if ((ssl_ == nullptr || SSL_pending(ssl_) == 0) && ::poll(&waited, 1, kPatienceMs) != 1) {
      ADD_FAILURE() << "the server sent nothing for too long";
      return {};
    }
    const ssize_t size = ssl_ != nullptr
                             ? SSL_read(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                             : ::recv(socket_, bytes.data(), bytes.size(), 0);
    bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return bytes;
  }
  std::string ReadAll() {
    std::string all;
    for (;;) {
      const std::string some = ReadSome();
      if (some.empty()) return all;
      all += some;
    }
  }
  // Reads until `end` was received; returns also the bytes after it.
  std::string ReadUntil(std::string_view end) {
    std::string all;
    while (all.find(end) == std::string::npos) {
      const std::string some = ReadSome();
      if (some.empty()) break;
      all += some;
    }
    return all;
  }

 private:
  int socket_ = -1;
  bool connected_ = false;
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
};

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

// ---- Servers.

std::unique_ptr<Server> MustStart(ServerOptions options, Handler handler,
                                  std::size_t max_body_bytes = 4'000'000) {
  auto server = Server::Start(std::move(options), WithBodies(std::move(handler), max_body_bytes));
  if (!server) throw std::runtime_error(server.error().message());
  return *std::move(server);
}

void Echo(Request request, const Peer& /*peer*/, const std::shared_ptr<Responder>& responder) {
  responder->Send({.body = request.method + " " + request.target + " " + request.body});
}

// Waits for a condition that another thread makes true.
template <typename Predicate>
bool Eventually(Predicate predicate) {
  const auto end = std::chrono::steady_clock::now() + milliseconds(kPatienceMs);
  while (!predicate()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// Gives responses from threads that are not the server's.
class Workers {
 public:
  explicit Workers(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
  }
  ~Workers() {
    {
      const MutexLock lock(mu_);
      stopping_ = true;
    }
    changed_.NotifyAll();
    for (std::thread& thread : threads_) thread.join();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void Post(std::function<void()> task) {
    {
      const MutexLock lock(mu_);
      tasks_.push_back(std::move(task));
    }
    changed_.NotifyOne();
  }

 private:
  void Run() {
    for (;;) {
      std::function<void()> task;
      {
        MutexLock lock(mu_);
        changed_.Wait(lock, [this]() REQUIRES(mu_) { return stopping_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  Mutex mu_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mu_);
  bool stopping_ GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

// ---- Plain connections.

TEST(Server, KeepsAConnectionForManyRequests) {
  const auto server = MustStart({}, Echo);
  Wire wire(server->port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(wire.Write(
        fmt::format("POST /{} HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody", i)));
    EXPECT_TRUE(wire.ReadUntil("body").ends_with(fmt::format("POST /{} body", i)));
  }
  const ServerStats stats = server->Stats();
  EXPECT_EQ(stats.connections_accepted, 1U);
  EXPECT_EQ(stats.connections, 1U);
  EXPECT_EQ(stats.requests, 3U);
  EXPECT_EQ(stats.streams, 0U);
}

TEST(Server, PassesThePeerToTheHandler) {
  std::promise<Peer> promise;
  const auto server = MustStart({}, [&](const Request&, const Peer& peer, auto responder) {
    promise.set_value(peer);
    responder->Send({});
  });
  Wire wire(server->port());
  wire.Write(kGet);
  wire.ReadUntil("\r\n\r\n");
  const Peer peer = promise.get_future().get();
  EXPECT_TRUE(peer.address.starts_with("127.0.0.1:")) << peer.address;
  EXPECT_EQ(peer.connection, 1U);
  EXPECT_FALSE(peer.tls);
  EXPECT_EQ(peer.http_version, 1);
  EXPECT_FALSE(peer.certificate.has_value());
}

TEST(Server, AHandlerThatThrowsIsA500) {
  const auto server = MustStart({}, [](const Request&, const Peer&, const auto&) -> void {
    throw std::runtime_error("oops");
  });
  Wire wire(server->port());
  wire.Write(kGet);
  EXPECT_TRUE(wire.ReadUntil("\r\n\r\n").starts_with("HTTP/1.1 500 "));
  wire.Write(kGet);
  EXPECT_TRUE(wire.ReadUntil("\r\n\r\n").starts_with("HTTP/1.1 500 "))
      << "the connection stays open";
}

TEST(Server, AClientThatClosesItsHalfGetsItsResponse) {
  const auto server = MustStart({}, Echo);
  Wire wire(server->port());
  wire.Write(kGet);
  wire.CloseWrite();
  EXPECT_TRUE(wire.ReadAll().ends_with("GET / "));
}

TEST(Server, StartReportsTheReason) {
  const auto first = MustStart({}, Echo);
  ServerOptions busy;
  busy.port = first->port();
  const auto second = Server::Start(busy, Echo);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().message(),
            fmt::format("cannot listen on 127.0.0.1:{}: Address already in use", busy.port));
  ServerOptions nowhere;
  nowhere.address = "localhost";
  const auto third = Server::Start(nowhere, Echo);
  ASSERT_FALSE(third.has_value());
  EXPECT_EQ(third.error().message(), "invalid listen address \"localhost\": must be an IP address");
}

TEST(Server, ResponsesComeFromAnyThreadOnManyConnections) {
  constexpr int kConnections = 8;
  constexpr int kRequests = 300;
  Workers workers(3);
  ServerOptions options;
  options.threads = 2;
  const auto server = MustStart(options, [&](Request request, const Peer&, auto responder) {
    workers.Post([request = std::move(request), responder] {
      responder->Send({.body = request.target + ";"});
    });
  });
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (int c = 0; c < kConnections; ++c) {
    clients.emplace_back([&, c] {
      Wire wire(server->port());
      std::string all;
      for (int i = 0; i < kRequests; ++i)
        all += fmt::format("GET /{}-{} HTTP/1.1\r\nHost: h\r\n\r\n", c, i);
      wire.Write(all);
      std::string text = wire.ReadUntil(fmt::format("/{}-{};", c, kRequests - 1));
      for (int i = 0; i < kRequests; ++i) {
        const std::string body = fmt::format("/{}-{};", c, i);
        const std::size_t at = text.find(body);
        if (at == std::string::npos) return;
        text.erase(0, at + body.size());
        ++right;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, kConnections * kRequests);
  EXPECT_EQ(server->Stats().requests, static_cast<std::uint64_t>(kConnections * kRequests));
}

// A writer like that of a watch: it stops at a limit and continues when `drained` is called.
class Writer : public std::enable_shared_from_this<Writer> {
 public:
  Writer(std::shared_ptr<Responder> responder, int chunks)
      : responder_(std::move(responder)), left_(chunks) {}
  void Begin() {
    responder_->Observe([self = shared_from_this()] { self->Go(); },
                        [self = shared_from_this()] { self->closed_ = true; });
    responder_->Start({});
    Go();
  }
  bool closed() const { return closed_; }
  std::size_t most() const { return most_; }

 private:
  void Go() {
    const MutexLock lock(mu_);
    while (left_ > 0) {
      --left_;
      const std::size_t queued = responder_->Write(chunk_);
      most_ = std::max<std::size_t>(most_, queued);
      if (queued >= kBound) return;
    }
    responder_->End();
  }

  static constexpr std::size_t kBound = 100'000;
  const std::shared_ptr<Responder> responder_;
  const Chunk chunk_ = MakeChunk(std::string(999, 'x') + "\n");
  Mutex mu_;
  int left_ GUARDED_BY(mu_);
  std::atomic<std::size_t> most_{0};
  std::atomic<bool> closed_{false};
};

TEST(Server, AStreamIsAsFastAsItsReader) {
  Workers workers(1);
  std::shared_ptr<Writer> writer;
  const auto server = MustStart({}, [&](const Request&, const Peer&, auto responder) {
    writer = std::make_shared<Writer>(std::move(responder), 20'000);
    workers.Post([writer] { writer->Begin(); });
  });
  Wire wire(server->port(), 16 * 1024);
  wire.Write("GET / HTTP/1.0\r\n\r\n");  // so that the body is not chunked
  const std::string text = wire.ReadAll();
  EXPECT_EQ(text.size() - text.find("\r\n\r\n") - 4, 20'000'000U);
  EXPECT_LE(writer->most(), 101'000U);
  EXPECT_FALSE(writer->closed());
}

TEST(Server, AClientThatReadsNothingIsClosedAndOthersAreServed) {
  ServerOptions options;
  options.write_timeout = milliseconds(100);
  std::shared_ptr<Writer> writer;
  std::atomic<bool> begun{false};
  const auto server =
      MustStart(options, [&](const Request& request, const Peer& peer, auto responder) {
        if (request.target != "/watch") return Echo(request, peer, responder);
        writer = std::make_shared<Writer>(std::move(responder), 1'000'000);
        writer->Begin();
        begun = true;
      });
  Wire wire(server->port(), 16 * 1024);
  wire.Write("GET /watch HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return begun.load(); }));
  Wire other(server->port());
  while (!writer->closed()) {
    ASSERT_TRUE(other.Write(kGet));
    ASSERT_TRUE(other.ReadUntil("GET / ").ends_with("GET / "));
  }
  EXPECT_LE(writer->most(), 101'000U);
  EXPECT_EQ(server->Stats().connections_cut, 1U);
}

TEST(Server, ClosesAConnectionAtOnceWhoseResponsesExceedTheLimit) {
  ServerOptions options;
  options.max_queued_bytes = 300'000;
  std::promise<void> closed;
  const auto server = MustStart(options, [&](const Request&, const Peer&, auto responder) {
    responder->Observe(nullptr, [&] { closed.set_value(); });
    responder->Start({});
    // A writer that ignores the result of Write().
    for (int i = 0; i < 10'000; ++i) responder->Write(MakeChunk(std::string(1000, 'x')));
  });
  Wire wire(server->port(), 16 * 1024);
  wire.Write(kGet);
  closed.get_future().get();
  EXPECT_TRUE(Eventually([&] { return server->Stats().connections == 0; }));
  EXPECT_EQ(server->Stats().connections_cut, 1U);
}

TEST(Server, SlowHeadsAndSilentConnectionsAreClosed) {
  ServerOptions options;
  options.header_timeout = milliseconds(50);
  const auto server = MustStart(options, Echo);
  Wire slow(server->port());
  slow.Write("GET / HTTP/1.1\r\nHos");
  Wire silent(server->port());
  Wire undecided(server->port());
  undecided.Write("PR");
  EXPECT_TRUE(slow.ReadAll().starts_with("HTTP/1.1 408 "));
  EXPECT_EQ(silent.ReadAll(), "");
  EXPECT_EQ(undecided.ReadAll(), "");
  EXPECT_TRUE(Eventually([&] { return server->Stats().connections_cut == 3; }));
}

TEST(Server, IdleConnectionsAreClosed) {
  ServerOptions options;
  options.idle_timeout = milliseconds(50);
  const auto server = MustStart(options, Echo);
  Wire wire(server->port());
  wire.Write(kGet);
  EXPECT_TRUE(wire.ReadAll().ends_with("GET / "));
  EXPECT_EQ(server->Stats().connections_cut, 0U);
}

TEST(Server, AClientRejectedWithinABodyCanReadTheResponse) {
  const auto server = MustStart({}, Echo, 1000);
  Wire wire(server->port());
  wire.Write("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8000000\r\n\r\n");
  // Sends all of it, although the server has already rejected it: there must be no reset.
  EXPECT_TRUE(wire.Write(std::string(8'000'000, 'x')));
  wire.CloseWrite();
  EXPECT_TRUE(wire.ReadAll().starts_with("HTTP/1.1 413 "));
}

TEST(Server, ConnectionsOverTheLimitAreClosedAtOnce) {
  ServerOptions options;
  options.max_connections = 2;
  const auto server = MustStart(options, Echo);
  auto first = std::make_unique<Wire>(server->port());
  Wire second(server->port());
  for (Wire* wire : {first.get(), &second}) {
    wire->Write(kGet);
    wire->ReadUntil("GET / ");
  }
  Wire third(server->port());
  EXPECT_EQ(third.ReadAll(), "");
  EXPECT_EQ(server->Stats().connections_refused, 1U);
  first.reset();
  ASSERT_TRUE(Eventually([&] { return server->Stats().connections == 1; }));
  Wire fourth(server->port());
  fourth.Write(kGet);
  EXPECT_TRUE(fourth.ReadUntil("GET / ").ends_with("GET / "));
}

std::size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t size = 0;
  std::size_t resident = 0;
  statm >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(Server, TenThousandIdleConnectionsUseLittleMemory) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  // Both ends are in this process; some descriptors are in use already.
  const std::size_t possible = (std::min<std::size_t>(limit.rlim_cur, 1'000'000) - 200) / 2;
  const std::size_t count = std::min<std::size_t>(kSanitized ? 1'000 : 10'000, possible);

  const auto server = MustStart({}, Echo);
  const std::size_t before = ResidentBytes();
  std::vector<std::unique_ptr<Wire>> wires;
  for (std::size_t i = 0; i < count; ++i) {
    wires.push_back(std::make_unique<Wire>(server->port()));
    ASSERT_TRUE(wires.back()->connected()) << i;
    // Each has sent a request, so it has had a codec and buffers.
    wires.back()->Write(kGet);
  }
  for (const auto& wire : wires) wire->ReadUntil("GET / ");
  EXPECT_EQ(server->Stats().connections, count);
  const std::size_t each = (ResidentBytes() - std::min(before, ResidentBytes())) / count;
  RecordProperty("bytes_per_idle_connection", static_cast<int>(each));
  constexpr std::size_t kMostBytes = 4096;
  if (!kSanitized) {
    EXPECT_LT(each, kMostBytes);
  }
  Wire another(server->port());
  another.Write(kGet);
  EXPECT_TRUE(another.ReadUntil("GET / ").ends_with("GET / "));
}

// Like a watch hub: all clients get the same bytes, and slow ones are disconnected.
TEST(Server, WatchersThatReadGetEverythingBesideAsManyThatNeverRead) {
  constexpr std::size_t kEach = kSanitized ? 50 : 250;
  constexpr int kChanges = 600;
  constexpr std::size_t kBound = std::size_t{64} * 1024;
  struct Watcher {
    std::shared_ptr<Responder> responder;
    bool reads;
  };
  Mutex mu;
  std::vector<Watcher> watchers;
  const auto server =
      MustStart({}, [&](const Request& request, const Peer& peer, const auto& responder) {
        if (request.target == "/") return Echo(request, peer, responder);
        responder->Start({});
        const MutexLock lock(mu);
        watchers.push_back({responder, request.target == "/reads"});
      });
  std::vector<std::unique_ptr<Wire>> silent;
  std::vector<std::unique_ptr<Wire>> readers;
  for (std::size_t i = 0; i < kEach; ++i) {
    silent.push_back(std::make_unique<Wire>(server->port(), 16 * 1024));
    silent.back()->Write("GET /never HTTP/1.1\r\nHost: h\r\n\r\n");
    readers.push_back(std::make_unique<Wire>(server->port()));
    readers.back()->Write("GET /reads HTTP/1.1\r\nHost: h\r\n\r\n");
  }
  ASSERT_TRUE(Eventually([&] {
    const MutexLock lock(mu);
    return watchers.size() == 2 * kEach;
  }));
  std::vector<Watcher> all;
  {
    const MutexLock lock(mu);
    all.swap(watchers);
  }
  const std::size_t before = ResidentBytes();
  std::atomic<std::size_t> complete{0};
  std::thread reading([&] {
    std::vector<std::string> ends(readers.size());
    for (std::size_t left = readers.size(); left > 0;) {
      for (std::size_t i = 0; i < readers.size(); ++i) {
        if (ends.at(i).ends_with("0\r\n\r\n")) continue;
        ends.at(i) += readers.at(i)->ReadSome();
        ends.at(i).erase(0, ends.at(i).size() - std::min<std::size_t>(ends.at(i).size(), 5));
        if (!ends.at(i).ends_with("0\r\n\r\n")) continue;
        --left;
        ++complete;
      }
    }
  });
  std::size_t let_go = 0;
  Wire other(server->port());
  for (int i = 0; i < kChanges; ++i) {
    const Chunk change = MakeChunk(std::string(999, 'x') + "\n");
    for (Watcher& watcher : all) {
      if (watcher.responder->Write(change) <= kBound) continue;
      if (watcher.reads) {
        while (watcher.responder->queued() > kBound / 2) std::this_thread::yield();
      } else {
        watcher.responder->Abort();
        ++let_go;
      }
    }
    // The other clients are not affected.
    ASSERT_TRUE(other.Write(kGet));
    ASSERT_TRUE(other.ReadUntil("GET / ").ends_with("GET / "));
  }
  for (const Watcher& watcher : all)
    if (watcher.reads) watcher.responder->End();
  reading.join();
  EXPECT_EQ(complete, kEach);
  EXPECT_EQ(let_go, kEach);
  EXPECT_TRUE(Eventually([&] { return server->Stats().connections == kEach + 1; }))
      << "the slow clients are disconnected";
  // What is buffered for each client that does not read: one round of output and the queue, whose
  // bytes all of them share.
  const std::size_t cap = kEach * (std::size_t{128} * 1024) + std::size_t{16} * 1024 * 1024;
  if (!kSanitized) {
    EXPECT_LT(ResidentBytes(), before + cap);
  }
}

TEST(Server, ClosesAConnectionThatFloodsAndReadsNothing) {
  const auto server = MustStart({}, Echo);
  Wire wire(server->port(), 16 * 1024);
  std::string flood = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string("\0\0\0\x04\0\0\0\0\0", 9);
  const std::string ping = std::string("\0\0\x08\x06\0\0\0\0\0", 9) + "12345678";
  for (int i = 0; i < 10'000; ++i) flood += ping;
  while (wire.Write(flood)) flood = ping;
  EXPECT_TRUE(Eventually([&] { return server->Stats().connections == 0; }));
  EXPECT_EQ(server->Stats().connections_cut, 1U);
}

// ---- Coming to an end.

TEST(Server, DrainWaitsForRequestsNotifiesStreamsAndAcceptsNoMore) {
  Mutex mu;
  std::vector<std::shared_ptr<Responder>> pending;
  std::atomic<int> asked{0};
  std::atomic<int> closed{0};
  const auto server = MustStart({}, [&](const Request& request, const Peer&, auto responder) {
    if (request.target == "/watch") {
      responder->Observe(nullptr, [&closed, responder] {
        ++closed;
        responder->End();
      });
      responder->Start({});
    } else {
      const MutexLock lock(mu);
      pending.push_back(responder);
    }
    ++asked;
  });
  auto whole = std::make_unique<Wire>(server->port());
  auto watch = std::make_unique<Wire>(server->port());
  auto idle = std::make_unique<Wire>(server->port());
  whole->Write(kGet);
  watch->Write("GET /watch HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return asked == 2; }));
  std::thread drain([&] { server->Drain(milliseconds(kPatienceMs)); });
  EXPECT_EQ(idle->ReadAll(), "");
  idle.reset();
  EXPECT_TRUE(watch->ReadAll().ends_with("0\r\n\r\n")) << "ended normally";
  watch.reset();
  EXPECT_EQ(closed, 1);
  EXPECT_FALSE(Wire(server->port()).connected());
  {
    const MutexLock lock(mu);
    pending.front()->Send({.body = "done"});
  }
  EXPECT_TRUE(whole->ReadAll().ends_with("done"));
  whole.reset();
  drain.join();
  EXPECT_EQ(server->Stats().connections, 0U);
  server->Drain(milliseconds(kPatienceMs));
}

TEST(Server, DrainReturnsAfterItsTimeoutAndStopAbortsTheRest) {
  std::promise<std::shared_ptr<Responder>> promise;
  auto server = MustStart({}, [&](const Request&, const Peer&, auto responder) {
    promise.set_value(std::move(responder));
  });
  Wire wire(server->port());
  wire.Write(kGet);
  const std::shared_ptr<Responder> responder = promise.get_future().get();
  std::atomic<int> closed{0};
  responder->Observe(nullptr, [&] { ++closed; });
  server->Drain(milliseconds(1));
  EXPECT_EQ(server->Stats().connections, 1U);
  EXPECT_EQ(closed, 0);
  server->Stop();
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(wire.ReadAll(), "");
  server->Stop();
  server.reset();
  // A Responder that is kept may still be used.
  responder->Send({.body = "too late"});
  EXPECT_EQ(responder->queued(), 0U);
}

TEST(Server, StopsWhileAllConnectionsAreBusy) {
  for (int round = 0; round < 5; ++round) {
    std::atomic<bool> stopping{false};
    std::atomic<int> answered{0};
    Workers workers(2);  // declared after what their last tasks use, so that it is destroyed before
    ServerOptions options;
    options.threads = 2;
    auto server = MustStart(options, [&](const Request& request, const Peer&, auto responder) {
      workers.Post([&answered, responder, target = request.target] {
        if (target == "/watch") {
          responder->Start({});
          for (int i = 0; i < 100; ++i) responder->Write(MakeChunk("x"));
        } else {
          responder->Send({.body = "x"});
        }
        ++answered;
      });
    });
    std::vector<std::thread> clients;
    for (int c = 0; c < 4; ++c) {
      clients.emplace_back([&, c] {
        while (!stopping) {
          Wire wire(server->port());
          if (!wire.connected()) return;
          for (int i = 0; i < 20; ++i)
            if (!wire.Write(c % 2 == 0 ? kGet : "GET /watch HTTP/1.1\r\nHost: h\r\n\r\n")) break;
          wire.ReadSome();
        }
      });
    }
    ASSERT_TRUE(Eventually([&] { return answered > 50; }));
    server->Stop();
    stopping = true;
    for (std::thread& client : clients) client.join();
  }
}

// ---- TLS.

class TlsTest : public testing::Test {
 protected:
  ServerOptions Options() const {
    ServerOptions options;
    options.tls = ServerTls{.certificate = server_.certificate, .key = server_.key};
    return options;
  }
  static inline const std::string kH2 = "\x02h2\x08http/1.1";
  static inline const std::string kHttp1 = "\x08http/1.1";

  const TestCertificate ca_ = MakeTestCertificate({.subject = {{"CN", "ca"}}, .authority = true});
  const TestCertificate server_ = MakeTestCertificate({.subject = {{"CN", "server"}}}, &ca_);
};

TEST_F(TlsTest, AgreesOnAProtocol) {
  const auto server = MustStart(Options(), Echo);
  {
    Wire wire(server->port());
    ASSERT_TRUE(wire.Handshake({.ca = ca_.certificate, .alpn = kH2}));
    EXPECT_EQ(wire.protocol(), "h2");
    // The server sends first: its SETTINGS.
    EXPECT_EQ(wire.ReadSome().substr(3, 1), "\x04");
  }
  for (const std::string& alpn : {kHttp1, std::string()}) {
    Wire wire(server->port());
    ASSERT_TRUE(wire.Handshake({.ca = ca_.certificate, .alpn = alpn}));
    EXPECT_EQ(wire.protocol(), alpn.empty() ? "" : "http/1.1");
    wire.Write(kGet);
    EXPECT_TRUE(wire.ReadUntil("GET / ").ends_with("GET / "));
  }
  Wire wire(server->port());
  EXPECT_FALSE(wire.Handshake({.ca = ca_.certificate, .alpn = "\x04spdy"}));
}

TEST_F(TlsTest, RejectsOldVersionsAndConnectionsWithoutTls) {
  const auto server = MustStart(Options(), Echo);
  Wire old(server->port());
  EXPECT_FALSE(old.Handshake({.ca = ca_.certificate, .max_version = TLS1_1_VERSION}));
  Wire fair(server->port());
  EXPECT_TRUE(fair.Handshake({.ca = ca_.certificate, .max_version = TLS1_2_VERSION}));
  Wire plain(server->port());
  plain.Write(kGet);
  EXPECT_EQ(plain.ReadAll().find("HTTP"), std::string::npos);
  EXPECT_TRUE(Eventually([&] { return server->Stats().connections_cut == 2; }));
}

TEST_F(TlsTest, ClosesAfterAHandshakeThatTakesTooLong) {
  ServerOptions options = Options();
  options.handshake_timeout = milliseconds(50);
  const auto server = MustStart(options, Echo);
  Wire silent(server->port());
  Wire slow(server->port());
  slow.Write("\x16\x03\x01");
  EXPECT_EQ(silent.ReadAll(), "");
  EXPECT_EQ(slow.ReadAll(), "");
  EXPECT_TRUE(Eventually([&] { return server->Stats().connections_cut == 2; }));
}

TEST_F(TlsTest, ReadsTheNamesOfAVerifiedClientCertificate) {
  ServerOptions options = Options();
  const TestCertificate client_ca =
      MakeTestCertificate({.subject = {{"CN", "client ca"}}, .authority = true});
  options.tls->client_ca = client_ca.certificate;
  std::promise<Peer> passed;
  const auto server = MustStart(options, [&](const Request&, const Peer& peer, auto responder) {
    passed.set_value(peer);
    responder->Send({.body = "ok"});
  });
  const auto ask = [&](std::optional<TestCertificate> client) {
    passed = {};
    Wire wire(server->port());
    EXPECT_TRUE(
        wire.Handshake({.ca = ca_.certificate, .alpn = kHttp1, .client = std::move(client)}));
    wire.Write(kGet);
    EXPECT_TRUE(wire.ReadUntil("ok").ends_with("ok"));
    const Peer peer = passed.get_future().get();
    EXPECT_TRUE(peer.tls);
    return peer.certificate;
  };
  const std::string odd = std::string("ad\0min", 6);
  std::optional<Peer::Certificate> seen = ask(MakeTestCertificate(
      {.subject = {{"O", "system:masters"}, {"O", "w\xc3\xa4hler"}, {"CN", "jane"}}}, &client_ca));
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->common_name, "jane");
  EXPECT_EQ(seen->organizations, (std::vector<std::string>{"system:masters", "w\xc3\xa4hler"}));
  EXPECT_TRUE(seen->subject.starts_with("CN=jane,O=")) << seen->subject;
  EXPECT_EQ(seen->sha256.size(), 64U);
  EXPECT_NE(seen->sha256, seen->anchor_sha256);

  // Valid for three days, but its CA only for two: from one day ago to tomorrow.
  seen = ask(MakeTestCertificate(
      {.subject = {{"CN", "jane"}}, .valid_from_days = -1, .valid_to_days = 2}, &client_ca));
  ASSERT_TRUE(seen.has_value());
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const auto day = std::chrono::hours(24);
  EXPECT_LE(seen->not_before, now - day);
  EXPECT_GT(seen->not_before, now - 2 * day);
  EXPECT_LE(seen->not_after, now + day);
  EXPECT_GT(seen->not_after, now);

  seen = ask(MakeTestCertificate({.subject = {{"CN", odd}}}, &client_ca));
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->common_name, odd) << "a NUL byte does not shorten a name";

  seen = ask(std::nullopt);
  EXPECT_FALSE(seen.has_value()) << "requested, but not required";
  seen = ask(MakeTestCertificate({.subject = {{"CN", "jane"}}}, &ca_));
  EXPECT_FALSE(seen.has_value()) << "signed by another CA";
  seen = ask(MakeTestCertificate({.subject = {{"CN", "jane"}}}));
  EXPECT_FALSE(seen.has_value()) << "self-signed";
  seen = ask(MakeTestCertificate(
      {.subject = {{"CN", "jane"}}, .valid_from_days = -2, .valid_to_days = -1}, &client_ca));
  EXPECT_FALSE(seen.has_value()) << "expired";
}

TEST_F(TlsTest, NewConnectionsGetTheNewCertificate) {
  const auto server = MustStart(Options(), Echo);
  Wire before(server->port());
  ASSERT_TRUE(before.Handshake({.ca = ca_.certificate, .alpn = kHttp1}));
  EXPECT_EQ(before.server_subject(), "/CN=server");

  const TestCertificate renewed = MakeTestCertificate({.subject = {{"CN", "renewed"}}}, &ca_);
  const Status mismatch = server->SetTls({.certificate = renewed.certificate, .key = server_.key});
  EXPECT_FALSE(mismatch.ok());
  EXPECT_NE(mismatch.message().find("does not match"), std::string::npos) << mismatch.message();
  {
    Wire wire(server->port());
    ASSERT_TRUE(wire.Handshake({.ca = ca_.certificate}));
    EXPECT_EQ(wire.server_subject(), "/CN=server") << "on an error the old one stays";
  }
  EXPECT_TRUE(server->SetTls({.certificate = renewed.certificate, .key = renewed.key}).ok());
  Wire after(server->port());
  ASSERT_TRUE(after.Handshake({.ca = ca_.certificate}));
  EXPECT_EQ(after.server_subject(), "/CN=renewed");
  before.Write(kGet);
  EXPECT_TRUE(before.ReadUntil("GET / ").ends_with("GET / ")) << "existing connections stay open";
}

TEST_F(TlsTest, InvalidPemIsRejectedWithAReason) {
  const TestCertificate other = MakeTestCertificate({.subject = {{"CN", "other"}}});
  struct Case {
    ServerTls tls;
    const char* message;
  };
  const Case cases[] = {
      {{.certificate = "", .key = server_.key}, "the certificate cannot be read"},
      {{.certificate = "garbage", .key = server_.key}, "the certificate cannot be read"},
      {{.certificate = server_.certificate, .key = ""}, "the private key cannot be read"},
      {{.certificate = server_.certificate, .key = other.key},
       "the private key does not match the certificate"},
      {{.certificate = server_.certificate, .key = server_.key, .client_ca = "garbage"},
       "the client CA cannot be read"},
  };
  for (const Case& c : cases) {
    ServerOptions options;
    options.tls = c.tls;
    const auto server = Server::Start(options, Echo);
    ASSERT_FALSE(server.has_value()) << c.message;
    EXPECT_NE(server.error().message().find(c.message), std::string::npos)
        << server.error().message();
  }
}

TEST_F(TlsTest, LargeBodiesArriveComplete) {
  const auto server = MustStart(Options(), Echo);
  Wire wire(server->port());
  ASSERT_TRUE(wire.Handshake({.ca = ca_.certificate, .alpn = kHttp1}));
  std::string body;
  for (int i = 0; body.size() < 3'000'000; ++i) body += fmt::format("{} ", i);
  wire.Write(fmt::format(
      "PUT / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.size()));
  wire.Write(body);
  const std::string response = wire.ReadAll();
  EXPECT_TRUE(response.ends_with(body));
}

// ---- Clients that others have written.

class OtherClientsTest : public TlsTest {
 protected:
  void SetUp() override {
    std::ofstream(folder_ + "/ca.pem") << ca_.certificate;
    std::ofstream(folder_ + "/body") << std::string(2000, 'b');
    std::ofstream(folder_ + "/large") << std::string(2'500'000, 'l');
    std::ofstream(folder_ + "/huge") << std::string(5'000'000, 'h');
  }
  static bool Has(const char* command) {
    return std::system(fmt::format("command -v {} >/dev/null", command).c_str()) == 0;
  }
  static std::string Run(const std::string& command) {
    FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
    std::string text;
    std::array<char, 4096> buffer{};
    while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
      text.append(buffer.data(), n);
    ::pclose(pipe);
    return text;
  }

  const TemporaryDirectory directory_;
  const std::string folder_ = directory_.path();
};

TEST_F(OtherClientsTest, Curl) {
  if (!Has("curl")) GTEST_SKIP() << "no curl: nothing was compared with it";
  const auto tls = MustStart(Options(), Echo);
  const auto plain = MustStart({}, Echo);
  const std::string urls[] = {
      fmt::format("--http2 --cacert {}/ca.pem https://127.0.0.1:{}", folder_, tls->port()),
      fmt::format("--http1.1 --cacert {}/ca.pem https://127.0.0.1:{}", folder_, tls->port()),
      fmt::format("--http2-prior-knowledge http://127.0.0.1:{}", plain->port()),
      fmt::format("--http1.1 http://127.0.0.1:{}", plain->port()),
  };
  for (const std::string& url : urls) {
    SCOPED_TRACE(url);
    EXPECT_EQ(Run("curl -sS -d body " + url + "/x"), "POST /x body");
    EXPECT_EQ(Run("curl -sS -X DELETE " + url + "/x?y=z"), "DELETE /x?y=z ");
    const std::string head = Run("curl -sS -I " + url + "/x");
    EXPECT_NE(head.find(" 200"), std::string::npos) << head;
    EXPECT_NE(head.find("content-length: 8"), std::string::npos) << head;
    EXPECT_EQ(Run("curl -sS --data-binary @" + folder_ + "/large " + url + "/"),
              "POST / " + std::string(2'500'000, 'l'));
    EXPECT_EQ(Run("curl -s -o /dev/null -w '%{http_code}' --data-binary @" + folder_ + "/huge " +
                  url + "/"),
              "413");
  }
}

TEST_F(OtherClientsTest, Nghttp) {
  if (!Has("nghttp")) GTEST_SKIP() << "no nghttp: nothing was compared with it";
  const auto server = MustStart(Options(), Echo);
  const std::string url = fmt::format("https://127.0.0.1:{}/many", server->port());
  const std::string text = Run(
      fmt::format("nghttp -v --no-verify-peer -m 20 -d {}/body --expect-continue --trailer 'a: b' "
                  "'{}' || nghttp -v -m 20 -d {}/body --trailer 'a: b' '{}'",
                  folder_, url, folder_, url));
  std::size_t responses = 0;
  for (std::size_t at = text.find(":status: 200"); at != std::string::npos;
       at = text.find(":status: 200", at + 1)) {
    ++responses;
  }
  EXPECT_EQ(responses, 20U) << text;
}

TEST_F(OtherClientsTest, H2load) {
  if (!Has("h2load")) GTEST_SKIP() << "no h2load: nothing was compared with it";
  ServerOptions options = Options();
  options.threads = 2;
  const auto tls = MustStart(options, Echo);
  const auto plain = MustStart({}, Echo);
  const std::string urls[] = {
      fmt::format("https://127.0.0.1:{}/", tls->port()),
      fmt::format("http://127.0.0.1:{}/", plain->port()),
      fmt::format("--h1 https://127.0.0.1:{}/", tls->port()),
      fmt::format("--h1 http://127.0.0.1:{}/", plain->port()),
  };
  for (const std::string& url : urls) {
    SCOPED_TRACE(url);
    const std::string text =
        Run(fmt::format("h2load -n 3000 -c 6 -m 50 -d {}/body {}", folder_, url));
    EXPECT_NE(text.find("3000 succeeded, 0 failed, 0 errored, 0 timeout"), std::string::npos)
        << text;
  }
  EXPECT_EQ(tls->Stats().requests + plain->Stats().requests, 12'000U);
  EXPECT_EQ(tls->Stats().connections_cut, 0U);
}

}  // namespace
}  // namespace herald::http
