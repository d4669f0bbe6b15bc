#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "herald/base/status.h"

namespace herald::store {

// Codes of gRPC that mean something here; the numbers are those of the wire.
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

// What a failed call says about itself and about the member that answered.
struct EtcdVerdict {
  // What to tell whoever asked for a read.
  Status status{};

  // Whether a write may have been carried out all the same.
  enum class Done : std::uint8_t { kNo, kPerhaps };
  Done done = Done::kPerhaps;

  // Whether another member may do better.
  bool elsewhere = false;

  // What becomes of the endpoint: it is fine; it is asked at once whether it is still there; it
  // is left alone for a while.
  enum class Endpoint : std::uint8_t { kFine, kSuspect, kLost };
  Endpoint endpoint = Endpoint::kFine;

  // It is full. Only a read tells whether a write was done: etcd carries out the one that crosses
  // its quota, and refuses it in the same words as those that come after.
  bool full = false;

  // A new token may help.
  bool token = false;
  // There are no tokens here: etcd lets everybody in.
  bool no_authentication = false;
};

// Judges an answer of etcd, or of gRPC in its place. etcd tells most of its errors apart by their
// text alone (no leader and timed out are both kUnavailable), so the texts of its rpctypes
// are looked up first, and the code decides where the text is not known.
//
// REQUIRES: code != kOk
EtcdVerdict JudgeEtcdError(GrpcCode code, std::string_view message);

// What to tell whoever asked for a write: the same, but kTimeout where nobody knows
// whether it was done.
Status WriteStatus(const EtcdVerdict& verdict);

// The text of an error that a watch was cancelled with, without what Go's gRPC puts before it
// ("rpc error: code = Unauthenticated desc = ").
std::string_view WatchCancelText(std::string_view reason);

}  // namespace herald::store
