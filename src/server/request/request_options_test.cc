#include "server/request/request_options.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>

namespace herald::server {
namespace {

constexpr WallTime kNow{std::chrono::seconds(1'700'000'000)};

Result<ListOptions> List(std::string_view query, bool force_watch = false) {
  return ParseListOptions(http::ParseQuery(query), EventApi::kCoreV1, force_watch, kNow);
}

TEST(RequestOptionsTest, ReadsAList) {
  const Result<ListOptions> options = List(
      "labelSelector=a%3Db&fieldSelector=type%3DWarning&limit=5&continue=x&resourceVersion=7"
      "&unknown=1&limit=9");
  ASSERT_TRUE(options);
  EXPECT_EQ(options->labels.ToString(), "a=b");
  EXPECT_EQ(options->fields.ToString(), "type=Warning");
  EXPECT_EQ(options->limit, 5);
  EXPECT_EQ(options->continue_, "x");
  EXPECT_EQ(options->resource_version, "7");
  EXPECT_FALSE(options->watch);
}

TEST(RequestOptionsTest, ANegativeLimitIsNoLimit) { EXPECT_EQ(List("limit=-3")->limit, 0); }

TEST(RequestOptionsTest, ReadsTimesAndDurationsBeforeNow) {
  const Result<ListOptions> options =
      List("since=2h&until=2023-11-14T22:00:00Z&sortBy=lastOccurrence");
  ASSERT_TRUE(options);
  EXPECT_EQ(options->since, Timestamp(1'700'000'000 - 7200, 0));
  EXPECT_EQ(options->until, Timestamp(1'699'999'200, 0));
  EXPECT_TRUE(options->by_last_occurrence);
}

TEST(RequestOptionsTest, RejectsInvalidOptionsWithTheRightCode) {
  struct Scenario {
    std::string_view query;
    int code;
    std::string_view message;
  };
  const Scenario scenarios[] = {
      {"limit=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax"},
      {"limit=99999999999999999999", 400,
       "strconv.ParseInt: parsing \"99999999999999999999\": value out of range"},
      {"timeoutSeconds=1.5", 400, "strconv.ParseInt: parsing \"1.5\": invalid syntax"},
      {"fieldSelector=spec.x%3D1", 400, "field label not supported: spec.x"},
      {"resourceVersionMatch=Exact", 422,
       "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: "
       "resourceVersionMatch is forbidden unless resourceVersion is provided"},
      {"resourceVersionMatch=Exact&resourceVersion=0", 422,
       "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: "
       "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""},
      {"sendInitialEvents=true", 422,
       "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents "
       "is forbidden for list"},
      {"watch=1&sendInitialEvents=true", 422,
       "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: "
       "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"},
      {"watch=1&resourceVersionMatch=NotOlderThan", 422,
       "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: "
       "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"},
      {"since=yesterday", 400,
       "invalid since \"yesterday\": must be a duration such as 2h or a time such as "
       "2006-01-02T15:04:05Z"},
      {"sortBy=name", 400, "invalid sortBy \"name\": must be \"lastOccurrence\""},
  };
  for (const Scenario& scenario : scenarios) {
    SCOPED_TRACE(scenario.query);
    const Result<ListOptions> options = List(scenario.query);
    ASSERT_FALSE(options);
    EXPECT_EQ(options.error().code(), scenario.code);
    EXPECT_EQ(options.error().message(), scenario.message);
  }
}

TEST(RequestOptionsTest, AWatchMayBeForcedByThePath) {
  EXPECT_TRUE(List("", true)->watch);
  EXPECT_TRUE(List("watch=false", true)->watch);
  EXPECT_EQ(
      List("watch=1&sendInitialEvents=0&resourceVersionMatch=NotOlderThan")->send_initial_events,
      false);
}

TEST(RequestOptionsTest, ReadsWrites) {
  const auto write = [](std::string_view query, std::string_view kind = "CreateOptions") {
    return ParseWriteOptions(http::ParseQuery(query), kind);
  };
  EXPECT_EQ(write("")->field_validation, FieldValidation::kWarn);
  EXPECT_EQ(write("fieldValidation=Strict")->field_validation, FieldValidation::kStrict);
  EXPECT_TRUE(write("dryRun=All")->dry_run);
  EXPECT_EQ(write("dryRun=Some").error().code(), 422);
  EXPECT_EQ(write("fieldManager=" + std::string(129, 'x')).error().code(), 422);
  EXPECT_TRUE(write("fieldManager=" + std::string(128, 'x')));
  EXPECT_EQ(write("force=true", "PatchOptions").error().code(), 422);
  EXPECT_TRUE(write("force=true"));
}

TEST(RequestOptionsTest, ChecksDeletions) {
  DeleteOptions options;
  EXPECT_TRUE(CheckDeleteOptions(options).ok());
  options.propagation_policy = "Background";
  EXPECT_TRUE(CheckDeleteOptions(options).ok());
  options.orphan_dependents = true;
  EXPECT_EQ(CheckDeleteOptions(options).code(), 422);
  options = DeleteOptions();
  options.propagation_policy = "Sometimes";
  EXPECT_EQ(CheckDeleteOptions(options).code(), 422);
  options = DeleteOptions();
  options.dry_run = {"All"};
  EXPECT_TRUE(CheckDeleteOptions(options).ok());
  EXPECT_EQ(ParseDeleteOptions(http::ParseQuery("gracePeriodSeconds=x")).error().code(), 400);
}

TEST(RequestOptionsTest, ATimeoutMustBeADuration) {
  using Timeout = std::optional<std::chrono::nanoseconds>;
  EXPECT_EQ(ParseTimeout(http::ParseQuery("timeout=32s")).value(), std::chrono::seconds(32));
  EXPECT_EQ(ParseTimeout(http::ParseQuery("timeout=")).value(), Timeout());
  EXPECT_EQ(ParseTimeout(http::ParseQuery("limit=1")).value(), Timeout());
  EXPECT_EQ(ParseTimeout(http::ParseQuery("timeout=soon")).error().code(), 400);
}

}  // namespace
}  // namespace herald::server
