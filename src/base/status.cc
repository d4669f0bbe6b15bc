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

// The one place that knows how a reason is spelled and which code goes with it.
// Kubernetes' rows are those of apimachinery pkg/apis/meta/v1/types.go and
// pkg/api/errors/errors.go. Mind the two that surprise: StoreReadError is
// spelled "StorageReadError", and ServerTimeout is 500 while Timeout is 504.
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
    // No HTTP code tells these apart, and none should reach a wire by itself:
    // whoever answers for them says InternalError or ServiceUnavailable.
    {StatusReason::kUnreachable, "Unreachable", 500},
    {StatusReason::kCorruption, "Corruption", 500},
    {StatusReason::kCancelled, "Cancelled", 500},
};

// Row() indexes by the enumerator's value.
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
  // Keeps the plain "it worked" at one null pointer, however it was spelled.
  if (reason == StatusReason::kOk && message.empty()) return;
  Parts parts;
  parts.reason = reason;
  parts.message = std::move(message);
  parts_ = std::make_shared<const Parts>(std::move(parts));
}

Status::Status(Parts parts) : parts_(std::make_shared<const Parts>(std::move(parts))) {}

int Status::code() const {
  // A code of 0 stays 0 in parts(), so that a changed copy with another reason
  // gets that reason's code and not the one of the first.
  return parts().code != 0 ? parts().code : DefaultHttpCode(reason());
}

const Status::Parts& Status::parts() const {
  if (parts_) return *parts_;
  // Leaked on purpose, as SystemClock() is: a Status may be read at exit.
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
  // code() rather than Parts::code: a code left out and the same one spelled
  // out mean the same.
  return a.reason == b.reason && code() == other.code() && a.message == b.message &&
         a.details == b.details && a.retry_after == b.retry_after &&
         a.continue_token == b.continue_token && a.origin == b.origin;
}

}  // namespace herald
