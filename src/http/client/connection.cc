#include "http/client/connection.h"

#include <fmt/core.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <utility>

#include "base/check.h"

namespace herald::http {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::steady_clock;

// Size of one read. As large as the usual receive buffer of the kernel; holds several TLS records.
constexpr std::size_t kReadBytes = 64 * 1024;
// Size of one write: many small requests, or a part of a large one, so that memory is limited for
// bodies of any size.
constexpr std::size_t kWriteBytes = 256 * 1024;

std::string FormatDuration(std::chrono::milliseconds time) {
  return time.count() % 1000 == 0 ? fmt::format("{} s", time.count() / 1000)
                                  : fmt::format("{} ms", time.count());
}

std::string Describe(const error_code& error) {
  if (error == asio::error::connection_refused) return "connection refused";
  if (error == asio::error::connection_reset) return "connection reset by the server";
  if (error == asio::error::eof) return "the server closed the connection";
  std::string message = error.message();
  if (!message.empty() && message[0] >= 'A' && message[0] <= 'Z' && message.size() > 1 &&
      message[1] >= 'a')
    message[0] = static_cast<char>(message[0] - 'A' + 'a');
  return message;
}

}  // namespace

ClientConnection::ClientConnection(ClientConnectionShared& shared,
                                   std::shared_ptr<const TlsClientContext> tls_context)
    : shared_(shared),
      tls_context_(std::move(tls_context)),
      proxy_url_(shared.proxy ? &*shared.proxy : nullptr),
      first_hop_(proxy_url_ != nullptr ? *proxy_url_ : shared.url),
      resolver_(shared.io),
      socket_(shared.io) {}

template <typename Handler>
auto ClientConnection::Guarded(Handler handler) {
  return [self = shared_from_this(), handler = std::move(handler)](auto&&... result) {
    handler(std::forward<decltype(result)>(result)...);
    self->shared_.after_event();
  };
}

void ClientConnection::Connect() {
  const std::chrono::milliseconds timeout = shared_.options.connect_timeout;
  connect_deadline_ = created_ + timeout;
  connect_timer_ = shared_.timers.Add(connect_deadline_, [this] { OnConnectTimeout(); });

  error_code error;
  const asio::ip::address address = asio::ip::make_address(first_hop_.host, error);
  if (!error) {
    // Posted, so that `closed` is not called within this call.
    endpoints_ = {Endpoint(address, first_hop_.port)};
    asio::post(shared_.io, Guarded([this] { ConnectNext(""); }));
    return;
  }
  resolver_.async_resolve(
      first_hop_.host, std::to_string(first_hop_.port),
      Guarded([this](const error_code& failure,
                     const asio::ip::tcp::resolver::results_type& results) {
        if (closed()) return;
        if (failure == asio::error::host_not_found || failure == asio::error::no_data)
          return Close(fmt::format("no such host: {}", first_hop_.host));
        if (failure)
          return Close(fmt::format("cannot resolve {}: {}", first_hop_.host, Describe(failure)));
        for (const auto& result : results) endpoints_.push_back(result.endpoint());
        std::reverse(endpoints_.begin(), endpoints_.end());
        ConnectNext("");
      }));
}

void ClientConnection::ConnectNext(const std::string& last_error) {
  if (closed()) return;
  if (endpoints_.empty()) return Close(last_error);
  const Endpoint endpoint = endpoints_.back();
  // Each address gets its share of the time, so that one that does not respond (often IPv6 without
  // a route) does not use all of it.
  const auto now = steady_clock::now();
  const auto share = (connect_deadline_ - now) / static_cast<int>(endpoints_.size());
  endpoints_.pop_back();
  error_code ignored;
  socket_.close(ignored);
  if (!endpoints_.empty()) {
    endpoint_timer_ = shared_.timers.Add(now + share, [this] {
      error_code none;
      socket_.close(none);  // ends the current connect; the next address is tried
    });
  }
  socket_.async_connect(endpoint, Guarded([this, endpoint](const error_code& error) {
                          shared_.timers.Cancel(endpoint_timer_);
                          if (closed()) return;
                          if (error == asio::error::operation_aborted)
                            return ConnectNext("timed out");
                          if (error) {
                            std::string cause = Describe(error);
                            if (endpoint.address().to_string() != first_hop_.host)
                              cause += fmt::format(" ({})", endpoint.address().to_string());
                            return ConnectNext(proxy_url_ != nullptr ? ProxyError(cause) : cause);
                          }
                          OnConnected();
                        }));
}

void ClientConnection::OnConnected() {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  // TCP keep-alive, because HTTP/1.1 has no pings: a watch whose server has vanished would
  // otherwise wait for two hours.
  const int idle = std::max<int>(
      1, static_cast<int>(
             std::chrono::ceil<std::chrono::seconds>(shared_.options.ping_interval).count()));
  const int interval = std::max<int>(
      1, static_cast<int>(
             std::chrono::ceil<std::chrono::seconds>(shared_.options.ping_timeout).count()) /
             3);
  const int count = 3;
  setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));

  read_buffer_.resize(kReadBytes);
  if (proxy_url_ != nullptr)
    ConnectToProxy();
  else
    OnTransportReady();
  if (!closed()) Read();
}

