#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "api/fields.h"

namespace herald {

WireStatus ToWire(const Status& status) {
  const Status::Parts& parts = status.parts();
  WireStatus wire;
  wire.metadata.continue_ = parts.continue_token;
  wire.status = status.ok() ? "Success" : "Failure";
  wire.message = parts.message;
  wire.reason = ReasonName(parts.reason);
  // Kubernetes omits the code of a success.
  wire.code = status.ok() ? 0 : status.code();

  constexpr std::int64_t kMaxSeconds = std::numeric_limits<std::int32_t>::max();
  const std::int64_t seconds = std::clamp<std::int64_t>(parts.retry_after.count(), 0, kMaxSeconds);
  if (parts.details || seconds > 0) {
    const StatusDetails& details = status.details();
    wire.details = WireStatusDetails{
        .name = details.name,
        .group = details.group,
        .kind = details.kind,
        .uid = details.uid,
        .causes = details.causes,
        .retry_after_seconds = static_cast<std::int32_t>(seconds),
    };
  }
  return wire;
}

Status FromWire(WireStatus wire) {
  Status::Parts parts;
  parts.reason = wire.status == "Success" ? StatusReason::kOk : ReasonFromName(wire.reason);
  parts.code = wire.code;
  parts.message = std::move(wire.message);
  parts.continue_token = std::move(wire.metadata.continue_);
  parts.origin = Status::Origin::kServer;
  if (wire.details) {
    parts.details = StatusDetails{
        .name = std::move(wire.details->name),
        .group = std::move(wire.details->group),
        .kind = std::move(wire.details->kind),
        .uid = std::move(wire.details->uid),
        .causes = std::move(wire.details->causes),
    };
    parts.retry_after = std::chrono::seconds(std::max(wire.details->retry_after_seconds, 0));
  }
  return Status(std::move(parts));
}

}  // namespace herald
