#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "http/client/client_impl.h"

// The connections of a Client: when one is made, which calls it gets, and its TLS material.

namespace herald::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Watches hold their streams for minutes, and other calls must not wait that long. So if all
// streams of all connections are in use, and either no stream has been freed for kStreamWait or a
// call has waited for kLongStreamWait, another connection is made, up to kMaxHttp2Connections.
// Short calls alone, however many, stay on one connection.
constexpr milliseconds kStreamWait{100};
constexpr milliseconds kLongStreamWait{2000};
constexpr std::size_t kMaxHttp2Connections = 8;
// The wait after such a connection could not be made.
constexpr milliseconds kStreamWaitAfterFailure{5000};

}  // namespace

void Client::Impl::StartWaiting() {
  std::size_t i = 0;
  while (!waiting_.empty() && i < connections_.size()) {
    ClientConnection& connection = *connections_[i];
    if (connection.CanStart()) connection.CheckAlive();
    if (!connection.CanStart()) {
      ++i;
      continue;
    }
    Call& call = waiting_.front();
    waiting_.pop_front();
    call.connection = &connection;
    connection.Start(call.id, call.request);
  }
}

void Client::Impl::ConnectIfNeeded() {
  if (stopped_) return;
  std::size_t connecting = 0;
  std::size_t http1 = 0;
  std::size_t http2 = 0;
  for (const auto& connection : connections_) {
    if (connection->connecting())
      ++connecting;
    else if (!connection->draining())
      ++(connection->http2() ? http2 : http1);
  }
  if (http2 > 0) {
    // All their streams are in use.
    if (connecting > 0 || http2 >= kMaxHttp2Connections) return;
    const Time since = waiting_.front().waiting_since;
    const Time due =
        std::max(no_extra_connection_before_,
                 std::min(std::max(since, last_end_) + kStreamWait, since + kLongStreamWait));
    if (due <= steady_clock::now()) return Connect();
    if (std::exchange(stream_wait_set_, true)) return;
    shared_.timers.Add(due, [this] { stream_wait_set_ = false; });  // and AfterEvent()
    return;
  }
  if (!expect_http1_) {
    // Most likely one connection is enough for all calls.
    if (connecting == 0) Connect();
    return;
  }
  const std::size_t room = shared_.options.max_http1_connections;
  std::size_t wanted = 0;
  for (auto it = waiting_.begin(); it != waiting_.end() && wanted < room; ++it) ++wanted;
  while (connecting < wanted && connecting + http1 < room && !waiting_.empty()) {
    Connect();
    ++connecting;
  }
}

void Client::Impl::Connect() {
  std::shared_ptr<const TlsClientContext> context;
  if (shared_.url.scheme == "https" || (shared_.proxy && shared_.proxy->scheme == "https")) {
    Result<std::shared_ptr<const TlsClientContext>> current = CurrentTls();
    if (!current) return OnConnectFailed(steady_clock::now(), current.error().message());
    context = *std::move(current);
  }
  connections_.push_back(std::make_shared<ClientConnection>(shared_, std::move(context)));
  connections_.back()->Connect();
}

Result<std::shared_ptr<const TlsClientContext>> Client::Impl::CurrentTls() {
  Result<ClientTls> tls = ClientTls{};
  if (shared_.options.tls) {
    try {
      tls = shared_.options.tls();
    } catch (const std::exception& e) {
      tls = Status(StatusReason::kUnreachable, e.what());
    } catch (...) {
      tls = Status(StatusReason::kUnreachable, "reading the TLS material threw an exception");
    }
    if (!tls) return tls.error();
    if (!std::exchange(tls_check_set_, true))
      shared_.timers.Add(steady_clock::now() + shared_.options.tls_check_interval,
                         [this] { CheckTls(); });
  }
  if (tls_context_ != nullptr && *tls == tls_) return tls_context_;
  Result<std::shared_ptr<const TlsClientContext>> context = TlsClientContext::Make(*tls);
  if (!context) return context;
  if (tls_context_ != nullptr) {
    Log(LogLevel::kInfo, "TLS material has changed, new connections will use it", "");
    for (const auto& connection : connections_) connection->Retire();
  }
  tls_ = *std::move(tls);
  tls_context_ = *context;
  return context;
}

void Client::Impl::CheckTls() {
  tls_check_set_ = false;
  if (connections_.empty()) return;  // the next connection reads it
  if (const auto current = CurrentTls(); !current) {
    // Existing connections continue. A file that is being written will soon be complete.
    Log(LogLevel::kWarn, "cannot read TLS material", current.error().message());
    if (!std::exchange(tls_check_set_, true))
      shared_.timers.Add(steady_clock::now() + shared_.options.tls_check_interval,
                         [this] { CheckTls(); });
  }
}

void Client::Impl::OnClosed(const ClientConnection& connection, const std::string& cause) {
  Log(LogLevel::kDebug, "connection closed", cause);
  if (!connection.opened() && !stopped_) OnConnectFailed(connection.created(), cause);
}

void Client::Impl::OnConnectFailed(Time since, const std::string& cause) {
  connections_failed_.fetch_add(1, std::memory_order_relaxed);
  const bool others = std::any_of(connections_.begin(), connections_.end(), [](const auto& other) {
    return !other->connecting() && !other->draining();
  });
  if (others && !expect_http1_) {
    // It was an extra connection, made because all streams are in use.
    no_extra_connection_before_ = steady_clock::now() + kStreamWaitAfterFailure;
    return;
  }
  // Calls that waited for it fail. If other connections can serve the rest, only one call fails.
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    Call& call = *it++;
    if (call.waiting_since > since) continue;
    Abandon(call, Unreachable(cause));
    if (others) return;
  }
}

}  // namespace herald::http