std::string ClientConnection::ProxyError(std::string_view cause) const {
  return fmt::format("proxy {}: {}", proxy_url_->authority(), cause);
}

void ClientConnection::ConnectToProxy() {
  if (proxy_url_->scheme != "https") return RequestTunnel();
  phase_ = Phase::kProxyTls;
  proxy_tls_ = std::make_unique<TlsClient>(*tls_context_, proxy_url_->host, /*offer_http2=*/false);
  OnSocketBytes({});  // begins the handshake
}

void ClientConnection::RequestTunnel() {
  phase_ = Phase::kProxy;
  proxy_ = ProxyClient::Make(*proxy_url_, shared_.url);
}

void ClientConnection::OnTransportReady() {
  if (shared_.url.scheme != "https") return Open(shared_.options.plain_http2);
  phase_ = Phase::kTls;
  tls_ = std::make_unique<TlsClient>(*tls_context_, shared_.url.host, shared_.options.allow_http2);
  OnBytes({});  // begins the handshake
}

void ClientConnection::Open(bool http2) {
  phase_ = Phase::kOpen;
  shared_.timers.Cancel(connect_timer_);
  if (http2) {
    auto codec = std::make_unique<Http2Client>(shared_.codec_events,
                                               shared_.options.max_header_bytes, tls_ != nullptr);
    http2_ = codec.get();
    codec_ = std::move(codec);
  } else {
    codec_ = std::make_unique<Http1Client>(shared_.codec_events, shared_.options.max_header_bytes);
  }
  quiet_since_ = steady_clock::now();
  ScheduleTick();
  shared_.opened(*this);
}

void ClientConnection::Read() {
  socket_.async_read_some(
      asio::buffer(read_buffer_), Guarded([this](const error_code& error, std::size_t size) {
        if (closed()) return;
        if (error) return OnReadEnd(error == asio::error::eof && proxy_tls_ == nullptr, error);
        quiet_since_ = steady_clock::now();
        if (std::exchange(pinged_, std::nullopt)) ScheduleTick();
        OnSocketBytes({read_buffer_.data(), size});
        if (!closed()) Read();
      }));
}

void ClientConnection::OnSocketBytes(std::string_view bytes) {
  if (proxy_tls_ == nullptr) return OnBytes(bytes);
  proxy_in_.clear();
  const Status status = proxy_tls_->Receive(bytes, &proxy_in_);
  if (phase_ == Phase::kProxyTls) {
    if (!status.ok()) return Close(ProxyError(status.message()));
    if (!proxy_tls_->established()) {
      if (proxy_tls_->ended())
        Close(ProxyError("the proxy closed the connection during the TLS handshake"));
      return;
    }
    RequestTunnel();
  }
  if (!proxy_in_.empty()) OnBytes(proxy_in_);
  if (closed()) return;
  if (!status.ok()) {
    const std::string cause = ProxyError(status.message());
    return codec_ != nullptr ? EndOfStream(false, cause) : Close(cause);
  }
  if (proxy_tls_->ended()) OnReadEnd(true, asio::error::eof);
}

void ClientConnection::OnBytes(std::string_view bytes) {
  if (phase_ == Phase::kProxy) {
    if (const Status status = proxy_->Receive(bytes); !status.ok())
      return Close(ProxyError(status.message()));
    if (!proxy_->established()) return;
    const std::string rest = proxy_->TakeTunnelBytes();
    OnTransportReady();
    if (!closed() && !rest.empty()) OnBytes(rest);
    return;
  }
  if (tls_ == nullptr) return codec_->Receive(bytes);

  plain_in_.clear();
  const Status status = tls_->Receive(bytes, &plain_in_);
  if (phase_ == Phase::kTls) {
    if (!status.ok()) return Close(status.message());
    if (!tls_->established()) {
      if (tls_->ended()) Close("the server closed the connection during the TLS handshake");
      return;
    }
    Open(tls_->http2());
  }
  if (!plain_in_.empty()) codec_->Receive(plain_in_);
  if (!status.ok()) return EndOfStream(false, status.message());
  if (tls_->ended()) EndOfStream(true, Describe(asio::error::eof));
}

// `clean`: the server has closed the connection itself, and an attacker could not have done so.
void ClientConnection::OnReadEnd(bool clean, const error_code& error) {
  const bool eof = error == asio::error::eof;
  switch (phase_) {
    case Phase::kProxyTls:
    case Phase::kProxy:
      return Close(ProxyError(eof ? "the proxy closed the connection" : Describe(error)));
    case Phase::kTls:
      return Close(eof ? "the server closed the connection during the TLS handshake"
                       : Describe(error));
    default:
      // Over TLS only close_notify is a clean end, and that is handled before.
      return EndOfStream(clean && tls_ == nullptr, Describe(error));
  }
}

