#include "api/json/document.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace herald {
namespace {

std::string Repeat(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

Json Parse(std::string_view text) {
  Result<Json> json = ParseJson(text);
  EXPECT_TRUE(json) << text;
  return json ? *std::move(json) : Json();
}

std::string Normal(std::string_view text) {
  std::string out;
  AppendJson(Parse(text), &out);
  return out;
}

TEST(Json, WritesOneNormalForm) {
  const struct {
    std::string_view text;
    std::string_view normal;
  } kCases[] = {
      {" null ", "null"},
      {"[ ]", "[]"},
      {"{ }", "{}"},
      {R"({"b":1,"a":[true,false,null,"x"]})", R"({"a":[true,false,null,"x"],"b":1})"},
      {R"({"a":1,"b":2,"a":{"c":3}})", R"({"a":{"c":3},"b":2})"},
      {R"("\u0061\/<\u2028")", R"("a/\u003c\u2028")"},
      {"\"\xff\"", "\"\xef\xbf\xbd\""},
      {R"({"\u0062":1,"a":2})", R"({"a":2,"b":1})"},
  };
  for (const auto& c : kCases) EXPECT_EQ(Normal(c.text), c.normal) << c.text;
}

// The columns on the right are the output of Go's encoding/json and fmt.
TEST(Json, WritesNumbersAsGoDoes) {
  const struct {
    std::string_view text;
    std::string_view json;
    std::string_view go;
  } kCases[] = {
      {"0", "0", "0"},
      {"-0", "0", "0"},
      {"-0.0", "-0", "-0"},
      {"1.0", "1", "1"},
      {"1.5", "1.5", "1.5"},
      {"9223372036854775807", "9223372036854775807", "9223372036854775807"},
      {"-9223372036854775808", "-9223372036854775808", "-9223372036854775808"},
      {"9223372036854775808", "9223372036854776000", "9.223372036854776e+18"},
      {"1e5", "100000", "100000"},
      {"1e6", "1000000", "1e+06"},
      {"123456789.5", "123456789.5", "1.234567895e+08"},
      {"1e20", "100000000000000000000", "1e+20"},
      {"123456789012345680000", "123456789012345680000", "1.2345678901234568e+20"},
      {"1e21", "1e+21", "1e+21"},
      {"1e100", "1e+100", "1e+100"},
      {"0.0001", "0.0001", "0.0001"},
      {"0.00001", "0.00001", "1e-05"},
      {"0.000001", "0.000001", "1e-06"},
      {"0.0000001", "1e-7", "1e-07"},
      {"1e-100", "1e-100", "1e-100"},
      {"5e-324", "5e-324", "5e-324"},
      {"1e-400", "0", "0"},
      {"0e999999999999999999999", "0", "0"},
      {"1.7976931348623157e308", "1.7976931348623157e+308", "1.7976931348623157e+308"},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(Normal(c.text), c.json) << c.text;
    std::string go;
    AppendGoText(Parse(c.text), 'v', &go);
    EXPECT_EQ(go, c.go) << c.text;
  }
}

TEST(Json, RejectsNumbersOutOfRangeOnlyWithCheckNumbers) {
  for (const std::string_view text :
       {"1e309", "-1e999", "1e99999999999999999999", "0.01e400", "[1,{\"a\":2e308}]"}) {
    EXPECT_TRUE(ParseJson(text)) << text;
    EXPECT_FALSE(ParseJson(text, {.check_numbers = true})) << text;
  }
  const Result<Json> rejected = ParseJson(R"({"a":1e999,"b":1e998})", {.check_numbers = true});
  ASSERT_FALSE(rejected);
  EXPECT_EQ(rejected.error().message(),
            "json: cannot unmarshal number 1e999 into Go value of type float64");
  EXPECT_TRUE(ParseJson("[1e-999,1e308]", {.check_numbers = true}));
}

TEST(Json, HasTheErrorsOfGo) {
  const struct {
    std::string_view text;
    std::string_view error;
  } kCases[] = {
      {"", "unexpected end of JSON input"},
      {"[1,", "unexpected end of JSON input"},
      {"{\"a\"}", "invalid character '}' after object key"},
      {"[1 2]", "invalid character '2' after array element"},
      {"{} x", "invalid character 'x' after top-level value"},
  };
  for (const auto& c : kCases) {
    const Result<Json> json = ParseJson(c.text);
    ASSERT_FALSE(json) << c.text;
    EXPECT_EQ(json.error().message(), c.error);
    EXPECT_TRUE(json.error().Is(StatusReason::kBadRequest));
  }
}

TEST(Json, ReportsEachDuplicateMemberOnceAndAtMostAHundred) {
  std::vector<std::string> errors;
  ASSERT_TRUE(ParseJson(R"({"a":[{"b":1},{"b":1,"b":2,"b":3}],"c":{"d":{"e":1,"e":1}},"a":1})",
                        {.field_errors = &errors}));
  EXPECT_EQ(errors,
            (std::vector<std::string>{R"(duplicate field "a[1].b")", R"(duplicate field "c.d.e")",
                                      R"(duplicate field "a")"}));
  std::string many = "{";
  for (int i = 0; i < 200; ++i) many += "\"" + std::to_string(i % 150) + "\":0,";
  for (int i = 0; i < 150; ++i) many += "\"" + std::to_string(i) + "\":0,";
  many.back() = '}';
  errors.clear();
  ASSERT_TRUE(ParseJson(many, {.field_errors = &errors}));
  EXPECT_EQ(errors.size(), 100U);
}

// A path of half a megabyte with a hundred thousand duplicates below it, and then with a hundred
// different ones: the path is not built each time, and the errors do not take 50 MB.
TEST(Json, LimitsTheErrorsBelowALongPath) {
  const std::string name(500'000, 'n');
  std::string same = "{\"" + name + "\":{\"a\":0";
  std::string different = same;
  for (int i = 0; i < 100'000; ++i) same += R"(,"a":0)";
  for (int i = 0; i < 200; ++i) different += ",\"" + std::to_string(i / 2) + "\":0";
  std::vector<std::string> errors;
  ASSERT_TRUE(ParseJson(same + "}}", {.field_errors = &errors}));
  EXPECT_EQ(errors, std::vector<std::string>{"duplicate field \"" + name + ".a\""});
  errors.clear();
  ASSERT_TRUE(ParseJson(different + "}}", {.field_errors = &errors}));
  EXPECT_GT(errors.size(), 5U);
  EXPECT_LT(errors.size(), 12U);
}

TEST(Json, KeepsTheTextOfUnchangedParts) {
  constexpr std::string_view kText =
      R"({ "z": {"b": 1.0, "a": "\u0061"}, "y": [ 1e2, {"d":1,"c":2} ], "x": "<" })";
  Json json = Parse(kText);
  std::string out;
  AppendAsWritten(json, &out);
  EXPECT_EQ(out, R"({"z":{"b":1.0,"a":"\u0061"},"y":[1e2,{"d":1,"c":2}],"x":"\u003c"})");
  json.mutable_object().erase("x");
  json.mutable_object().find("y")->second.mutable_array().pop_back();
  out.clear();
  AppendAsWritten(json, &out);
  EXPECT_EQ(out, R"({"y":[1e2],"z":{"b":1.0,"a":"\u0061"}})");
}

TEST(Json, PrintsAsGosFmtDoes) {
  const Json json = Parse(R"({"b":[null,"x y",true,1.5],"a":{"c":1}})");
  std::string v, s, null;
  AppendGoText(json, 'v', &v);
  EXPECT_EQ(v, "map[a:map[c:1] b:[<nil> x y true 1.5]]");
  AppendGoText(json, 's', &s);
  EXPECT_EQ(s, "map[a:map[c:%!s(int64=1)] b:[<nil> x y %!s(bool=true) %!s(float64=1.5)]]");
  AppendGoText(Json(), 's', &null);
  EXPECT_EQ(null, "%!s(<nil>)");
}

TEST(Json, ComparesScalarsByTextOrByValue) {
  EXPECT_EQ(Parse(R"({"a":[1,"x"]})"), Parse(R"( { "a" : [ 1 , "x" ] } )"));
  EXPECT_NE(Parse("1"), Parse("1.0"));
  EXPECT_NE(Parse(R"("a")"), Parse(R"("\u0061")"));
  EXPECT_NE(Parse("{}"), Parse("[]"));
  EXPECT_NE(Parse(R"({"a":1})"), Parse(R"({"b":1})"));
  EXPECT_TRUE(Parse(R"("a")").SameScalar(Parse(R"("\u0061")")));
  EXPECT_TRUE(Parse("1.0").SameScalar(Parse("1e0")));
  EXPECT_FALSE(Parse("1.0").SameScalar(Parse("1")));
  EXPECT_FALSE(Parse("{}").SameScalar(Parse("{}")));
}

TEST(Json, CanBeAssignedFromAPartOfItself) {
  Json json = Parse(R"({"a":{"b":[1,2]}})");
  json = std::move(json.mutable_object().find("a")->second);
  std::string out;
  AppendJson(json, &out);
  EXPECT_EQ(out, R"({"b":[1,2]})");
}

TEST(Json, HasTheDepthLimitOfGo) {
  EXPECT_TRUE(ParseJson(Repeat("[", 10'000) + Repeat("]", 10'000)));
  const Result<Json> json = ParseJson(Repeat("[", 10'001) + Repeat("]", 10'001));
  ASSERT_FALSE(json);
  EXPECT_EQ(json.error().message(), "invalid character '[' exceeded max depth");
}

// A JSON patch can nest values deeper than the parser's limit. A thread's stack may be as small as
// 128 KiB, so no function may recurse.
TEST(Json, HandlesAnyDepth) {
  std::thread([] {
    constexpr std::size_t kDepth = 200'000;
    Json json;
    for (std::size_t i = 0; i < kDepth; ++i) {
      if (i % 2 == 0) {
        Json::Array array;
        array.push_back(std::move(json));
        json = Json(std::move(array));
      } else {
        Json::Object object;
        object.emplace("a", std::move(json));
        json = Json(std::move(object));
      }
    }
    EXPECT_EQ(Depth(json), kDepth);
    const Json clone = json.Clone();
    EXPECT_TRUE(clone == json);
    std::string text, written, go;
    AppendJson(json, &text);
    AppendAsWritten(clone, &written);
    AppendGoText(json, 'v', &go);
    EXPECT_EQ(text, written);
    EXPECT_EQ(text.size(), kDepth / 2 * 8 + 4);
  }).join();
}

}  // namespace
}  // namespace herald
