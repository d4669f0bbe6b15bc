#include "server/access/event_rate_limit.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/testing/temporary_directory.h"

namespace herald::server {
namespace {

using namespace std::chrono_literals;

constexpr const char* kHead =
    "kind: Configuration\napiVersion: eventratelimit.admission.k8s.io/v1alpha1\n";

Status Load(EventRateLimit& limit, std::string_view limits) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() / "limits.yaml";
  std::ofstream(file) << kHead << limits;
  return limit.Load(file);
}

Event EventAbout(std::string pod, std::string namespace_ = "default") {
  Event event;
  event.metadata.namespace_ = std::move(namespace_);
  event.source.component = "kubelet";
  event.involved_object.kind = "Pod";
  event.involved_object.name = std::move(pod);
  return event;
}

const User kAlice{"alice", "", {}};
const User kBob{"bob", "", {}};

TEST(EventRateLimit, HasNoLimitsByDefault) {
  EventRateLimit limit;
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(limit.Admit(kAlice, EventAbout("a"), SteadyTime(1s)).ok());
}

TEST(EventRateLimit, CountsByTypeAndRefills) {
  EventRateLimit limit;
  ASSERT_TRUE(Load(limit, "limits: [{type: User, qps: 1, burst: 2}]\n").ok());
  EXPECT_TRUE(limit.Admit(kAlice, EventAbout("a"), SteadyTime(1s)).ok());
  EXPECT_TRUE(limit.Admit(kAlice, EventAbout("b"), SteadyTime(1s)).ok());
  EXPECT_FALSE(limit.Admit(kAlice, EventAbout("c"), SteadyTime(1s)).ok());
  EXPECT_TRUE(limit.Admit(kBob, EventAbout("c"), SteadyTime(1s)).ok());
  EXPECT_TRUE(limit.Admit(kAlice, EventAbout("c"), SteadyTime(2s)).ok());
}

TEST(EventRateLimit, ReportsTheExhaustedLimitsAndWhenToRetry) {
  EventRateLimit limit;
  ASSERT_TRUE(Load(limit,
                   "limits:\n- {type: Namespace, qps: 1, burst: 1, cacheSize: 5}\n"
                   "- {type: SourceAndObject, qps: 1, burst: 1}\n")
                  .ok());
  EXPECT_TRUE(limit.Admit(kAlice, EventAbout("a"), SteadyTime(1s)).ok());
  const Status both = limit.Admit(kAlice, EventAbout("a"), SteadyTime(1s));
  EXPECT_EQ(both.code(), 429);
  EXPECT_EQ(both.message(),
            "Too many requests: [limit reached on type Namespace for key default, limit reached "
            "on type SourceAndObject for key kubeletPoda]");
  EXPECT_EQ(both.retry_after(), 1s);
  EXPECT_EQ(limit.Admit(kAlice, EventAbout("b"), SteadyTime(1s)).message(),
            "Too many requests: limit reached on type Namespace for key default");
}

TEST(EventRateLimit, DistinguishesSourcesWhoseConcatenatedNamesAreEqual) {
  EventRateLimit limit;
  ASSERT_TRUE(Load(limit, "limits: [{type: SourceAndObject, qps: 1, burst: 1}]\n").ok());
  Event first = EventAbout("a");
  first.source = {.component = "ab", .host = "c"};
  Event second = EventAbout("a");
  second.source = {.component = "a", .host = "bc"};
  EXPECT_TRUE(limit.Admit(kAlice, first, SteadyTime(1s)).ok());
  EXPECT_TRUE(limit.Admit(kAlice, second, SteadyTime(1s)).ok());
}

TEST(EventRateLimit, DistinguishesReportingControllersOfEventsWithoutASource) {
  EventRateLimit limit;
  ASSERT_TRUE(Load(limit, "limits: [{type: SourceAndObject, qps: 1, burst: 1}]\n").ok());
  Event first = EventAbout("a");
  first.source = {};
  first.reporting_controller = "x";
  Event second = first;
  second.reporting_controller = "y";
  EXPECT_TRUE(limit.Admit(kAlice, first, SteadyTime(1s)).ok());
  EXPECT_TRUE(limit.Admit(kAlice, second, SteadyTime(1s)).ok());
  EXPECT_FALSE(limit.Admit(kAlice, second, SteadyTime(1s)).ok());
}

TEST(EventRateLimit, ReportsAnInvalidFileAndKeepsTheOldLimits) {
  EventRateLimit limit;
  ASSERT_TRUE(Load(limit, "limits: [{type: Server, qps: 1, burst: 1}]\n").ok());
  struct Case {
    const char* limits;
    const char* error;
  };
  const Case cases[] = {
      {"limits: []\n", "limits: must not be empty"},
      {"limits: [{type: Pod, qps: 1, burst: 1}]\n",
       "limits[0].type: invalid value \"Pod\": must be Server"},
      {"limits: [{type: Server, burst: 1}]\n",
       "limits[0].qps: is missing: must be a number from 1 to"},
      {"limits: [{type: Server, qps: 1, burst: -1}]\n",
       "limits[0].burst: invalid value \"-1\": must be a number from 1 to"},
      {"limits: [{type: User, qps: 1, burst: 1, cacheSize: -1}]\n", "limits[0].cacheSize"},
      {"limits: [{type: User, qps: 1, burst: 1, cache: 1}]\n", "limits[0].cache: unknown field"},
  };
  for (const Case& c : cases) {
    const Status status = Load(limit, c.limits);
    EXPECT_NE(status.message().find(c.error), std::string::npos) << status.message();
  }
  EXPECT_TRUE(limit.Admit(kAlice, EventAbout("a"), SteadyTime(1s)).ok());
  EXPECT_FALSE(limit.Admit(kAlice, EventAbout("a"), SteadyTime(1s)).ok());
}

}  // namespace
}  // namespace herald::server
