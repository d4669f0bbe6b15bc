#include "http/server/server.h"

#include <fmt/core.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "base/thread/thread_name.h"
#include "http/server/connection.h"
#include "http/server/pending_response.h"
#include "http/tls/server.h"

namespace herald::http {

namespace asio = boost::asio;

namespace {

using asio::ip::tcp;
using boost::system::error_code;
// With the concrete executor type: the type-erased one costs allocations.
using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<tcp, Executor>;
using Acceptor = asio::basic_socket_acceptor<tcp, Executor>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, Executor>;

// An error is ignored: the descriptor is closed in any case.
template <typename T>
void CloseQuietly(T& socket) {
  error_code ignored;
  socket.close(ignored);
}

// "127.0.0.1:80", "[::1]:80". IPv4 addresses that are mapped to IPv6 are shown as IPv4.
std::string ToString(const tcp::endpoint& endpoint) {
  asio::ip::address address = endpoint.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  return address.is_v6() ? fmt::format("[{}]:{}", address.to_string(), endpoint.port())
                         : fmt::format("{}:{}", address.to_string(), endpoint.port());
}

void Warn(const LogFunction& log, std::string_view message, std::string_view why) {
  if (!log) return;
  try {
    log({.level = LogLevel::kWarn, .message = message, .fields = {{"reason", why}}});
  } catch (...) {  // a log function that fails must not stop the server
  }
}

// Responses are collected before they are sent, so the kernel must not delay them. Keep-alive
// probes detect in about a minute that a client has vanished. The kernel buffers no more than
// kUnsentBytes for a client that does not read.
void Configure(int socket) {
  constexpr int kKeepIdleSeconds = 30;
  constexpr int kKeepIntervalSeconds = 10;
  constexpr int kKeepCount = 3;
  constexpr int kUnsentBytes = 128 * 1024;
  const auto set = [socket](int level, int name, int value) {
    // Each option is an optimization, so errors are ignored.
    static_cast<void>(::setsockopt(socket, level, name, &value, sizeof(value)));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepCount);
  set(IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytes);
}

// How often the timeouts of all connections of a loop are checked. One timer that visits ten
// thousand connections is far cheaper than ten thousand timers that each request resets, and no
// timeout needs to be exact.
std::chrono::milliseconds TickInterval(const ServerOptions& options) {
  const std::chrono::milliseconds shortest = std::min(
      {options.header_timeout, options.body_timeout, options.idle_timeout, options.write_timeout,
       options.handshake_timeout, std::chrono::milliseconds(Connection::kLingerTime)});
  return std::clamp(shortest / 4, std::chrono::milliseconds(5), std::chrono::milliseconds(500));
}

// Notified when the last connection is closed. Thread-safe.
class AllConnectionsClosed {
 public:
  void Notify() {
    {
      const MutexLock lock(mu_);
    }  // a waiter has checked the condition before this, or will check it after
    changed_.NotifyAll();
  }
  void WaitFor(std::chrono::milliseconds timeout, const std::atomic<std::size_t>& connections) {
    MutexLock lock(mu_);
    changed_.WaitFor(lock, timeout, [&] { return connections == 0; });
  }

 private:
  Mutex mu_;
  CondVar changed_;
};

// An event loop with its thread and its connections. Confined to that thread, except for functions
// that are marked as thread-safe.
class Loop {
 public:
  Loop(const ServerOptions& options, const Handler& handler,
       const std::shared_ptr<ServerCounters>& counters, AllConnectionsClosed& all_closed)
      : work_(asio::make_work_guard(io_)),
        ticker_(io_),
        tick_interval_(TickInterval(options)),
        all_closed_(all_closed),
        context_(options, handler, counters, std::make_shared<ReadyList>([this] {
                   asio::post(io_, [this] { ProcessReady(SystemClock().Steady()); });
                 })) {}

  // Thread-safe.
  asio::io_context& io() { return io_; }
  // Called once, before anything is posted.
  void Run() {
    thread_ = std::thread([this] {
      NameThisThread("herald-http");
      io_.run();
    });
  }
  // Waits for the thread. REQUIRES: Stop() was posted
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

