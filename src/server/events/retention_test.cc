#include "server/events/retention.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/testing/temporary_directory.h"

namespace herald::server {
namespace {

using namespace std::chrono_literals;

Result<Retention> LoadRules(std::string_view text) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() / "retention.yaml";
  std::ofstream(file) << text;
  return Retention::Load(file, 1h);
}

Event MakeEvent(std::string namespace_, std::string type, std::string reason, std::string kind) {
  Event event;
  event.metadata.namespace_ = std::move(namespace_);
  event.type = std::move(type);
  event.reason = std::move(reason);
  event.involved_object.kind = std::move(kind);
  return event;
}

TEST(Retention, TheFirstMatchingRuleDecides) {
  const Result<Retention> retention = LoadRules(
      "rules:\n"
      "- {reason: [Pulled, Pulling], keep: 10m}\n"
      "- {namespace: kube-system, kind: Node, keep: 30d}\n"
      "- {type: Warning, keep: 7d}\n");
  ASSERT_TRUE(retention.has_value()) << retention.error().message();
  EXPECT_EQ(retention->Keep(MakeEvent("a", "Warning", "Pulled", "Pod")), 10min);
  EXPECT_EQ(retention->Keep(MakeEvent("kube-system", "Warning", "x", "Node")), 720h);
  EXPECT_EQ(retention->Keep(MakeEvent("kube-system", "Warning", "x", "Pod")), 168h);
  EXPECT_EQ(retention->Keep(MakeEvent("a", "Normal", "x", "Pod")), 1h);
}

TEST(Retention, AnEmptyFileHasNoRules) {
  EXPECT_EQ(LoadRules("")->Keep(MakeEvent("a", "b", "c", "d")), 1h);
  EXPECT_EQ(LoadRules("rules: []\n")->Keep(MakeEvent("a", "b", "c", "d")), 1h);
}

TEST(Retention, EqualRulesHaveTheSameIdAndOthersAnother) {
  const std::string_view rules[] = {
      "",
      "rules: [{type: Normal, keep: 2h}]",
      "rules: [{type: Normal, keep: 3h}]",
      "rules: [{reason: Normal, keep: 2h}]",
      "rules: [{type: [Normal, Warning], keep: 2h}]",
      "rules: [{type: \"Normal 7:Warning\", keep: 2h}]",
      "rules: [{type: Normal, keep: 2h}, {keep: 3h}]",
      "rules: [{keep: 3h}, {type: Normal, keep: 2h}]",
  };
  std::set<std::uint64_t> ids;
  for (const std::string_view text : rules) {
    EXPECT_EQ(LoadRules(text)->id(), LoadRules(text)->id()) << text;
    EXPECT_TRUE(ids.insert(LoadRules(text)->id()).second) << text;
  }
  EXPECT_EQ(Retention(1h).id(), LoadRules("rules: []")->id());
  EXPECT_NE(Retention(1h).id(), Retention(2h).id());
  EXPECT_EQ(LoadRules("rules: [{keep: 60m}]")->id(), LoadRules("rules: [{keep: 1h}]")->id());
}

TEST(Retention, ExplainsWhyZeroIsRejected) {
  const Result<Retention> retention = LoadRules("rules:\n- {type: Normal, keep: 0s}\n");
  ASSERT_FALSE(retention.has_value());
  EXPECT_NE(retention.error().message().find("rules[0].keep: must not be 0"), std::string::npos)
      << retention.error().message();
  EXPECT_FALSE(Retention::CheckTtl(0s).ok());
}

TEST(Retention, ReportsTheInvalidRule) {
  struct Case {
    const char* text;
    const char* error;
  };
  const Case cases[] = {
      {"rules: [{type: Normal}]", "rules[0].keep: is missing"},
      {"rules: [{keep: -1h}]", "rules[0].keep: must be from 1s"},
      {"rules: [{keep: 10ms}]", "rules[0].keep: must be from 1s"},
      {"rules: [{keep: 40000d}]", "rules[0].keep: must be from 1s to 36525d"},
      {"rules: [{ttl: 5m, keep: 5m}]", "rules[0].ttl: unknown field"},
      {"rule: []", "rule: unknown field"},
      {"rules: [{type: {a: b}, keep: 5m}]", "rules[0].type: must be a string or a list of strings"},
  };
  for (const Case& c : cases) {
    const Result<Retention> retention = LoadRules(c.text);
    ASSERT_FALSE(retention.has_value()) << c.text;
    EXPECT_NE(retention.error().message().find(c.error), std::string::npos)
        << retention.error().message();
  }
}

}  // namespace
}  // namespace herald::server
