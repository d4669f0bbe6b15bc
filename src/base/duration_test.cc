#include "base/duration.h"

#include <gtest/gtest.h>

namespace herald {
namespace {

using namespace std::chrono_literals;

TEST(ParseDuration, ParsesGoDurationsAndDays) {
  EXPECT_EQ(ParseDuration("1h30m"), 90min);
  EXPECT_EQ(ParseDuration("250ms"), 250ms);
  EXPECT_EQ(ParseDuration("1.5s"), 1500ms);
  EXPECT_EQ(ParseDuration("7d"), 7 * 24h);
  EXPECT_EQ(ParseDuration("-2m"), -2min);
  EXPECT_EQ(ParseDuration("0"), 0s);
  EXPECT_EQ(ParseDuration("3us4ns"), 3004ns);
  EXPECT_EQ(ParseGoDuration("3µs"), 3us);
}

TEST(ParseDuration, RejectsWhatGoRejects) {
  for (const char* text :
       {"", "h", "5", "1x", "1h5", "--1s", "1e3s", "1..5s", ".s", "3000000h", " 1s"})
    EXPECT_EQ(ParseDuration(text), std::nullopt) << text;
  EXPECT_EQ(ParseGoDuration("7d"), std::nullopt);
}

}  // namespace
}  // namespace herald