  void Add(Socket socket, Peer peer, std::shared_ptr<const ServerTlsContext> tls) {
    const SteadyTime now = SystemClock().Steady();
    const std::uint64_t number = peer.connection;
    auto entry = std::make_shared<Entry>(std::move(socket), number);
    entry->connection = std::make_unique<Connection>(context_, entry->socket.native_handle(),
                                                     std::move(peer), std::move(tls), now);
    entries_.emplace(number, entry);
    if (draining_) entry->connection->Drain(now);
    FlushAndWait(entry, now);
    StartTicking();
  }

  void Drain() {
    draining_ = true;
    const SteadyTime now = SystemClock().Steady();
    for (const EntryPtr& entry : All()) {
      entry->connection->Drain(now);
      FlushAndWait(entry, now);
    }
  }

  void Stop() {
    context_.ready->Close();
    ticker_.cancel();
    for (const EntryPtr& entry : All()) Remove(entry);
    work_.reset();
  }

 private:
  struct Entry {
    Entry(Socket accepted, std::uint64_t connection_number)
        : socket(std::move(accepted)), number(connection_number) {}

    Socket socket;
    // Null after Remove(); the entry lives until Asio has called its handlers.
    std::unique_ptr<Connection> connection;
    const std::uint64_t number;
    bool reading = false;  // Asio waits until the socket is readable
    bool writing = false;
    bool dirty = false;  // in dirty_
  };
  using EntryPtr = std::shared_ptr<Entry>;

  // A copy, because an operation on one entry may remove others.
  std::vector<EntryPtr> All() const {
    std::vector<EntryPtr> all;
    all.reserve(entries_.size());
    for (const auto& [number, entry] : entries_) all.push_back(entry);
    return all;
  }

  void OnReadable(const EntryPtr& entry) {
    const SteadyTime now = SystemClock().Steady();
    entry->connection->OnReadable(now);
    MarkDirty(entry);
    // Includes responses that the handler has sent within the call.
    ProcessReady(now);
  }

  // Passes the collected responses to their connections, then flushes each connection once, so that
  // a hundred small responses need one TLS record and one system call.
  void ProcessReady(SteadyTime now) {
    context_.ready->Take(taken_);
    for (const std::shared_ptr<PendingResponse>& response : taken_) {
      const auto found = entries_.find(response->group().connection);
      if (found == entries_.end()) continue;
      found->second->connection->OnResponse(*response, now);
      MarkDirty(found->second);
    }
    taken_.clear();
    std::vector<EntryPtr> dirty;
    dirty.swap(dirty_);
    for (const EntryPtr& entry : dirty) {
      entry->dirty = false;
      if (entry->connection) FlushAndWait(entry, now);
    }
    dirty.clear();
    if (dirty_.empty()) dirty_.swap(dirty);  // keeps the memory
  }

  void MarkDirty(const EntryPtr& entry) {
    if (std::exchange(entry->dirty, true)) return;
    dirty_.push_back(entry);
  }

  // Sends, then waits for what the connection needs next.
  void FlushAndWait(const EntryPtr& entry, SteadyTime now) {
    Connection& connection = *entry->connection;
    connection.Flush(now);
    if (connection.closed()) return Remove(entry);
    if (connection.wants_read() && !std::exchange(entry->reading, true)) {
      entry->socket.async_wait(Socket::wait_read, [this, entry](const error_code& error) {
        entry->reading = false;
        if (error || !entry->connection || !entry->connection->wants_read()) return;
        OnReadable(entry);
      });
    }
    if (connection.wants_write() && !std::exchange(entry->writing, true)) {
      entry->socket.async_wait(Socket::wait_write, [this, entry](const error_code& error) {
        entry->writing = false;
        if (error || !entry->connection) return;
        FlushAndWait(entry, SystemClock().Steady());
      });
    }
  }

