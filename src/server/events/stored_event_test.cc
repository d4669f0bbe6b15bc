#include "server/events/stored_event.h"

#include <gtest/gtest.h>

#include <string>

#include "herald/api/codec.h"

namespace herald::server {
namespace {

using namespace std::chrono_literals;

store::Entry EntryOf(std::string value) {
  return {"/registry/events/default/a", std::make_shared<const std::string>(std::move(value)), 7};
}

TEST(StoredEventTest, ReadsWhatOlderServersWroteAsJson) {
  const auto event = DecodeStored(
      EntryOf(R"({"kind":"Event","apiVersion":"v1","metadata":{"name":"a"},"reason":"Pulled"})"));
  ASSERT_TRUE(event) << event.error().ToString();
  EXPECT_EQ(event->reason, "Pulled");
  EXPECT_EQ(event->metadata.resource_version, "7");
}

TEST(StoredEventTest, RejectsEncryptedValuesAndReportsTheKey) {
  for (const char* value : {"k8s:enc:aescbc:v1:key1:\x01\x02", "k8s:enc:kms:v2:", "k8s:enc:"}) {
    const auto event = DecodeStored(EntryOf(value));
    ASSERT_FALSE(event) << value;
    EXPECT_TRUE(event.error().Is(StatusReason::kInternalError));
    EXPECT_NE(event.error().message().find("/registry/events/default/a is encrypted ("),
              std::string::npos)
        << event.error().message();
  }
}

TEST(StoredEventTest, CallsLifetimeWithTheMembersThatRulesCanMatch) {
  std::string asked;
  const store::Schema schema = MakeEventSchema([&asked](const Event& event) {
    asked = event.metadata.namespace_ + " " + event.type + " " + event.reason + " " +
            event.involved_object.kind;
    return 5h;
  });
  Event event;
  event.metadata.name = "a";
  event.metadata.namespace_ = "default";
  event.involved_object.kind = "Pod";
  event.involved_object.namespace_ = "other";
  event.type = "Warning";
  event.reason = "BackOff";
  std::string json;
  JsonCodec().AppendEvent(event, EventApi::kCoreV1, &json);
  for (const std::string& value : {EncodeStored(event), json}) {
    asked.clear();
    EXPECT_EQ(schema.lifetime("/registry/events/default/a", value), 5h);
    EXPECT_EQ(asked, "default Warning BackOff Pod");
  }
  EXPECT_EQ(schema.lifetime("/registry/events/default/a", "nothing"), 1h);
}

TEST(StoredEventTest, FindsTheTimeOfWritingInTheValue) {
  const store::Schema schema = MakeEventSchema([](const Event&) { return 1h; });
  const auto written = [&schema](const std::string& value) {
    return schema.written("/registry/events/default/a", value);
  };
  Event event;
  event.metadata.name = "a";
  EXPECT_EQ(written(EncodeStored(event)), WallTime::max()) << "the value has no time";
  event.metadata.creation_timestamp = Time(1'000, 0);
  EXPECT_EQ(written(EncodeStored(event)), WallTime(1'000s));
  event.last_timestamp = Time(2'000, 0);
  EXPECT_EQ(written(EncodeStored(event)), WallTime(2'000s)) << "seen again";
  event.metadata.creation_timestamp = Time(3'000, 0);
  EXPECT_EQ(written(EncodeStored(event)), WallTime(3'000s)) << "delivered late";
  std::string json;
  JsonCodec().AppendEvent(event, EventApi::kCoreV1, &json);
  EXPECT_EQ(written(json), WallTime(3'000s));
  EXPECT_EQ(written("k8s:enc:aescbc:v1:key1:"), std::nullopt);
  EXPECT_EQ(written(""), std::nullopt);
}

}  // namespace
}  // namespace herald::server
