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

// Tokens that an operator wrote into a file, as for kube-apiserver's --token-auth-file: a CSV
// line per token, `token,user,uid,"group1,group2"`, the groups being optional. An error
// names the line.
Result<std::unique_ptr<Authenticator>> MakeTokenAuthenticator(std::string_view csv,
                                                              const std::string& file);

// Client certificates signed by one of the CAs in `ca` (PEM): the common name is the
// user, the organizations are the groups. A certificate counts only while it is valid by `clock`
// (borrowed), also on a connection that was opened before it expired.
Result<std::unique_ptr<Authenticator>> MakeCertificateAuthenticator(
    std::string_view ca, const Clock& clock = SystemClock());

// Headers that a front proxy sets for the user it has authenticated itself. Believed
// only from a connection whose client certificate was signed by one of the CAs in `ca`, is still
// valid, and has one of the allowed common names (none: any).
struct RequestHeaderOptions {
  std::string ca{};              // PEM
  const Clock* clock = nullptr;  // borrowed; null: SystemClock()
  std::vector<std::string> allowed_names{};
  // Lower-case; the first that the request has counts.
  std::vector<std::string> username_headers{"x-remote-user"};
  std::vector<std::string> group_headers{"x-remote-group"};
};
Result<std::unique_ptr<Authenticator>> MakeRequestHeaderAuthenticator(RequestHeaderOptions options);

// The subprotocols that a WebSocket offers, without a token that is given as one.
std::vector<std::string> WebSocketProtocols(const http::Request& request);

// The ways in which a server authenticates, in the order in which they are asked.
using Authenticators = std::vector<std::unique_ptr<Authenticator>>;

// Asks each in turn. A user that one of them knows is also in the group system:authenticated. A
// request without credentials is refused: there is no anonymous user. Calls `done` once, within
// this call or later on any thread; `request` and `peer` must stay valid until then.
void Authenticate(std::shared_ptr<const Authenticators> authenticators,
                  const http::Request& request, const http::Peer& peer,
                  std::function<void(Result<User>)> done);

}  // namespace herald::server
