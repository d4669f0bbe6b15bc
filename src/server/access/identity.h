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

// Names with a meaning of their own, as in Kubernetes (apiserver/pkg/authentication/user).
inline constexpr std::string_view kAnonymousUser = "system:anonymous";
inline constexpr std::string_view kAuthenticatedGroup = "system:authenticated";
inline constexpr std::string_view kUnauthenticatedGroup = "system:unauthenticated";
inline constexpr std::string_view kMastersGroup = "system:masters";  // may do everything

// Who is asking. An ordinary value.
struct User {
  std::string name{};
  std::string uid{};
  std::vector<std::string> groups{};
  // What else the authenticator knows, by key ("example.com/team"). Keys are lower-case.
  std::map<std::string, std::vector<std::string>> extra{};

  bool operator==(const User&) const = default;
};

// One way in which a request can prove who sent it: a token, a client certificate, the headers of
// a front proxy. Authenticators are asked in turn, and the first that knows the sender decides.
//
// Thread-safe.
class Authenticator {
 public:
  // The user; nothing if the request carries no credentials of this kind; an error
  // (kUnauthorized) if it carries bad ones.
  using Done = std::function<void(Result<std::optional<User>>)>;

  virtual ~Authenticator() = default;

  // Calls `done` once: within this call, or later on any thread. It looks at the head of the
  // request; the body is not read yet. The caller keeps both references valid until `done` is
  // called, and the Authenticator itself.
  virtual void Authenticate(const http::Request& request, const http::Peer& peer,
                            Done done) const = 0;
};

// Whether a user may do something.
struct Decision {
  bool allowed = false;
  std::string reason{};  // for people; may be empty
};

// What a role grants: verbs on resources, or verbs on paths that are not resources. As
// rbac.authorization.k8s.io/v1 PolicyRule. An ordinary value.
struct PolicyRule {
  std::vector<std::string> verbs{};
  std::vector<std::string> api_groups{};
  std::vector<std::string> resources{};  // "events", "events/status", "*/status", "*"
  std::vector<std::string> resource_names{};
  std::vector<std::string> non_resource_urls{};  // "/metrics", "/openapi/*", "*"

  bool operator==(const PolicyRule&) const = default;
};

// Which rules apply to a user.
struct RuleList {
  std::vector<PolicyRule> rules{};
  bool incomplete = false;  // the user may have permissions that are not listed
  std::string error{};      // for people: why some rules could not be found
};

// Decides who may do what.
//
// Thread-safe.
class Authorizer {
 public:
  using Done = std::function<void(Decision)>;

  virtual ~Authorizer() = default;

  // Calls `done` once: within this call, or later on any thread. The caller keeps both references
  // valid until then, and the Authorizer itself.
  virtual void Authorize(const User& user, const RequestInfo& request, Done done) const = 0;

  // The rules that apply to the user in a namespace, if decisions are made by rules.
  virtual RuleList RulesFor(const User& /*user*/, std::string_view /*namespace_*/) const {
    return {.incomplete = true, .error = "the authorizer does not support user rule resolution"};
  }
};

}  // namespace herald::server
