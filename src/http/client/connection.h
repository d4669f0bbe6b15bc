#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/client/client.h"
#include "http/client/codec.h"
#include "http/client/http1.h"
#include "http/client/http2.h"
#include "http/client/proxy.h"
#include "http/client/timers.h"
#include "http/tls/client.h"
#include "http/url.h"

namespace herald::http {

class ClientConnection;

// The state that the connections of one client share. Outlives them. Confined to the client's
// thread.
struct ClientConnectionShared {
  ClientOptions options{};
  Url url{};
  std::optional<Url> proxy{};
  boost::asio::io_context io{1};
  TimerQueue timers{};
  ClientCodecEvents codec_events{};
  // Called when a connection can be used.
  std::function<void(const ClientConnection&)> opened{};
  // Called once and last, when a connection cannot be used any more, or never could.
  std::function<void(const ClientConnection&, const std::string& cause)> closed{};
  // Called after each event: the client starts calls and calls Flush().
  std::function<void()> after_event{};
};

// One connection to the server: resolves the host name, connects, requests a tunnel from the proxy,
// does the TLS handshake, and then moves bytes between the socket and the codec.
//
//   connecting --> [TLS to the proxy] --> [proxy] --> [TLS] --> open --> closed
//       `--------------------`---------------`---------`----------------^
//
// It writes only in Flush(), so that the frames of all calls of one turn of the event loop are sent
// in one write. Owned by the client and by its pending asynchronous operations.
//
// Confined to the client's thread.
class ClientConnection : public std::enable_shared_from_this<ClientConnection> {
 public:
  // The context is for the server and for the proxy; null if neither uses TLS.
  ClientConnection(ClientConnectionShared& shared,
                   std::shared_ptr<const TlsClientContext> tls_context);
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  // Called once. Does not call `closed`.
  void Connect();

  bool connecting() const { return phase_ < Phase::kOpen; }
  bool closed() const { return phase_ == Phase::kClosed; }
  // Whether it could be used at any time.
  bool opened() const { return codec_ != nullptr; }
  bool http2() const { return http2_ != nullptr; }
  TimerQueue::Time created() const { return created_; }
  std::size_t active() const { return codec_ != nullptr ? codec_->active() : 0; }
  // Accepts no more calls.
  bool draining() const {
    return retired_ || closed() || (codec_ != nullptr && codec_->draining());
  }
  bool CanStart() const { return phase_ == Phase::kOpen && !retired_ && codec_->CanStart(); }

  // Closes if the server has closed the connection and the event loop has not yet noticed: a
  // request that is not repeatable must not be sent on such a connection. Only HTTP/1.1 needs this;
  // HTTP/2 servers send GOAWAY. REQUIRES: CanStart()
  void CheckAlive();
  // REQUIRES: CanStart(), and as for ClientCodec::Start()
  void Start(std::uint64_t exchange, const Request& request) { codec_->Start(exchange, request); }
  void Cancel(std::uint64_t exchange) { codec_->Cancel(exchange); }

  // Accepts no more calls, and closes after the last one.
  void Retire() { retired_ = true; }
  // Sends pending output, and closes if nothing more can happen.
  void Flush();
  // Closes now; started calls end with the cause.
  void Close(const std::string& cause);

 private:
  enum class Phase : std::uint8_t { kConnecting, kProxyTls, kProxy, kTls, kOpen, kClosed };
  using Endpoint = boost::asio::ip::tcp::endpoint;

  // Returns a handler for an asynchronous operation. It keeps the connection alive and calls
  // `after_event`.
  template <typename Handler>
  auto Guarded(Handler handler);

  void ConnectNext(const std::string& last_error);
  void OnConnected();
  void ConnectToProxy();
  void RequestTunnel();
  std::string ProxyError(std::string_view cause) const;
  void OnTransportReady();  // TCP, or the tunnel, is established
  void Open(bool http2);
  void Read();
  void OnSocketBytes(std::string_view bytes);
  void OnBytes(std::string_view bytes);  // after the TLS of the proxy, if any, is removed
  void OnReadEnd(bool clean, const boost::system::error_code& error);
  void EndOfStream(bool clean, const std::string& cause);
  // Puts pending output into write_buffer_; with `last` also TLS's close_notify.
  void FillOutput(bool last = false);
  bool expects_traffic() const { return shared_.options.ping_without_calls || !idle_since_; }
  void Tick();
  void ScheduleTick();
  void OnConnectTimeout();

  ClientConnectionShared& shared_;
  const std::shared_ptr<const TlsClientContext> tls_context_;
  const TimerQueue::Time created_ = std::chrono::steady_clock::now();
  const Url* const proxy_url_;  // null: no proxy
  const Url& first_hop_;        // where TCP connects to: the proxy, if there is one
  Phase phase_ = Phase::kConnecting;
  bool retired_ = false;

  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::ip::tcp::socket socket_;
  std::vector<Endpoint> endpoints_{};  // not tried yet, in reverse order
  TimerQueue::Id connect_timer_{};     // for the whole connect
  TimerQueue::Id endpoint_timer_{};    // for one address
  TimerQueue::Time connect_deadline_{};

  std::unique_ptr<TlsClient> proxy_tls_{};
  std::unique_ptr<ProxyClient> proxy_{};

  std::unique_ptr<TlsClient> tls_{};
  std::unique_ptr<ClientCodec> codec_{};
  Http2Client* http2_ = nullptr;  // codec_, if it is an Http2Client

  std::vector<char> read_buffer_{};
  std::string proxy_in_{};
  std::string plain_in_{};
  std::string plain_out_{};
  std::string write_buffer_{};
  bool writing_ = false;
  bool write_failed_ = false;

  TimerQueue::Id tick_timer_{};
  TimerQueue::Time quiet_since_{};                // when bytes were last received or not expected
  std::optional<TimerQueue::Time> pinged_{};      // set if nothing was received since the ping
  std::optional<TimerQueue::Time> idle_since_{};  // set while there are no calls
};

}  // namespace herald::http
