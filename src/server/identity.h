#pragma once

#include <optional>
#include <string>
#include <vector>

#include "herald/base/status.h"
#include "http/server.h"

namespace herald::server {

// Who is asking. An ordinary value.
struct User {
  std::string name{};
  std::string uid{};
  std::vector<std::string> groups{};

  bool operator==(const User&) const = default;
};

// One way in which a request can say who sent it. Tokens, client certificates and the
// headers of a front proxy are three; they are asked in turn, and the first who knows
// the sender decides.
//
// Thread-safe.
class Authenticator {
 public:
  virtual ~Authenticator() = default;

  // The user; nothing where the request carries no credentials of this kind; an error
  // (kUnauthorized) where it carries bad ones.
  virtual Result<std::optional<User>> Authenticate(const http::Request& request,
                                                   const http::Peer& peer) const = 0;
};

}  // namespace herald::server
