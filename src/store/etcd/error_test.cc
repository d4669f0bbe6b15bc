#include "store/etcd/error.h"

#include <gtest/gtest.h>

#include <chrono>

namespace herald::store {
namespace {

using Endpoint = EtcdErrorInfo::Endpoint;

struct Scenario {
  GrpcCode code;
  const char* message;
  StatusReason read;
  StatusReason write;
  bool retry_other_member;
  Endpoint endpoint;
  bool needs_new_token = false;
};

constexpr Scenario kScenarios[] = {
    // Permanent errors.
    {GrpcCode::kOutOfRange, "etcdserver: mvcc: required revision has been compacted",
     StatusReason::kExpired, StatusReason::kExpired, false, Endpoint::kFine},
    {GrpcCode::kOutOfRange, "etcdserver: mvcc: required revision is a future revision",
     StatusReason::kBadRequest, StatusReason::kBadRequest, false, Endpoint::kFine},
    {GrpcCode::kNotFound, "etcdserver: requested lease not found", StatusReason::kNotFound,
     StatusReason::kNotFound, false, Endpoint::kFine},
    {GrpcCode::kInvalidArgument, "etcdserver: request is too large",
     StatusReason::kRequestEntityTooLarge, StatusReason::kRequestEntityTooLarge, false,
     Endpoint::kFine},
    {GrpcCode::kResourceExhausted, "grpc: received message larger than max (4194326 vs. 2097152)",
     StatusReason::kRequestEntityTooLarge, StatusReason::kRequestEntityTooLarge, false,
     Endpoint::kFine},
    {GrpcCode::kInvalidArgument, "etcdserver: duplicate key given in txn request",
     StatusReason::kBadRequest, StatusReason::kBadRequest, false, Endpoint::kFine},
    {GrpcCode::kResourceExhausted, "etcdserver: mvcc: database space exceeded",
     StatusReason::kServiceUnavailable, StatusReason::kTimeout, false, Endpoint::kFine},
    {GrpcCode::kResourceExhausted, "etcdserver: too many requests",
     StatusReason::kServiceUnavailable, StatusReason::kServiceUnavailable, false, Endpoint::kFine},
    // Authentication and authorization.
    {GrpcCode::kInvalidArgument, "etcdserver: authentication failed, invalid user ID or password",
     StatusReason::kUnauthorized, StatusReason::kUnauthorized, false, Endpoint::kFine},
    {GrpcCode::kUnauthenticated, "etcdserver: invalid auth token", StatusReason::kUnauthorized,
     StatusReason::kUnauthorized, false, Endpoint::kFine, true},
    {GrpcCode::kInvalidArgument, "etcdserver: revision of auth store is old",
     StatusReason::kUnauthorized, StatusReason::kUnauthorized, false, Endpoint::kFine, true},
    {GrpcCode::kInvalidArgument, "etcdserver: user name is empty", StatusReason::kUnauthorized,
     StatusReason::kUnauthorized, false, Endpoint::kFine, true},
    {GrpcCode::kPermissionDenied, "etcdserver: permission denied", StatusReason::kForbidden,
     StatusReason::kForbidden, false, Endpoint::kFine},
    // Rejected before it was proposed: not applied, and another member may accept it.
    {GrpcCode::kUnavailable, "etcdserver: no leader", StatusReason::kServiceUnavailable,
     StatusReason::kServiceUnavailable, true, Endpoint::kLost},
    {GrpcCode::kFailedPrecondition, "etcdserver: rpc not supported for learner",
     StatusReason::kServiceUnavailable, StatusReason::kServiceUnavailable, true, Endpoint::kLost},
    {GrpcCode::kUnknown, "raft proposal dropped", StatusReason::kServiceUnavailable,
     StatusReason::kServiceUnavailable, true, Endpoint::kFine},
    {GrpcCode::kDataLoss, "etcdserver: corrupt cluster", StatusReason::kServiceUnavailable,
     StatusReason::kServiceUnavailable, true, Endpoint::kSuspect},
    // Unknown whether it was applied.
    {GrpcCode::kUnavailable, "etcdserver: leader changed", StatusReason::kServiceUnavailable,
     StatusReason::kTimeout, true, Endpoint::kFine},
    {GrpcCode::kUnavailable, "etcdserver: server stopped", StatusReason::kServiceUnavailable,
     StatusReason::kTimeout, true, Endpoint::kLost},
    {GrpcCode::kUnavailable, "etcdserver: request timed out", StatusReason::kServiceUnavailable,
     StatusReason::kTimeout, true, Endpoint::kSuspect},
    {GrpcCode::kUnavailable, "Socket closed", StatusReason::kServiceUnavailable,
     StatusReason::kTimeout, true, Endpoint::kLost},
    {GrpcCode::kDeadlineExceeded, "Deadline Exceeded", StatusReason::kServiceUnavailable,
     StatusReason::kTimeout, true, Endpoint::kSuspect},
    {GrpcCode::kResourceExhausted, "grpc: trying to send message larger than max (5 vs. 4)",
     StatusReason::kServiceUnavailable, StatusReason::kTimeout, true, Endpoint::kSuspect},
    {GrpcCode::kInternal, "Received RST_STREAM with error code 2",
     StatusReason::kServiceUnavailable, StatusReason::kTimeout, true, Endpoint::kSuspect},
    {GrpcCode::kUnknown, "an error of a later etcd", StatusReason::kInternalError,
     StatusReason::kTimeout, false, Endpoint::kFine},
    // A server that is not etcd.
    {GrpcCode::kUnimplemented, "unknown service etcdserverpb.KV", StatusReason::kServiceUnavailable,
     StatusReason::kServiceUnavailable, true, Endpoint::kLost},
};

TEST(EtcdError, IsClassifiedForReadsForWritesAndForTheEndpoint) {
  for (const Scenario& scenario : kScenarios) {
    SCOPED_TRACE(scenario.message);
    const EtcdErrorInfo info = ClassifyEtcdError(scenario.code, scenario.message);
    EXPECT_EQ(ReasonName(info.status.reason()), ReasonName(scenario.read));
    EXPECT_EQ(ReasonName(WriteStatus(info).reason()), ReasonName(scenario.write));
    EXPECT_EQ(info.retry_other_member, scenario.retry_other_member);
    EXPECT_EQ(info.endpoint, scenario.endpoint);
    EXPECT_EQ(info.needs_new_token, scenario.needs_new_token);
    EXPECT_NE(info.status.message().find(scenario.message), std::string::npos);
  }
}

TEST(EtcdError, HasARetryAfterIfEtcdIsUnavailable) {
  for (const Scenario& scenario : kScenarios) {
    SCOPED_TRACE(scenario.message);
    const EtcdErrorInfo info = ClassifyEtcdError(scenario.code, scenario.message);
    for (const Status& status : {info.status, WriteStatus(info)}) {
      EXPECT_EQ(status.retry_after() > std::chrono::seconds(0),
                status.Is(StatusReason::kServiceUnavailable) || status.Is(StatusReason::kTimeout));
    }
  }
}

TEST(EtcdError, DetectsThatAuthenticationIsDisabled) {
  EXPECT_TRUE(
      ClassifyEtcdError(GrpcCode::kFailedPrecondition, "etcdserver: authentication is not enabled")
          .no_authentication);
}

TEST(EtcdError, FindsTheMessageInTheCancelReasonOfAWatch) {
  EXPECT_EQ(
      WatchCancelMessage("rpc error: code = Unauthenticated desc = etcdserver: invalid auth token"),
      "etcdserver: invalid auth token");
  EXPECT_EQ(WatchCancelMessage("etcdserver: mvcc: required revision has been compacted"),
            "etcdserver: mvcc: required revision has been compacted");
  EXPECT_EQ(WatchCancelMessage(""), "");
}

}  // namespace
}  // namespace herald::store
