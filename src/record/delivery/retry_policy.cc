#include "record/delivery/retry_policy.h"

#include <algorithm>

namespace herald {
namespace {

// A server that asks for more time than this would hold an event longer than most servers keep
// it.
constexpr std::chrono::minutes kMaxRetryAfter{5};

bool IsOldStyle(const Event& event) { return event.event_time.is_zero(); }

bool NamespaceIsTerminating(const Status& status) {
  const auto& causes = status.details().causes;
  return std::any_of(causes.begin(), causes.end(), [](const StatusCause& cause) {
    return cause.reason == "NamespaceTerminating";
  });
}

}  // namespace

RetryPolicy::RetryPolicy(const SinkOptions& options, bool upstream_exact)
    : max_tries_(options.max_tries),
      retry_after_(options.retry_after),
      upstream_exact_(upstream_exact),
      random_(RandomSeed()) {}

NextStep RetryPolicy::Decide(const SinkRequest& request, const Status& status) const {
  if (status.ok()) return NextStep::kDone;
  if (status.origin() == Status::Origin::kLocal) {
    // A request that could not be built cannot be built later either.
    const bool unsendable = status.Is(StatusReason::kBadRequest) ||
                            status.Is(StatusReason::kInvalid) ||
                            status.Is(StatusReason::kRequestEntityTooLarge);
    return unsendable ? NextStep::kReject : NextStep::kRetry;
  }
  if (request.verb == SinkRequest::Verb::kPatch && status.code() == 404) {
    return NextStep::kCreateInstead;
  }
  if (status.Is(StatusReason::kAlreadyExists)) {
    // The first event of a series may be on its way from another process.
    const bool is_series = request.event->series && !IsOldStyle(*request.event);
    return is_series ? NextStep::kRetry : NextStep::kRejectQuietly;
  }
  if (status.code() == 403 && NamespaceIsTerminating(status)) {
    // tools/events does not know this case and logs an error.
    const bool is_logged = upstream_exact_ && !IsOldStyle(*request.event);
    return is_logged ? NextStep::kReject : NextStep::kRejectQuietly;
  }
  if (!upstream_exact_ && (status.code() == 429 || status.code() >= 500)) return NextStep::kRetry;
  return NextStep::kReject;
}

std::chrono::nanoseconds RetryPolicy::Delay(const Event& event, int tries, const Status& status) {
  if (!upstream_exact_ && status.retry_after().count() > 0) {
    return std::min<std::chrono::nanoseconds>(status.retry_after(), kMaxRetryAfter);
  }
  double factor = 1;
  if (!IsOldStyle(event)) {
    factor = 1 + 0.25 * random_.Unit();
  } else if (tries == 1) {
    // So that many programs do not come back at the same moment.
    factor = random_.Unit();
  }
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(static_cast<double>(retry_after_.count()) * factor));
}

}  // namespace herald
