#include "herald/base/status.h"

#include <cstddef>
#include <iterator>

namespace herald {
namespace {

struct ReasonRow {
  StatusReason reason;
  std::string_view name;
  int code;
};

// The names and HTTP codes of all reasons. Kubernetes' are from apimachinery's
// pkg/apis/meta/v1/types.go and pkg/api/errors/errors.go. Two are unexpected: the name of
// StoreReadError is "StorageReadError", and the code of ServerTimeout is 500, while that of Timeout
// is 504.
constexpr ReasonRow kReasons[] = {
    {StatusReason::kOk, "", 200},
    {StatusReason::kUnknown, "", 500},
    {StatusReason::kUnauthorized, "Unauthorized", 401},
    {StatusReason::kForbidden, "Forbidden", 403},
    {StatusReason::kNotFound, "NotFound", 404},
    {StatusReason::kAlreadyExists, "AlreadyExists", 409},
    {StatusReason::kConflict, "Conflict", 409},
    {StatusReason::kGone, "Gone", 410},
    {StatusReason::kInvalid, "Invalid", 422},
    {StatusReason::kServerTimeout, "ServerTimeout", 500},
    {StatusReason::kStoreReadError, "StorageReadError", 500},
    {StatusReason::kTimeout, "Timeout", 504},
    {StatusReason::kTooManyRequests, "TooManyRequests", 429},
    {StatusReason::kBadRequest, "BadRequest", 400},
    {StatusReason::kMethodNotAllowed, "MethodNotAllowed", 405},
    {StatusReason::kNotAcceptable, "NotAcceptable", 406},
    {StatusReason::kRequestEntityTooLarge, "RequestEntityTooLarge", 413},
    {StatusReason::kUnsupportedMediaType, "UnsupportedMediaType", 415},
    {StatusReason::kInternalError, "InternalError", 500},
    {StatusReason::kExpired, "Expired", 410},
    {StatusReason::kServiceUnavailable, "ServiceUnavailable", 503},
    // HTTP has no codes for these. A server does not send them, but InternalError or
    // ServiceUnavailable.
    {StatusReason::kUnreachable, "Unreachable", 500},
    {StatusReason::kCorruption, "Corruption", 500},
    {StatusReason::kCancelled, "Cancelled", 500},
};

// Required by Row(), which indexes by the enumerator's value.
constexpr bool RowsAreInOrder() {
  for (std::size_t i = 0; i < std::size(kReasons); ++i) {
    if (static_cast<std::size_t>(kReasons[i].reason) != i) return false;
  }
  return static_cast<std::size_t>(StatusReason::kCancelled) + 1 == std::size(kReasons);
}
static_assert(RowsAreInOrder(), "kReasons needs one row per StatusReason, in its order");

const ReasonRow& Row(StatusReason reason) {
  const auto i = static_cast<std::size_t>(reason);
  return kReasons[i < std::size(kReasons) ? i : static_cast<std::size_t>(StatusReason::kUnknown)];
}

}  // namespace

std::string_view ReasonName(StatusReason reason) { return Row(reason).name; }

StatusReason ReasonFromName(std::string_view name) {
  for (const ReasonRow& row : kReasons) {
    if (!row.name.empty() && row.name == name) return row.reason;
  }
  return StatusReason::kUnknown;
}

int DefaultHttpCode(StatusReason reason) { return Row(reason).code; }

Status::Status(StatusReason reason, std::string message) {
  // An ok status without a message is always a null pointer.
  if (reason == StatusReason::kOk && message.empty()) return;
  Parts parts;
  parts.reason = reason;
  parts.message = std::move(message);
  parts_ = std::make_shared<const Parts>(std::move(parts));
}

Status::Status(Parts parts) : parts_(std::make_shared<const Parts>(std::move(parts))) {}

int Status::code() const {
  // A code of 0 stays 0 in parts(), so that a copy with another reason has the code of that reason.
  return parts().code != 0 ? parts().code : DefaultHttpCode(reason());
}

const Status::Parts& Status::parts() const {
  if (parts_) return *parts_;
  // Never destroyed, because a Status may be used at exit.
  static const Parts& ok = *new Parts{.reason = StatusReason::kOk,
                                      .code = 0,
                                      .message = {},
                                      .details = {},
                                      .retry_after = std::chrono::seconds(0),
                                      .continue_token = {},
                                      .origin = Origin::kLocal};
  return ok;
}

const StatusDetails& Status::details() const {
  static const StatusDetails& none = *new StatusDetails();
  const std::optional<StatusDetails>& details = parts().details;
  return details ? *details : none;
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  const std::string_view name = ReasonName(reason());
  std::string text(name.empty() ? "Unknown" : name);
  text += " (";
  text += std::to_string(code());
  text += ')';
  if (!message().empty()) {
    text += ": ";
    text += message();
  }
  return text;
}

bool Status::operator==(const Status& other) const {
  if (parts_ == other.parts_) return true;
  const Parts& a = parts();
  const Parts& b = other.parts();
  // code() and not Parts::code: 0 equals the default code.
  return a.reason == b.reason && code() == other.code() && a.message == b.message &&
         a.details == b.details && a.retry_after == b.retry_after &&
         a.continue_token == b.continue_token && a.origin == b.origin;
}

}  // namespace herald
