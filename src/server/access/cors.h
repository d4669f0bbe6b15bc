#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/status.h"
#include "http/message.h"
#include "http/server/server.h"

namespace re2 {
class RE2;
}

namespace herald::server {

// The origins (the sites of web pages) that may use this server from a browser, as configured with
// kube-apiserver's --cors-allowed-origins (apiserver/pkg/server/filters/cors.go). For an allowed
// origin, every response has the Access-Control headers that let the page read it, and WebSockets
// are accepted.
//
// Cheap to copy. Immutable, hence thread-safe. Matching takes time linear in the length of the
// origin, whatever the expressions are.
class Cors {
 public:
  Cors();  // allows no origin
  ~Cors();
  Cors(const Cors&);
  Cors& operator=(const Cors&);

  // Regular expressions in RE2's syntax, which is Go's. One that matches any part of the Origin
  // header allows it, so each must be anchored at both ends of the host, as for kube-apiserver.
  static Result<Cors> Make(const std::vector<std::string>& allowed_origins);

  bool Allows(std::string_view origin) const;

  // The headers of every response to a request with these headers; none if its origin is missing
  // or not allowed.
  http::Headers ResponseHeaders(const http::Headers& request) const;

 private:
  std::vector<std::shared_ptr<const re2::RE2>> allowed_;
};

// A Responder that adds `headers` to the response and forwards everything to `inner`.
std::shared_ptr<http::Responder> AddHeaders(std::shared_ptr<http::Responder> inner,
                                            http::Headers headers);

}  // namespace herald::server
