#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/status.h"
#include "server/identity.h"

namespace herald::server {

// Tokens that an operator wrote into a file, as for kube-apiserver's --token-auth-file: a CSV
// line per token, `token,user,uid,"group1,group2"`, the groups being optional. An error
// names the line.
Result<std::unique_ptr<Authenticator>> MakeTokenAuthenticator(std::string_view csv,
                                                              const std::string& file);

// Client certificates signed by one of the CAs in `ca` (PEM): the common name is the
// user, the organizations are the groups.
Result<std::unique_ptr<Authenticator>> MakeCertificateAuthenticator(std::string_view ca);

// Headers that a front proxy sets for the user it has authenticated itself. Believed
// only from a connection whose client certificate was signed by one of the CAs in `ca` and has
// one of the allowed common names (none: any).
struct RequestHeaderOptions {
  std::string ca{};  // PEM
  std::vector<std::string> allowed_names{};
  // Lower-case; the first that the request has counts.
  std::vector<std::string> username_headers{"x-remote-user"};
  std::vector<std::string> group_headers{"x-remote-group"};
};
Result<std::unique_ptr<Authenticator>> MakeRequestHeaderAuthenticator(RequestHeaderOptions options);

// The subprotocols that a WebSocket offers, without a token that is given as one.
std::vector<std::string> WebSocketProtocols(const http::Request& request);

// Asks each in turn; whoever is known is also in the group system:authenticated. A
// request without credentials that anyone knows is refused: there is no anonymous user.
Result<User> Authenticate(const std::vector<std::unique_ptr<Authenticator>>& ways,
                          const http::Request& request, const http::Peer& peer);

}  // namespace herald::server
