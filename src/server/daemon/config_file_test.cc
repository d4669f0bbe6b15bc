#include "server/daemon/config_file.h"

#include <gtest/gtest.h>

namespace herald::server {
namespace {

using namespace std::chrono_literals;

ConfigNode ParseOne(std::string_view text) {
  auto documents = ConfigNode::Parse(text, "file.yaml");
  EXPECT_TRUE(documents.has_value());
  return documents->at(0);
}

TEST(ConfigNode, GivesWhatIsThereAndTheDefaultOtherwise) {
  ConfigNode node = ParseOne(
      "name: x\non: yes\nn: 5\nttl: 2h\nlist: [a, 'b']\nnothing:\n"
      "inner: {deep: 1}\nrules:\n- a: 1\n- a: 2\n");
  EXPECT_EQ(node.String("name"), "x");
  EXPECT_TRUE(node.Bool("on", false));
  EXPECT_EQ(node.Integer("n", 0), 5);
  EXPECT_EQ(node.Duration("ttl", 0s), 2h);
  EXPECT_EQ(node.Strings("list"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(node.String("nothing", "default"), "default");
  EXPECT_EQ(node.String("missing", "default"), "default");
  EXPECT_EQ(node.Child("inner").Integer("deep", 0), 1);
  EXPECT_EQ(node.Children("rules").at(1).Integer("a", 0), 2);
  EXPECT_EQ(node.Finish(), Status());
}

TEST(ConfigNode, NamesFileLineAndMember) {
  struct Case {
    const char* text;
    const char* message;
  };
  const Case cases[] = {
      {"qps: 5\nbrust: 3\n", "file.yaml: line 2: brust: unknown field"},
      {"qps: [1]\n", "file.yaml: line 1: qps: must be an integer"},
      {"qps: five\n", "file.yaml: line 1: qps: invalid value \"five\": must be an integer"},
      {"rules:\n- keep: 5x\n",
       "file.yaml: line 2: rules[0].keep: invalid value \"5x\": must be a duration, such as 90s, "
       "1h30m or 7d"},
      {"rules: 5\n", "file.yaml: line 1: rules: invalid value \"5\": must be a list of mappings"},
      {"rules:\n- {}\n- 7\n",
       "file.yaml: line 3: rules[1]: invalid value \"7\": must be a mapping"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    ConfigNode node = ParseOne(c.text);
    node.Integer("qps", 0);
    for (ConfigNode& rule : node.Children("rules")) rule.Duration("keep", 0s);
    EXPECT_EQ(node.Finish().message(), c.message);
  }
}

TEST(ConfigNode, RejectsAKeyThatAMappingHasTwice) {
  struct Case {
    const char* text;
    const char* message;  // empty: accepted
  };
  const Case cases[] = {
      {"a: 1\nb: 2\na: 3\n", "f: line 3: key \"a\" is already set in line 1"},
      {"a: 1\n'a': 3\n", "f: line 2: key \"a\" is already set in line 1"},
      {"x: {a: 1, b: {c: 1, c: 1}}\n", "f: line 1: key \"c\" is already set in line 1"},
      {"rules:\n- keep: 1h\n  type: x\n  keep: 2h\n",
       "f: line 4: key \"keep\" is already set in line 2"},
      {"a: 1\n---\nb: 1\nb: 2\n", "f: line 4: key \"b\" is already set in line 3"},
      {"a: 1\n---\na: 1\n", ""},
      {"x: {a: 1}\ny: {a: 1}\na: [a, a]\nb: a\n", ""},
      {"x: &x {a: 1}\ny: [*x, *x]\n? [k]\n: 1\n? [k]\n: 1\n", ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const auto documents = ConfigNode::Parse(c.text, "f");
    EXPECT_EQ(documents ? "" : documents.error().message(), c.message);
  }
}

TEST(ConfigNode, RejectsADocumentThatIsNotAMapping) {
  EXPECT_EQ(ConfigNode::Parse("- a\n", "f").error().message(), "f: line 1: must be a mapping");
  EXPECT_EQ(ConfigNode::Parse("a: 1\nb: [", "f").error().message(),
            "f: line 2: invalid YAML: end of sequence flow not found");
  EXPECT_TRUE(ConfigNode::Parse("---\n---\n", "f")->empty());
  EXPECT_NE(ConfigNode::Load("/nonexistent/x").error().message().find("/nonexistent/x"),
            std::string::npos);
}

}  // namespace
}  // namespace herald::server
