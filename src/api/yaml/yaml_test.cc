#include "api/yaml/yaml.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "test/golden.h"

namespace herald {
namespace {

using herald::testing::Bytes;
using herald::testing::LoadGolden;
using herald::testing::Vector;

TEST(Yaml, ConvertsToTheJsonOfKubernetes) {
  for (const Vector& vector : LoadGolden("yaml.json")) {
    if (vector.at("direction") != "json") continue;
    SCOPED_TRACE(vector.dump());
    std::string duplicates;
    const Result<std::string> json = YamlToJson(Bytes(vector, "input"), &duplicates);
    EXPECT_EQ(json.has_value(), vector.at("ok").get<bool>())
        << (json ? *json : json.error().ToString());
    if (!json) {
      EXPECT_TRUE(json.error().Is(StatusReason::kBadRequest));
      continue;
    }
    if (!vector.at("ok").get<bool>()) continue;
    EXPECT_EQ(nlohmann::json::parse(*json).dump(),
              nlohmann::json::parse(Bytes(vector, "json")).dump());
    EXPECT_EQ(duplicates, vector.value("strict", ""));
  }
}

TEST(Yaml, LimitsTheDuplicatesThatItReports) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "a: {b: 1, b: 2}\n";
  std::string duplicates;
  ASSERT_TRUE(YamlToJson(text, &duplicates));
  EXPECT_TRUE(duplicates.starts_with("yaml: unmarshal errors:\n  line 1: key \"b\" already set"));
  EXPECT_LT(duplicates.size(), 10'000U);
}

TEST(Yaml, FindsDuplicatesInALoopThatWasReplaced) {
  for (const char* text : {"a: &a [*a]\na: 1\n", "a: &a {b: *a, b: *a}\na: 1\n",
                           "a: &a {<<: *a}\na: 1\n", "a: {<<: [1, {b: 1}]}\na: 1\n"}) {
    SCOPED_TRACE(text);
    std::string duplicates;
    if (!YamlToJson(text, &duplicates)) continue;
    EXPECT_FALSE(duplicates.empty());
  }
}

TEST(Yaml, WritesTheYamlOfKubernetes) {
  for (const Vector& vector : LoadGolden("yaml.json")) {
    if (vector.at("direction") != "yaml") continue;
    SCOPED_TRACE(vector.dump());
    EXPECT_EQ(JsonToYaml(Bytes(vector, "input")), Bytes(vector, "yaml"));
  }
}

TEST(Yaml, KeepsTheOrderOfMembers) {
  EXPECT_EQ(YamlToJson("z: 1\na: {x: 2, b: 3}\n").value_or(""), R"({"z":1,"a":{"x":2,"b":3}})");
}

TEST(Yaml, NamesTheLineOfAnError) {
  const Result<std::string> json = YamlToJson("a: 1\nb: [1, 2\nc: 3\n");
  ASSERT_FALSE(json);
  EXPECT_NE(json.error().message().find("line "), std::string::npos) << json.error().message();
}

TEST(Yaml, RejectsExponentialAliases) {
  std::string text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 20; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int k = 0; k < 9; ++k) text += "," + before;
    text += "]\n";
  }
  const Result<std::string> json = YamlToJson(text);
  ASSERT_FALSE(json);
  EXPECT_NE(json.error().message().find("excessive aliasing"), std::string::npos);
}

TEST(Yaml, RejectsExponentialMerges) {
  std::string text = "a0: &a0 {x: 1}\n";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " {<<: [" + before + "," +
            before + "]}\n";
  }
  EXPECT_FALSE(YamlToJson(text));
}

TEST(Yaml, RejectsDocumentsThatCostTheParserTooMuch) {
  std::string list = "[";
  while (list.size() < 3'000'000) list += "a,";
  for (const std::string& text : {std::string(3'000'000, '{'), list, std::string(600'000, '\n')}) {
    const Result<std::string> json = YamlToJson(text);
    ASSERT_FALSE(json);
    EXPECT_EQ(json.error().message(), "yaml: the document has too many parts");
  }
  EXPECT_TRUE(YamlToJson("message: \"" + std::string(300'000, 'x') + "\"\n"));
}

TEST(Yaml, RejectsNestingThatCouldOverflowTheStack) {
  EXPECT_FALSE(YamlToJson(std::string(100'000, '[')));
  std::string text = "a0: &a0 x\n";
  for (int i = 1; i < 100; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " " + std::string(400, '[') +
            "*a" + std::to_string(i - 1) + std::string(400, ']') + "\n";
  }
  EXPECT_FALSE(YamlToJson(text));
}

// Without the limit each line would have an indentation of 400 spaces or more.
TEST(Yaml, LimitsTheIndentationOfDeepDocuments) {
  const std::string open(200, '['), close(200, ']');
  std::string list = "[0", words = "\"a", lines = "\"a", members = "{\"0\":0";
  for (int i = 1; i < 20'000; ++i) {
    list += ",0";
    words += " a";
    lines += "\\na";
    members += ",\"" + std::to_string(i) + "\":0";
  }
  for (const std::string& inner : {list + "]", words + "\"", lines + "\"", members + "}"}) {
    const std::string json = open + inner + close;
    const std::string yaml = JsonToYaml(json);
    EXPECT_LT(yaml.size(), (1U << 20) + 12 * json.size());
    EXPECT_EQ(YamlToJson(yaml).value_or("").size(), json.size()) << inner.substr(0, 20);
  }
}

TEST(Yaml, WritesTheDeepPartsOfADocumentAsJson) {
  const std::string deep = std::string(9'000, '[') + "1" + std::string(9'000, ']');
  const std::string yaml = JsonToYaml(deep);
  EXPECT_LT(yaml.size(), 3'000'000U);
  EXPECT_NE(yaml.find("[[[["), std::string::npos);
}

}  // namespace
}  // namespace herald
