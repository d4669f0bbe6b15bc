#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "server/access/identity.h"

namespace herald::server {

// Authenticates bearer tokens of a file in the format of kube-apiserver's --token-auth-file: one
// CSV line per token, `token,user,uid,"group1,group2"`. The groups are optional. An error names the
// line; `file` is used in messages only.
Result<std::unique_ptr<Authenticator>> MakeTokenAuthenticator(std::string_view csv,
                                                              const std::string& file);

// Authenticates client certificates signed by one of the CAs in `ca` (PEM). The common name is the
// user, and the organizations are the groups. The certificate must be valid, according to `clock`
// (borrowed), at the time of each request: a connection may be older than that.
Result<std::unique_ptr<Authenticator>> MakeCertificateAuthenticator(
    std::string_view ca, const Clock& clock = SystemClock());

// Authenticates users by headers that an authenticating proxy sets. The headers are trusted only if
// the client certificate of the connection was signed by one of the CAs in `ca`, is valid, and has
// one of the allowed common names (if empty, any name).
struct RequestHeaderOptions {
  std::string ca{};              // PEM
  const Clock* clock = nullptr;  // borrowed; null: SystemClock()
  std::vector<std::string> allowed_names{};
  // Lower-case. The first username header with a value is used, and all group headers.
  std::vector<std::string> username_headers{"x-remote-user"};
  std::vector<std::string> group_headers{"x-remote-group"};
};
Result<std::unique_ptr<Authenticator>> MakeRequestHeaderAuthenticator(RequestHeaderOptions options);

// The subprotocols that a WebSocket request offers, except those that carry a token.
std::vector<std::string> WebSocketProtocols(const http::Request& request);

// The authenticators of a server, in the order in which they are called.
using Authenticators = std::vector<std::unique_ptr<Authenticator>>;

// Calls the authenticators in turn, until one of them returns a user or an error. Adds the group
// system:authenticated to the user. A request without credentials is rejected: there is no
// anonymous user. Calls `done` once, within this call or later on any thread; `request` and `peer`
// must stay valid until then.
void Authenticate(std::shared_ptr<const Authenticators> authenticators,
                  const http::Request& request, const http::Peer& peer,
                  std::function<void(Result<User>)> done);

}  // namespace herald::server
