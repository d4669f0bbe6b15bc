#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "herald/base/status.h"
#include "http/url.h"

namespace herald::http {

// A ProxyClient asks a proxy for a tunnel to a server. It does no I/O: it is given what
// the proxy said and says what to send. There are two, CONNECT and SOCKS5; whether the proxy
// is spoken to over TLS is not its business.
//
// Thread-confined.
class ProxyClient {
 public:
  // The one that the scheme of the proxy's URL asks for.
  static std::unique_ptr<ProxyClient> Make(const Url& proxy, const Url& server);
  virtual ~ProxyClient() = default;

  // Takes what the proxy said. An error is final, and says why there is no tunnel.
  virtual Status Receive(std::string_view bytes) = 0;
  // Appends what is to be sent now.
  virtual void Send(std::string* out) = 0;
  // The tunnel is there: nothing more is sent or received here.
  virtual bool established() const = 0;
  // The first bytes of the tunnel, if some came with the proxy's last word.
  // REQUIRES: established()
  virtual std::string TakeTunnelBytes() = 0;
};

}  // namespace herald::http
