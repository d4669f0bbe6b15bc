#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/status.h"
#include "http/server/server.h"
#include "server/request/request_info.h"

namespace herald::server {

// Special user and group names, as in Kubernetes (apiserver/pkg/authentication/user).
inline constexpr std::string_view kAnonymousUser = "system:anonymous";
inline constexpr std::string_view kAuthenticatedGroup = "system:authenticated";
inline constexpr std::string_view kUnauthenticatedGroup = "system:unauthenticated";
inline constexpr std::string_view kMastersGroup = "system:masters";  // may do everything

// The user who sent a request. An ordinary value.
struct User {
  std::string name{};
  std::string uid{};
  std::vector<std::string> groups{};
  // Additional information from the authenticator, by key ("example.com/team"). Keys are
  // lower-case.
  std::map<std::string, std::vector<std::string>> extra{};

  bool operator==(const User&) const = default;
};

// Identifies the sender of a request by one kind of credentials: a token, a client certificate, or
// the headers of a proxy. Authenticators are called in turn, until one finds its credentials.
//
// Thread-safe.
class Authenticator {
 public:
  // The user; nothing if the request carries no credentials of this kind; an error
  // (kUnauthorized) if it carries bad ones.
  using Done = std::function<void(Result<std::optional<User>>)>;

  virtual ~Authenticator() = default;

  // Calls `done` once, within this call or later on any thread. Only the head of the request is
  // available; the body has not been read. The caller keeps the Authenticator and both references
  // valid until `done` is called.
  virtual void Authenticate(const http::Request& request, const http::Peer& peer,
                            Done done) const = 0;
};

// The result of authorizing a request. An ordinary value.
struct Decision {
  bool allowed = false;
  std::string reason{};  // for people; may be empty
};

// A permission: verbs on resources, or verbs on paths that are not resources. The same as
// PolicyRule of rbac.authorization.k8s.io/v1. An ordinary value.
struct PolicyRule {
  std::vector<std::string> verbs{};
  std::vector<std::string> api_groups{};
  std::vector<std::string> resources{};  // "events", "events/status", "*/status", "*"
  std::vector<std::string> resource_names{};
  std::vector<std::string> non_resource_urls{};  // "/metrics", "/openapi/*", "*"

  bool operator==(const PolicyRule&) const = default;
};

// The rules that apply to a user. An ordinary value.
struct RuleList {
  std::vector<PolicyRule> rules{};
  bool incomplete = false;  // the user may have permissions that are not listed
  std::string error{};      // for people: why some rules could not be found
};

// Decides whether a user may make a request.
//
// Thread-safe.
class Authorizer {
 public:
  using Done = std::function<void(Decision)>;

  virtual ~Authorizer() = default;

  // Calls `done` once, within this call or later on any thread. The caller keeps the Authorizer and
  // both references valid until then.
  virtual void Authorize(const User& user, const RequestInfo& request, Done done) const = 0;

  // The rules that apply to the user in a namespace. For authorizers that use rules.
  virtual RuleList RulesFor(const User& /*user*/, std::string_view /*namespace_*/) const {
    return {.incomplete = true, .error = "the authorizer does not support user rule resolution"};
  }
};

}  // namespace herald::server
