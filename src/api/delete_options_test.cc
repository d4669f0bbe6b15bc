#include "api/delete_options.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace herald {
namespace {

TEST(DeleteOptionsTest, DecodesJson) {
  const auto options = DecodeDeleteOptionsJson(
      R"({"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"dryRun":["All"],)"
      R"("preconditions":{"uid":"u","resourceVersion":"5"},"propagationPolicy":"Background",)"
      R"("orphanDependents":null,"unknown":[]})");
  ASSERT_TRUE(options);
  EXPECT_EQ(options->grace_period_seconds, 0);
  EXPECT_EQ(options->precondition_uid, "u");
  EXPECT_EQ(options->precondition_resource_version, "5");
  EXPECT_EQ(options->propagation_policy, "Background");
  EXPECT_EQ(options->orphan_dependents, std::nullopt);
  EXPECT_EQ(options->dry_run, std::vector<std::string>{"All"});
  EXPECT_EQ(*DecodeDeleteOptionsJson("{}"), DeleteOptions());
}

TEST(DeleteOptionsTest, DecodesProtobuf) {
  // {typeMeta{"v1","DeleteOptions"}, raw{gracePeriodSeconds 5, preconditions{uid "u"},
  // orphanDependents false, propagationPolicy "Orphan", dryRun "All"}}
  std::string object(
      "\x08\x05\x12\x03\x0a\x01u\x18\x00\x22\x06Orphan\x2a\x03"
      "All",
      22);
  std::string data(
      "k8s\0\x0a\x13\x0a\x02v1\x12\x0d"
      "DeleteOptions\x12",
      26);
  data.push_back(static_cast<char>(object.size()));
  data += object;
  const auto options = DecodeDeleteOptionsProtobuf(data);
  ASSERT_TRUE(options) << options.error().ToString();
  EXPECT_EQ(options->grace_period_seconds, 5);
  EXPECT_EQ(options->precondition_uid, "u");
  EXPECT_EQ(options->orphan_dependents, false);
  EXPECT_EQ(options->propagation_policy, "Orphan");
  EXPECT_EQ(options->dry_run, std::vector<std::string>{"All"});
}

TEST(DeleteOptionsTest, RejectsInvalidBodies) {
  for (const std::string_view json :
       {"what", "[]", R"({"kind":"Event","apiVersion":"v1"})", R"({"gracePeriodSeconds":"x"})",
        R"({"preconditions":[]})", R"({"dryRun":"All"})"}) {
    EXPECT_EQ(DecodeDeleteOptionsJson(json).error().code(), 400) << json;
  }
  EXPECT_EQ(DecodeDeleteOptionsProtobuf("{}").error().code(), 400);
  EXPECT_EQ(DecodeDeleteOptionsProtobuf(std::string("k8s\0\x0a\x7f", 6)).error().code(), 400);
}

}  // namespace
}  // namespace herald
