#include "api/patch/merge_patch.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

namespace herald {
namespace {

std::string Apply(std::string_view document, std::string_view patch) {
  Json json = *ParseJson(document);
  const Status status = ApplyMergePatch(*ParseJson(patch), &json);
  if (!status.ok()) return status.ToString();
  std::string out;
  AppendAsWritten(json, &out);
  return out;
}

// The examples of RFC 7386, appendix A, that start with an object. Results that differ from the RFC
// are those of Kubernetes.
TEST(MergePatch, FollowsTheRfc) {
  const struct {
    std::string_view document;
    std::string_view patch;
    std::string_view result;
  } kCases[] = {
      {R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
      {R"({"a":"b"})", R"({"a":null})", R"({})"},
      {R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
      {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"c"})", R"({"a":["b"]})", R"({"a":["b"]})"},
      {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
      {R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
      {R"({"a":"foo"})", R"(null)", "BadRequest (400): Invalid JSON Patch"},
      {R"({"a":"foo"})", R"("bar")", "BadRequest (400): Invalid JSON Patch"},
      {R"({"a":"b"})", R"(["c"])", R"(["c"])"},
      {R"({"e":null})", R"({"a":1})", R"({"a":1,"e":null})"},
      {R"({})", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"},
  };
  for (const auto& c : kCases) EXPECT_EQ(Apply(c.document, c.patch), c.result) << c.patch;
}

TEST(MergePatch, RemovesNullsOfNewValuesExceptElements) {
  EXPECT_EQ(Apply("{}", R"({"a":[null,{"b":null,"c":[{"d":null}]}]})"),
            R"({"a":[null,{"c":[{}]}]})");
  EXPECT_EQ(Apply(R"({"a":1})", R"({"a":{"b":null}})"), R"({"a":{}})");
  EXPECT_EQ(Apply("{}", R"([null,{"b":null}])"), R"([null,{}])");
}

TEST(MergePatch, KeepsNullsOfAListThatReplacesAnObject) {
  EXPECT_EQ(Apply(R"({"a":{}})", R"({"a":[{"b":null}]})"), R"({"a":[{"b":null}]})");
}

TEST(MergePatch, KeepsNumbersAsTheyWereWritten) {
  EXPECT_EQ(Apply(R"({"a":1.0})", R"({"b":1e2,"c":12345678901234567890})"),
            R"({"a":1.0,"b":1e2,"c":12345678901234567890})");
}

TEST(MergePatch, MergesDocumentsOfTheMaximumDepth) {
  std::string open, close;
  for (int i = 0; i < 10'000; ++i) {
    open += "{\"a\":";
    close += '}';
  }
  const std::string document = open.substr(0, open.size() - 5 * 5'000) + "1" + close.substr(5'000);
  const std::string patch = open + "null" + close;
  EXPECT_EQ(Apply(document, patch).size(), 6U * 9'999 + 2);
  EXPECT_EQ(Apply(open + "1" + close, patch).size(), 6U * 9'999 + 2);
}

}  // namespace
}  // namespace herald
