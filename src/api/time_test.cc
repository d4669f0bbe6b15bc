#include "herald/api/time.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "herald/api/codec.h"
#include "test/golden.h"

namespace herald {
namespace {

using testing::Vector;

constexpr std::int64_t kMinSeconds = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMaxSeconds = std::numeric_limits<std::int64_t>::max();

template <typename T>
std::string JsonOf(const T& time) {
  return time.is_zero() ? "null" : '"' + time.ToString() + '"';
}

TEST(TimeTest, PrintsAnyNumberOfSeconds) {
  const struct {
    std::int64_t seconds;
    std::string_view text;
  } kCases[] = {
      {0, "1970-01-01T00:00:00Z"},
      {-1, "1969-12-31T23:59:59Z"},
      {951782400, "2000-02-29T00:00:00Z"},
      {951868799, "2000-02-29T23:59:59Z"},
      {951868800, "2000-03-01T00:00:00Z"},
      {4107542400, "2100-03-01T00:00:00Z"},
      {1735689599, "2024-12-31T23:59:59Z"},
      {253402300799, "9999-12-31T23:59:59Z"},
      {253402300800, "10000-01-01T00:00:00Z"},
      {kZeroTimeSeconds - 1, "0000-12-31T23:59:59Z"},
      {-62167219201, "-0001-12-31T23:59:59Z"},
      {kMaxSeconds, "292277026596-12-04T15:30:07Z"},
      {kMinSeconds, "292277026596-12-04T15:30:08Z"},  // wraps around as in Go
      {-9223372028715321601, "-292277022400-12-31T23:59:59Z"},
  };
  for (const auto& c : kCases) EXPECT_EQ(Time(c.seconds, 0).ToString(), c.text);
}

TEST(TimeTest, TruncatesTheFractionToTheFormat) {
  EXPECT_EQ(Time(1, 999999999).ToString(), "1970-01-01T00:00:01Z");
  EXPECT_EQ(MicroTime(1, 999999999).ToString(), "1970-01-01T00:00:01.999999Z");
  EXPECT_EQ(MicroTime(1, 1999).ToString(), "1970-01-01T00:00:01.000001Z");
  EXPECT_EQ(MicroTime(-1, 0).ToString(), "1969-12-31T23:59:59.000000Z");
}

TEST(TimeTest, ParsesEveryDayThatItPrints) {
  // Every day of the years 0 to 9999, at a time of day that changes.
  for (std::int64_t seconds = -62167219200; seconds <= 253402300799; seconds += 86400 + 977) {
    const Time time(seconds, 0);
    const auto read = Time::Parse(time.ToString());
    ASSERT_TRUE(read) << time.ToString();
    ASSERT_EQ(*read, time) << time.ToString();
    const MicroTime micro(seconds, static_cast<std::int32_t>((seconds & 0xffff) * 1000));
    const auto read_micro = MicroTime::Parse(micro.ToString());
    ASSERT_TRUE(read_micro) << micro.ToString();
    ASSERT_EQ(*read_micro, micro) << micro.ToString();
  }
}

TEST(TimeTest, AcceptsTheFormatsOfKubernetes) {
  const struct {
    std::string_view text;
    Time time;
  } kCases[] = {
      {"2024-02-29T12:34:56.5Z", {1709210096, 500000000}},
      {"2024-02-29T12:34:56,123456789012Z", {1709210096, 123456789}},
      {"2024-02-29T1:34:56Z", {1709170496, 0}},
      {"2024-02-29T12:34:56+24:60", {1709210096 - 25 * 3600, 0}},
      {"2024-02-29T12:34:56-00:30", {1709210096 + 1800, 0}},
      {"0000-01-01T00:00:00+24:00", {-62167219200 - 86400, 0}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.text);
    const auto time = Time::Parse(c.text);
    ASSERT_TRUE(time);
    EXPECT_EQ(*time, c.time);
  }
}

TEST(TimeTest, HasTheErrorsOfKubernetes) {
  const struct {
    std::string_view text;
    std::string_view message;
  } kCases[] = {
      {"", R"(parsing time "" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "" as "2006")"},
      {"2024-01-01T00:00:00Z",
       R"(parsing time "2024-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": )"
       R"(cannot parse "Z" as ".000000")"},
      {"2024-02-30T00:00:00.000000Z",
       R"(parsing time "2024-02-30T00:00:00.000000Z": day out of range)"},
      {"2024-01-01T00:00:00.-00001Z",
       R"(parsing time "2024-01-01T00:00:00.-00001Z": fractional second out of range)"},
      {"2024-01-01T00:00:00.000000Z\x7f\n\xc3\xa9\"",
       "parsing time \"2024-01-01T00:00:00.000000Z\x7f\\x0a\\xc3\\xa9\\\"\": "
       "extra text: \"\x7f\\x0a\\xc3\\xa9\\\"\""},
      {"2024-01-01T00:00:00.000000*25:xx",
       R"(parsing time "2024-01-01T00:00:00.000000*25:xx": time zone offset hour out of range)"},
  };
  for (const auto& c : kCases) {
    const auto time = MicroTime::Parse(c.text);
    ASSERT_FALSE(time);
    EXPECT_EQ(time.error().message(), c.message);
    EXPECT_TRUE(time.error().Is(StatusReason::kBadRequest));
  }
}

TEST(TimeTest, DoesNotReadPastTheEnd) {
  const std::string whole = "2024-02-29T12:34:56.123456+05:30";
  for (std::size_t length = 0; length < whole.size(); ++length) {
    // On the heap with the exact size, so that a sanitizer reports a read past the end.
    const std::string text(whole, 0, length);
    EXPECT_FALSE(MicroTime::Parse(text)) << text;
    EXPECT_FALSE(Time::Parse(text)) << text;
  }
}

TEST(TimestampTest, RoundsWallTimeDown) {
  const auto at = [](std::int64_t nanos) {
    return Timestamp(WallTime(std::chrono::nanoseconds(nanos)));
  };
  EXPECT_EQ(at(0), Timestamp(0, 0));
  EXPECT_EQ(at(1500000000), Timestamp(1, 500000000));
  EXPECT_EQ(at(-1), Timestamp(-1, 999999999));
  EXPECT_EQ(at(-1000000000), Timestamp(-1, 0));
}

TEST(TimestampTest, ClampsToTheRangeOfWallTime) {
  for (const std::int64_t nanos :
       {kMinSeconds, kMinSeconds + 1, std::int64_t{-1000000001}, std::int64_t{-1}, std::int64_t{0},
        std::int64_t{1}, std::int64_t{1731697200123456789}, kMaxSeconds - 1, kMaxSeconds}) {
    const WallTime time{std::chrono::nanoseconds(nanos)};
    EXPECT_EQ(Timestamp(time).ToWallTime(), time) << nanos;
  }
  EXPECT_EQ(Timestamp().ToWallTime(), WallTime::min());
  EXPECT_EQ(Timestamp(kMinSeconds, 0).ToWallTime(), WallTime::min());
  EXPECT_EQ(Timestamp(kMaxSeconds, 999999999).ToWallTime(), WallTime::max());
  EXPECT_EQ(Timestamp(9223372036, 854775808).ToWallTime(), WallTime::max());
}

TEST(TimestampTest, IsZeroOnlyAtTheStartOfYearOne) {
  EXPECT_TRUE(Time().is_zero());
  EXPECT_TRUE(Time::Parse("0001-01-01T01:00:00+01:00")->is_zero());
  EXPECT_FALSE(Time(0, 0).is_zero());
  EXPECT_FALSE(Time(kZeroTimeSeconds, 1).is_zero());
}

// --- Golden vectors -------------------------------------------------------------

std::string Nested(char number, std::string_view bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())}.append(
      bytes);
}

