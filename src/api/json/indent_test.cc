#include "api/json/indent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace herald {
namespace {

TEST(IndentJson, WritesALineForEachMemberAndElement) {
  EXPECT_EQ(IndentJson("{\"a\":[1,{}],\"b\":{\"c\":\"{,:}\\\"\"},\"d\":[]}\n"),
            "{\n"
            "  \"a\": [\n"
            "    1,\n"
            "    {}\n"
            "  ],\n"
            "  \"b\": {\n"
            "    \"c\": \"{,:}\\\"\"\n"
            "  },\n"
            "  \"d\": []\n"
            "}");
}

TEST(IndentJson, LimitsTheIndentationOfDeepDocuments) {
  constexpr std::size_t kDepth = 9'000;
  std::string json(kDepth, '[');
  for (int i = 0; i < 500'000; ++i) json += "1,";
  json += '1' + std::string(kDepth, ']');
  std::string indented = IndentJson(json);
  EXPECT_LT(indented.size(), 12 * json.size());
  std::erase_if(indented, [](char c) { return c == ' ' || c == '\n'; });
  EXPECT_TRUE(indented == json);
}

}  // namespace
}  // namespace herald
