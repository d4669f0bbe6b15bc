#include "base/bytes/base64.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace herald {
namespace {

TEST(Base64, GoesBothWays) {
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

}  // namespace
}  // namespace herald