// The protobuf of an event that has only one time.
std::string EventAround(char field, std::string_view message) {
  const std::string type = Nested(1, "v1") + Nested(2, "Event");
  return std::string("k8s\0", 4) + Nested(1, type) + Nested(2, Nested(field, message));
}

template <typename T>
struct Member;
template <>
struct Member<Time> {
  static constexpr std::string_view kName = "firstTimestamp";
  static constexpr char kNumber = 6;
  static const Time& Of(const Event& event) { return event.first_timestamp; }
};
template <>
struct Member<MicroTime> {
  static constexpr std::string_view kName = "eventTime";
  static constexpr char kNumber = 10;
  static const MicroTime& Of(const Event& event) { return event.event_time; }
};

template <typename T>
void CheckOutput(const Vector& vector, const Event& event) {
  EXPECT_EQ(JsonOf(Member<T>::Of(event)), vector.at("json").get<std::string>());
  std::string bytes;
  ProtobufCodec().AppendEvent(event, EventApi::kCoreV1, &bytes);
  EXPECT_NE(bytes.find(Nested(Member<T>::kNumber, testing::Bytes(vector, "pb"))),
            std::string::npos);
}

template <typename T>
void CheckFromProtobuf(const Vector& vector) {
  const std::string bytes = testing::Bytes(vector, "pb_in");
  const auto event =
      ProtobufCodec().DecodeEvent(EventAround(Member<T>::kNumber, bytes), EventApi::kCoreV1);
  ASSERT_EQ(event.has_value(), vector.at("ok").get<bool>());
  if (event) CheckOutput<T>(vector, *event);
}

template <typename T>
void CheckFromJson(const Vector& vector) {
  const std::string input = vector.at("input").get<std::string>();
  const auto token = Vector::parse(input);
  const std::string document =
      std::string(R"({")").append(Member<T>::kName).append("\":").append(input).append("}");
  const auto event = JsonCodec().DecodeEvent(document, EventApi::kCoreV1);
  ASSERT_EQ(event.has_value(), vector.at("ok").get<bool>());
  if (event) CheckOutput<T>(vector, *event);
  if (!token.is_string()) return;

  const auto time = T::Parse(token.get<std::string>());
  ASSERT_EQ(time.has_value(), vector.at("ok").get<bool>());
  if (time) {
    EXPECT_EQ(*time, Member<T>::Of(*event));
  } else {
    EXPECT_EQ(time.error().message(), vector.at("error").get<std::string>());
    EXPECT_NE(event.error().message().find(time.error().message()), std::string::npos);
  }
}

TEST(TimeTest, AgreesWithEveryGoldenVector) {
  for (const Vector& vector : testing::LoadGolden("time.json")) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const bool micro = vector.at("type") == "MicroTime";
    if (testing::HasBytes(vector, "pb_in")) {
      micro ? CheckFromProtobuf<MicroTime>(vector) : CheckFromProtobuf<Time>(vector);
    } else {
      micro ? CheckFromJson<MicroTime>(vector) : CheckFromJson<Time>(vector);
    }
  }
}

}  // namespace
}  // namespace herald
