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

// What the connections of one client share. Outlives them.
struct ClientConnectionShared {
  ClientOptions options{};
  Url url{};
  std::optional<Url> proxy{};
  boost::asio::io_context io{1};
  TimerQueue timers{};
  ClientCodecEvents codec_events{};
  // The connection can be used.
  std::function<void(const ClientConnection&)> opened{};
  // It cannot be used any more, or never could; why. Once and last.
  std::function<void(const ClientConnection&, const std::string& cause)> closed{};
  // Called after each thing that happened: time to start calls and to Flush().
  std::function<void()> after_event{};
};

// One connection to the server: resolves, connects, asks the proxy, shakes hands, and
// then moves bytes between the socket and the codec.
//
//   connecting --> [TLS to the proxy] --> [proxy] --> [TLS] --> open --> closed
//       `--------------------`---------------`---------`----------------^
//
// It writes only in Flush(), so that the frames of all calls of one turn of the event
// loop leave in one write. Held by the client and by what it waits for.
//
// Thread-confined: to the client's.
class ClientConnection : public std::enable_shared_from_this<ClientConnection> {
 public:
  // The context is for the server and for the proxy; null where neither has TLS.
  ClientConnection(ClientConnectionShared& shared,
                   std::shared_ptr<const TlsClientContext> tls_context);
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  // Once. `closed` is never called from inside of it.
  void Connect();

  bool connecting() const { return phase_ < Phase::kOpen; }
  bool closed() const { return phase_ == Phase::kClosed; }
  // Whether it ever could be used.
  bool opened() const { return codec_ != nullptr; }
  bool http2() const { return http2_ != nullptr; }
  TimerQueue::Time created() const { return created_; }
  std::size_t active() const { return codec_ != nullptr ? codec_->active() : 0; }
  // Takes no more calls.
  bool draining() const {
    return retired_ || closed() || (codec_ != nullptr && codec_->draining());
  }
  bool CanStart() const { return phase_ == Phase::kOpen && !retired_ && codec_->CanStart(); }

  // Closes if the server has done so and the event loop has not come round to see it: a
  // request that is not repeatable must not be lost to a connection known to be dead.
  // Only HTTP/1.1 needs it, HTTP/2 servers say goodbye. REQUIRES: CanStart()
  void CheckAlive();
  // REQUIRES: CanStart(); the rest as ClientCodec says
  void Start(std::uint64_t exchange, const Request& request) { codec_->Start(exchange, request); }
  void Cancel(std::uint64_t exchange) { codec_->Cancel(exchange); }

  // Takes no more calls and closes after the last.
  void Retire() { retired_ = true; }
  // Sends what there is to send and closes where nothing more is to come.
  void Flush();
  // Closes now; calls under way end with the cause.
  void Close(const std::string& cause);

 private:
  enum class Phase : std::uint8_t { kConnecting, kProxyTls, kProxy, kTls, kOpen, kClosed };
  using Endpoint = boost::asio::ip::tcp::endpoint;

  // A handler of something asynchronous that settles afterwards.
  template <typename Handler>
  auto Guarded(Handler handler);

  void ConnectNext(const std::string& last_error);
  void OnConnected();
  void ConnectToProxy();
  void RequestTunnel();
  std::string ProxyError(std::string_view cause) const;
  void OnTransportReady();  // TCP, or the tunnel, is there
  void Open(bool http2);
  void Read();
  void OnSocketBytes(std::string_view bytes);
  void OnBytes(std::string_view bytes);  // what is behind the TLS of the proxy, if that has any
  void OnReadEnd(bool clean, const boost::system::error_code& error);
  void EndOfStream(bool clean, const std::string& cause);
  // What there is to send; with `last` the ends of TLS, too.
  void FillOutput(bool last = false);
  bool expects_traffic() const { return shared_.options.ping_without_calls || !idle_since_; }
  void Tick();
  void ScheduleTick();
  void OnConnectTimeout();

  ClientConnectionShared& shared_;
  const std::shared_ptr<const TlsClientContext> tls_context_;
  const TimerQueue::Time created_ = std::chrono::steady_clock::now();
  const Url* const proxy_url_;  // null: none
  const Url& first_hop_;        // what TCP connects to: the proxy, if there is one
  Phase phase_ = Phase::kConnecting;
  bool retired_ = false;

  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::ip::tcp::socket socket_;
  std::vector<Endpoint> endpoints_{};  // still to be tried, last first
  TimerQueue::Id connect_timer_{};     // for all of it
  TimerQueue::Id endpoint_timer_{};    // for one address
  TimerQueue::Time connect_deadline_{};

  std::unique_ptr<TlsClient> proxy_tls_{};
  std::unique_ptr<ProxyClient> proxy_{};

  std::unique_ptr<TlsClient> tls_{};
  std::unique_ptr<ClientCodec> codec_{};
  Http2Client* http2_ = nullptr;  // codec_, if it is one

  std::vector<char> read_buffer_{};
  std::string proxy_in_{};
  std::string plain_in_{};
  std::string plain_out_{};
  std::string write_buffer_{};
  bool writing_ = false;
  bool write_failed_ = false;

  TimerQueue::Id tick_timer_{};
  TimerQueue::Time quiet_since_{};                // nothing received, though perhaps expected
  std::optional<TimerQueue::Time> pinged_{};      // and nothing received since
  std::optional<TimerQueue::Time> idle_since_{};  // while there are no calls
};

}  // namespace herald::http
