#include "herald/api/validation.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/validation/object_meta.h"
#include "herald/api/codec.h"
#include "test/golden.h"

namespace herald {
namespace {

using testing::Vector;

Event GoodEvent() {
  Event event;
  event.metadata.name = "web-0.17";
  event.metadata.namespace_ = "ns";
  event.involved_object.kind = "Pod";
  event.involved_object.namespace_ = "ns";
  event.event_time = MicroTime(1700000000, 0);
  event.reporting_controller = "example.com/c";
  event.reporting_instance = "i";
  event.action = "A";
  event.reason = "R";
  event.type = kNormal;
  return event;
}

Event StoredEvent() {
  Event event = GoodEvent();
  event.metadata.uid = "u-1";
  event.metadata.resource_version = "10";
  return event;
}

TEST(ValidateEventCreate, AcceptsAValidEventInBothApis) {
  EXPECT_TRUE(ValidateEventCreate(GoodEvent(), EventApi::kCoreV1).ok());
  EXPECT_TRUE(ValidateEventCreate(GoodEvent(), EventApi::kEventsV1).ok());
}

TEST(ValidateEventCreate, ReportsEachErrorWithItsCause) {
  Event event = GoodEvent();
  event.reason.clear();
  event.type = "Bad";
  const Status status = ValidateEventCreate(event, EventApi::kEventsV1);
  EXPECT_TRUE(status.Is(StatusReason::kInvalid));
  EXPECT_EQ(status.code(), 422);
  EXPECT_EQ(status.message(),
            "Event \"web-0.17\" is invalid: [reason: Required value, "
            "type: Invalid value: \"\": has invalid value: Bad]");
  EXPECT_EQ(status.details().kind, "Event");
  EXPECT_EQ(status.details().name, "web-0.17");
  const std::vector<StatusCause> causes = {
      {"FieldValueRequired", "Required value", "reason"},
      {"FieldValueInvalid", "Invalid value: \"\": has invalid value: Bad", "type"},
  };
  EXPECT_EQ(status.details().causes, causes);
}

TEST(ValidateEventCreate, ChecksMetadataOnlyIfTheEventHasNoOtherError) {
  Event event = GoodEvent();
  event.metadata.name = "a/b";
  event.action.clear();
  EXPECT_EQ(ValidateEventCreate(event, EventApi::kCoreV1).message(),
            "Event \"a/b\" is invalid: action: Required value");
  event.action = "A";
  EXPECT_EQ(ValidateEventCreate(event, EventApi::kCoreV1).message(),
            "Event \"a/b\" is invalid: metadata.name: Invalid value: \"a/b\": "
            "may not contain '/'");
}

// Upstream's order is random, because Go iterates over maps in random order.
TEST(ValidateEventCreate, ReportsLabelsSortedByKey) {
  Event event;
  event.metadata.name = "a";
  event.metadata.namespace_ = event.involved_object.namespace_ = "ns";
  event.metadata.labels = {{"c", "!"}, {"a", "!!"}, {"b", "!!!"}};
  const auto causes = ValidateEventCreate(event, EventApi::kCoreV1).details().causes;
  ASSERT_EQ(causes.size(), 3U);
  EXPECT_NE(causes[0].message.find("\"!!\""), std::string::npos);
  EXPECT_NE(causes[1].message.find("\"!!!\""), std::string::npos);
  EXPECT_NE(causes[2].message.find("\"!\""), std::string::npos);
}

TEST(ValidateEventCreate, AcceptsUpperCaseAnnotationKeys) {
  Event event = GoodEvent();
  event.metadata.annotations["Example.COM/Key"] = "v";
  event.metadata.annotations["\u212aelvin"] = "v";  // its lower case is k
  EXPECT_TRUE(ValidateEventCreate(event, EventApi::kEventsV1).ok());
  event.metadata.annotations["\u00c9"] = "v";
  EXPECT_FALSE(ValidateEventCreate(event, EventApi::kEventsV1).ok());
}

TEST(ValidateEventUpdate, AllowsCoreToChangeAllFieldsAndTheNewApiOnlySeries) {
  const Event old = StoredEvent();
  Event event = old;
  event.message = "changed";
  EXPECT_TRUE(ValidateEventUpdate(event, old, EventApi::kCoreV1).ok());
  EXPECT_EQ(ValidateEventUpdate(event, old, EventApi::kEventsV1).message(),
            "Event \"web-0.17\" is invalid: message: Invalid value: \"changed\": "
            "field is immutable");
  event = old;
  event.series = EventSeries{2, MicroTime(1700000001, 0)};
  EXPECT_TRUE(ValidateEventUpdate(event, old, EventApi::kEventsV1).ok());
}

TEST(ValidateEventUpdate, IgnoresNanosecondsThatNoFormatKeeps) {
  const Event old = StoredEvent();
  Event event = old;
  event.event_time = MicroTime(1700000000, 999);
  EXPECT_TRUE(ValidateEventUpdate(event, old, EventApi::kEventsV1).ok());
  event.event_time = MicroTime(1700000000, 1000);
  EXPECT_EQ(ValidateEventUpdate(event, old, EventApi::kEventsV1).message(),
            "Event \"web-0.17\" is invalid: eventTime: Invalid value: "
            "\"2023-11-14T22:13:20.000001Z\": field is immutable");
}

TEST(FieldErrors, ShowsValuesAsKubernetesDoes) {
  EXPECT_EQ(Shown("a\t<\u00e9>"), "\"a\\t<\u00e9>\"");
  EXPECT_EQ(ShownAsJson("a\t<"), R"("a\t\u003c")");
  EXPECT_EQ(Shown(std::int64_t{-5}), "-5");
  EXPECT_EQ(Shown(Time()), "null");
  EXPECT_EQ(Shown(Time(0, 5)), "\"1970-01-01T00:00:00Z\"");
  EXPECT_EQ(Shown(Rare<std::int64_t>()), "null");
}

TEST(FieldErrors, HasADuplicateErrorOnceInTheMessageAndTwiceInTheCauses) {
  FieldErrors errors;
  errors.Required("a");
  errors.Required("a");
  const Status status = std::move(errors).ToStatus("x");
  EXPECT_EQ(status.message(), "Event \"x\" is invalid: a: Required value");
  EXPECT_EQ(status.details().causes.size(), 2u);
}

// For each of these, Kubernetes prints a large part of the body for each small part of it. The
// limit prevents errors of gigabytes.
TEST(FieldErrors, LimitsTheErrorsToAFewMegabytes) {
  Event bad_manager = GoodEvent();
  bad_manager.metadata.managed_fields.resize(1);
  bad_manager.metadata.managed_fields[0].operation = "Update";
  bad_manager.metadata.managed_fields[0].manager = std::string(1 << 20, '\1');

  Event many_controllers = GoodEvent();
  many_controllers.metadata.owner_references.assign(30000, {"v1", "Pod", "p", "u", true, {}});

  Event many_labels = GoodEvent();
  for (int i = 0; i < 200000; ++i) many_labels.metadata.labels[std::to_string(i) + "-"] = "-";

  for (const Event* event : {&bad_manager, &many_controllers, &many_labels}) {
    const Status status = ValidateEventCreate(*event, EventApi::kEventsV1);
    EXPECT_TRUE(status.Is(StatusReason::kInvalid));
    EXPECT_GT(status.message().size(), 1u << 20);
    EXPECT_LT(status.message().size(), FieldErrors::kMaxBytes * 3);
  }
}

// --- Golden vectors -------------------------------------------------------------

Event Read(const Vector& vector, const std::string& key) {
  auto event = JsonCodec().DecodeEvent(testing::Bytes(vector, key), EventApi::kCoreV1);
  if (!event) throw std::runtime_error(event.error().message());
  return *event;
}

// The vectors were recorded from whole create and update requests. These two functions change the
// metadata as a server does before it validates.
void PrepareForCreate(ObjectMeta* meta) {
  meta->uid = "2b9b8b2e-0000-4000-8000-000000000001";
  meta->creation_timestamp = Time(1700000000, 0);
  meta->deletion_timestamp.reset();
  meta->deletion_grace_period_seconds.reset();
  meta->self_link.clear();
  if (meta->name.empty() && !meta->generate_name.empty()) {
    meta->name = meta->generate_name.substr(0, 58) + "bcdfg";
  }
}

void PrepareForUpdate(const ObjectMeta& old, ObjectMeta* meta) {
  if (meta->resource_version.empty()) meta->resource_version = old.resource_version;
  meta->generation = old.generation;
  if (meta->uid.empty()) meta->uid = old.uid;
  if (!old.creation_timestamp.is_zero()) meta->creation_timestamp = old.creation_timestamp;
  if (old.deletion_timestamp) meta->deletion_timestamp = old.deletion_timestamp;
  if (!meta->deletion_grace_period_seconds) {
    meta->deletion_grace_period_seconds = old.deletion_grace_period_seconds;
  }
}

Status Verdict(const Vector& vector) {
  const EventApi api = vector.at("api") == "v1" ? EventApi::kCoreV1 : EventApi::kEventsV1;
  Event event = Read(vector, "object");
  if (vector.at("op") == "create") {
    PrepareForCreate(&event.metadata);
    return ValidateEventCreate(event, api);
  }
  const Event old = Read(vector, "old");
  PrepareForUpdate(old.metadata, &event.metadata);
  return ValidateEventUpdate(event, old, api);
}

// Because of how Kubernetes compares times, a zero time that is written out counts as set, but none
// is stored. For us it is not set: we report that it is required, and accept it where the time must
// be unset (no message).
const std::map<std::string, std::string> kKnownDifferences = {
    {"events.k8s.io/v1-create-event-time-zero", "eventTime: Required value"},
    {"events.k8s.io/v1-create-event-time-zero-in-another-zone", "eventTime: Required value"},
    {"events.k8s.io/v1-create-series-with-zero-time", "series.lastObservedTime: Required value"},
    {"events.k8s.io/v1-create-first-timestamp-zero", ""},
    {"events.k8s.io/v1-create-last-timestamp-zero", ""},
};

TEST(Validation, AgreesWithEveryGoldenVector) {
  for (const Vector& vector : testing::LoadGolden("validation.json")) {
    const std::string name = vector.at("name").get<std::string>();
    SCOPED_TRACE(name);
    const Status status = Verdict(vector);
    if (const auto difference = kKnownDifferences.find(name);
        difference != kKnownDifferences.end()) {
      EXPECT_EQ(status.message(),
                difference->second.empty() ? "" : "Event \"a\" is invalid: " + difference->second);
      continue;
    }
    ASSERT_EQ(status.ok(), vector.at("ok").get<bool>()) << status.message();
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), vector.at("http_code").get<int>());
    std::string json;
    JsonCodec().AppendStatus(status, &json);
    EXPECT_TRUE(testing::BytesMatch(vector, "status_json", json)) << json;
  }
}

}  // namespace
}  // namespace herald