  // By value: the argument may be a reference into the map.
  void Remove(EntryPtr entry) {  // NOLINT(performance-unnecessary-value-param)
    entries_.erase(entry->number);
    // This calls `closed` of its responses, so the map must be consistent by now.
    entry->connection.reset();
    CloseQuietly(entry->socket);
    if (context_.counters->connections.fetch_sub(1) == 1) all_closed_.Notify();
  }

  // The timer runs only while there are connections.
  void StartTicking() {
    if (std::exchange(ticking_, true)) return;
    ticker_.expires_after(tick_interval_);
    ticker_.async_wait([this](const error_code& error) {
      ticking_ = false;
      if (error) return;
      const SteadyTime now = SystemClock().Steady();
      for (const EntryPtr& entry : All()) {
        if (!entry->connection) continue;
        entry->connection->Tick(now);
        FlushAndWait(entry, now);
      }
      if (!entries_.empty()) StartTicking();
    });
  }

  asio::io_context io_{1};
  asio::executor_work_guard<Executor> work_;
  Timer ticker_;
  const std::chrono::milliseconds tick_interval_;
  AllConnectionsClosed& all_closed_;
  ConnectionContext context_;
  std::unordered_map<std::uint64_t, EntryPtr> entries_;
  std::vector<EntryPtr> dirty_;  // to be flushed
  std::vector<std::shared_ptr<PendingResponse>> taken_;
  bool draining_ = false;
  bool ticking_ = false;
  std::thread thread_;
};

}  // namespace

class Server::Impl {
 public:
  Impl(ServerOptions options, Handler handler)
      : options_(std::move(options)),
        handler_(std::move(handler)),
        counters_(std::make_shared<ServerCounters>()),
        loops_(MakeLoops()),
        acceptor_(loops_.front()->io()),
        accept_timer_(loops_.front()->io()),
        accepted_(loops_.front()->io()) {}
  ~Impl() { Stop(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // The rest of construction, which can fail.
  Status Listen() {
    if (options_.tls) {
      if (Status status = SetTls(*options_.tls); !status.ok()) return status;
    }
    error_code error;
    const asio::ip::address address = asio::ip::make_address(options_.address, error);
    if (error) {
      return Status(
          StatusReason::kInvalid,
          fmt::format("invalid listen address \"{}\": must be an IP address", options_.address));
    }
    const tcp::endpoint endpoint(address, options_.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(Acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(Acceptor::max_listen_connections, error);
    if (error) {
      return Status(StatusReason::kInvalid,
                    fmt::format("cannot listen on {}: {}", ToString(endpoint), error.message()));
    }
    port_ = acceptor_.local_endpoint(error).port();
    Accept();
    for (const auto& loop : loops_) loop->Run();
    return {};
  }

  std::uint16_t port() const { return port_; }

  Status SetTls(const ServerTls& tls) {
    if (!options_.tls) return Status(StatusReason::kInvalid, "the server was started without TLS");
    auto context = ServerTlsContext::Make(tls);
    if (!context) return context.error();
    const MutexLock lock(mu_);
    tls_ = *std::move(context);
    return {};
  }

  void Drain(std::chrono::milliseconds timeout) {
    {
      const MutexLock lock(mu_);
      if (stopped_) return;
      if (!std::exchange(draining_, true)) {
        asio::post(loops_.front()->io(), [this] { StopAccepting(); });
        for (const auto& loop : loops_) asio::post(loop->io(), [l = loop.get()] { l->Drain(); });
      }
    }
    all_closed_.WaitFor(timeout, counters_->connections);
  }

  void Stop() {
    {
      const MutexLock lock(mu_);
      if (!std::exchange(stopped_, true)) {
        // In this order, so that no connection is added to a loop that has stopped.
        asio::post(loops_.front()->io(), [this] {
          StopAccepting();
          for (const auto& loop : loops_) asio::post(loop->io(), [l = loop.get()] { l->Stop(); });
        });
      }
    }
    const MutexLock lock(join_mu_);
    for (const auto& loop : loops_) loop->Join();
  }

  ServerStats Stats() const {
    return {.connections_accepted = counters_->connections_accepted,
            .connections_refused = counters_->connections_refused,
            .connections_cut = counters_->connections_cut,
            .requests = counters_->requests,
            .connections = counters_->connections,
            .streams = counters_->streams};
  }

 private:
  std::vector<std::unique_ptr<Loop>> MakeLoops() {
    std::vector<std::unique_ptr<Loop>> loops;
    for (int i = 0; i < std::max(options_.threads, 1); ++i)
      loops.push_back(std::make_unique<Loop>(options_, handler_, counters_, all_closed_));
    return loops;
  }

  // The first loop accepts for all of them.
  void Accept() {
    Loop& loop = *loops_[next_loop_];
    next_loop_ = (next_loop_ + 1) % loops_.size();
    accepted_ = Socket(loop.io());
    acceptor_.async_accept(accepted_, [this, &loop](const error_code& error) {
      if (!acceptor_.is_open()) return CloseQuietly(accepted_);
      if (error) return OnAcceptError(error);
      accept_failing_ = false;
      AddConnection(loop, std::move(accepted_));
      Accept();
    });
  }

  void AddConnection(Loop& loop, Socket socket) {
    const std::uint64_t number = ++counters_->connections_accepted;
    if (counters_->connections >= options_.max_connections) {
      ++counters_->connections_refused;
      return CloseQuietly(socket);
    }
    ++counters_->connections;
    Configure(socket.native_handle());
    error_code error;
    Peer peer;
    peer.address = ToString(socket.remote_endpoint(error));
    peer.connection = number;
    asio::post(loop.io(), [&loop, s = std::move(socket), p = std::move(peer), t = Tls()]() mutable {
      loop.Add(std::move(s), std::move(p), t);
    });
  }

  void OnAcceptError(const error_code& error) {
    // Most likely out of descriptors or memory. That ends when connections close, and retrying at
    // once would only take CPU time from them.
    constexpr std::chrono::milliseconds kPause{100};
    if (!std::exchange(accept_failing_, true))
      Warn(options_.log, "cannot accept connections", error.message());
    accept_timer_.expires_after(kPause);
    accept_timer_.async_wait([this](const error_code& cancelled) {
      if (!cancelled && acceptor_.is_open()) Accept();
    });
  }

  void StopAccepting() {
    CloseQuietly(acceptor_);
    accept_timer_.cancel();
  }

  std::shared_ptr<const ServerTlsContext> Tls() const {
    const MutexLock lock(mu_);
    return tls_;
  }

  const ServerOptions options_;
  const Handler handler_;
  const std::shared_ptr<ServerCounters> counters_;
  AllConnectionsClosed all_closed_;
  std::uint16_t port_ = 0;

  mutable Mutex mu_;
  std::shared_ptr<const ServerTlsContext> tls_ GUARDED_BY(mu_);
  bool draining_ GUARDED_BY(mu_) = false;
  bool stopped_ GUARDED_BY(mu_) = false;
  Mutex join_mu_;  // held while joining; no lock is taken while it is held

  std::vector<std::unique_ptr<Loop>> loops_;
  // Confined to the first loop's thread, and destroyed before it.
  Acceptor acceptor_;
  Timer accept_timer_;
  Socket accepted_;
  std::size_t next_loop_ = 0;
  bool accept_failing_ = false;
};

Result<std::unique_ptr<Server>> Server::Start(ServerOptions options, Handler handler) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(handler));
  if (Status status = impl->Listen(); !status.ok()) return status;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

std::uint16_t Server::port() const { return impl_->port(); }
Status Server::SetTls(ServerTls tls) {  // NOLINT(performance-unnecessary-value-param)
  return impl_->SetTls(tls);
}
void Server::Drain(std::chrono::milliseconds timeout) { impl_->Drain(timeout); }
void Server::Stop() { impl_->Stop(); }
ServerStats Server::Stats() const { return impl_->Stats(); }

}  // namespace herald::http
