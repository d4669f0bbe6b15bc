#include "api/quote.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace herald {
namespace {

using namespace std::string_view_literals;

TEST(Quoted, EscapesUnprintableCharacters) {
  const struct {
    std::string_view text;
    std::string_view quoted;
  } kCases[] = {
      {"", R"("")"},
      {"web-0.18e84d8123e3aa33", R"("web-0.18e84d8123e3aa33")"},
      {R"(a"b\c'd)", R"("a\"b\\c'd")"},
      {"\a\b\t\n\v\f\r", R"("\a\b\t\n\v\f\r")"},
      {"\0\x1f\x7f"sv, R"("\x00\x1f\x7f")"},
      {"caf\u00e9 \u65e5\u672c \U0001f600", "\"caf\u00e9 \u65e5\u672c \U0001f600\""},
      {"\u00a0\u00ad\u200b\u2028\ufeff", R"("\u00a0\u00ad\u200b\u2028\ufeff")"},
      {"\U000e0001\U0010ffff", R"("\U000e0001\U0010ffff")"},
      {"\ufffd", "\"\ufffd\""},
  };
  for (const auto& c : kCases) EXPECT_EQ(Quoted(c.text), c.quoted);
}

TEST(Quoted, ShowsEachByteOfInvalidUtf8) {
  const struct {
    std::string_view text;
    std::string_view quoted;
  } kCases[] = {
      {"\xff", R"("\xff")"},
      {"a\x80z", R"("a\x80z")"},
      {"\xc3", R"("\xc3")"},                          // truncated
      {"\xe2\x82", R"("\xe2\x82")"},                  // truncated
      {"\xc0\xaf", R"("\xc0\xaf")"},                  // overlong
      {"\xed\xa0\x80", R"("\xed\xa0\x80")"},          // a surrogate
      {"\xf4\x90\x80\x80", R"("\xf4\x90\x80\x80")"},  // beyond Unicode
      {"\xf8\x88\x80\x80\x80", R"("\xf8\x88\x80\x80\x80")"},
  };
  for (const auto& c : kCases) EXPECT_EQ(Quoted(c.text), c.quoted);
}

}  // namespace
}  // namespace herald
