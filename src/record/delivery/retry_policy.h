#pragma once

#include <chrono>
#include <cstdint>

#include "base/bytes/random.h"
#include "herald/base/status.h"
#include "herald/record/broadcaster.h"
#include "herald/record/sink.h"

namespace herald {

// What to do after the answer to a request.
enum class NextStep : std::uint8_t {
  kDone,
  kCreateInstead,  // the event to be patched does not exist any more: create it
  kRetry,
  kReject,
  kRejectQuietly,  // rejected for a reason that is not an error: logged at the debug level
};

// A RetryPolicy decides what follows from an answer, and when to try again. Its rules are those
// of client-go (tools/record event.go recordEvent, tools/events event_broadcaster.go
// recordEvent), with retries that client-go lacks: a server that is only busy, 429 or 5xx, does
// not lose the event. With `upstream_exact` every answer of the server is final.
//
// Thread-confined: the sequencer of a sink owns one.
class RetryPolicy {
 public:
  // Of the options, max_tries and retry_after are used.
  RetryPolicy(const SinkOptions& options, bool upstream_exact);

  NextStep Decide(const SinkRequest& request, const Status& status) const;
  bool IsLast(int tries) const { return tries >= max_tries_; }
  // How long to sleep before the next try: as long as the server asks, or else `retry_after`
  // with some jitter. `tries` have been made, at least one.
  std::chrono::nanoseconds Delay(const Event& event, int tries, const Status& status);

 private:
  const int max_tries_;
  const std::chrono::nanoseconds retry_after_;
  const bool upstream_exact_;
  Random random_;
};

}  // namespace herald
