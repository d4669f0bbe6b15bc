#include "record/event/event_text.h"

#include <gtest/gtest.h>

#include <string>

namespace herald {
namespace {

Event MakeEvent() {
  Event event;
  event.involved_object = {.kind = "Pod",
                           .namespace_ = "baz",
                           .name = "foo",
                           .uid = "bar",
                           .api_version = "v1",
                           .field_path = "spec.containers[2]"};
  event.type = kNormal;
  event.reason = "Started";
  event.message = "some verbose message: 1";
  return event;
}

// The entry as klog would print it.
std::string LogLine(const Event& event) {
  std::string line;
  LogEvent(event, [&line](const LogEntry& entry) {
    EXPECT_EQ(entry.level, LogLevel::kInfo);
    line = '"' + std::string(entry.message) + '"';
    for (const auto& [key, value] : entry.fields) {
      line += ' ' + std::string(key) + "=\"" + std::string(value) + '"';
    }
  });
  return line;
}

TEST(EventTextTest, IsTheLineThatClientGoPrints) {
  EXPECT_EQ(EventText(MakeEvent()),
            R"(Event(v1.ObjectReference{Kind:"Pod", Namespace:"baz", Name:"foo", UID:"bar", )"
            R"(APIVersion:"v1", ResourceVersion:"", FieldPath:"spec.containers[2]"}): )"
            R"(type: 'Normal' reason: 'Started' some verbose message: 1)");
}

TEST(EventTextTest, QuotesOnlyTheReferenceAsGoDoes) {
  Event event = MakeEvent();
  event.involved_object.name = "a\"b\n";
  event.involved_object.uid = std::string("\0\x80", 2);
  event.reason = "R'";
  event.message = "two\nlines \"as they are\"";
  const std::string text = EventText(event);
  EXPECT_NE(text.find(R"(Name:"a\"b\n", UID:"\x00\x80")"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("reason: 'R'' two\nlines \"as they are\"")) << text;
}

TEST(EventTextTest, StructuredLoggingHasTheSameFields) {
  EXPECT_EQ(LogLine(MakeEvent()),
            R"("Event occurred" object="baz/foo" fieldPath="spec.containers[2]" kind="Pod" )"
            R"(apiVersion="v1" type="Normal" reason="Started" message="some verbose message: 1")");
}

TEST(EventTextTest, AnObjectWithoutNamespaceIsPrintedAsItsName) {
  Event event = MakeEvent();
  event.involved_object.namespace_.clear();
  EXPECT_TRUE(LogLine(event).starts_with(R"("Event occurred" object="foo" )")) << LogLine(event);
}

TEST(EventTextTest, ANewStyleEventHasTheFieldsOfToolsEvents) {
  Event event = MakeEvent();
  event.event_time = MicroTime(1700000000, 0);
  event.action = "Starting";
  EXPECT_EQ(LogLine(event),
            R"("Event occurred" object="baz/foo" kind="Pod" apiVersion="v1" type="Normal" )"
            R"(reason="Started" action="Starting" note="some verbose message: 1")");
}

}  // namespace
}  // namespace herald
