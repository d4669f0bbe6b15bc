#include "api/patch/strategic_merge.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "api/json/event_from_json.h"

namespace herald {
namespace {

constexpr std::string_view kEvent =
    R"({"metadata":{"finalizers":["a","b"],"labels":{"x":"1"},"name":"e",)"
    R"("ownerReferences":[{"name":"n1","uid":"1"},{"name":"n2","uid":"2"}]},)"
    R"("source":{"component":"c","host":"h"}})";

std::string Apply(std::string_view patch, std::string* left_of_patch = nullptr) {
  Json document = *ParseJson(kEvent);
  Json json = *ParseJson(patch);
  const Status status = ApplyStrategicMergePatch(EventApi::kCoreV1, &json, &document);
  if (left_of_patch != nullptr) AppendGoText(json, 'v', left_of_patch);
  if (!status.ok()) return std::to_string(status.code()) + " " + status.message();
  std::string out;
  AppendJson(document, &out);
  return out;
}

// The document with one part replaced.
std::string With(std::string_view own, std::string_view changed) {
  std::string event(kEvent);
  const std::size_t at = event.find(own);
  EXPECT_NE(at, std::string::npos) << own;
  return event.replace(at, own.size(), changed);
}

constexpr std::string_view kFinalizers = R"("finalizers":["a","b"])";
constexpr std::string_view kOwners =
    R"("ownerReferences":[{"name":"n1","uid":"1"},{"name":"n2","uid":"2"}])";

TEST(StrategicMerge, MergesFinalizersAsASet) {
  const struct {
    std::string_view patch;
    std::string_view finalizers;
  } kCases[] = {
      {R"({"finalizers":["c"]})", R"(["c","a","b"])"},
      {R"({"finalizers":["b"]})", R"(["a","b"])"},
      {R"({"finalizers":["c","b"]})", R"(["c","a","b"])"},
      {R"({"finalizers":["b","a"]})", R"(["b","a"])"},
      {R"({"finalizers":["c","c"]})", R"(["c","a","b"])"},
      {R"({"finalizers":[]})", R"(["a","b"])"},
      {R"({"$deleteFromPrimitiveList/finalizers":["a","z"]})", R"(["b"])"},
      {R"({"$setElementOrder/finalizers":["b","a"]})", R"(["b","a"])"},
      {R"({"$setElementOrder/finalizers":["b","c","a"],"finalizers":["c"]})", R"(["b","c","a"])"},
      {R"({"$setElementOrder/finalizers":["c"],"finalizers":["c"]})", R"(["c","a","b"])"},
      {R"({"$setElementOrder/finalizers":["b"],"$deleteFromPrimitiveList/finalizers":["a"]})",
       R"(["b"])"},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(Apply(R"({"metadata":)" + std::string(c.patch) + "}"),
              With(kFinalizers, R"("finalizers":)" + std::string(c.finalizers)))
        << c.patch;
  }
}

TEST(StrategicMerge, MergesOwnersByUid) {
  const struct {
    std::string_view patch;
    std::string_view owners;
  } kCases[] = {
      {R"([{"uid":"2","name":"x"}])", R"([{"name":"n1","uid":"1"},{"name":"x","uid":"2"}])"},
      {R"([{"uid":"3"}])", R"([{"uid":"3"},{"name":"n1","uid":"1"},{"name":"n2","uid":"2"}])"},
      {R"([{"uid":"1","$patch":"delete"}])", R"([{"name":"n2","uid":"2"}])"},
      {R"([{"uid":"1","$patch":"delete"},{"uid":"1"}])",
       R"([{"uid":"1"},{"name":"n2","uid":"2"}])"},
      {R"([{"$patch":"replace"},{"uid":"3"}])", R"([{"uid":"3"}])"},
      {R"([{"$patch":"replace"}])", R"([])"},
      {R"([{"uid":"2","name":null}])", R"([{"name":"n1","uid":"1"},{"uid":"2"}])"},
      {R"([{"uid":"2","$retainKeys":["uid"]}])", R"([{"name":"n1","uid":"1"},{"uid":"2"}])"},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(Apply(R"({"metadata":{"ownerReferences":)" + std::string(c.patch) + "}}"),
              With(kOwners, R"("ownerReferences":)" + std::string(c.owners)))
        << c.patch;
  }
  EXPECT_EQ(
      Apply(R"({"metadata":{"$setElementOrder/ownerReferences":[{"uid":"2"},{"uid":"1"}]}})"),
      With(kOwners, R"("ownerReferences":[{"name":"n2","uid":"2"},{"name":"n1","uid":"1"}])"));
}

TEST(StrategicMerge, AppliesDirectivesInObjects) {
  EXPECT_EQ(Apply(R"({"source":{"$patch":"replace","host":"x"}})"),
            With(R"({"component":"c","host":"h"})", R"({"host":"x"})"));
  EXPECT_EQ(Apply(R"({"source":{"$patch":"delete"}})"),
            With(R"({"component":"c","host":"h"})", R"({})"));
  EXPECT_EQ(Apply(R"({"source":{"$retainKeys":["host"],"host":"x"}})"),
            With(R"({"component":"c","host":"h"})", R"({"host":"x"})"));
  EXPECT_EQ(Apply(R"({"source":null})"), With(R"(,"source":{"component":"c","host":"h"})", ""));
  EXPECT_EQ(Apply(R"({"$patch":"replace","reason":"x"})"), R"({"reason":"x"})");
  // A directive for a missing object adds nothing.
  EXPECT_EQ(Apply(R"({"series":{"$patch":"replace","count":2}})"), kEvent);
}

TEST(StrategicMerge, RemovesNullsOfNewValues) {
  EXPECT_EQ(Apply(R"({"zz":{"a":null,"b":[{"c":null},null]}})"),
            With(R"("host":"h"}})", R"("host":"h"},"zz":{"b":[{},null]}})"));
}

TEST(StrategicMerge, HasTheErrorsOfKubernetes) {
  const struct {
    std::string_view patch;
    std::string_view error;
  } kCases[] = {
      {R"({"$patch":"merge"})", "500 unknown patch type: merge in map: map[$patch:merge]"},
      {R"({"metadata":{"$retainKeys":{}}})", "400 invalid patch format of retainKeys"},
      {R"({"source":{"$retainKeys":["host"],"component":"x"}})",
       "400 invalid patch format of retainKeys"},
      {R"({"$deleteFromPrimitiveList":[]})", "400 invalid patch format of primitive list"},
      {R"({"$setElementOrder":[]})", "400 invalid patch format of setElementOrder list"},
      {R"({"$setElementOrder/x":5})", "500 expected a []interface {}, but received a int64"},
      {R"({"$setElementOrder/x":[]})",
       "500 unable to find api field in struct Event for the json field \"x\""},
      {R"({"$setElementOrder/reason":[]})", "500 expected slice or array type, but got: struct"},
      {R"({"metadata":{"labels":{"$setElementOrder/y":[]}}})",
       "500 merging an object in json but data type is not struct, instead is: map"},
      {R"({"metadata":{"ownerReferences":[{"name":"x"}]}})",
       "500 map: map[name:x] does not contain declared merge key: uid"},
      {R"({"metadata":{"finalizers":["c",null]}})",
       "500 list element types are not identical: [[a b] [c <nil>]]"},
      {R"({"metadata":{"$setElementOrder/finalizers":["b"],"finalizers":["c"]}})",
       "500 The order in patch list:\n[c]\n doesn't match $setElementOrder list:\n[b]\n"},
  };
  for (const auto& c : kCases) EXPECT_EQ(Apply(c.patch), c.error) << c.patch;
}

TEST(StrategicMerge, ReturnsInternalErrorWhereKubernetesPanics) {
  for (const std::string_view patch :
       {R"({"metadata":{"$retainKeys":[[]]}})", R"({"metadata":{"ownerReferences":[{"uid":{}}]}})",
        R"({"metadata":{"$setElementOrder/finalizers":[{}]}})"}) {
    EXPECT_EQ(Apply(patch).substr(0, 3), "500") << patch;
  }
}

TEST(StrategicMerge, ChangesThePatchAsAMessageShowsIt) {
  std::string left;
  Apply(R"({"metadata":{"$setElementOrder/finalizers":["a"],"labels":{"y":null}},)"
        R"("zz":{"a":null,"b":{"$patch":"delete"}},"source":{"$retainKeys":["host"]}})",
        &left);
  EXPECT_EQ(left, "map[metadata:map[labels:map[y:<nil>]] source:map[] zz:map[]]");
}

// Upstream needs minutes for a list of a megabyte. Here the time must be nearly linear, or this
// test does not end.
TEST(StrategicMerge, MergesLongLists) {
  constexpr int kElements = 50'000;
  std::string owners, order;
  for (int i = 0; i < kElements; ++i) {
    const std::string element = R"({"uid":")" + std::to_string(i) + R"("},)";
    owners += element;
    order += element;
  }
  owners.back() = ']';
  order.back() = ']';
  const std::string result = Apply(R"({"metadata":{"ownerReferences":[)" + owners +
                                   R"(,"$setElementOrder/ownerReferences":[)" + order + "}}");
  EXPECT_EQ(result.substr(0, 3), "{\"m");
  EXPECT_GT(result.size(), owners.size());
}

TEST(EventFromJson, TruncatesNumbersToTheSizeOfTheField) {
  const struct {
    std::string_view count;
    std::int32_t value;
  } kCases[] = {
      {"1", 1},      {"4294967297", 1},    {"-1", -1},   {"2147483648", -2147483647 - 1},
      {"1e3", 1000}, {"2.0", 2},           {"1e300", 0}, {"-1e300", 0},
      {"null", 0},   {"1e10", 1410065408},
  };
  for (const auto& c : kCases) {
    const std::string text = R"({"count":)" + std::string(c.count) + "}";
    const Result<Event> event = EventFromJson(*ParseJson(text), EventApi::kCoreV1, nullptr);
    ASSERT_TRUE(event) << text;
    EXPECT_EQ(event->count, c.value) << text;
  }
}

TEST(EventFromJson, HasTheErrorsOfKubernetes) {
  const struct {
    std::string_view text;
    std::string_view error;
  } kCases[] = {
      {R"({"count":1.5})", "cannot convert float64 to int32"},
      {R"({"count":"1"})", "unrecognized type: int32"},
      {R"({"metadata":{"generation":true}})", "unrecognized type: int64"},
      {R"({"metadata":{"uid":1}})", "cannot convert int64 to types.UID"},
      {R"({"reason":1})", "cannot convert int64 to string"},
      {R"({"reason":1.5})", "unrecognized type: string"},
      {R"({"kind":[]})", "unrecognized type: string"},
      {R"({"metadata":[]})", "cannot restore struct from: slice"},
      {R"({"metadata":{"labels":5}})", "cannot restore map from int64"},
      {R"({"metadata":{"finalizers":{}}})", "cannot restore slice from map"},
      {R"({"metadata":{"ownerReferences":[{"controller":1}]}})", "unrecognized type: bool"},
      {R"({"eventTime":5})", "json: cannot unmarshal number into Go value of type string"},
      {R"({"lastTimestamp":"x","count":"y","firstTimestamp":{}})",
       "json: cannot unmarshal object into Go value of type string"},
  };
  for (const auto& c : kCases) {
    const Result<Event> event = EventFromJson(*ParseJson(c.text), EventApi::kCoreV1, nullptr);
    ASSERT_FALSE(event) << c.text;
    EXPECT_EQ(event.error().message(), c.error) << c.text;
  }
}

TEST(EventFromJson, ReportsUnknownFieldsSorted) {
  std::vector<std::string> errors;
  ASSERT_TRUE(EventFromJson(
      *ParseJson(
          R"({"zz":1,"note":2,"metadata":{"b":1,"ownerReferences":[{},{"c":1}]},"kind":""})"),
      EventApi::kCoreV1, &errors));
  EXPECT_EQ(errors, (std::vector<std::string>{R"(unknown field "metadata.b")",
                                              R"(unknown field "metadata.ownerReferences[1].c")",
                                              R"(unknown field "note")", R"(unknown field "zz")"}));
}

TEST(EventFromJson, KeepsManagedFieldsInNormalForm) {
  const Result<Event> event =
      EventFromJson(*ParseJson(R"({"metadata":{"managedFields":[{"fieldsV1":{"b":1.0,"a":{}}}]}})"),
                    EventApi::kEventsV1, nullptr);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->metadata.managed_fields[0].fields_v1, R"({"a":{},"b":1})");
}

}  // namespace
}  // namespace herald
