#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "herald/api/selector.h"
#include "test/golden.h"

namespace herald {
namespace {

using namespace std::string_view_literals;

LabelSelector Parsed(std::string_view text) {
  Result<LabelSelector> selector = LabelSelector::Parse(text);
  EXPECT_TRUE(selector.has_value()) << text << ": " << selector.error().message();
  return selector ? *selector : LabelSelector();
}

std::string ErrorOf(std::string_view text) {
  const Result<LabelSelector> selector = LabelSelector::Parse(text);
  EXPECT_FALSE(selector.has_value()) << text;
  if (selector) return "";
  EXPECT_EQ(selector.error().reason(), StatusReason::kBadRequest) << text;
  return selector.error().message();
}

TEST(LabelSelectorTest, AnEmptySelectorMatchesEverything) {
  for (std::string_view text : {""sv, " \t\r\n"sv, "\0a=b"sv}) {
    const LabelSelector selector = Parsed(text);
    EXPECT_TRUE(selector.empty());
    EXPECT_EQ(selector, LabelSelector());
    EXPECT_EQ(selector.ToString(), "");
    EXPECT_TRUE(selector.Matches({}));
    EXPECT_TRUE(selector.Matches({{"a", "b"}}));
  }
}

TEST(LabelSelectorTest, PrintsTheCanonicalForm) {
  const struct {
    std::string_view text;
    std::string_view canonical;
  } kRows[] = {
      {" a = b ", "a=b"},
      {"a==b", "a==b"},
      {"a!=b", "a!=b"},
      {"a=", "a="},
      {"a=,b!=", "a=,b!="},
      {"b,!a", "!a,b"},
      {"a>1,a<9", "a>1,a<9"},
      {"a in (c,b,b)", "a in (b,c)"},
      {"a in()", "a in ()"},
      {"a in (,)", "a in ()"},
      {"a in (b,)", "a in (,b)"},
      {"a notin (x,,y)", "a notin (,x,y)"},
      {"in in (in,notin)", "in in (in,notin)"},
      {"notin=in", "notin=in"},
      {"example.com/tier=web", "example.com/tier=web"},
      {"a=1,a=2,a=1", "a=1,a=2,a=1"},  // requirements with the same key keep their order
      {"a=\0b"sv, "a=b"},              // a NUL is like a space here
  };
  for (const auto& row : kRows) {
    const LabelSelector selector = Parsed(row.text);
    EXPECT_EQ(selector.ToString(), row.canonical);
    EXPECT_EQ(Parsed(selector.ToString()), selector);
  }
}

TEST(LabelSelectorTest, SortsRequirementsByKeyAndRemovesDuplicateValues) {
  using Operator = LabelSelector::Operator;
  const std::vector<LabelSelector::Requirement> expected = {
      {"a", Operator::kNotIn, {"", "x", "y"}},
      {"b", Operator::kExists, {}},
      {"c", Operator::kGreaterThan, {"007"}},
  };
  EXPECT_EQ(Parsed("c>007,b,a notin (y,x,,y)").requirements(), expected);
}

TEST(LabelSelectorTest, MatchesWithEachOperator) {
  const struct {
    std::string_view text;
    bool without;  // no label "k"
    bool empty;    // k=""
    bool five;     // k="5"
    bool word;     // k="w"
  } kRows[] = {
      {"k", false, true, true, true},
      {"!k", true, false, false, false},
      {"k=5", false, false, true, false},
      {"k==5", false, false, true, false},
      {"k=", false, true, false, false},
      {"k in (5,w)", false, false, true, true},
      {"k in ()", false, true, false, false},
      {"k!=5", true, true, false, true},
      {"k notin (5,w)", true, true, false, false},
      {"k>4", false, false, true, false},
      {"k>5", false, false, false, false},
      {"k<6", false, false, true, false},
      {"k<5", false, false, false, false},
      {"k<6,k>4,k", false, false, true, false},
      {"k,k=w", false, false, false, true},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.text);
    const LabelSelector selector = Parsed(row.text);
    EXPECT_EQ(selector.Matches({{"other", "5"}}), row.without);
    EXPECT_EQ(selector.Matches({{"k", ""}}), row.empty);
    EXPECT_EQ(selector.Matches({{"k", "5"}}), row.five);
    EXPECT_EQ(selector.Matches({{"k", "w"}}), row.word);
  }
}

TEST(LabelSelectorTest, ComparesOnlyIntegers) {
  const LabelSelector above = Parsed("k>0");
  const LabelSelector below = Parsed("k<9223372036854775807");
  for (std::string_view value : {"1x", " 1", "1 ", "+-1", "+", "-", "0x1", "1.0", "1_000",
                                 "9223372036854775808", "-9223372036854775809"}) {
    EXPECT_FALSE(above.Matches({{"k", std::string(value)}})) << value;
    EXPECT_FALSE(below.Matches({{"k", std::string(value)}})) << value;
  }
  EXPECT_TRUE(above.Matches({{"k", "+1"}}));
  EXPECT_TRUE(above.Matches({{"k", "9223372036854775807"}}));
  EXPECT_TRUE(below.Matches({{"k", "-9223372036854775808"}}));
  EXPECT_TRUE(below.Matches({{"k", "-0"}}));
}

TEST(LabelSelectorTest, HasTheErrorsOfKubernetes) {
  const struct {
    std::string_view text;
    std::string_view message;
  } kRows[] = {
      {"=", "found '=', expected: !, identifier, or 'end of string'"},
      {",a", "found ',', expected: !, identifier, or 'end of string'"},
      {"a,", "found '', expected: identifier after ','"},
      {"a,,b", "found ',', expected: identifier after ','"},
      {"a=b c", "found 'c', expected: ',' or 'end of string'"},
      {"!a=b", "found '=', expected: ',' or 'end of string'"},
      {"!", "unable to parse requirement: found '', expected: identifier"},
      {"!!a", "unable to parse requirement: found '!', expected: identifier"},
      {"a=!", "unable to parse requirement: found '!', expected: identifier"},
      {"a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"},
      {"a(b)", "unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt"},
      {"a in b", "unable to parse requirement: found 'b' expected: '('"},
      {"a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"},
      {"a in (b", "unable to parse requirement: found '', expected: ',' or ')'"},
      {"a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"},
      {"a in (b,=)", "unable to parse requirement: found '=', expected: ',', or identifier"},
      {"a>",
       "unable to parse requirement: values[0]: Invalid value: \"\": for 'Gt', 'Lt' "
       "operators, the value must be an integer"},
      {"/a",
       "unable to parse requirement: <nil>: Invalid value: \"/a\": prefix part must be "
       "non-empty"},
  };
  for (const auto& row : kRows) EXPECT_EQ(ErrorOf(row.text), row.message) << row.text;
}

TEST(LabelSelectorTest, ReportsEveryInvalidValue) {
  const std::string rule =
      "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
      "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value', "
      " or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
  EXPECT_EQ(ErrorOf("k in (ok,\xff,b@)"),
            "unable to parse requirement: [values[0][k]: Invalid value: \"b@\": " + rule +
                ", values[2][k]: Invalid value: \"\\xff\": " + rule + "]");
  EXPECT_EQ(ErrorOf("k=" + std::string(64, 'x')),
            "unable to parse requirement: values[0][k]: Invalid value: \"" + std::string(64, 'x') +
                "\": must be no more than 63 bytes");
}

TEST(LabelSelectorTest, AcceptsALongListOfEqualValues) {
  std::string text = "k in (";
  for (int i = 0; i < 100'000; ++i) text += "a,";
  text += ")";
  EXPECT_EQ(Parsed(text).ToString(), "k in (,a)");
}

// Go's sort is not stable with more than twelve elements.
TEST(LabelSelectorTest, KeepsManyRequirementsOfOneKeyInTheirOrder) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += (i == 0 ? "a!=" : ",a!=") + std::to_string(40 - i);
  const auto selector = LabelSelector::Parse(text);
  ASSERT_TRUE(selector);
  EXPECT_EQ(selector->ToString(), text);
}

TEST(LabelSelectorTest, LimitsTheSizeOfTheError) {
  std::string text = "k in (";
  for (int i = 0; i < 100'000; ++i) text += "@" + std::to_string(i) + ",";
  EXPECT_LT(ErrorOf(text + ")").size(), 5U << 20);
}

TEST(LabelSelectorTest, AgreesWithEveryGoldenVector) {
  for (const testing::Vector& vector : testing::LoadGolden("label_selectors.json")) {
    SCOPED_TRACE(vector.dump());
    const auto selector = LabelSelector::Parse(testing::Bytes(vector, "input"));
    ASSERT_EQ(selector.has_value(), vector.at("ok").get<bool>());
    if (!selector) {
      EXPECT_EQ(selector.error().reason(), StatusReason::kBadRequest);
      EXPECT_EQ(selector.error().message(), testing::Bytes(vector, "error"));
      continue;
    }
    EXPECT_EQ(selector->ToString(), testing::Bytes(vector, "string"));
    for (const testing::Vector& match : vector.at("matches")) {
      const auto labels = match.at("labels").get<std::map<std::string, std::string>>();
      EXPECT_EQ(selector->Matches(StringMap(labels.begin(), labels.end())),
                match.at("result").get<bool>())
          << match.dump();
    }
  }
}

}  // namespace
}  // namespace herald
