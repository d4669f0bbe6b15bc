#include "store/etcd/error.h"

#include <fmt/core.h>

#include <chrono>
#include <utility>

namespace herald::store {
namespace {

using Applied = EtcdErrorInfo::Applied;
using Endpoint = EtcdErrorInfo::Endpoint;

// A leader is elected within this time, unless the cluster is broken.
constexpr std::chrono::seconds kRetryAfter{1};
// An operator must compact, defragment and disarm the alarm first.
constexpr std::chrono::seconds kNoSpaceRetry{30};

constexpr std::string_view kOutOfSpace = "etcdserver: mvcc: database space exceeded";

struct ErrorRule {
  std::string_view message;
  StatusReason reason;
  Applied applied;
  bool retry_other_member;
  Endpoint endpoint;
  bool needs_new_token = false;
};

// Whether the write can have been proposed follows from where etcd returns the error. An error of
// the interceptors, or of the start of processInternalRaftRequestOnce(), comes before the proposal.
// An error of the applier is the same on every member. (server/etcdserver/v3_server.go, apply/,
// api/v3rpc/interceptor.go; the same in 3.4.)
constexpr ErrorRule kErrorRules[] = {
    {"etcdserver: mvcc: required revision has been compacted", StatusReason::kExpired, Applied::kNo,
     false, Endpoint::kFine},
    {"etcdserver: mvcc: required revision is a future revision", StatusReason::kBadRequest,
     Applied::kNo, false, Endpoint::kFine},
    {kOutOfSpace, StatusReason::kServiceUnavailable, Applied::kMaybe, false, Endpoint::kFine},
    {"etcdserver: too many requests", StatusReason::kServiceUnavailable, Applied::kNo, false,
     Endpoint::kFine},
    {"etcdserver: requested lease not found", StatusReason::kNotFound, Applied::kNo, false,
     Endpoint::kFine},
    {"etcdserver: too large lease TTL", StatusReason::kBadRequest, Applied::kNo, false,
     Endpoint::kFine},
    {"etcdserver: request is too large", StatusReason::kRequestEntityTooLarge, Applied::kNo, false,
     Endpoint::kFine},

    {"etcdserver: authentication failed, invalid user ID or password", StatusReason::kUnauthorized,
     Applied::kNo, false, Endpoint::kFine},
    // A member drops a token that was not used there for five minutes.
    {"etcdserver: invalid auth token", StatusReason::kUnauthorized, Applied::kNo, false,
     Endpoint::kFine, true},
    // Users or roles were changed after the token was issued.
    {"etcdserver: revision of auth store is old", StatusReason::kUnauthorized, Applied::kNo, false,
     Endpoint::kFine, true},
    // There was no token, because authentication was disabled when it was requested.
    {"etcdserver: user name is empty", StatusReason::kUnauthorized, Applied::kNo, false,
     Endpoint::kFine, true},
    {"etcdserver: permission denied", StatusReason::kForbidden, Applied::kNo, false,
     Endpoint::kFine},

    // From the interceptor, because the calls require a leader.
    {"etcdserver: no leader", StatusReason::kServiceUnavailable, Applied::kNo, true,
     Endpoint::kLost},
    {"etcdserver: not capable", StatusReason::kServiceUnavailable, Applied::kNo, true,
     Endpoint::kLost},
    {"etcdserver: rpc not supported for learner", StatusReason::kServiceUnavailable, Applied::kNo,
     true, Endpoint::kLost},
    {"etcdserver: corrupt cluster", StatusReason::kServiceUnavailable, Applied::kNo, true,
     Endpoint::kSuspect},
    // Raft rejected it: leadership is being transferred, or there are too many uncommitted entries.
    {"raft proposal dropped", StatusReason::kServiceUnavailable, Applied::kNo, true,
     Endpoint::kFine},

    // Only linearizable reads return this today, but etcd does not guarantee it.
    {"etcdserver: leader changed", StatusReason::kServiceUnavailable, Applied::kMaybe, true,
     Endpoint::kFine},
    {"etcdserver: server stopped", StatusReason::kServiceUnavailable, Applied::kMaybe, true,
     Endpoint::kLost},
    {"etcdserver: request timed out", StatusReason::kServiceUnavailable, Applied::kMaybe, true,
     Endpoint::kSuspect},
    {"etcdserver: request timed out, possibly due to previous leader failure",
     StatusReason::kServiceUnavailable, Applied::kMaybe, true, Endpoint::kSuspect},
    {"etcdserver: request timed out, possibly due to connection lost",
     StatusReason::kServiceUnavailable, Applied::kMaybe, true, Endpoint::kSuspect},
    {"etcdserver: request timed out, waiting for the applied index took too long",
     StatusReason::kServiceUnavailable, Applied::kMaybe, true, Endpoint::kSuspect},
    {"etcdserver: unhealthy cluster", StatusReason::kServiceUnavailable, Applied::kMaybe, true,
     Endpoint::kSuspect},
};

// Messages that start like this, followed by details.
constexpr ErrorRule kErrorPrefixRules[] = {
    // From etcd's gRPC server, which did not read the whole request.
    {"grpc: received message larger than max", StatusReason::kRequestEntityTooLarge, Applied::kNo,
     false, Endpoint::kFine},
};

ErrorRule RuleForCode(GrpcCode code) {
  switch (code) {
    case GrpcCode::kUnauthenticated:
      return {{}, StatusReason::kUnauthorized, Applied::kNo, false, Endpoint::kFine};
    case GrpcCode::kPermissionDenied:
      return {{}, StatusReason::kForbidden, Applied::kNo, false, Endpoint::kFine};
    case GrpcCode::kInvalidArgument:
      return {{}, StatusReason::kBadRequest, Applied::kNo, false, Endpoint::kFine};
    case GrpcCode::kUnimplemented:  // a server that is not etcd
      return {{}, StatusReason::kServiceUnavailable, Applied::kNo, true, Endpoint::kLost};
    case GrpcCode::kUnavailable:
      return {{}, StatusReason::kServiceUnavailable, Applied::kMaybe, true, Endpoint::kLost};
    case GrpcCode::kDeadlineExceeded:
      return {{}, StatusReason::kServiceUnavailable, Applied::kMaybe, true, Endpoint::kSuspect};
    case GrpcCode::kCancelled:
    case GrpcCode::kResourceExhausted:
    case GrpcCode::kDataLoss:
    case GrpcCode::kInternal:  // also if the peer reset the stream
      return {{}, StatusReason::kServiceUnavailable, Applied::kMaybe, true, Endpoint::kSuspect};
    default:
      return {{}, StatusReason::kInternalError, Applied::kMaybe, false, Endpoint::kFine};
  }
}

ErrorRule FindRule(GrpcCode code, std::string_view message) {
  for (const ErrorRule& rule : kErrorRules) {
    if (rule.message == message) return rule;
  }
  for (const ErrorRule& rule : kErrorPrefixRules) {
    if (message.starts_with(rule.message)) return rule;
  }
  return RuleForCode(code);
}

}  // namespace

EtcdErrorInfo ClassifyEtcdError(GrpcCode code, std::string_view message) {
  const ErrorRule rule = FindRule(code, message);
  Status::Parts parts{.reason = rule.reason,
                      .message = message.starts_with("etcdserver: ")
                                     ? std::string(message)
                                     : fmt::format("etcd: {}", message)};
  if (rule.reason == StatusReason::kServiceUnavailable) {
    parts.retry_after = message == kOutOfSpace ? kNoSpaceRetry : kRetryAfter;
  }
  return {.status = Status(std::move(parts)),
          .applied = rule.applied,
          .retry_other_member = rule.retry_other_member,
          .endpoint = rule.endpoint,
          .out_of_space = message == kOutOfSpace,
          .needs_new_token = rule.needs_new_token,
          .no_authentication = message == "etcdserver: authentication is not enabled"};
}

Status WriteStatus(const EtcdErrorInfo& info) {
  if (info.applied == Applied::kNo) return info.status;
  // A retry is safe if the write was applied: a create then finds the name in use, and an update
  // sets a count instead of adding to it.
  return Status(Status::Parts{
      .reason = StatusReason::kTimeout,
      .message =
          fmt::format("the write may or may not have been applied: {}", info.status.message()),
      .retry_after = kRetryAfter});
}

std::string_view WatchCancelMessage(std::string_view reason) {
  constexpr std::string_view kSeparator = " desc = ";
  const std::size_t at = reason.find(kSeparator);
  return at == std::string_view::npos ? reason : reason.substr(at + kSeparator.size());
}

Status EtcdUnavailable(std::string message) {
  return Status(Status::Parts{.reason = StatusReason::kServiceUnavailable,
                              .message = std::move(message),
                              .retry_after = kRetryAfter});
}

Status ToClientStatus(const Status& status) {
  if (status.Is(StatusReason::kUnauthorized) || status.Is(StatusReason::kForbidden)) {
    return EtcdUnavailable("etcd rejected our credentials: " + status.message());
  }
  // kube-apiserver returns this error without a reason, as an unexpected one.
  if (status.Is(StatusReason::kRequestEntityTooLarge)) {
    return Status(StatusReason::kUnknown, status.message());
  }
  return status;
}

}  // namespace herald::store
