#include "api/continue_token.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace herald {
namespace {

TEST(ContinueTokenTest, HasTheFormatOfKubernetes) {
  const ContinueToken token{.revision = 12345, .start = std::string("default/a.17\0", 13)};
  const std::string text = EncodeContinueToken(token);
  EXPECT_EQ(text,
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTIzNDUsInN0YXJ0IjoiZGVmYXVsdC9hLjE3XHUwMDAwIn0");
  EXPECT_EQ(*DecodeContinueToken(text), token);
}

TEST(ContinueTokenTest, DecodesWhatItEncodes) {
  for (const std::string_view start : {"a", "a/b", "ns/name with \"quotes\" and \xc3\xa4"}) {
    for (const std::int64_t revision : {std::int64_t{1}, ContinueToken::kLatest}) {
      ContinueToken token{.revision = revision, .start = std::string(start)};
      EXPECT_EQ(*DecodeContinueToken(EncodeContinueToken(token)), token);
      token.time = Timestamp(-7, 5000);
      EXPECT_EQ(*DecodeContinueToken(EncodeContinueToken(token)), token);
    }
  }
}

TEST(ContinueTokenTest, RejectsInvalidTokens) {
  const std::string_view invalid[] = {
      "!",                                                        // not base64
      "YQ",                                                       // a
      "e30",                                                      // {}
      "eyJ2IjoieCIsInJ2IjoxLCJzdGFydCI6ImEifQ",                   // another version
      "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhIn0",  // revision 0
      "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIifQ",   // empty start
      // {"v":"meta.k8s.io/v1","rv":1,"start":"../x"}
      "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi94In0",
  };
  for (const std::string_view text : invalid) {
    const Result<ContinueToken> token = DecodeContinueToken(text);
    ASSERT_FALSE(token) << text;
    EXPECT_EQ(token.error().code(), 400);
    EXPECT_TRUE(
        token.error().message().starts_with("invalid continue token: continue key is not valid: "));
  }
}

}  // namespace
}  // namespace herald
