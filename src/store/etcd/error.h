#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "herald/base/status.h"

namespace herald::store {

// The gRPC status codes that are used here. The values are those of the protocol.
enum class GrpcCode : std::uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// What the error of a failed call means.
struct EtcdErrorInfo {
  // The status of a read that failed with this error. For writes, see WriteStatus().
  Status status{};

  // Whether a write may have been applied in spite of the error.
  enum class Applied : std::uint8_t { kNo, kMaybe };
  Applied applied = Applied::kMaybe;

  // Whether another member may succeed.
  bool retry_other_member = false;

  // What follows for the endpoint: it works; it is probed at once; it is not used for a while.
  enum class Endpoint : std::uint8_t { kFine, kSuspect, kLost };
  Endpoint endpoint = Endpoint::kFine;

  // etcd has no space left. Only a read shows whether a write was applied: etcd applies the write
  // that exceeds its quota, and rejects it with the same error as later ones.
  bool out_of_space = false;

  // A retry with a new token may succeed.
  bool needs_new_token = false;
  // etcd's authentication is not enabled, so there are no tokens.
  bool no_authentication = false;
};

// Classifies an error of etcd, or of gRPC. Most errors of etcd differ only in their message (both
// "no leader" and "request timed out" are kUnavailable). So the messages of etcd's rpctypes are
// looked up first. The code decides only if the message is unknown.
//
// REQUIRES: code != kOk
EtcdErrorInfo ClassifyEtcdError(GrpcCode code, std::string_view message);

// The status of a write that failed with this error: kTimeout if it is unknown whether the write
// was applied.
Status WriteStatus(const EtcdErrorInfo& info);

// The error message in the cancel reason of a watch, without the prefix of Go's gRPC ("rpc error:
// code = Unauthenticated desc = ").
std::string_view WatchCancelMessage(std::string_view reason);

// kServiceUnavailable with a retry_after of 1 s.
Status EtcdUnavailable(std::string message);

// The status that Herald's own clients get for an error of etcd. They cannot fix Herald's
// credentials for etcd, so they get kServiceUnavailable for an authentication error.
Status ToClientStatus(const Status& status);

}  // namespace herald::store
