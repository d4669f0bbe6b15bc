#include "herald/client/json_value.h"

#include <gtest/gtest.h>

#include <string>

#include "herald/client/dynamic.h"

namespace herald {
namespace {

TEST(JsonValue, ReadsWithoutFailing) {
  const auto json = JsonValue::Parse(
      R"({"a":{"b":[1,"two",true,null,2.5,1e3]},"big":9223372036854775808,"s":"x\u00e9"})");
  ASSERT_TRUE(json);
  const JsonValue& list = (*json)["a"]["b"];
  EXPECT_EQ(list.At(0).Int(), 1);
  EXPECT_EQ(list.At(1).String(), "two");
  EXPECT_TRUE(list.At(2).Bool());
  EXPECT_TRUE(list.At(3).is_null());
  EXPECT_EQ(list.At(4).Number(), 2.5);
  EXPECT_FALSE(list.At(5).is_int());
  EXPECT_EQ(list.At(5).Int(), 1000);
  EXPECT_FALSE((*json)["big"].is_int());
  EXPECT_TRUE((*json)["no"]["such"]["thing"].is_null());
  EXPECT_EQ((*json)["s"]["x"].String(), "");
  EXPECT_EQ((*json)["s"].Int(-1), -1);
  EXPECT_EQ(list.At(99).Int(7), 7);
}

TEST(JsonValue, IsBuiltAndWrittenAsGoWritesIt) {
  JsonValue json;
  json.Member("z").Member("replicas") = 3;
  json.Member("a") = "<tag>";
  json.Member("list").MutableArray().emplace_back(1.5);
  json.Member("list").MutableArray().emplace_back(true);
  json.Member("none");
  json.Member("e") = JsonValue::Object();
  EXPECT_EQ(json.ToString(),
            R"({"a":"\u003ctag\u003e","e":{},"list":[1.5,true],"none":null,"z":{"replicas":3}})");
  json.Erase("z");
  EXPECT_FALSE(json.Has("z"));
  EXPECT_EQ(JsonValue::Parse(json.ToString()).value_or(JsonValue()), json);
}

TEST(JsonValue, RejectsInvalidOrTooDeepJson) {
  for (const char* text : {"", "{", "[1,]", "{\"a\":1}x", "nul", "01"}) {
    const auto json = JsonValue::Parse(text);
    ASSERT_FALSE(json) << text;
    EXPECT_FALSE(json.error().message().empty());
  }
  EXPECT_TRUE(JsonValue::Parse(std::string(900, '[') + std::string(900, ']')));
  EXPECT_FALSE(JsonValue::Parse(std::string(5000, '[') + std::string(5000, ']')));
}

TEST(Object, ReturnsItsMetadata) {
  const Object object{*JsonValue::Parse(
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"u",)"
      R"("resourceVersion":"5","generation":2,"labels":{"app":"web"},)"
      R"("deletionTimestamp":"2023-11-14T22:13:20Z","ownerReferences":[{"apiVersion":"apps/v1",)"
      R"("kind":"ReplicaSet","name":"rs","uid":"o","controller":true}]}})")};
  EXPECT_EQ(object.Key(), "shop/web");
  const ObjectMeta meta = object.metadata();
  EXPECT_EQ(meta.generation, 2);
  EXPECT_EQ(meta.labels.find("app")->second, "web");
  ASSERT_TRUE(meta.deletion_timestamp);
  EXPECT_EQ(meta.deletion_timestamp->seconds(), 1'700'000'000);
  ASSERT_EQ(meta.owner_references.size(), 1U);
  EXPECT_EQ(meta.owner_references[0].controller, true);
  EXPECT_FALSE(meta.owner_references[0].block_owner_deletion);
  EXPECT_EQ(object.Reference(), (ObjectReference{.kind = "Pod",
                                                 .namespace_ = "shop",
                                                 .name = "web",
                                                 .uid = "u",
                                                 .api_version = "v1",
                                                 .resource_version = "5"}));
}

}  // namespace
}  // namespace herald
