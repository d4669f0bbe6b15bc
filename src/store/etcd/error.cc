#include "store/etcd/error.h"

#include <fmt/core.h>

#include <chrono>
#include <utility>

namespace herald::store {
namespace {

using Done = EtcdVerdict::Done;
using Endpoint = EtcdVerdict::Endpoint;

// A leader is elected within this, unless the cluster is broken.
constexpr std::chrono::seconds kSoon{1};
// Somebody has to compact, defragment and disarm first.
constexpr std::chrono::seconds kNoSpaceRetry{30};

constexpr std::string_view kFull = "etcdserver: mvcc: database space exceeded";

struct Known {
  std::string_view text;
  StatusReason reason;
  Done done;
  bool elsewhere;
  Endpoint endpoint;
  bool token = false;
};

// Where etcd returns each of them says whether the write can have been proposed: everything that
// its interceptors and the start of processInternalRaftRequestOnce() refuse was not, and
// what the applier refuses every member refuses alike. (server/etcdserver/v3_server.go,
// apply/, api/v3rpc/interceptor.go; the same in 3.4.)
constexpr Known kKnown[] = {
    {"etcdserver: mvcc: required revision has been compacted", StatusReason::kExpired, Done::kNo,
     false, Endpoint::kFine},
    {"etcdserver: mvcc: required revision is a future revision", StatusReason::kBadRequest,
     Done::kNo, false, Endpoint::kFine},
    {kFull, StatusReason::kServiceUnavailable, Done::kPerhaps, false, Endpoint::kFine},
    {"etcdserver: too many requests", StatusReason::kServiceUnavailable, Done::kNo, false,
     Endpoint::kFine},
    {"etcdserver: requested lease not found", StatusReason::kNotFound, Done::kNo, false,
     Endpoint::kFine},
    {"etcdserver: too large lease TTL", StatusReason::kBadRequest, Done::kNo, false,
     Endpoint::kFine},
    {"etcdserver: request is too large", StatusReason::kRequestEntityTooLarge, Done::kNo, false,
     Endpoint::kFine},

    {"etcdserver: authentication failed, invalid user ID or password", StatusReason::kUnauthorized,
     Done::kNo, false, Endpoint::kFine},
    // A member forgets tokens that nobody has used there for five minutes.
    {"etcdserver: invalid auth token", StatusReason::kUnauthorized, Done::kNo, false,
     Endpoint::kFine, true},
    // Users or roles were changed since the token was made.
    {"etcdserver: revision of auth store is old", StatusReason::kUnauthorized, Done::kNo, false,
     Endpoint::kFine, true},
    // There was no token, because authentication was off when we asked for one.
    {"etcdserver: user name is empty", StatusReason::kUnauthorized, Done::kNo, false,
     Endpoint::kFine, true},
    {"etcdserver: permission denied", StatusReason::kForbidden, Done::kNo, false, Endpoint::kFine},

    // By the interceptor, because our calls say that they need a leader.
    {"etcdserver: no leader", StatusReason::kServiceUnavailable, Done::kNo, true, Endpoint::kLost},
    {"etcdserver: not capable", StatusReason::kServiceUnavailable, Done::kNo, true,
     Endpoint::kLost},
    {"etcdserver: rpc not supported for learner", StatusReason::kServiceUnavailable, Done::kNo,
     true, Endpoint::kLost},
    {"etcdserver: corrupt cluster", StatusReason::kServiceUnavailable, Done::kNo, true,
     Endpoint::kSuspect},
    // Raft did not take it: the leader is handing over, or too much is uncommitted already.
    {"raft proposal dropped", StatusReason::kServiceUnavailable, Done::kNo, true, Endpoint::kFine},

    // Only reads that wait for the leader's word end so; nothing says that this stays true.
    {"etcdserver: leader changed", StatusReason::kServiceUnavailable, Done::kPerhaps, true,
     Endpoint::kFine},
    {"etcdserver: server stopped", StatusReason::kServiceUnavailable, Done::kPerhaps, true,
     Endpoint::kLost},
    {"etcdserver: request timed out", StatusReason::kServiceUnavailable, Done::kPerhaps, true,
     Endpoint::kSuspect},
    {"etcdserver: request timed out, possibly due to previous leader failure",
     StatusReason::kServiceUnavailable, Done::kPerhaps, true, Endpoint::kSuspect},
    {"etcdserver: request timed out, possibly due to connection lost",
     StatusReason::kServiceUnavailable, Done::kPerhaps, true, Endpoint::kSuspect},
    {"etcdserver: request timed out, waiting for the applied index took too long",
     StatusReason::kServiceUnavailable, Done::kPerhaps, true, Endpoint::kSuspect},
    {"etcdserver: unhealthy cluster", StatusReason::kServiceUnavailable, Done::kPerhaps, true,
     Endpoint::kSuspect},
};

// What begins so, with details behind.
constexpr Known kKnownBeginnings[] = {
    // By the gRPC of etcd, of a request that it did not read to its end.
    {"grpc: received message larger than max", StatusReason::kRequestEntityTooLarge, Done::kNo,
     false, Endpoint::kFine},
};

Known ByCode(GrpcCode code) {
  switch (code) {
    case GrpcCode::kUnauthenticated:
      return {{}, StatusReason::kUnauthorized, Done::kNo, false, Endpoint::kFine};
    case GrpcCode::kPermissionDenied:
      return {{}, StatusReason::kForbidden, Done::kNo, false, Endpoint::kFine};
    case GrpcCode::kInvalidArgument:
      return {{}, StatusReason::kBadRequest, Done::kNo, false, Endpoint::kFine};
    case GrpcCode::kUnimplemented:  // something listens there, but it is no etcd
      return {{}, StatusReason::kServiceUnavailable, Done::kNo, true, Endpoint::kLost};
    case GrpcCode::kUnavailable:
      return {{}, StatusReason::kServiceUnavailable, Done::kPerhaps, true, Endpoint::kLost};
    case GrpcCode::kDeadlineExceeded:
      return {{}, StatusReason::kServiceUnavailable, Done::kPerhaps, true, Endpoint::kSuspect};
    case GrpcCode::kCancelled:
    case GrpcCode::kResourceExhausted:
    case GrpcCode::kDataLoss:
    case GrpcCode::kInternal:  // also a stream that the peer reset
      return {{}, StatusReason::kServiceUnavailable, Done::kPerhaps, true, Endpoint::kSuspect};
    default:
      return {{}, StatusReason::kInternalError, Done::kPerhaps, false, Endpoint::kFine};
  }
}

Known Find(GrpcCode code, std::string_view message) {
  for (const Known& known : kKnown) {
    if (known.text == message) return known;
  }
  for (const Known& known : kKnownBeginnings) {
    if (message.starts_with(known.text)) return known;
  }
  return ByCode(code);
}

}  // namespace

EtcdVerdict JudgeEtcdError(GrpcCode code, std::string_view message) {
  const Known known = Find(code, message);
  Status::Parts parts{.reason = known.reason,
                      .message = message.starts_with("etcdserver: ")
                                     ? std::string(message)
                                     : fmt::format("etcd: {}", message)};
  if (known.reason == StatusReason::kServiceUnavailable) {
    parts.retry_after = message == kFull ? kNoSpaceRetry : kSoon;
  }
  return {.status = Status(std::move(parts)),
          .done = known.done,
          .elsewhere = known.elsewhere,
          .endpoint = known.endpoint,
          .full = message == kFull,
          .token = known.token,
          .no_authentication = message == "etcdserver: authentication is not enabled"};
}

Status WriteStatus(const EtcdVerdict& verdict) {
  if (verdict.done == Done::kNo) return verdict.status;
  // To ask again is safe where it was done: a name exists then, and a count is set, not added to.
  return Status(Status::Parts{.reason = StatusReason::kTimeout,
                              .message = fmt::format("the write may or may not have been done: {}",
                                                     verdict.status.message()),
                              .retry_after = kSoon});
}

std::string_view WatchCancelText(std::string_view reason) {
  constexpr std::string_view kBefore = " desc = ";
  const std::size_t at = reason.find(kBefore);
  return at == std::string_view::npos ? reason : reason.substr(at + kBefore.size());
}

}  // namespace herald::store
