#include "base/bytes/base64.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace herald {
namespace {

TEST(Base64, EncodesAndDecodesWithPadding) {
  for (const auto& [bytes, text] : {std::pair<std::string, std::string>{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {std::string("\xFF\x00\xFE", 3), "/wD+"}}) {
    EXPECT_EQ(Base64Encode(bytes), text);
    EXPECT_EQ(Base64Decode(text).value_or("!"), bytes);
  }
  EXPECT_EQ(Base64Decode("Zm\r\n9v\n").value_or("!"), "foo");
  for (const char* bad : {"Z", "Zg", "Zg=", "Zg===", "=", "Zm9v=", "Zg==Zg==", "Zm 9v", "Zm9-"}) {
    EXPECT_FALSE(Base64Decode(bad)) << bad;
  }
}

TEST(Base64Url, EncodesAndDecodesWithoutPadding) {
  for (const auto& [bytes, text] : {std::pair<std::string, std::string>{"", ""},
                                    {"f", "Zg"},
                                    {"fo", "Zm8"},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg"},
                                    {std::string("\xFF\x00\xFE", 3), "_wD-"}}) {
    EXPECT_EQ(Base64UrlEncode(bytes), text);
    EXPECT_EQ(Base64UrlDecode(text).value_or("!"), bytes);
  }
}

TEST(Base64Url, ReportsThePositionOfTheFirstInvalidByte) {
  for (const auto& [text, position] : {std::pair<std::string, std::size_t>{"+", 0},
                                       {"Zg==", 2},
                                       {"Zm9v\n", 4},
                                       {"Zm/v", 2},
                                       {"Z", 0},
                                       {"Zm9vY", 4}}) {
    std::size_t bad_at = 99;
    EXPECT_FALSE(Base64UrlDecode(text, &bad_at)) << text;
    EXPECT_EQ(bad_at, position) << text;
    EXPECT_FALSE(Base64UrlDecode(text)) << text;
  }
}

}  // namespace
}  // namespace herald
