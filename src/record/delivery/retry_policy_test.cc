#include "record/delivery/retry_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace herald {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using Verb = SinkRequest::Verb;

Status FromServer(StatusReason reason, int code = 0, seconds retry_after = seconds(0)) {
  return Status({.reason = reason,
                 .code = code,
                 .message = "an error of the server",
                 .retry_after = retry_after,
                 .origin = Status::Origin::kServer});
}

Status Terminating() {
  return Status({.reason = StatusReason::kForbidden,
                 .message = "is being terminated",
                 .details = StatusDetails{.causes = {{.reason = "NamespaceTerminating"}}},
                 .origin = Status::Origin::kServer});
}

Status Unreachable() { return Status(StatusReason::kUnreachable, "no route"); }

TEST(RetryPolicyTest, DecidesAsTheTableSays) {
  struct Case {
    std::string name;
    Verb verb;
    bool new_style;
    bool series;
    Status status;
    NextStep ours;
    NextStep upstreams;
  };
  using N = NextStep;
  const bool old_style = false;
  const bool new_style = true;
  const std::vector<Case> cases = {
      {"success", Verb::kCreate, old_style, false, Status(), N::kDone, N::kDone},
      {"patch 404", Verb::kPatch, old_style, false, FromServer(StatusReason::kNotFound),
       N::kCreateInstead, N::kCreateInstead},
      {"patch 404 of a series", Verb::kPatch, new_style, true, FromServer(StatusReason::kNotFound),
       N::kCreateInstead, N::kCreateInstead},
      {"patch 404 by its code alone", Verb::kPatch, old_style, false,
       FromServer(StatusReason::kUnknown, 404), N::kCreateInstead, N::kCreateInstead},
      {"create 404: no such namespace", Verb::kCreate, old_style, false,
       FromServer(StatusReason::kNotFound), N::kReject, N::kReject},
      {"create 409 AlreadyExists", Verb::kCreate, old_style, false,
       FromServer(StatusReason::kAlreadyExists), N::kRejectQuietly, N::kRejectQuietly},
      {"the same, new style", Verb::kCreate, new_style, false,
       FromServer(StatusReason::kAlreadyExists), N::kRejectQuietly, N::kRejectQuietly},
      {"the same of a series", Verb::kCreate, new_style, true,
       FromServer(StatusReason::kAlreadyExists), N::kRetry, N::kRetry},
      {"namespace terminating", Verb::kCreate, old_style, false, Terminating(), N::kRejectQuietly,
       N::kRejectQuietly},
      {"the same, new style", Verb::kCreate, new_style, false, Terminating(), N::kRejectQuietly,
       N::kReject},
      {"409 Conflict", Verb::kPatch, old_style, false, FromServer(StatusReason::kConflict),
       N::kReject, N::kReject},
      {"422", Verb::kCreate, new_style, false, FromServer(StatusReason::kInvalid), N::kReject,
       N::kReject},
      {"400", Verb::kCreate, old_style, false, FromServer(StatusReason::kBadRequest), N::kReject,
       N::kReject},
      {"401", Verb::kCreate, old_style, false, FromServer(StatusReason::kUnauthorized), N::kReject,
       N::kReject},
      {"403", Verb::kCreate, old_style, false, FromServer(StatusReason::kForbidden), N::kReject,
       N::kReject},
      {"413", Verb::kCreate, old_style, false, FromServer(StatusReason::kRequestEntityTooLarge),
       N::kReject, N::kReject},
      {"415", Verb::kCreate, old_style, false, FromServer(StatusReason::kUnsupportedMediaType),
       N::kReject, N::kReject},
      // Here upstream loses events to a server that was merely busy.
      {"429", Verb::kCreate, old_style, false, FromServer(StatusReason::kTooManyRequests),
       N::kRetry, N::kReject},
      {"500", Verb::kCreate, old_style, false, FromServer(StatusReason::kInternalError), N::kRetry,
       N::kReject},
      {"503", Verb::kPatch, new_style, true, FromServer(StatusReason::kServiceUnavailable),
       N::kRetry, N::kReject},
      {"504", Verb::kCreate, new_style, false, FromServer(StatusReason::kTimeout), N::kRetry,
       N::kReject},
      {"502 of a proxy", Verb::kCreate, old_style, false, FromServer(StatusReason::kUnknown, 502),
       N::kRetry, N::kReject},
      // The server did not answer, or its answer cannot be used.
      {"unreachable", Verb::kCreate, old_style, false, Unreachable(), N::kRetry, N::kRetry},
      {"an unexpected object", Verb::kCreate, old_style, false,
       Status(StatusReason::kUnknown, "not an Event"), N::kRetry, N::kRetry},
      {"a 404 that no server sent", Verb::kPatch, old_style, false,
       Status(StatusReason::kNotFound, "no such host"), N::kRetry, N::kRetry},
      {"a request that cannot be built", Verb::kCreate, old_style, false,
       Status(StatusReason::kBadRequest, "no namespace"), N::kReject, N::kReject},
      {"one that is invalid", Verb::kCreate, new_style, false,
       Status(StatusReason::kInvalid, "no name"), N::kReject, N::kReject},
      {"one that is too large", Verb::kCreate, new_style, false,
       Status(StatusReason::kRequestEntityTooLarge, "4 MiB"), N::kReject, N::kReject},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    auto event = std::make_shared<Event>();
    if (c.new_style) event->event_time = MicroTime(1700000000, 0);
    if (c.series) event->series = EventSeries{.count = 2};
    const SinkRequest request{.verb = c.verb, .event = event};
    EXPECT_EQ(RetryPolicy({}, /*upstream_exact=*/false).Decide(request, c.status), c.ours);
    EXPECT_EQ(RetryPolicy({}, /*upstream_exact=*/true).Decide(request, c.status), c.upstreams);
  }
}

