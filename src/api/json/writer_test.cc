#include "api/json/writer.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>

namespace herald {
namespace {

using namespace std::string_view_literals;

std::string Written(std::string_view text) {
  std::string out;
  AppendJsonString(text, &out);
  return out;
}

TEST(AppendJsonString, EscapesAsGoDoes) {
  const struct {
    std::string_view text;
    std::string_view json;
  } kCases[] = {
      {"", R"("")"},
      {"Started container web", R"("Started container web")"},
      {"\"\\/\b\f\n\r\t", R"("\"\\/\b\f\n\r\t")"},
      {"\0\x01\x1f\x7f"sv, "\"\\u0000\\u0001\\u001f\x7f\""},
      {"<a href='x'>&", R"("\u003ca href='x'\u003e\u0026")"},
      {"\u2028\u2029\u202a", "\"\\u2028\\u2029\u202a\""},
      {"caf\u00e9 \U0001f600", "\"caf\u00e9 \U0001f600\""},
      {"\xff\xc3", R"("\ufffd\ufffd")"},
      {"\ufffd", "\"\ufffd\""},
  };
  for (const auto& c : kCases) EXPECT_EQ(Written(c.text), c.json);
}

// The writer checks eight bytes at once and must find each character that needs an escape at each
// position.
TEST(AppendJsonString, FindsEveryCharacterAtEveryPosition) {
  for (int byte = 0; byte < 0x80; ++byte) {
    const std::string c(1, static_cast<char>(byte));
    const std::string alone = Written(c);
    const std::string body = alone.substr(1, alone.size() - 2);
    for (std::size_t before = 0; before < 17; ++before) {
      const std::string padding(before, '=');  // between < and >
      EXPECT_EQ(Written(padding + c + padding), '"' + padding + body + padding + '"');
    }
  }
}

TEST(JsonWriter, GrowsOverItsOwnBuffer) {
  JsonWriter writer;
  std::string expected;
  for (int i = 0; i < 2000; ++i) {
    writer.Int(i);
    writer.Raw(",");
    expected += std::to_string(i) + ",";
  }
  writer.String(std::string(100'000, '<'));
  EXPECT_EQ(writer.text().substr(0, expected.size()), expected);
  EXPECT_EQ(writer.size(), expected.size() + 600'002);
}

TEST(JsonWriter, WritesObjectsWithAndWithoutMembers) {
  JsonWriter writer;
  const std::size_t outer = writer.OpenObject();
  writer.Raw(",\"a\":");
  writer.CloseObject(writer.OpenObject());
  writer.Raw(",\"b\":");
  writer.Int(std::numeric_limits<std::int64_t>::min());
  writer.CloseObject(outer);
  EXPECT_EQ(writer.text(), R"({"a":{},"b":-9223372036854775808})");
}

TEST(AppendCompactJson, RemovesWhiteSpaceBetweenTokensOnly) {
  std::string out;
  AppendCompactJson(" { \"a b\" : [ 1 ,\t\"<\\\" \u2028\" ]\n} ", &out);
  EXPECT_EQ(out, R"({"a b":[1,"\u003c\" \u2028"]})");
}

}  // namespace
}  // namespace herald
