#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "herald/base/status.h"
#include "http/url.h"

namespace herald::http {

// Requests a tunnel to a server from a proxy, with CONNECT or SOCKS5. It does no I/O: the
// connection passes the bytes of the proxy to Receive() and sends the bytes of Send(), over TLS or
// not.
//
// Thread-confined.
class ProxyClient {
 public:
  // Chooses the protocol by the scheme of the proxy's URL.
  static std::unique_ptr<ProxyClient> Make(const Url& proxy, const Url& server);
  virtual ~ProxyClient() = default;

  // Processes bytes from the proxy. An error is final; its message is the reason.
  virtual Status Receive(std::string_view bytes) = 0;
  // Appends the bytes to send now.
  virtual void Send(std::string* out) = 0;
  // The tunnel is established; nothing more is sent or received here.
  virtual bool established() const = 0;
  // The first bytes of the tunnel, if any came with the last message of the proxy.
  // REQUIRES: established()
  virtual std::string TakeTunnelBytes() = 0;
};

}  // namespace herald::http