Event NewStyle() {
  Event event;
  event.event_time = MicroTime(1700000000, 0);
  return event;
}

TEST(RetryPolicyTest, EndsAfterMaxTries) {
  const RetryPolicy policy({.max_tries = 3}, /*upstream_exact=*/false);
  EXPECT_FALSE(policy.IsLast(2));
  EXPECT_TRUE(policy.IsLast(3));
}

TEST(RetryPolicyTest, SleepsAsLongAsTheServerAsksWithinALimit) {
  RetryPolicy policy({}, /*upstream_exact=*/false);
  const auto asked = [](seconds time) {
    return FromServer(StatusReason::kTooManyRequests, 429, time);
  };
  EXPECT_EQ(policy.Delay(Event(), 1, asked(seconds(7))), seconds(7));
  EXPECT_EQ(policy.Delay(Event(), 1, asked(seconds(100'000))), minutes(5));
  RetryPolicy upstream({}, /*upstream_exact=*/true);
  EXPECT_LE(upstream.Delay(Event(), 1, asked(seconds(70))), seconds(10));
}

TEST(RetryPolicyTest, TheFirstDelayOfAnOldStyleEventIsAnyPartOfTheWhole) {
  RetryPolicy policy({.retry_after = seconds(10)}, /*upstream_exact=*/false);
  nanoseconds shortest = seconds(10);
  for (int i = 0; i < 100; ++i) {
    const nanoseconds delay = policy.Delay(Event(), 1, Unreachable());
    EXPECT_GE(delay, nanoseconds(0));
    EXPECT_LT(delay, seconds(10));
    shortest = std::min(shortest, delay);
    EXPECT_EQ(policy.Delay(Event(), 2, Unreachable()), seconds(10));
  }
  EXPECT_LT(shortest, seconds(9));
}

TEST(RetryPolicyTest, TheDelayOfANewStyleEventIsUpToAQuarterLonger) {
  RetryPolicy policy({.retry_after = seconds(10)}, /*upstream_exact=*/false);
  for (int tries = 1; tries < 50; ++tries) {
    const nanoseconds delay = policy.Delay(NewStyle(), tries, Unreachable());
    EXPECT_GE(delay, seconds(10));
    EXPECT_LE(delay, milliseconds(12'500));
  }
}

}  // namespace
}  // namespace herald
