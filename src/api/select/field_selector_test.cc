#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "api/select/field_terms.h"
#include "herald/api/codec.h"
#include "herald/api/selector.h"
#include "test/golden.h"

namespace herald {
namespace {

using namespace std::string_view_literals;

FieldSelector Parsed(std::string_view text, EventApi api = EventApi::kCoreV1) {
  Result<FieldSelector> selector = FieldSelector::Parse(text, api);
  EXPECT_TRUE(selector.has_value()) << text << ": " << selector.error().message();
  return selector ? *selector : FieldSelector();
}

std::string ErrorOf(std::string_view text, EventApi api = EventApi::kCoreV1) {
  const Result<FieldSelector> selector = FieldSelector::Parse(text, api);
  EXPECT_FALSE(selector.has_value()) << text;
  if (selector) return "";
  EXPECT_EQ(selector.error().reason(), StatusReason::kBadRequest) << text;
  return selector.error().message();
}

// Each selectable field has another value.
Event FullEvent() {
  Event event;
  event.metadata.name = "web-0.17";
  event.metadata.namespace_ = "shop";
  event.involved_object = {.kind = "Pod",
                           .namespace_ = "pods",
                           .name = "web-0",
                           .uid = "u-1",
                           .api_version = "v1",
                           .resource_version = "42",
                           .field_path = "spec.containers{web}"};
  event.reason = "Killing";
  event.type = "Normal";
  event.source = {.component = "kubelet", .host = "node-1"};
  event.reporting_controller = "kubernetes.io/kubelet";
  return event;
}

const struct {
  EventField field;
  std::string_view core_v1;
  std::string_view events_v1;
  std::string_view value;  // in FullEvent()
} kFields[] = {
    {EventField::kMetadataName, "metadata.name", "metadata.name", "web-0.17"},
    {EventField::kMetadataNamespace, "metadata.namespace", "metadata.namespace", "shop"},
    {EventField::kInvolvedObjectKind, "involvedObject.kind", "regarding.kind", "Pod"},
    {EventField::kInvolvedObjectNamespace, "involvedObject.namespace", "regarding.namespace",
     "pods"},
    {EventField::kInvolvedObjectName, "involvedObject.name", "regarding.name", "web-0"},
    {EventField::kInvolvedObjectUid, "involvedObject.uid", "regarding.uid", "u-1"},
    {EventField::kInvolvedObjectApiVersion, "involvedObject.apiVersion", "regarding.apiVersion",
     "v1"},
    {EventField::kInvolvedObjectResourceVersion, "involvedObject.resourceVersion",
     "regarding.resourceVersion", "42"},
    {EventField::kInvolvedObjectFieldPath, "involvedObject.fieldPath", "regarding.fieldPath",
     "spec.containers{web}"},
    {EventField::kReason, "reason", "reason", "Killing"},
    {EventField::kReportingComponent, "reportingComponent", "reportingController",
     "kubernetes.io/kubelet"},
    {EventField::kSource, "source", "", "kubelet"},
    {EventField::kType, "type", "type", "Normal"},
};

TEST(FieldSelectorTest, SelectsByEveryFieldInBothSpellings) {
  const Event event = FullEvent();
  for (const auto& row : kFields) {
    SCOPED_TRACE(row.core_v1);
    EXPECT_EQ(EventFieldName(row.field), row.core_v1);
    EXPECT_EQ(EventFieldValue(event, row.field), row.value);
    const std::string equal = std::string(row.core_v1).append("=").append(row.value);
    EXPECT_TRUE(Parsed(equal).Matches(event));
    EXPECT_FALSE(Parsed(equal).Matches(Event()));
    EXPECT_TRUE(Parsed(std::string(row.core_v1).append("=")).Matches(Event()));
    EXPECT_FALSE(Parsed(std::string(row.core_v1).append("!=").append(row.value)).Matches(event));
    if (row.events_v1.empty()) continue;
    const std::string other = std::string(row.events_v1).append("=").append(row.value);
    EXPECT_EQ(Parsed(other, EventApi::kEventsV1), Parsed(equal));
  }
}

TEST(FieldSelectorTest, RejectsTheNamesOfTheOtherSpelling) {
  for (const auto& row : kFields) {
    if (row.core_v1 == row.events_v1) continue;
    EXPECT_EQ(ErrorOf(std::string(row.core_v1) + "=x", EventApi::kEventsV1),
              "field label not supported: " + std::string(row.core_v1));
    if (row.events_v1.empty()) continue;
    EXPECT_EQ(ErrorOf(std::string(row.events_v1) + "=x", EventApi::kCoreV1),
              "field label not supported: " + std::string(row.events_v1));
  }
}

TEST(FieldSelectorTest, UsesTheReportingControllerIfTheSourceIsEmpty) {
  Event event = FullEvent();
  event.source.component.clear();
  EXPECT_TRUE(Parsed("source=kubernetes.io/kubelet").Matches(event));
  EXPECT_FALSE(Parsed("source=kubelet").Matches(event));
  EXPECT_FALSE(Parsed("source=").Matches(event));
}

TEST(FieldSelectorTest, AllTermsMustMatch) {
  const Event event = FullEvent();
  EXPECT_TRUE(Parsed("type=Normal,reason!=Started,involvedObject.uid==u-1").Matches(event));
  EXPECT_FALSE(Parsed("type=Normal,reason!=Killing").Matches(event));
  EXPECT_FALSE(Parsed("type=Normal,type=Warning").Matches(event));
}

TEST(FieldSelectorTest, IgnoresEmptyTerms) {
  for (std::string_view text : {"", ",", ",,,", "=", "==", "!=", "=,!=,"}) {
    EXPECT_TRUE(Parsed(text).empty()) << text;
    EXPECT_TRUE(Parsed(text).Matches(FullEvent())) << text;
  }
  EXPECT_EQ(Parsed(",type=a,,reason=b,").ToString(), "reason=b,type=a");
}

TEST(FieldSelectorTest, UnescapesValuesAndEscapesThemAgain) {
  const struct {
    std::string_view text;
    std::string_view value;
    std::string_view canonical;
  } kRows[] = {
      {R"(type=a\,b\=c\\d)", R"(a,b=c\d)", R"(type=a\,b\=c\\d)"},
      {R"(type==\=x)", "=x", R"(type=\=x)"},
      {"type= a ", " a ", "type= a "},
      {"type=a!b", "a!b", "type=a!b"},
      {"type=", "", "type="},
      {"type=a\0b"sv, "a\0b"sv, "type=a\0b"sv},
      {"type=\xff", "\xff", "type=\xff"},
      {"type=\xff\\,", "\xef\xbf\xbd,", "type=\xef\xbf\xbd\\,"},
  };
  for (const auto& row : kRows) {
    const FieldSelector selector = Parsed(row.text);
    ASSERT_EQ(selector.terms().size(), 1U) << row.text;
    EXPECT_EQ(selector.terms()[0].value, row.value);
    EXPECT_EQ(selector.ToString(), row.canonical);
    EXPECT_EQ(Parsed(selector.ToString()), selector);
  }
}

TEST(FieldSelectorTest, SortsTermsByTheirText) {
  EXPECT_EQ(Parsed("type!=a,reason=z,reason==b,reason=a").ToString(),
            "reason=b,reason=a,reason=z,type!=a");
  EXPECT_EQ(Parsed("regarding.kind=Pod,reason=x", EventApi::kEventsV1).ToString(),
            "reason=x,involvedObject.kind=Pod");
}

TEST(FieldSelectorTest, ReturnsTheRequiredValueOfAField) {
  const FieldSelector selector = Parsed("metadata.name!=a,metadata.name=b,metadata.name=c,type!=x");
  ASSERT_NE(selector.RequiredValue(EventField::kMetadataName), nullptr);
  EXPECT_EQ(*selector.RequiredValue(EventField::kMetadataName), "b");
  EXPECT_EQ(selector.RequiredValue(EventField::kType), nullptr);
  EXPECT_EQ(selector.RequiredValue(EventField::kReason), nullptr);
  EXPECT_EQ(FieldSelector().RequiredValue(EventField::kReason), nullptr);
}

TEST(SelectorForObject, NamesTheFieldsOfTheReference) {
  EXPECT_EQ(
      SelectorForObject({.kind = "Pod", .namespace_ = "shop", .name = "web-0"}, EventApi::kCoreV1),
      "involvedObject.kind=Pod,involvedObject.namespace=shop,involvedObject.name=web-0");
  EXPECT_EQ(SelectorForObject({.name = "web-0", .uid = "u-1", .api_version = "apps/v1"},
                              EventApi::kEventsV1),
            "regarding.name=web-0,regarding.uid=u-1,regarding.apiVersion=apps/v1");
  EXPECT_EQ(SelectorForObject({.resource_version = "42"}, EventApi::kCoreV1), "");
}

TEST(SelectorForObject, MatchesTheEventsOfTheObjectInBothSpellings) {
  Event other = FullEvent();
  other.involved_object.resource_version = "43";
  Event escaped = FullEvent();
  escaped.involved_object.field_path = R"(a=b,c\d)";
  for (const EventApi api : {EventApi::kCoreV1, EventApi::kEventsV1}) {
    const FieldSelector selector = Parsed(SelectorForObject(FullEvent().involved_object, api), api);
    EXPECT_EQ(selector.terms().size(), 6U);
    EXPECT_TRUE(selector.Matches(FullEvent()));
    EXPECT_TRUE(selector.Matches(other)) << "another version of the same object";
    EXPECT_FALSE(selector.Matches(escaped));
    EXPECT_TRUE(Parsed(SelectorForObject(escaped.involved_object, api), api).Matches(escaped));
  }
}

TEST(FieldSelectorTest, HasTheErrorsOfKubernetes) {
  const struct {
    std::string_view text;
    std::string_view message;
  } kRows[] = {
      {"type", "invalid selector: 'type'; can't understand 'type'"},
      {"type=a,b", "invalid selector: 'type=a,b'; can't understand 'b'"},
      {"type=a=b", "invalid field selector: unescaped character in value: 61"},
      {"type===a", "invalid field selector: unescaped character in value: 61"},
      {R"(type=a\x)", R"(invalid field selector: invalid escape sequence: \x)"},
      {"type=\\\xff", "invalid field selector: invalid escape sequence: \\\xef\xbf\xbd"},
      {R"(type=a\)", R"(invalid field selector: invalid escape sequence: \)"},
      {R"(type\=a)", R"(field label not supported: type\)"},
      {"type in (a)", "invalid selector: 'type in (a)'; can't understand 'type in (a)'"},
      {"Type=a", "field label not supported: Type"},
      {" type=a", "field label not supported:  type"},
      {"=a", "field label not supported: "},
      {"message=a", "field label not supported: message"},
      {"aaa=a,zzz", "invalid selector: 'aaa=a,zzz'; can't understand 'zzz'"},
  };
  for (const auto& row : kRows) EXPECT_EQ(ErrorOf(row.text), row.message) << row.text;
}

EventApi ApiOf(const testing::Vector& vector) {
  return vector.at("api") == "v1" ? EventApi::kCoreV1 : EventApi::kEventsV1;
}

// Checks only the grammar, with fields that events do not have.
void CheckGrammar(const testing::Vector& vector) {
  const std::string input = testing::Bytes(vector, "input");
  const auto terms = ParseFieldTerms(input);
  ASSERT_EQ(terms.has_value(), vector.at("ok").get<bool>());
  if (!terms) {
    EXPECT_EQ(terms.error().reason(), StatusReason::kBadRequest);
    EXPECT_EQ(terms.error().message(), testing::Bytes(vector, "error"));
    return;
  }
  const testing::Vector& requirements = vector.at("requirements");
  ASSERT_EQ(terms->size(), requirements.size());
  std::string text;
  for (std::size_t i = 0; i < terms->size(); ++i) {
    const FieldTerm& term = (*terms)[i];
    EXPECT_EQ(term.field, testing::Bytes(requirements[i], "field"));
    EXPECT_EQ(term.equal ? "=" : "!=", requirements[i].at("op").get<std::string>());
    EXPECT_EQ(term.value, testing::Bytes(requirements[i], "value"));
    AppendFieldTerm(term.field, term.equal, term.value, &text);
  }
  EXPECT_EQ(text, testing::Bytes(vector, "string"));
  for (const testing::Vector& match : vector.at("matches")) {
    bool matches = true;
    for (const FieldTerm& term : *terms) {
      const std::string actual = match.at("set").value(std::string(term.field), "");
      matches = matches && (actual == term.value) == term.equal;
    }
    EXPECT_EQ(matches, match.at("result").get<bool>()) << match.dump();
  }
}

// Checks the names that an API accepts.
void CheckLabel(const testing::Vector& vector) {
  const std::string text =
      vector.at("label").get<std::string>() + "=" + vector.at("value").get<std::string>();
  const auto selector = FieldSelector::Parse(text, ApiOf(vector));
  ASSERT_EQ(selector.has_value(), vector.at("ok").get<bool>());
  if (!selector) {
    EXPECT_EQ(selector.error().message(), vector.at("error").get<std::string>());
    return;
  }
  ASSERT_EQ(selector->terms().size(), 1U);
  EXPECT_EQ(EventFieldName(selector->terms()[0].field), vector.at("to_label").get<std::string>());
  EXPECT_EQ(selector->terms()[0].value, vector.at("to_value").get<std::string>());
}

void CheckEvents(const testing::Vector& vector) {
  const auto selector =
      FieldSelector::Parse(vector.at("selector").get<std::string>(), ApiOf(vector));
  ASSERT_EQ(selector.has_value(), vector.at("ok").get<bool>());
  if (!selector) {
    EXPECT_EQ(selector.error().message(), vector.at("error").get<std::string>());
    return;
  }
  for (const testing::Vector& match : vector.at("matches")) {
    const std::string text = match.at("event").get<std::string>();
    const auto event = JsonCodec().DecodeEvent(text, EventApi::kCoreV1);
    ASSERT_TRUE(event.has_value()) << event.error().message();
    EXPECT_EQ(selector->Matches(*event), match.at("result").get<bool>()) << text;
  }
}

TEST(FieldSelectorTest, AgreesWithEveryGoldenVector) {
  for (const testing::Vector& vector : testing::LoadGolden("field_selectors.json")) {
    SCOPED_TRACE(vector.dump());
    const std::string kind = vector.at("kind").get<std::string>();
    if (kind == "parse") {
      CheckGrammar(vector);
    } else if (kind == "label") {
      CheckLabel(vector);
    } else if (kind == "event") {
      CheckEvents(vector);
    } else {
      ADD_FAILURE() << "no check for this kind of vector";
    }
  }
}

}  // namespace
}  // namespace herald
