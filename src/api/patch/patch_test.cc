#include "herald/api/patch.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/patch/internal.h"
#include "herald/api/codec.h"
#include "test/golden.h"

namespace herald {
namespace {

// For other kinds Kubernetes' error names the Go type. We only have events and report that the kind
// is unknown. The code and reason are the same.
const std::set<std::string, std::less<>> kOtherMessages = {"merge-kind-changed",
                                                           "json-kind-changed"};

// After the patch the server drops invalid managedFields.
const std::set<std::string, std::less<>> kManagedFieldsDropped = {"strategic-managed-fields-set",
                                                                  "merge-managed-fields-set"};

EventApi ApiOf(const testing::Vector& vector) {
  return vector.at("api") == "v1" ? EventApi::kCoreV1 : EventApi::kEventsV1;
}

PatchType TypeOf(const testing::Vector& vector) {
  const std::string type = vector.at("type");
  if (type == "json") return PatchType::kJson;
  return type == "merge" ? PatchType::kMerge : PatchType::kStrategicMerge;
}

// The vectors come from whole requests. After the patch the server checks that the object is still
// the one that the URL names.
Status CheckIdentity(const Event& before, const Event& after) {
  if (after.metadata.namespace_ != before.metadata.namespace_ &&
      !after.metadata.namespace_.empty()) {
    return Status(StatusReason::kBadRequest,
                  "the namespace of the provided object does not match the namespace sent on the "
                  "request");
  }
  if (after.metadata.name != before.metadata.name) {
    return Status(StatusReason::kBadRequest, "the name of the object (" + after.metadata.name +
                                                 ") does not match the name on the URL (" +
                                                 before.metadata.name + ")");
  }
  return Status();
}

void ExpectTheSameInPlace(const testing::Vector& vector, Event event, const Result<Event>& expected,
                          const std::vector<std::string>* expected_field_errors) {
  std::vector<std::string> field_errors;
  const Status status =
      ApplyPatchInPlace(&event, ApiOf(vector), TypeOf(vector), testing::Bytes(vector, "patch"),
                        expected_field_errors != nullptr ? &field_errors : nullptr);
  EXPECT_EQ(status, expected ? Status() : expected.error());
  EXPECT_TRUE(!expected || event == *expected);
  if (expected_field_errors != nullptr) {
    EXPECT_EQ(field_errors, *expected_field_errors);
  }
}

Result<Event> Patch(const testing::Vector& vector, std::vector<std::string>* field_errors) {
  const Result<Event> original =
      JsonCodec().DecodeEvent(testing::Bytes(vector, "original"), ApiOf(vector));
  EXPECT_TRUE(original);
  Result<Event> result = ApplyPatch(*original, ApiOf(vector), TypeOf(vector),
                                    testing::Bytes(vector, "patch"), field_errors);
  ExpectTheSameInPlace(vector, *original, result, field_errors);
  if (result) {
    if (Status status = CheckIdentity(*original, *result); !status.ok()) return status;
    // A request cannot remove the namespace: the server sets the URL's.
    if (result->metadata.namespace_.empty()) {
      result->metadata.namespace_ = original->metadata.namespace_;
    }
  }
  return result;
}

void ExpectResult(const testing::Vector& expected, const std::string& name,
                  const Result<Event>& actual) {
  ASSERT_EQ(actual.has_value(), expected.at("ok").get<bool>())
      << (actual ? "" : actual.error().ToString());
  if (actual) return;
  EXPECT_EQ(actual.error().code(), expected.at("http_code").get<int>());
  EXPECT_EQ(ReasonName(actual.error().reason()), expected.at("reason").get<std::string>());
  if (kOtherMessages.contains(name)) return;
  if (expected.contains("error")) {
    EXPECT_EQ(actual.error().message(), expected.at("error").get<std::string>());
  } else {
    EXPECT_TRUE(testing::BytesMatch(expected, "error", actual.error().message()));
  }
}

TEST(Golden, PatchesWithoutFieldValidation) {
  for (const testing::Vector& vector : testing::LoadGolden("patches.json")) {
    const std::string name = vector.at("name");
    SCOPED_TRACE(name);
    Result<Event> result = Patch(vector, nullptr);
    ExpectResult(vector, name, result);
    if (!result || !vector.at("ok").get<bool>()) continue;
    if (kManagedFieldsDropped.contains(name)) result->metadata.managed_fields.clear();
    std::string json;
    JsonCodec().AppendEvent(*result, ApiOf(vector), &json);
    EXPECT_TRUE(testing::BytesMatch(vector, "result_json", json)) << json;
  }
}

// "warn" is the result if it differs from the one without validation; "strict" is the error for
// warnings.
TEST(Golden, PatchesWithFieldValidation) {
  for (const testing::Vector& vector : testing::LoadGolden("patches.json")) {
    const std::string name = vector.at("name");
    SCOPED_TRACE(name);
    std::vector<std::string> field_errors;
    const Result<Event> result = Patch(vector, &field_errors);
    ExpectResult(vector.contains("warn") ? vector.at("warn") : vector, name, result);
    const testing::Vector warnings = vector.value("warnings", testing::Vector::array());
    if (!result && warnings.empty()) continue;
    EXPECT_EQ(field_errors, warnings.get<std::vector<std::string>>());
    // Long errors are kept as a hash, and their end cannot be compared.
    if (!vector.contains("strict") || !vector.at("strict").contains("error")) continue;
    std::string list;
    for (const std::string& error : field_errors) list += (list.empty() ? "" : ", ") + error;
    const std::string error_message = vector.at("strict").at("error");
    EXPECT_TRUE(error_message.ends_with("strict decoding error: " + list)) << error_message;
  }
}

// client-go's recorders send the difference between two versions of an event. Applied to the first,
// it gives the second.
TEST(Golden, TheDifferenceOfTwoEventsTurnsTheFirstIntoTheSecond) {
  int applied = 0;
  for (const testing::Vector& vector : testing::LoadGolden("two_way.json")) {
    if (!vector.at("ok").get<bool>()) continue;
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const EventApi api = ApiOf(vector);
    const auto original = JsonCodec().DecodeEvent(testing::Bytes(vector, "original"), api);
    const auto modified = JsonCodec().DecodeEvent(testing::Bytes(vector, "modified"), api);
    if (!original || !modified) continue;  // not events
    const auto patched =
        ApplyPatch(*original, api, PatchType::kStrategicMerge, testing::Bytes(vector, "patch"));
    ASSERT_TRUE(patched) << patched.error().ToString();
    std::string actual;
    std::string expected;
    JsonCodec().AppendEvent(*patched, api, &actual);
    JsonCodec().AppendEvent(*modified, api, &expected);
    EXPECT_EQ(actual, expected);
    ++applied;
  }
  EXPECT_GE(applied, 25);
}

// The fast path has changed the first members when the last one requires the general path. The
// result must be the same.
TEST(ApplyPatchInPlace, IsNotAffectedByAFastPathThatFails) {
  const Event original = {
      .metadata = {.name = "web.1"}, .reason = "R", .source = {.component = "c"}, .count = 1};
  for (const std::string_view patch :
       {R"({"count":2,"source":null,"nothing":1})", R"({"count":2,"count":null,"reason":"a"})",
        R"({"source":{"host":"h"},"source":{"component":"d"}})", R"({"count":2,"reason":1})",
        R"({"count":2,"kind":"Event"})", R"({"count":2,"reason":"a")", R"({"count":2}})"}) {
    SCOPED_TRACE(patch);
    for (const PatchType type : {PatchType::kStrategicMerge, PatchType::kMerge}) {
      Event event = original;
      const Status status = ApplyPatchInPlace(&event, EventApi::kCoreV1, type, patch);
      const Result<Event> expected =
          ApplyPatchGenerically(original, EventApi::kCoreV1, type, patch, nullptr);
      EXPECT_EQ(status, expected ? Status() : expected.error());
      EXPECT_TRUE(!expected || event == *expected);
    }
  }
}

// Kubernetes reports all of them, with a response of ten times the size of the patch.
TEST(ApplyPatch, LimitsTheUnknownFieldsThatItReports) {
  std::string patch = R"({"metadata":{"finalizers":[])";
  for (int i = 0; i < 200'000; ++i) patch += ",\"" + std::to_string(i) + "\":0";
  patch += "}}";
  for (const PatchType type : {PatchType::kStrategicMerge, PatchType::kMerge}) {
    std::vector<std::string> field_errors;
    EXPECT_TRUE(ApplyPatch(Event(), EventApi::kCoreV1, type, patch, &field_errors));
    std::size_t bytes = 0;
    for (const std::string& error : field_errors) bytes += error.size();
    EXPECT_GE(field_errors.size(), 100U);
    EXPECT_LT(bytes, (4U << 20) + 100);
  }
}

TEST(ApplyPatch, NamesTheOperationThatFailed) {
  const auto patched = ApplyPatch(Event(), EventApi::kCoreV1, PatchType::kJson,
                                  R"([{"op":"remove","path":"/nowhere"}])");
  ASSERT_FALSE(patched);
  EXPECT_EQ(patched.error().code(), 422);
  ASSERT_EQ(patched.error().details().causes.size(), 1);
  EXPECT_NE(patched.error().details().causes[0].message.find("nowhere"), std::string::npos)
      << patched.error().details().causes[0].message;
}

}  // namespace
}  // namespace herald