void ClientConnection::EndOfStream(bool clean, const std::string& cause) {
  codec_->ReceiveEnd(clean, cause);
  Close(cause);
}

void ClientConnection::FillOutput(bool last) {
  write_buffer_.clear();
  if (phase_ == Phase::kProxy) {
    proxy_->Send(&write_buffer_);
  } else if (tls_ == nullptr) {
    if (codec_ != nullptr) codec_->Send(&write_buffer_, kWriteBytes);
  } else {
    if (codec_ != nullptr) {
      plain_out_.clear();
      codec_->Send(&plain_out_, kWriteBytes);
      // An error of sending is also reported by receiving, with a better message.
      if (!plain_out_.empty()) (void)tls_->Send(plain_out_);
    }
    if (last) tls_->SendEnd();
    tls_->TakeOutput(&write_buffer_);
  }
  if (proxy_tls_ == nullptr) return;
  if (!write_buffer_.empty()) (void)proxy_tls_->Send(write_buffer_);
  write_buffer_.clear();
  if (last) proxy_tls_->SendEnd();
  proxy_tls_->TakeOutput(&write_buffer_);
}

void ClientConnection::Flush() {
  if (closed() || phase_ == Phase::kConnecting) return;
  if (!writing_ && !write_failed_) {
    FillOutput();
    if (!write_buffer_.empty()) {
      writing_ = true;
      asio::async_write(socket_, asio::buffer(write_buffer_),
                        Guarded([this](const error_code& error, std::size_t) {
                          writing_ = false;
                          // The server may have responded before it closed: reading continues and
                          // detects the end.
                          if (error) write_failed_ = true;
                        }));
    }
  }
  if (phase_ != Phase::kOpen) return;
  const bool idle = codec_->active() == 0;
  if (codec_->finished() || (idle && draining())) return Close("");
  if (idle != idle_since_.has_value()) {
    if (idle) {
      idle_since_ = steady_clock::now();
    } else {
      idle_since_.reset();
      if (!shared_.options.ping_without_calls) quiet_since_ = steady_clock::now();
    }
    ScheduleTick();
  }
}

void ClientConnection::CheckAlive() {
  if (http2_ != nullptr) return;
  char byte = 0;
  const ssize_t size = recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (size == 0 || (size < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
    Close("");
}

void ClientConnection::Close(const std::string& cause) {
  if (closed()) return;
  shared_.timers.Cancel(connect_timer_);
  shared_.timers.Cancel(endpoint_timer_);
  shared_.timers.Cancel(tick_timer_);
  resolver_.cancel();
  error_code ignored;
  if (codec_ != nullptr) {
    // Sends GOAWAY and close_notify if the socket takes them without waiting.
    if (codec_->active() > 0)
      codec_->ReceiveEnd(false, cause);
    else
      codec_->Shutdown();
    if (!writing_ && !write_failed_) {
      FillOutput(/*last=*/true);
      socket_.non_blocking(true, ignored);
      if (!write_buffer_.empty()) socket_.write_some(asio::buffer(write_buffer_), ignored);
    }
  }
  phase_ = Phase::kClosed;
  socket_.close(ignored);
  shared_.closed(*this, cause);
}

void ClientConnection::OnConnectTimeout() {
  const std::string time = FormatDuration(shared_.options.connect_timeout);
  switch (phase_) {
    case Phase::kProxyTls:
      return Close(ProxyError(fmt::format("the TLS handshake timed out after {}", time)));
    case Phase::kProxy:
      return Close(ProxyError(fmt::format("no response from the proxy within {}", time)));
    case Phase::kTls:
      return Close(fmt::format("the TLS handshake timed out after {}", time));
    default:
      return Close(fmt::format("connecting timed out after {}", time));
  }
}

void ClientConnection::Tick() {
  const auto now = steady_clock::now();
  const ClientOptions& options = shared_.options;
  if (idle_since_ && now - *idle_since_ >= options.idle_timeout) return Close("");
  if (http2_ != nullptr) {
    if (pinged_ && now - *pinged_ >= options.ping_timeout)
      return Close(fmt::format("the server did not answer a ping within {}",
                               FormatDuration(options.ping_timeout)));
    if (!pinged_ && expects_traffic() && now - quiet_since_ >= options.ping_interval) {
      http2_->Ping();
      pinged_ = now;
    }
  }
  ScheduleTick();
}

void ClientConnection::ScheduleTick() {
  const ClientOptions& options = shared_.options;
  auto next = TimerQueue::Time::max();
  if (idle_since_) next = *idle_since_ + options.idle_timeout;
  if (http2_ != nullptr && pinged_)
    next = std::min(next, *pinged_ + options.ping_timeout);
  else if (http2_ != nullptr && expects_traffic())
    next = std::min(next, quiet_since_ + options.ping_interval);
  shared_.timers.Cancel(tick_timer_);
  if (next != TimerQueue::Time::max()) tick_timer_ = shared_.timers.Add(next, [this] { Tick(); });
}

}  // namespace herald::http
