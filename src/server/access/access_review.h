#pragma once

#include <cstddef>
#include <memory>

#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "server/access/identity.h"
#include "server/request/exchange.h"
#include "server/request/request_info.h"

namespace herald::server {

// The reviews in which users query their own identity and permissions. They are not stored: the
// result is the response to the POST.
//
//   SelfSubjectAccessReview  authorization.k8s.io/v1   may I do this?     kubectl auth can-i
//   SelfSubjectRulesReview   authorization.k8s.io/v1   what may I do?     kubectl auth can-i --list
//   SelfSubjectReview        authentication.k8s.io/v1  who am I?          kubectl auth whoami

// A review is a few hundred bytes, and is parsed on the connection's thread.
inline constexpr std::size_t kMaxReviewBytes = std::size_t{64} * 1024;

// Whether the request is for one of these resources.
bool IsReview(const RequestInfo& request);

// Sends the response for the user of the request, as JSON or YAML. The body may also be Kubernetes
// protobuf. Methods other than POST are rejected.
// REQUIRES: IsReview(exchange->admitted().info)
void AnswerReview(const std::shared_ptr<Exchange>& exchange,
                  const std::shared_ptr<const Authorizer>& authorizer, WallTime now);

}  // namespace herald::server
