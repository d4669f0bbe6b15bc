#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "herald/base/status.h"
#include "http/message.h"
#include "server/access/identity.h"
#include "server/request/request_info.h"

namespace herald::server {

// An Impersonation decides whether a request may act as another user, which it names in
// Impersonate-User and, optionally, Impersonate-Uid, Impersonate-Group and Impersonate-Extra-<key>.
// `kubectl --as` and proxies that authenticate users themselves send these headers.
//
// Permission is granted in modes, which are tried in this order. In each, every check must be
// allowed for the requestor, the user whose credentials came with the request:
//
//   associated-node   a service account that runs on the node it impersonates
//   arbitrary-node    any node (system:node:<name>), with nothing but the name
//   serviceaccount    any service account, with nothing but the name
//   user-info         any other user
//   legacy            any user, with the verb `impersonate`
//
// All but the last are constrained: besides `impersonate:<mode>` on the user, the requestor needs
// `impersonate-on:<mode>:<verb>` on what the request is about, and may not become a member of
// system:masters. If no mode succeeds, the error is that of the first mode that applies.
// This is kube-apiserver's behavior (apiserver/pkg/endpoints/filters/impersonation, with the
// feature gate ConstrainedImpersonation, which is on by default), except that kube-apiserver
// caches allowed requests for 10 seconds, and tries the requestor's last successful mode first.
//
// It does not call the authorizer, so that the caller can authorize asynchronously:
//
//   while (const RequestInfo* check = impersonation.check())
//     impersonation.Answer(<may the requestor do *check?>);
//   Result<User> user = impersonation.TakeResult();
//
// The number of checks is bounded by the number of header fields.
//
// Confined to one thread at a time.
class Impersonation {
 public:
  // Reads the impersonation headers of a request and removes them, so that later stages cannot
  // depend on them. `request` is the parsed request. Returns nothing if the request does not
  // impersonate. Fails with kBadRequest if it has groups, a uid or extra values without a user.
  static Result<std::optional<Impersonation>> Take(http::Headers* headers, const User& requestor,
                                                   const RequestInfo& request);

  // The next check to authorize for the requestor. Null when the result is known. The pointer is
  // valid until Answer() is called.
  const RequestInfo* check() const;
  // The answer to check(). `reason` is the authorizer's reason for a denial; it may be empty.
  // REQUIRES: check() is not null
  void Answer(bool allowed, std::string_view reason = {});

  // The impersonated user, or kForbidden. REQUIRES: check() is null
  Result<User> TakeResult();

 private:
  struct Step {
    RequestInfo check;
    // If not empty, the step is denied for this reason without a check.
    std::string denial{};
    // Number of following steps to skip if the check is allowed. If it is denied, these steps
    // decide.
    std::size_t shortcut = 0;
  };
  struct Mode {
    std::vector<Step> steps;
    User user;  // the impersonated user if every step is allowed
  };
  class Planner;

  explicit Impersonation(User requestor) : requestor_(std::move(requestor)) {}

  // Ends the current mode because its current step is denied.
  void Deny(std::string_view reason);
  // Skips modes whose current step is denied without a check.
  void SkipDeniedModes();

  User requestor_;
  std::vector<Mode> modes_;
  std::size_t mode_ = 0;
  std::size_t step_ = 0;
  Status denial_;  // of the first mode that failed
};

}  // namespace herald::server
