#include "api/patch/json_patch.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "herald/api/patch.h"

namespace herald {
namespace {

std::string Apply(std::string_view document, std::string_view patch) {
  std::deque<std::string> storage;
  Json json = *ParseJson(document);
  const Result<Json> parsed = ParseJson(patch);
  EXPECT_TRUE(parsed) << patch;
  const Status status = ApplyJsonPatch(*parsed, &json, &storage);
  if (!status.ok()) return status.message();
  std::string out;
  AppendAsWritten(json, &out);
  return out;
}

struct Case {
  std::string_view document;
  std::string_view patch;
  std::string_view result;
};

void Check(const std::vector<Case>& cases) {
  for (const Case& c : cases) EXPECT_EQ(Apply(c.document, c.patch), c.result) << c.patch;
}

TEST(JsonPatch, AppliesEveryOperation) {
  Check({
      {R"({"a":1})", R"([{"op":"add","path":"/b","value":2}])", R"({"a":1,"b":2})"},
      {R"({"a":1})", R"([{"op":"add","path":"/a","value":2}])", R"({"a":2})"},
      {R"({"a":1})", R"([{"op":"remove","path":"/a"}])", R"({})"},
      {R"({"a":1})", R"([{"op":"replace","path":"/a","value":{}}])", R"({"a":{}})"},
      {R"({"a":1})", R"([{"op":"move","from":"/a","path":"/b"}])", R"({"b":1})"},
      {R"({"a":[1]})", R"([{"op":"copy","from":"/a","path":"/b"}])", R"({"a":[1],"b":[1]})"},
      {R"({"a":1})", R"([{"op":"test","path":"/a","value":1}])", R"({"a":1})"},
      {R"({"a":1})", R"([{"op":"replace","path":"","value":{"b":2}}])", R"({"b":2})"},
      {R"({"a/b":{"c~d":1}})", R"([{"op":"remove","path":"/a~1b/c~0d"}])", R"({"a/b":{}})"},
      {R"({"~1":1})", R"([{"op":"remove","path":"/~01"}])", R"({})"},
      {R"({"":1})", R"([{"op":"remove","path":"/"}])", R"({})"},
      {R"({"a":1})", "[]", R"({"a":1})"},
      {R"({"a":1})", "null", R"({"a":1})"},
  });
}

TEST(JsonPatch, CountsIndexesFromEitherEnd) {
  Check({
      {"[1,2]", R"([{"op":"add","path":"/0","value":0}])", "[0,1,2]"},
      {"[1,2]", R"([{"op":"add","path":"/2","value":3}])", "[1,2,3]"},
      {"[1,2]", R"([{"op":"add","path":"/-","value":3}])", "[1,2,3]"},
      {"[1,2]", R"([{"op":"add","path":"/-1","value":3}])", "[1,2,3]"},
      {"[1,2]", R"([{"op":"add","path":"/-3","value":0}])", "[0,1,2]"},
      {"[1,2]", R"([{"op":"replace","path":"/-1","value":3}])", "[1,3]"},
      {"[1,2]", R"([{"op":"remove","path":"/+1"}])", "[1]"},
      {"[1,2]", R"([{"op":"remove","path":"/01"}])", "[1]"},
      {"[1,2]", R"([{"op":"add","path":"/3","value":3}])",
       "error in add for path: '/3': Unable to access invalid index: 3: invalid index referenced"},
      {"[1,2]", R"([{"op":"add","path":"/-4","value":3}])",
       "error in add for path: '/-4': Unable to access invalid index: -4: invalid index "
       "referenced"},
      {"[1,2]", R"([{"op":"remove","path":"/-"}])",
       "error in remove for path: '/-': strconv.Atoi: parsing \"-\": invalid syntax"},
      {"[1,2]", R"([{"op":"remove","path":"/+-1"}])",
       "error in remove for path: '/+-1': strconv.Atoi: parsing \"+-1\": invalid syntax"},
      {"[1,2]", R"([{"op":"remove","path":"/99999999999999999999"}])",
       "error in remove for path: '/99999999999999999999': strconv.Atoi: parsing "
       "\"99999999999999999999\": value out of range"},
      {"[1,2]", R"([{"op":"replace","path":"/2","value":3}])",
       "replace operation does not apply: doc is missing key: /2: missing value"},
  });
}

TEST(JsonPatch, TestComparesTheTextOfScalars) {
  constexpr std::string_view kFailed = "testing value /a failed: test failed";
  Check({
      {R"({"a":1})", R"([{"op":"test","path":"/a","value":1.0}])", kFailed},
      {R"({"a":"a"})", R"([{"op":"test","path":"/a","value":"\u0061"}])", kFailed},
      {R"({"a":{"b":1,"c":[2]}})", R"([{"op":"test","path":"/a","value":{"c":[2],"b":1}}])",
       R"({"a":{"b":1,"c":[2]}})"},
      {R"({"a":null})", R"([{"op":"test","path":"/a","value":null}])", R"({"a":null})"},
      {R"({"a":null})", R"([{"op":"test","path":"/a"}])", R"({"a":null})"},
      {R"({})", R"([{"op":"test","path":"/a","value":null}])", "{}"},
      {R"({})", R"([{"op":"test","path":"/a","value":1}])", kFailed},
      {R"({"a":1})", R"([{"op":"test","path":"/a","value":null}])", kFailed},
      {R"({"a":1})", R"([{"op":"test","path":"/a"}])", kFailed},
      {R"({"a":{"b":null}})", R"([{"op":"test","path":"/a","value":{"b":null}}])",
       R"({"a":{"b":null}})"},
      // A null that an operation added differs from one of the document.
      {R"({"a":{}})",
       R"([{"op":"add","path":"/a/b","value":null},{"op":"test","path":"/a","value":{"b":null}}])",
       kFailed},
      {R"({"a":{}})",
       R"([{"op":"add","path":"/a","value":null},{"op":"test","path":"/a","value":null}])",
       R"({"a":null})"},
      {R"({"b":1})", R"([{"op":"test","path":"","value":{"b":1}}])", R"({"b":1})"},
  });
}

TEST(JsonPatch, RejectsOperationsThatDoNotApply) {
  Check({
      {"{}", R"([{"op":"add","path":"/a/b","value":1}])",
       "add operation does not apply: doc is missing path: \"/a/b\": missing value"},
      {"{}", R"([{"op":"add","path":"","value":1}])",
       "add operation does not apply: doc is missing path: \"\": missing value"},
      {"{}", R"([{"op":"add"}])", "add operation failed to decode path: missing value"},
      {"{}", R"([{"op":"remove","path":"/a"}])",
       "error in remove for path: '/a': Unable to remove nonexistent key: a: missing value"},
      {R"({"a":1})", R"([{"op":"remove","path":"/a/b"}])",
       "remove operation does not apply: doc is missing path: \"/a/b\": missing value"},
      {"{}", R"([{"op":"replace","path":5}])",
       "replace operation failed to decode path: json: cannot unmarshal number into Go value of "
       "type string"},
      {"{}", R"([{"op":"replace","path":"","value":5}])",
       "replace operation value must be object or array: %!w(<nil>)"},
      {"{}", R"([{"op":"move","from":"/a","path":"/b"}])",
       "error in move for path: 'a': Unable to remove nonexistent key: a: missing value"},
      {R"({"a":{}})", R"([{"op":"move","from":"/a","path":"/a/b"}])",
       "move operation does not apply: doc is missing destination path: /a/b: missing value"},
      {"{}", R"([{"op":"copy","path":"/b"}])",
       "copy operation failed to decode from: operation, missing from field: missing value"},
      {"{}", R"([{"op":"explode","path":"/a"}])", "Unexpected kind: explode"},
      {"{}", R"([{"op":1}])", "Unexpected kind: unknown"},
      {"{}", R"([null])", "Unexpected kind: unknown"},
      {"{}", R"({})", "json: cannot unmarshal object into Go value of type jsonpatch.Patch"},
      {"{}", R"([5])", "json: cannot unmarshal number into Go value of type jsonpatch.Operation"},
  });
}

TEST(JsonPatch, ReturnsInternalErrorWhereKubernetesPanics) {
  for (const std::string_view patch :
       {R"([{"op":"replace","path":""}])", R"([{"op":"test","path":""}])",
        R"([{"op":"test","path":"/a","value":[1,null]}])"}) {
    std::deque<std::string> storage;
    Json json = *ParseJson(R"({"a":[1,2]})");
    const Status status = ApplyJsonPatch(*ParseJson(patch), &json, &storage);
    EXPECT_TRUE(status.Is(StatusReason::kInternalError)) << patch;
  }
}

TEST(JsonPatch, ReplaceAddsAMemberThatIsMissing) {
  EXPECT_EQ(Apply("{}", R"([{"op":"replace","path":"/a","value":1}])"), R"({"a":1})");
}

TEST(JsonPatch, CopiesAreIndependent) {
  EXPECT_EQ(Apply(R"({"a":{"x":1}})",
                  R"([{"op":"copy","from":"/a","path":"/b"},{"op":"remove","path":"/a/x"},
                      {"op":"copy","from":"/b","path":"/b/c"}])"),
            R"({"a":{},"b":{"c":{"x":1},"x":1}})");
}

TEST(JsonPatch, LimitsOperations) {
  std::string patch = "[";
  for (std::size_t i = 0; i <= kMaxJsonPatchOperations; ++i) patch += "null,";
  patch.back() = ']';
  std::deque<std::string> storage;
  Json json = *ParseJson("{}");
  const Status status = ApplyJsonPatch(*ParseJson(patch), &json, &storage);
  EXPECT_EQ(status.code(), 413);
  EXPECT_EQ(status.message(),
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, "
            "got 10001");
}

TEST(JsonPatch, LimitsTheBytesThatCopiesAdd) {
  std::string patch = "[";
  for (int i = 0; i < 40; ++i) patch += R"({"op":"copy","from":"/a","path":"/a/-"},)";
  patch.back() = ']';
  EXPECT_EQ(Apply(R"({"a":["0123456789"]})", patch).substr(0, 78),
            "Unable to complete the copy, the accumulated size increase of copy is 3932127,");
}

// A real server needs more than the half minute of its request timeout.
TEST(JsonPatch, LimitsTheWorkOfInsertions) {
  std::string patch = R"([{"op":"add","path":"/a","value":[0)";
  for (int i = 0; i < 300'000; ++i) patch += ",0";
  patch += "]}";
  for (int i = 0; i < 9'000; ++i) patch += R"(,{"op":"add","path":"/a/0","value":0})";
  EXPECT_EQ(Apply("{}", patch + "]"),
            "Timeout: request did not complete within requested timeout - context deadline "
            "exceeded");
}

TEST(JsonPatch, AcceptsLongPatchesOfLists) {
  std::string patch = R"([{"op":"add","path":"/a","value":[0)";
  for (int i = 0; i < 100; ++i) patch += ",0";
  patch += "]}";
  for (int i = 0; i < 4'000; ++i) {
    patch += R"(,{"op":"add","path":"/a/0","value":0},{"op":"remove","path":"/a/0"})";
  }
  EXPECT_TRUE(Apply("{}", patch + "]").starts_with(R"({"a":[0,0)"));

  patch = R"([{"op":"add","path":"/a","value":[]})";
  for (int i = 0; i < 800; ++i) patch += R"(,{"op":"add","path":"/a/0","value":0})";
  EXPECT_TRUE(Apply("{}", patch + "]").starts_with(R"({"a":[0,0)"));
}

// A copy has no white space, so that its size does not show the work to make it.
TEST(JsonPatch, LimitsTheWorkOfCopies) {
  std::string patch = R"([{"op":"add","path":"/a","value":[)" + std::string(1'000'000, ' ') + "]}";
  for (int i = 0; i < 5'000; ++i) patch += R"(,{"op":"copy","from":"/a","path":"/b"})";
  constexpr std::string_view kTimeout =
      "Timeout: request did not complete within requested timeout - context deadline exceeded";
  EXPECT_EQ(Apply("{}", patch + "]"), kTimeout);
  // The same inside of a changed object, which has no text.
  patch.insert(1, R"({"op":"add","path":"/o","value":{}},)");
  for (std::size_t at = 0; (at = patch.find("\"/a\"", at)) != patch.npos; at += 4) {
    patch.replace(at, 4, patch[at - 2] == 'h' ? "\"/o/a\"" : "\"/o\"");
  }
  EXPECT_EQ(Apply("{}", patch + "]"), kTimeout);
}

// Each operation adds a value at the bottom of the value before.
TEST(JsonPatch, HandlesValuesDeeperThanTheParsersLimit) {
  std::string open, close, path = "/a", patch = "[";
  for (int i = 0; i < 9'000; ++i) {
    open += '[';
    close += ']';
  }
  for (int round = 0; round < 5; ++round) {
    patch += R"({"op":"add","path":")" + path + R"(","value":)" + open + close + "},";
    if (round == 0) path += "/0";
    for (int i = 0; i < 8'998; ++i) path += "/0";
    if (round != 0) path += "/0";
  }
  patch.back() = ']';
  std::deque<std::string> storage;
  Json json = *ParseJson("{}");
  const Status status = ApplyJsonPatch(*ParseJson(patch), &json, &storage);
  EXPECT_TRUE(status.ok()) << status.message().size();
  EXPECT_GT(Depth(json), 40'000U);
}

TEST(CheckJsonPatch, ReportsMembersInTheOrderOfThePatch) {
  std::vector<std::string> errors;
  const Status status = CheckJsonPatch(
      R"([{"op":"add","path":"/x","value":{"a":1,"a":2},"zz":{"b":1,"b":2},"op":"add"},null])",
      &errors);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(errors, (std::vector<std::string>{R"(json patch duplicate field "[0].value.a")",
                                              R"(json patch unknown field "[0].zz")",
                                              R"(json patch duplicate field "[0].op")"}));
}

TEST(CheckJsonPatch, RejectsWrongTypes) {
  const struct {
    std::string_view patch;
    std::string_view error;
  } kCases[] = {
      {"{}", "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"},
      {"[1]", "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"},
      {R"([{"path":true}])",
       "json: cannot unmarshal bool into Go struct field jsonPatchOp.path of type string"},
      {R"([{"value":[1e999]}])",
       "json: cannot unmarshal number 1e999 into Go struct field jsonPatchOp.value of type "
       "float64"},
      {R"([{"op":1}]x)", "invalid character 'x' after top-level value"},
  };
  for (const auto& c : kCases) {
    std::vector<std::string> errors;
    EXPECT_EQ(CheckJsonPatch(c.patch, &errors).message(), c.error);
  }
}

}  // namespace
}  // namespace herald
